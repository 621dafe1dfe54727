"""Calls of every kind, wrong ones above all, of an agent's exchange: each is answered as documented, nothing leaks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.trailers import ERROR_TRAILER
from selat.v1 import common_pb2
from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import SiteAgentError
from site_agent.base.status import STATUS_CODES
from site_agent.exchange.options import connect
from site_agent.router import PullSettings
from tests.integration.exchange_sites import CHANNEL, PullCall, Site, eventually, numbers

pytestmark = pytest.mark.timeout(240)

PULL = "/selat.v1.ExchangeService/Pull"
ANALYZE = "/selat.v1.ExchangeService/Analyze"
LIST_SPLITS = "/selat.v1.ExchangeService/ListSplits"
DOCUMENTED = frozenset(STATUS_CODES.values())
LISTEN_S = 0.1
"""How long a call is listened to; one that follows a channel never ends."""

FUZZ = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))

NAMES = st.one_of(
    st.sampled_from(
        [CHANNEL, "", ".", "..", "../../etc", "../secret", "/etc/passwd", f"{CHANNEL}/../{CHANNEL}", "a/b"]
    ),
    st.sampled_from(
        ["\x00", "a\x00b", "\n", f"{CHANNEL}\n", "%2e%2e", "x" * 201, "x" * 100_000, "\u202e", "é" * 9_000]
    ),
    st.sampled_from([".removed-q", "consumers.json", f"{CHANNEL}/consumers.json", "~", "*", "CON", "secret"]),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
NUMBERS = st.sampled_from([0, 1, 2, 3, 5, 2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1])
OPENINGS = st.builds(
    pb.OpenChannel,
    channel=st.one_of(st.just(CHANNEL), NAMES),
    consumer=st.one_of(st.sampled_from(["jfk", "client", "ewr"]), NAMES),
    from_epoch=NUMBERS,
    columns=st.lists(st.one_of(st.just("n"), NAMES), max_size=3),
    bins=st.lists(st.sampled_from([0, 1, 2**32 - 1]), max_size=3),
    credit_bytes=NUMBERS,
    follow=st.booleans(),
)
REQUESTS = st.one_of(
    OPENINGS.map(lambda opening: pb.PullRequest(open=opening).SerializeToString()),
    NUMBERS.map(lambda size: pb.PullRequest(credit=pb.Credit(bytes=size)).SerializeToString()),
    NUMBERS.map(lambda epoch: pb.PullRequest(acknowledge=pb.Acknowledge(epoch=epoch)).SerializeToString()),
    st.sampled_from([b"", b"\x0a\xff", b"\x0a\x02\xff\xfe", b"\x08\x01", b"\xff" * 30]),
    st.binary(max_size=30),
)
SECRET = "not for everybody"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Three epochs that another site still needs, and a directory beside the channels."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "000000000000.epoch").write_text(SECRET)
    made = await Site("ewr", tmp_path / "channels", PullSettings()).start()
    log = made.store.open(CHANNEL)
    log.set_consumers(["lga"])
    for epoch in range(3):
        log.publish(epoch, numbers(10 * epoch, 10), watermark_us=epoch)
    yield made
    await made.stop()


def identity(data: bytes) -> bytes:
    return data


def detail(error: grpc.aio.AioRpcError) -> common_pb2.ErrorDetail:
    metadata: Any = error.trailing_metadata() or ()
    return common_pb2.ErrorDetail.FromString(dict(metadata)[ERROR_TRAILER])


def assert_documented(error: grpc.aio.AioRpcError, sent: object) -> None:
    assert error.code() in DOCUMENTED, (error.code(), error.details(), sent)
    described = detail(error)
    # The last of these is what an unforeseen error becomes.
    assert described.code not in ("", SiteAgentError.code), sent
    assert described.message, sent


async def pull(site: Site, requests: Sequence[bytes], *, listen_s: float = LISTEN_S) -> grpc.aio.AioRpcError | None:
    """What the call ends with; None when it ends well, or goes on."""
    async with connect(site.address) as channel:
        stream: Any = channel.stream_stream(PULL, identity, identity)
        call = stream()
        try:
            # A call that has ended takes no more requests; reading tells how it ended.
            with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
                for request in requests:
                    await call.write(request)
                await call.done_writing()
            async with asyncio.timeout(listen_s):
                while await call.read() is not grpc.aio.EOF:  # type: ignore[attr-defined]
                    pass
                code = await call.code()
        except TimeoutError:
            return None
        except grpc.aio.AioRpcError as error:
            # What gRPC's client makes of a message that it could not send any more hides what the server said.
            return None if error.details() == "Internal error from Core" else error
        finally:
            call.cancel()
        assert code is grpc.StatusCode.OK
    return None


async def rows_at(site: Site) -> int:
    """Everything that another reader gets now."""
    call = await PullCall(site).open()
    return sum(r.part.manifest.rows for r in await call.rest() if r.WhichOneof("message") == "part")


def paths(root: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_size) for path in root.rglob("*"))


@FUZZ
@given(requests=st.lists(REQUESTS, max_size=4))
async def test_whatever_is_pulled_is_answered_as_documented(site: Site, requests: list[bytes]) -> None:
    before = paths(site.root.parent)
    error = await pull(site, requests)
    if error is not None:
        assert_documented(error, requests)
    assert paths(site.root.parent) == before
    assert await rows_at(site) == 30


@settings(FUZZ, max_examples=40)
@given(request=st.one_of(st.binary(max_size=40), st.sampled_from([b"\x0a\xff", b"\x12\x02\xff\xfe", b""])))
@pytest.mark.parametrize("method", [ANALYZE, LIST_SPLITS])
async def test_what_is_no_request_is_refused(site: Site, method: str, request: bytes) -> None:
    async with connect(site.address) as channel:
        unary: Any = channel.unary_unary(method, identity, identity)
        try:
            await unary(request, timeout=10)
        except grpc.aio.AioRpcError as error:
            assert_documented(error, request)
    assert await rows_at(site) == 30


FOUND: dict[str, tuple[list[Any], int]] = {
    "a name of 100 kB": ([pb.PullRequest(open=pb.OpenChannel(channel="x" * 100_000, consumer="c", credit_bytes=1))], 5),
    "a column of 100 kB": (
        [pb.PullRequest(open=pb.OpenChannel(channel=CHANNEL, consumer="c", credit_bytes=1, columns=["x" * 100_000]))],
        3,
    ),
    "no message": ([b"\x0a\xff"], 3),
    "no message after the first": (
        [pb.PullRequest(open=pb.OpenChannel(channel=CHANNEL, consumer="c", credit_bytes=1, follow=True)), b"\x0a\xff"],
        3,
    ),
    "nothing": ([], 3),
    "way up": ([pb.PullRequest(open=pb.OpenChannel(channel="../secret", consumer="c", credit_bytes=9))], 5),
    "an epoch never published": (
        [pb.PullRequest(open=pb.OpenChannel(channel=CHANNEL, consumer="c", credit_bytes=9, from_epoch=2**64 - 1))],
        9,
    ),
    "an acknowledgement from the future": (
        [
            pb.PullRequest(open=pb.OpenChannel(channel=CHANNEL, consumer="lga", credit_bytes=9, follow=True)),
            pb.PullRequest(acknowledge=pb.Acknowledge(epoch=2**64 - 1)),
        ],
        9,
    ),
}


@pytest.mark.parametrize("name", FOUND)
async def test_it_has_this_status(site: Site, name: str) -> None:
    requests, code = FOUND[name]
    sent = [r if isinstance(r, bytes) else r.SerializeToString() for r in requests]
    error = await pull(site, sent, listen_s=10)
    assert error is not None
    assert error.code().value[0] == code, error
    assert_documented(error, sent)
    assert len(error.details() or "") <= 1000
    assert await rows_at(site) == 30


async def test_cancelled_and_broken_calls_leave_nothing_open(site: Site) -> None:
    async def calls(count: int) -> None:
        for number in range(count):
            call = await PullCall(site).open(follow=number % 2 == 0, credit_bytes=1, consumer="jfk")
            await call.read()
            call.call.cancel()
            await call._connection.close(None)

    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    await calls(5)
    tasks, files = len(asyncio.all_tasks()), open_files()
    await calls(40)
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks + 2 and open_files() <= files + 10)
    assert await rows_at(site) == 30
