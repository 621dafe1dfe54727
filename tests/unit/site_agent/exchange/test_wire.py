from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from selat.v1 import exchange_pb2 as pb
from site_agent.exchange.wire import parse, part_of_epoch, serialize

BIG = bytes(range(256)) * 100

manifests = st.none() | st.builds(
    pb.EpochManifest,
    epoch=st.integers(0, 2**64 - 1),
    rows=st.integers(0, 2**40),
    payload_crc32=st.integers(0, 2**32 - 1),
    watermark_us=st.integers(-(2**63), 2**63 - 1),
    bins=st.lists(st.builds(pb.BinRange, bin=st.integers(0, 9), rows=st.integers(0, 9)), max_size=3),
)
payloads = st.sampled_from([b"", b"x", BIG, BIG * 7, BIG[:16_384], BIG[:16_383]])


@given(
    epoch=st.integers(0, 2**64 - 1),
    payload=payloads,
    manifest=manifests,
    idle_us=st.none() | st.integers(0, 2**32 - 1),
)
def test_a_part_is_what_protobuf_makes_of_it(
    epoch: int, payload: bytes, manifest: pb.EpochManifest | None, idle_us: int | None
) -> None:
    data = serialize(part_of_epoch(epoch, memoryview(payload), manifest, idle_us=idle_us))
    expected = pb.PullResponse(part=pb.EpochPart(epoch=epoch, payload=payload, manifest=manifest, idle_us=idle_us))
    assert pb.PullResponse.FromString(data) == expected
    for form in (data, expected.SerializeToString()):
        incoming = parse(form)
        assert incoming.payload == payload
        rest = pb.PullResponse()
        rest.CopyFrom(incoming.message)
        rest.part.payload = payload
        assert rest == expected


def test_a_large_message_of_another_kind_is_left_as_it_is() -> None:
    schema = pb.PullResponse(schema=BIG)
    incoming = parse(serialize(schema))
    assert (incoming.message, incoming.payload) == (schema, b"")


def test_a_field_that_is_not_known_is_left_to_protobuf() -> None:
    unknown = b"".join((b"\x99\x06", bytes(8), b"\x9d\x06", bytes(4), b"\x98\x06\x96\x01"))
    data = unknown + serialize(part_of_epoch(3, BIG)) + unknown
    incoming = parse(data)
    assert (incoming.message.part.epoch, incoming.payload) == (3, BIG)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 20_000,
        b"\x12\xff\xff\xff\xff\x0f" + BIG,
        b"\x12",
        b"\x13" + bytes(20_000),
        serialize(part_of_epoch(3, BIG))[:-1],
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        parse(data)


@given(st.binary(max_size=200), st.sampled_from([b"", BIG]))
def test_anything_is_read_or_refused(head: bytes, tail: bytes) -> None:
    try:
        parse(head + tail)
    except DecodeError:
        return
