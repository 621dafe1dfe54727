"""What links do to calls. That the calls are those of gRPC, tests/integration/test_simulated_network.py shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from selat.v1 import exchange_pb2, exchange_pb2_grpc
from tests.simulation.loop import Process, SimulatedLoop, run
from tests.simulation.net.network import KEEPALIVE_S, Network
from tests.simulation.net.streams import WINDOW_BYTES

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class Echo(exchange_pb2_grpc.ExchangeServiceServicer):
    """Answers each grant of credit with as many bytes, and counts calls that are over."""

    over = 0

    async def Pull(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        try:
            async for request in requests:
                for number in range(request.credit.bytes // 1000):
                    yield exchange_pb2.PullResponse(part=exchange_pb2.EpochPart(epoch=number, payload=bytes(1000)))
        finally:
            self.over += 1


class World:
    """A server on one machine, a client on another."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.lines: list[str] = []
        self.network = Network(loop, Random(1), self.lines.append)
        self.here, self.there = Process("here"), Process("there")
        self.echo = Echo()  # type: ignore[abstract]

    async def serve(self) -> None:
        server = self.network.server((), ())
        exchange_pb2_grpc.add_ExchangeServiceServicer_to_server(self.echo, server)
        server.add_insecure_port("there:1")
        await server.start()

    async def start(self) -> None:
        await self.loop.spawn(self.there, self.serve())

    async def pull(self, size_bytes: int = 1000) -> Any:
        """A call of which one answer is read."""
        channel = self.network.channel("there:1", ())
        call: Any = exchange_pb2_grpc.ExchangeServiceStub(channel).Pull(None)
        await call.write(asking(size_bytes))
        await call.read()
        return call


def asking(size_bytes: int) -> exchange_pb2.PullRequest:
    return exchange_pb2.PullRequest(credit=exchange_pb2.Credit(bytes=size_bytes))


def played(scene: Callable[[World], Awaitable[Any]]) -> Any:
    """What the scene returns, played by the client."""

    async def main(loop: SimulatedLoop) -> Any:
        world = World(loop)
        await world.start()

        async def play() -> Any:
            return await scene(world)

        return await loop.spawn(world.here, play())

    return run(main)


async def failure(call: Any) -> tuple[grpc.StatusCode, float]:
    """How a read fails, and after how many seconds."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    with pytest.raises(grpc.aio.AioRpcError) as found:
        await _to_the_end(call)
    return found.value.code(), loop.time() - began_s


async def _to_the_end(call: Any) -> None:
    async for _ in call:
        pass


def test_latency_and_bandwidth_take_their_time() -> None:
    async def scene(world: World) -> float:
        call = await world.pull()
        world.network.link("there", "here").bytes_per_s = 10_000
        began_s = world.loop.time()
        await call.write(asking(20_000))
        for _ in range(20):
            await call.read()
        return world.loop.time() - began_s

    assert 2.0 < played(scene) < 2.4


def test_a_receiver_that_does_not_read_slows_its_sender_down() -> None:
    async def scene(world: World) -> int:
        await world.pull()
        call = await world.pull(500_000)
        await asyncio.sleep(60)
        return sum(int(line.split()[4]) for line in world.lines if " put " in line and call is not None)

    assert WINDOW_BYTES < played(scene) < WINDOW_BYTES + 5_000


def test_a_cut_ends_calls_at_both_ends_at_once() -> None:
    async def scene(world: World) -> Any:
        call = await world.pull()
        world.network.cut("there", "here")
        failed = await failure(call)
        await asyncio.sleep(0.1)
        return failed, world.echo.over

    assert played(scene) == ((UNAVAILABLE, 0.0), 1)


@pytest.mark.parametrize("direction", [("here", "there"), ("there", "here")])
def test_silence_is_noticed_by_keepalive(direction: tuple[str, str]) -> None:
    async def scene(world: World) -> Any:
        call = await world.pull()
        world.network.silence(*direction, seconds=100)
        return await failure(call)

    code, after_s = played(scene)
    assert (code, round(after_s)) == (UNAVAILABLE, KEEPALIVE_S)


def test_a_short_silence_delays_messages_and_loses_none() -> None:
    async def scene(world: World) -> Any:
        call = await world.pull()
        world.network.silence("there", "here", 5)
        await call.write(asking(3000))
        read = [(await call.read()).part.epoch for _ in range(3)]
        return read, world.loop.time()

    read, at_s = played(scene)
    assert read == [0, 1, 2]
    assert 5 < at_s < 6


def test_nobody_connects_through_silence() -> None:
    async def scene(world: World) -> Any:
        world.network.silence("there", "here", 100)
        channel = world.network.channel("there:1", [("grpc.min_reconnect_backoff_ms", 3000)])
        call: Any = exchange_pb2_grpc.ExchangeServiceStub(channel).Pull(None)
        return await failure(call)

    code, after_s = played(scene)
    assert (code, round(after_s)) == (UNAVAILABLE, 3)


def test_the_connections_of_a_killed_process_are_closed() -> None:
    async def scene(world: World) -> Any:
        call = await world.pull()
        world.loop.kill(world.there)
        world.network.died(world.there)
        return await failure(call)

    assert played(scene) == (UNAVAILABLE, 0.0)


@pytest.mark.parametrize(("back_after_s", "noticed_s"), [(None, KEEPALIVE_S), (2.0, 3.0)])
def test_a_machine_without_power_says_nothing_until_it_is_back(back_after_s: float | None, noticed_s: float) -> None:
    async def scene(world: World) -> Any:
        call = await world.pull()
        world.loop.kill(world.there)
        world.network.died(world.there, power=True)
        if back_after_s is not None:
            world.loop.call_later(back_after_s, lambda: world.loop.spawn(Process("there"), world.serve()))
            # A message, or a ping, is what the machine answers with a reset.
            world.loop.call_later(back_after_s + 1, lambda: world.loop.create_task(call.write(asking(1000))))
        return await failure(call)

    code, after_s = played(scene)
    assert (code, round(after_s)) == (UNAVAILABLE, noticed_s)


def test_a_channel_connects_again_to_a_new_process() -> None:
    async def scene(world: World) -> Any:
        channel = world.network.channel("there:1", [("grpc.max_reconnect_backoff_ms", 1000)])
        stub: Any = exchange_pb2_grpc.ExchangeServiceStub(channel)
        first = stub.Pull(None)
        await first.write(asking(1000))
        world.loop.kill(world.there)
        world.network.died(world.there)
        refused, _ = await failure(stub.Pull(None))
        await world.loop.spawn(Process("there"), world.serve())
        await asyncio.sleep(1)
        again = stub.Pull(None)
        await again.write(asking(1000))
        return refused, (await again.read()).part.epoch

    assert played(scene) == (UNAVAILABLE, 0)


def test_two_servers_do_not_share_an_address() -> None:
    async def scene(world: World) -> None:
        with pytest.raises(RuntimeError, match="Failed to bind"):
            await world.serve()

    played(scene)
