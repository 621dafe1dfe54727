from __future__ import annotations

import pyarrow as pa
import pytest

from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import CorruptEpochError
from site_agent.channels.codec import decode, encode
from site_agent.channels.manifest import EndMark, EpochManifest, Standing
from site_agent.exchange.assembler import EpochAssembler, KnownEpoch, Offer, ReceivedEpoch
from site_agent.exchange.convert import manifest_to_proto, standing_to_proto
from site_agent.exchange.wire import part_of_epoch
from site_agent.exchange.wire import serialize as serialized

ENCODED = encode(pa.table({"n": range(50)}))


def incoming(response: pb.PullResponse) -> bytes:
    return response.SerializeToString()


SCHEMA = incoming(pb.PullResponse(schema=ENCODED.schema))


def manifest(epoch: int, *, rows: int = ENCODED.rows, crc32: int = ENCODED.crc32) -> EpochManifest:
    size_bytes, raw_bytes = (len(ENCODED.payload), ENCODED.raw_bytes) if rows else (0, 0)
    return EpochManifest(epoch, rows, size_bytes, crc32 if rows else 0, 5, False, (), raw_bytes=raw_bytes)


def part(epoch: int, payload: bytes, described: EpochManifest | None = None) -> bytes:
    message = pb.EpochPart(epoch=epoch, payload=payload)
    if described is not None:
        message.manifest.CopyFrom(manifest_to_proto(described))
    return incoming(pb.PullResponse(part=message))


def end(last_epoch: int | None) -> bytes:
    return incoming(pb.PullResponse(end=pb.EndOfChannel(last_epoch=last_epoch)))


def test_pieces_become_epochs() -> None:
    assembler = EpochAssembler("c", 3)
    assert assembler.feed(SCHEMA) is None
    assert assembler.feed(part(3, ENCODED.payload[:20])) is None
    received = assembler.feed(part(3, ENCODED.payload[20:], manifest(3)))
    assert isinstance(received, ReceivedEpoch)
    assert received.manifest == manifest(3)
    assert received.encoded is not None
    assert decode(received.encoded).to_pydict() == {"n": list(range(50))}
    assert assembler.feed(part(4, b"", manifest(4, rows=0))) == ReceivedEpoch(manifest(4, rows=0), None)
    assert assembler.next_epoch == 5
    assert assembler.feed(end(4)) == EndMark(4)


def test_what_the_sender_says_of_itself_and_whether_more_comes_at_once() -> None:
    assembler = EpochAssembler("c", 3)
    assembler.feed(SCHEMA)
    assert (assembler.sender_idle_s, assembler.in_epoch) == (None, False)
    assembler.feed(serialized(part_of_epoch(3, ENCODED.payload[:20], idle_us=2500)))
    assert (assembler.sender_idle_s, assembler.in_epoch) == (0.0025, True)
    assembler.feed(part(3, ENCODED.payload[20:], manifest(3)))
    assert (assembler.sender_idle_s, assembler.in_epoch) == (None, False)


@pytest.mark.parametrize("standing", [Standing(3, 7, idle=True), Standing(3)])
def test_what_the_channel_said_before_comes_first(standing: Standing) -> None:
    assembler = EpochAssembler("c", 3)
    assert assembler.feed(incoming(pb.PullResponse(standing=standing_to_proto(standing)))) == standing
    assert assembler.next_epoch == 3


def test_an_empty_channel_may_end() -> None:
    assert EpochAssembler("c", 0).feed(end(None)) == EndMark(None)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([part(3, ENCODED.payload, manifest(3))], "before their schema"),
        ([SCHEMA, part(4, ENCODED.payload, manifest(4))], "epoch 4 came"),
        ([SCHEMA, part(3, ENCODED.payload, manifest(4))], "bytes came instead"),
        ([SCHEMA, part(3, ENCODED.payload[:-1], manifest(3))], "bytes came instead"),
        ([SCHEMA, part(3, ENCODED.payload, manifest(3, rows=0))], "bytes came instead"),
        ([SCHEMA, part(3, ENCODED.payload[:5]), end(2)], "ends after 2"),
        ([end(7)], "ends after 7, but 2"),
        ([b"\xff"], "damaged|parse|Error"),
        ([incoming(pb.PullResponse())], "an empty message"),
    ],
)
def test_what_does_not_fit_is_refused(messages: list[bytes], reason: str) -> None:
    assembler = EpochAssembler("c", 3)
    for message in messages[:-1]:
        assert assembler.feed(message) is None
    with pytest.raises(CorruptEpochError, match=reason):
        assembler.feed(messages[-1])
    assert assembler.next_epoch == 3


def test_rows_that_are_here_are_named_in_the_place_of_a_payload() -> None:
    assembler = EpochAssembler("c", 3)
    assert assembler.feed(incoming(pb.PullResponse(offer=pb.EpochOffer(epoch=3, sha256=b"d")))) == Offer(3, b"d")
    known = pb.EpochPart(epoch=3, manifest=manifest_to_proto(manifest(3)), sha256=b"d")
    assert assembler.feed(incoming(pb.PullResponse(part=known))) == KnownEpoch(manifest(3), b"d")
    assert assembler.next_epoch == 4
    assembler.feed(SCHEMA)
    assembler.feed(part(4, ENCODED.payload[:20]))
    known.epoch = 4
    with pytest.raises(CorruptEpochError, match="rows came that were here"):
        assembler.feed(incoming(pb.PullResponse(part=known)))
