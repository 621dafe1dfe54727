"""The network in memory behaves as gRPC does: the same calls over both, with the same outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from selat.v1 import exchange_pb2, exchange_pb2_grpc, site_pb2, site_pb2_grpc
from tests.simulation.loop import Process, SimulatedLoop, run
from tests.simulation.net.call import EOF
from tests.simulation.net.network import Network
from wire.transport import TCP, Transport

HOST = "127.0.0.1"
LONG_S = 100.0
PATIENCE_S = 10.0
# In gRPC a cancellation and the end of the requests race: about 1 call in 300 sees the other one first.
ATTEMPTS = 5
_OPTIONS = (("grpc.enable_http_proxy", 0),)

Outcome = Any


class Peers:
    """A server, a channel to it, and what the server's handlers saw."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._seen: asyncio.Queue[str] = asyncio.Queue()
        self.server = transport.server((), ())

    async def start(self) -> Peers:
        site_pb2_grpc.add_SiteServiceServicer_to_server(_Sites(self._seen), self.server)  # type: ignore[abstract]
        exchange_pb2_grpc.add_ExchangeServiceServicer_to_server(_Exchange(self._seen), self.server)  # type: ignore[abstract]
        self._address = f"{HOST}:{self.server.add_insecure_port(f'{HOST}:0')}"
        await self.server.start()
        self.channel = self.connect()
        return self

    def connect(self) -> grpc.aio.Channel:
        return self._transport.channel(self._address, _OPTIONS)

    async def register(self, site: str, timeout: float | None = None) -> Any:
        return await self.registering(site, timeout=timeout)

    def registering(self, site: str, timeout: float | None = None) -> Any:
        return site_pb2_grpc.SiteServiceStub(self.channel).Register(
            site_pb2.RegisterRequest(site=site), timeout=timeout
        )

    def watching(self, site: str, timeout: float | None = None) -> Any:
        request = site_pb2.WatchAssignmentRequest(site=site)
        return site_pb2_grpc.SiteServiceStub(self.channel).WatchAssignment(request, timeout=timeout)

    async def pulling(self, credit: int = 1) -> Any:
        """A call of Pull with one answer read."""
        call: Any = exchange_pb2_grpc.ExchangeServiceStub(self.channel).Pull(None)
        await call.write(_request(credit))
        await call.read()
        return call

    async def saw(self) -> str:
        return await asyncio.wait_for(self._seen.get(), PATIENCE_S)


