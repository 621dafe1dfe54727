"""Garbled messages to a real IngestService: each is answered with a documented error, and the service lives on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selat.v1 import ingest_pb2 as pb
from selat.v1 import ingest_pb2_grpc
from site_agent.base.status import STATUS_CODES
from tests.integration.ingest_site import IngestSite
from tests.integration.test_ingest import encoded, rows
from tests.seeds import random_of

FUZZ = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
DOCUMENTED = frozenset(STATUS_CODES.values()) - {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}

WHOLE = encoded(rows(1, 2, 3))
texts = st.sampled_from(["", "orders", "us", "p", "ORDERS", "../x", "\x00", "é", "x" * 200, "a b"]) | st.text(
    max_size=8
)
payloads = st.one_of(
    st.just(WHOLE),
    st.binary(max_size=200),
    st.integers(0, len(WHOLE)).map(lambda n: WHOLE[:n]),
    st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)).map(
        lambda change: WHOLE[: change[0]] + bytes([change[1]]) + WHOLE[change[0] + 1 :]
    ),
)
sequences = st.sampled_from([0, 1, 2, 3, 2**63 - 1, 2**63, 2**64 - 1])
requests = st.one_of(
    st.builds(lambda s, a, p: pb.PushRequest(open=pb.OpenPush(stream=s, site=a, producer=p)), texts, texts, texts),
    st.just(pb.PushRequest(open=pb.OpenPush(stream="orders", site="us", producer="p"))),
    st.builds(lambda n, d: pb.PushRequest(batch=pb.PushBatch(sequence=n, arrow_stream=d)), sequences, payloads),
    st.just(pb.PushRequest()),
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[IngestSite]:
    made = IngestSite(tmp_path / "us")
    made.start()
    yield made
    made.close()


@pytest.fixture
def channel(site: IngestSite) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(site.address) as opened:
        yield opened


def outcome(channel: grpc.Channel, *messages: pb.PushRequest) -> tuple[grpc.StatusCode, bool]:
    """How a call of Push ends, and whether it was described."""
    call = ingest_pb2_grpc.IngestServiceStub(channel).Push(iter(messages), timeout=20)
    try:
        list(call)
    except grpc.RpcError:
        return call.code(), "selat-error-bin" in dict(call.trailing_metadata() or ())
    return grpc.StatusCode.OK, False


def test_every_message_is_answered_as_documented_and_the_service_lives(site: IngestSite, channel: grpc.Channel) -> None:
    @FUZZ
    @given(st.lists(requests, max_size=4))
    def check(messages: list[pb.PushRequest]) -> None:
        status, described = outcome(channel, *messages)
        assert status in DOCUMENTED | {grpc.StatusCode.OK}
        assert described or status is grpc.StatusCode.OK

    check()
    log = site.log
    opening = pb.PushRequest(open=pb.OpenPush(stream="orders", site="us", producer="alive"))
    good = pb.PushRequest(batch=pb.PushBatch(sequence=log.last_sequence("alive") + 1, arrow_stream=WHOLE))
    assert outcome(channel, opening, good)[0] is grpc.StatusCode.OK
    table = log.kept.read(0, log.kept.next_record, ["id", "name"])
    assert table.num_rows == log.kept.next_row
    table.validate(full=True)


@pytest.mark.seeded
def test_bytes_that_are_no_message_are_answered(site: IngestSite, channel: grpc.Channel) -> None:
    rng = random_of(7)
    push = channel.stream_stream("/selat.v1.IngestService/Push", None, None)
    for _ in range(50):
        with pytest.raises(grpc.RpcError):
            list(push(iter([rng.randbytes(rng.randrange(1, 200))]), timeout=20))
    for method in ("GetProducer", "Finish"):
        unary = channel.unary_unary(f"/selat.v1.IngestService/{method}", None, None)
        for message in (b"\xff\xff\xff", b"", pb.FinishRequest(stream="x" * 1000, site="us").SerializeToString()):
            with pytest.raises(grpc.RpcError):
                unary(message, timeout=20)
    assert not site.log.ended


def test_a_message_beyond_the_limit_is_refused(site: IngestSite, channel: grpc.Channel) -> None:
    opening = pb.PushRequest(open=pb.OpenPush(stream="orders", site="us", producer="p"))
    large = pb.PushRequest(batch=pb.PushBatch(sequence=1, arrow_stream=bytes(10 * 1024 * 1024)))
    assert outcome(channel, opening, large)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert site.log.kept.next_record == 0
