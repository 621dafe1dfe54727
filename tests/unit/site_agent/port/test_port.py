"""A port over channels of its own site; tests/integration/test_exchange.py has remote ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import grpc.aio
import pyarrow as pa
import pytest

from contract.tasks import ReadFrom
from site_agent.base.errors import TrimmedEpochError, UnknownChannelError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import END_OF_TIME_US, EndMark, Fork, Standing
from site_agent.channels.store import ChannelStore
from site_agent.port import Port, PortBatch, PortInput, Waiting
from site_agent.router import Router

pytestmark = pytest.mark.timeout(20)

A, B, C = (PortInput(name, "jfk") for name in "abc")


def no_network(address: str, site: str) -> grpc.aio.Channel:
    raise AssertionError(f"nothing connects to {site} at {address} here")


@dataclass
class World:
    store: ChannelStore
    router: Router
    port: Port

    def log(self, name: str) -> ChannelLog:
        return self.store.open(name)

    def publish(self, name: str, *numbers: int, watermark_us: int | None, idle: bool = False) -> None:
        log = self.log(name)
        log.publish(log.next_epoch, pa.table({"n": list(numbers)}), watermark_us=watermark_us, idle=idle)

    async def next(self, *, max_bytes: int = 1 << 20) -> PortBatch:
        async with asyncio.timeout(5):
            return await self.port.next(max_bytes=max_bytes)

    async def nothing_new(self) -> bool:
        task = asyncio.create_task(self.port.next(max_bytes=1 << 20))
        done, _ = await asyncio.wait({task}, timeout=0.05)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return not done


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = ChannelStore(tmp_path)
    router = Router("jfk", store, no_network)
    yield World(store, router, Port(router, reader="r", query_id="q"))
    await router.close()


def numbers(batch: PortBatch) -> list[int]:
    return sorted(n for table in batch.tables for n in table.column("n").to_pylist())


async def test_epochs_are_taken_once_with_their_cursors(world: World) -> None:
    await world.port.set_inputs([A, B])
    world.publish("a", 1, 2, watermark_us=10)
    world.publish("b", 3, watermark_us=20)
    assert world.port.lag_rows == 3
    batch = await world.next()
    assert (numbers(batch), batch.rows, batch.cursors) == ([1, 2, 3], 3, {"a": 1, "b": 1})
    assert (batch.watermark_us, batch.ended, world.port.lag_rows) == (10, False, 0)
    assert await world.nothing_new()


async def test_a_watermark_never_runs_ahead_of_rows_that_are_not_taken(world: World) -> None:
    await world.port.set_inputs([A])
    for watermark_us in (10, 20, 30):
        world.publish("a", watermark_us, watermark_us=watermark_us)
    seen = [await world.next(max_bytes=1) for _ in range(3)]
    assert [(numbers(batch), batch.watermark_us) for batch in seen] == [([10], 10), ([20], 20), ([30], 30)]


async def test_an_epoch_without_rows_moves_cursor_watermark_and_idleness(world: World) -> None:
    await world.port.set_inputs([A, B])
    world.publish("a", 1, watermark_us=100)
    world.publish("b", 2, watermark_us=40)
    assert (await world.next()).watermark_us == 40
    world.log("b").publish(1, None, watermark_us=40, idle=True)
    batch = await world.next()
    assert (batch.tables, batch.watermark_us, batch.cursors) == ((), 100, {"a": 1, "b": 2})
    world.publish("b", 3, watermark_us=50)
    assert (await world.next()).watermark_us == 100


async def test_a_channel_that_joins_holds_the_watermark_until_it_says_one(world: World) -> None:
    world.publish("a", 1, watermark_us=10)
    await world.port.set_inputs([A])
    assert (await world.next()).watermark_us == 10
    await world.port.set_inputs([A, B])
    world.publish("a", 2, watermark_us=90)
    assert (await world.next()).watermark_us == 10
    world.publish("b", 3, watermark_us=70)
    assert (await world.next()).watermark_us == 70


async def test_the_end_of_all_channels_is_the_end_of_time(world: World) -> None:
    await world.port.set_inputs([A, B])
    world.publish("a", 1, watermark_us=10)
    world.log("a").finish()
    batch = await world.next()
    assert (numbers(batch), batch.watermark_us, world.port.ended_channels) == ([1], None, ("a",))
    world.publish("b", 2, watermark_us=30)
    assert ((await world.next()).watermark_us, world.port.cursors) == (30, {"a": 1, "b": 1})
    world.log("b").finish()
    batch = await world.next()
    assert (batch.watermark_us, batch.ended, batch.rows) == (END_OF_TIME_US, True, 0)
    assert await world.nothing_new()


async def test_rows_and_end_can_come_in_one_batch(world: World) -> None:
    world.publish("a", 1, watermark_us=10)
    world.log("a").finish()
    await world.port.set_inputs([A])
    batch = await world.next()
    assert (numbers(batch), batch.watermark_us, batch.ended) == ([1], END_OF_TIME_US, True)


async def test_an_end_is_not_seen_before_all_its_epochs(world: World) -> None:
    for number in range(3):
        world.publish("a", number, watermark_us=number)
    world.log("a").finish()
    await world.port.set_inputs([A])
    seen = [await world.next(max_bytes=1) for _ in range(3)]
    assert [batch.ended for batch in seen] == [False, False, True]


async def test_a_chain_of_successors(world: World) -> None:
    b, c = replace(B, from_epoch=1), replace(C, from_epoch=1)
    world.publish("a", 1, watermark_us=10)
    world.log("a").finish_as(EndMark(0, "b", "jfk"))
    world.log("b").begin_at(1)
    world.log("b").finish_as(EndMark(0, "c", "jfk"))
    world.log("c").begin_at(1)
    await world.port.set_inputs([A])
    taken = []
    while world.port.inputs != (A, b, c):
        batch = await world.next()
        taken += numbers(batch)
        assert (batch.watermark_us, batch.ended) == (10, False)
    world.publish("c", 2, watermark_us=25)
    batch = await world.next()
    assert (taken, numbers(batch), batch.watermark_us) == ([1], [2], 25)
    await world.port.set_inputs([A])
    assert world.port.inputs == (A, b, c)
    await world.port.set_inputs([c])
    assert list(world.port.inputs) == [c]
    world.log("c").finish()
    assert (await world.next()).ended


async def test_rows_of_a_successor_may_be_as_far_behind_its_watermark(world: World) -> None:
    """Rows of pairs go to a merge with event times before their channel's watermark, whoever makes them."""
    world.publish("a", 1, watermark_us=30)
    world.log("a").finish_as(EndMark(0, "b", "jfk"))
    world.log("b").begin_at(1)
    await world.port.set_inputs([replace(A, behind_us=20)])
    while world.port.watermark_us != 10:
        await world.next()
    world.publish("b", 2, watermark_us=50)
    while world.port.watermark_us == 10:
        batch = await world.next()
    assert (numbers(batch), batch.watermark_us) == ([2], 30)