class _Sites(site_pb2_grpc.SiteServiceServicer):
    def __init__(self, seen: asyncio.Queue[str]) -> None:
        self._seen = seen

    async def Register(self, request: Any, context: Any) -> Any:
        if request.site == "abort":
            await context.abort(grpc.StatusCode.ABORTED, "no", (("x-bin", b"\x00\x01"),))
        if request.site == "raise":
            raise ValueError("broken")
        if request.site == "slow":
            self._seen.put_nowait("asked")
            try:
                await asyncio.sleep(LONG_S)
            except asyncio.CancelledError:
                self._seen.put_nowait("cancelled")
                raise
        return site_pb2.RegisterResponse(cluster_id=request.site)

    async def WatchAssignment(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            for version in range(3):
                yield site_pb2.WatchAssignmentResponse(assignment=site_pb2.Assignment(version=version))
            if request.site == "abort":
                await context.abort(grpc.StatusCode.ABORTED, "later")
            if request.site == "hang":
                await asyncio.sleep(LONG_S)
        except (asyncio.CancelledError, GeneratorExit):
            # gRPC drops the generator instead where the cancellation meets it while an answer is sent.
            self._seen.put_nowait("cancelled")
            raise


class _Exchange(exchange_pb2_grpc.ExchangeServiceServicer):
    def __init__(self, seen: asyncio.Queue[str]) -> None:
        self._seen = seen

    async def Pull(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Answers each request; ends after the second one of those that grant 7 bytes."""
        number = 0
        try:
            async for request in requests:
                number += 1
                yield exchange_pb2.PullResponse(part=exchange_pb2.EpochPart(epoch=number))
                if number == 2 and request.credit.bytes == 7:
                    return
            self._seen.put_nowait("requests ended")
        except (asyncio.CancelledError, GeneratorExit):
            self._seen.put_nowait("cancelled")
            raise


def _request(credit: int) -> exchange_pb2.PullRequest:
    return exchange_pb2.PullRequest(credit=exchange_pb2.Credit(bytes=credit))


async def _ended(awaitable: Awaitable[Any]) -> Outcome:
    """What came of it."""
    try:
        return await awaitable
    except grpc.aio.AioRpcError as error:
        return error.code(), tuple(error.trailing_metadata() or ())
    except asyncio.CancelledError:
        return "cancelled"
    except Exception as error:  # noqa: BLE001 - the outcome is which
        return type(error).__name__


async def answered(peers: Peers) -> Outcome:
    return await peers.register("a")


async def aborted_with_trailers(peers: Peers) -> Outcome:
    return await _ended(peers.register("abort"))


async def handler_raised(peers: Peers) -> Outcome:
    return await _ended(peers.register("raise"))


async def deadline_passed(peers: Peers) -> Outcome:
    outcome = await _ended(peers.register("slow", timeout=0.2))
    return outcome, await peers.saw(), await peers.saw()


async def cancelled_here(peers: Peers) -> Outcome:
    call = peers.registering("slow")
    await peers.saw()
    return call.cancel(), await _ended(call), call.cancelled(), await peers.saw(), call.cancel()


async def waiting_task_cancelled(peers: Peers) -> Outcome:
    call = peers.registering("slow")
    waiting = asyncio.ensure_future(_ended(call))
    await peers.saw()
    waiting.cancel()
    return await waiting, call.cancelled(), call.done(), await peers.saw()


async def streamed(peers: Peers) -> Outcome:
    return [response.assignment.version async for response in peers.watching("a")]


async def aborted_in_stream(peers: Peers) -> Outcome:
    call = peers.watching("abort")
    return [(await call.read()).assignment.version for _ in range(3)], await _ended(call.read()), await call.details()


async def deadline_passed_in_stream(peers: Peers) -> Outcome:
    call = peers.watching("hang", timeout=0.3)
    read = [(await call.read()).assignment.version for _ in range(3)]
    return read, await _ended(call.read()), await peers.saw()


async def read_after_cancel(peers: Peers) -> Outcome:
    call = peers.watching("hang")
    await call.read()
    call.cancel()
    return await _ended(call.read()), await call.code(), await peers.saw()


async def half_closed(peers: Peers) -> Outcome:
    call = await peers.pulling()
    await call.done_writing()
    return await call.read() is EOF, await call.code(), await peers.saw()


async def written_after_the_end(peers: Peers) -> Outcome:
    call = await peers.pulling(credit=7)
    await call.write(_request(7))
    await call.read()
    ended = await call.read() is EOF
    await call.code()
    return ended, await _ended(call.write(_request(7)))


async def requests_end_before_the_cancellation(peers: Peers) -> Outcome:
    call = await peers.pulling()
    call.cancel()
    return await peers.saw(), await _ended(call.code())


async def fed_by_an_iterator(peers: Peers) -> Outcome:
    async def requests() -> AsyncIterator[Any]:
        for _ in range(3):
            yield _request(1)

    call: Any = exchange_pb2_grpc.ExchangeServiceStub(peers.channel).Pull(requests())
    return [response.part.epoch async for response in call]


async def channel_closed_under_a_reader(peers: Peers) -> Outcome:
    call = await peers.pulling()
    reading = asyncio.ensure_future(_ended(call.read()))
    await asyncio.sleep(0)
    await peers.channel.close(None)
    return await reading, call.cancelled(), await peers.saw()


async def closed_channel_called(peers: Peers) -> Outcome:
    await peers.channel.close(None)
    return await _ended(_called(peers))


async def _called(peers: Peers) -> Any:
    return await peers.register("a")


async def server_stopped_under_a_reader(peers: Peers) -> Outcome:
    call = await peers.pulling()
    await peers.server.stop(None)
    code, _ = await _ended(call.read())
    return code, await peers.saw()


async def server_gone(peers: Peers) -> Outcome:
    await peers.server.stop(None)
    return await _ended(peers.register("a", timeout=5))


async def unknown_method(peers: Peers) -> Outcome:
    call: Any = peers.channel.unary_unary("/selat.v1.Nobody/Nothing", None, None)
    return await _ended(call(b""))


SCENARIOS = (
    answered,
    aborted_with_trailers,
    handler_raised,
    deadline_passed,
    cancelled_here,
    waiting_task_cancelled,
    streamed,
    aborted_in_stream,
    deadline_passed_in_stream,
    read_after_cancel,
    half_closed,
    written_after_the_end,
    requests_end_before_the_cancellation,
    fed_by_an_iterator,
    channel_closed_under_a_reader,
    closed_channel_called,
    server_stopped_under_a_reader,
    server_gone,
    unknown_method,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_calls_end_as_those_of_grpc(scenario: Callable[[Peers], Awaitable[Outcome]]) -> None:
    simulated = await asyncio.to_thread(_simulated, scenario)
    real = [await _over_tcp(scenario)]
    while simulated not in real and len(real) < ATTEMPTS:
        real.append(await _over_tcp(scenario))
    assert simulated in real


async def _over_tcp(scenario: Callable[[Peers], Awaitable[Outcome]]) -> Outcome:
    peers = await Peers(TCP).start()
    try:
        return await scenario(peers)
    finally:
        await peers.channel.close(None)
        await peers.server.stop(None)


def _simulated(scenario: Callable[[Peers], Awaitable[Outcome]]) -> Outcome:
    async def main(loop: SimulatedLoop) -> Outcome:
        network = Network(loop, Random(1))

        async def both() -> Outcome:
            return await scenario(await Peers(network).start())

        return await loop.spawn(Process("both"), both())

    return run(main)