@pytest.mark.parametrize(("query", "goes_on_in"), [("q", "c"), ("other", "b")])
async def test_where_a_channel_forks_a_query_goes_on_in_its_own(world: World, query: str, goes_on_in: str) -> None:
    world.publish("a", 1, watermark_us=10)
    world.log("a").finish_as(EndMark(0, "b", "jfk", fork=Fork("q", "c", "jfk")))
    for number, name in enumerate("bc"):
        world.log(name).begin_at(1)
        world.publish(name, 2 + number, watermark_us=25)
    port = Port(world.router, reader="r", query_id=query)
    await port.set_inputs([A])
    taken: list[int] = []
    while port.watermark_us != 25:
        taken += numbers(await port.next(max_bytes=1 << 20))
    assert taken == [1, 2 if goes_on_in == "b" else 3]
    assert [item.channel for item in port.inputs] == ["a", goes_on_in]
    await port.set_inputs([A])
    assert [item.channel for item in port.inputs] == ["a", goes_on_in]


async def test_a_successor_that_begins_later_than_expected_is_an_error_and_never_skipped_to(world: World) -> None:
    world.publish("a", 1, watermark_us=10)
    world.log("a").finish_as(EndMark(0, "b", "jfk"))
    world.log("b").begin_at(2)
    await world.port.set_inputs([A])
    assert numbers(await world.next()) == [1]
    with pytest.raises(TrimmedEpochError, match="b no longer holds epoch 1"):
        await world.next()


async def test_a_successor_that_has_not_begun_holds_the_watermark_and_is_not_acknowledged(world: World) -> None:
    world.publish("a", 1, watermark_us=10)
    await world.port.set_inputs([A])
    await world.next()
    world.log("a").finish_as(EndMark(0, "b", "jfk", 10))
    assert (await world.next()).cursors == {"a": 1, "b": 1}
    world.port.acknowledge(world.port.cursors)
    world.log("b").begin_at(1, standing=Standing(1, 10))
    world.publish("b", 2, watermark_us=20)
    batch = await world.next()
    assert (numbers(batch), batch.watermark_us, batch.cursors) == ([2], 20, {"a": 1, "b": 2})


async def test_who_has_read_nothing_of_a_successor_begins_where_it_does(world: World) -> None:
    world.log("b").begin_at(7)
    world.publish("b", 1, watermark_us=10)
    await world.port.set_inputs([replace(B, read_from=ReadFrom.FIRST, from_epoch=7)])
    batch = await world.next()
    assert (numbers(batch), batch.cursors, world.port.missed_inputs) == ([1], {"b": 8}, ())


async def test_a_channel_that_leaves_and_joins_again_goes_on(world: World) -> None:
    await world.port.set_inputs([A, B])
    world.publish("a", 1, watermark_us=10)
    world.publish("b", 2, watermark_us=5)
    assert (await world.next()).watermark_us == 5
    await world.port.set_inputs([A])
    assert ((await world.next()).watermark_us, world.router.subscriptions("r")) == (10, {"a": "jfk"})
    world.publish("b", 3, watermark_us=20)
    await world.port.set_inputs([A, B])
    batch = await world.next()
    assert (numbers(batch), batch.cursors) == ([3], {"a": 1, "b": 2})


async def test_a_cancelled_wait_loses_nothing(world: World) -> None:
    await world.port.set_inputs([A])
    for number in range(20):
        task = asyncio.create_task(world.port.next(max_bytes=1 << 20))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        world.publish("a", number, watermark_us=number)
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            assert numbers(task.result()) == [number]
        elif world.port.cursors["a"] <= number:
            assert numbers(await world.next()) == [number]
        else:
            pytest.fail("rows were taken by a call that was cancelled")


async def test_acknowledged_epochs_are_trimmed(world: World) -> None:
    world.log("a").set_consumers(["jfk"])
    await world.port.set_inputs([A])
    for number in range(3):
        world.publish("a", number, watermark_us=number)
    batch = await world.next()
    assert world.log("a").first_epoch == 0
    world.port.acknowledge(batch.cursors)
    assert world.log("a").first_epoch == 3
    world.port.acknowledge({"a": 0})


async def test_a_restored_port_goes_on_and_acknowledges_what_it_has(world: World) -> None:
    world.log("a").set_consumers(["jfk"])
    for number in range(4):
        world.publish("a", number, watermark_us=number)
    world.log("b").finish()
    port = world.port
    port.restore({"a": 2, "b": 0}, ended=["b"], watermark_us=1)
    await port.set_inputs([A, B])
    assert (world.log("a").first_epoch, port.cursors, port.ended_channels) == (2, {"a": 2, "b": 0}, ("b",))
    batch = await world.next()
    assert (numbers(batch), batch.watermark_us, batch.ended) == ([2, 3], 3, False)
    world.log("a").finish()
    assert (await world.next()).ended


async def test_a_restored_port_of_ended_channels_says_so_at_once(world: World) -> None:
    world.port.restore({"a": 7}, ended=["a"], watermark_us=50)
    await world.port.set_inputs([A])
    batch = await world.next()
    assert (batch.ended, batch.watermark_us, batch.cursors) == (True, END_OF_TIME_US, {"a": 7})


async def test_a_channel_removed_at_its_own_site_is_an_error(world: World) -> None:
    await world.port.set_inputs([A])
    waiting = asyncio.create_task(world.next())
    await asyncio.sleep(0.01)
    world.store.remove("a")
    with pytest.raises(UnknownChannelError):
        await waiting


async def test_how_far_each_channel_was_read(world: World) -> None:
    world.publish("a", 1, 2, watermark_us=5)
    await world.port.set_inputs([A, B])
    await world.next()
    world.publish("a", 3, 4, 5, watermark_us=6)
    world.publish("a", 6, watermark_us=7)
    read, other = world.port.reads
    assert (read.channel, read.stored_epoch, read.next_epoch, read.waiting_rows) == ("a", 3, 1, 4)
    assert (read.taken_rows, read.watermark_us) == (2, 5)
    assert (other.channel, other.stored_epoch, other.taken_rows, other.watermark_us) == ("b", 0, 0, None)


class Enough:
    """Says that so many waiting rows are enough, or this watermark."""

    def __init__(self, rows: int, watermark_us: int) -> None:
        self.rows = rows
        self.watermark_us = watermark_us
        self.seen: list[Waiting] = []

    def __call__(self, waiting: Waiting) -> bool:
        self.seen.append(waiting)
        return waiting.rows >= self.rows or (waiting.watermark_us or 0) >= self.watermark_us


class TestLettingCome:
    """Nothing is taken until what waits is enough."""

    @pytest.fixture
    async def begun(self, world: World) -> World:
        await world.port.set_inputs([A, B])
        for name in "ab":
            world.publish(name, 0, watermark_us=10)
        await world.next()
        return world

    async def coming(self, world: World, enough: Enough) -> asyncio.Task[None]:
        task = asyncio.create_task(world.port.let_come(enough, most_s=60))
        await asyncio.sleep(0.02)
        return task

    async def test_rows_and_watermarks_of_all_channels_count(self, begun: World) -> None:
        task = await self.coming(begun, enough := Enough(3, 30))
        begun.publish("a", 1, 2, watermark_us=30)
        await asyncio.sleep(0.02)
        assert not task.done()
        assert enough.seen[-1] == Waiting(2, 10)
        begun.publish("b", 3, watermark_us=20)
        await asyncio.wait_for(task, 5)
        assert enough.seen[-1] == Waiting(3, 20)
        assert begun.port.lag_rows == 3
        assert numbers(await begun.next()) == [1, 2, 3]

    async def test_a_watermark_that_ends_something_is_enough(self, begun: World) -> None:
        begun.publish("a", 1, watermark_us=30)
        begun.publish("b", watermark_us=30)
        await asyncio.wait_for(begun.port.let_come(Enough(100, 30), most_s=60), 5)

    async def test_a_channel_that_falls_idle_wakes_or_ends_is_waited_for_no_longer(self, begun: World) -> None:
        happenings: list[Callable[[], object]] = [
            lambda: begun.publish("a", 1, watermark_us=20, idle=True),
            lambda: begun.publish("a", 2, watermark_us=20),
            lambda: begun.log("b").finish(),
        ]
        for happens in happenings:
            task = await self.coming(begun, Enough(100, 100))
            happens()
            await asyncio.wait_for(task, 5)
            await begun.next()

    async def test_a_channel_that_joins_is_not_waited_for(self, begun: World) -> None:
        task = await self.coming(begun, Enough(100, 100))
        await begun.port.set_inputs([A, B, C])
        await asyncio.wait_for(task, 5)
        await asyncio.wait_for(begun.port.let_come(Enough(100, 100), most_s=60), 5)

    async def test_a_channel_that_is_removed_is_told(self, begun: World) -> None:
        task = await self.coming(begun, Enough(100, 100))
        begun.store.remove("b")
        with pytest.raises(UnknownChannelError):
            await asyncio.wait_for(task, 5)

    async def test_no_longer_than_that(self, begun: World) -> None:
        begun.publish("a", 1, watermark_us=20)
        await asyncio.wait_for(begun.port.let_come(Enough(100, 100), most_s=0.05), 5)
        assert begun.port.lag_rows == 1
