"""Ports fed by local and remote channels."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import END_OF_TIME_US, EndMark
from site_agent.port import Port, PortBatch, PortInput
from tests.integration.exchange_sites import Site, eventually, numbers, sites

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def port_at(site: Site, reader: str = "q.merge") -> AsyncIterator[Port]:
    port = Port(site.router, reader=reader, query_id="q")
    try:
        yield port
    finally:
        await port.close()


async def next_batch(port: Port, *, max_bytes: int = 1 << 26) -> PortBatch:
    async with asyncio.timeout(30):
        return await port.next(max_bytes=max_bytes)


def values(batch: PortBatch) -> list[int]:
    return [value for table in batch.tables for value in table.column("n").to_pylist()]


async def test_a_port_merges_a_local_and_a_remote_channel(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk), port_at(jfk) as port:
        remote, local = ewr.store.open("q.s.ewr"), jfk.store.open("q.s.jfk")
        for log in (remote, local):
            log.set_consumers(["jfk"])
        remote.publish(0, numbers(0, 3), watermark_us=100)
        local.publish(0, numbers(10, 3), watermark_us=50)
        await port.set_inputs([PortInput("q.s.ewr", "ewr"), PortInput("q.s.jfk", "jfk")])
        taken, watermark_us = [], None
        while port.cursors != {"q.s.ewr": 1, "q.s.jfk": 1}:
            batch = await next_batch(port)
            taken += values(batch)
            watermark_us = batch.watermark_us
        assert (sorted(taken), watermark_us) == ([0, 1, 2, 10, 11, 12], 50)
        port.acknowledge(port.cursors)
        await eventually(lambda: remote.first_epoch == 1 and local.first_epoch == 1)
        remote.finish()
        local.finish()
        while not (batch := await next_batch(port)).ended:
            pass
        assert batch.watermark_us == END_OF_TIME_US
        assert port.ended_channels == ("q.s.ewr", "q.s.jfk")


async def test_a_successor_takes_over_and_a_restarted_port_goes_on_in_it(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        old, new = ewr.store.open("q.s.old"), ewr.store.open("q.s.new")
        old.publish(0, numbers(0, 1), watermark_us=100)
        async with port_at(jfk) as port:
            await port.set_inputs([PortInput("q.s.old", "ewr")])
            assert (await next_batch(port)).watermark_us == 100
            old.finish_as(EndMark(0, "q.s.new", "ewr"))
            batch = await next_batch(port)
            assert (batch.watermark_us, batch.ended) == (100, False)
            new.begin_at(1)
            new.publish(1, numbers(1, 1), watermark_us=None)
            batch = await next_batch(port)
            assert values(batch) == [1]
            assert (batch.watermark_us, batch.cursors) == (100, {"q.s.new": 2, "q.s.old": 1})
            checkpoint = batch.cursors
        await jfk.restart()
        jfk.router.set_addresses({"ewr": ewr.address})
        async with port_at(jfk) as port:
            port.restore(checkpoint, watermark_us=100)
            await port.set_inputs([PortInput("q.s.old", "ewr")])
            assert port.inputs == (PortInput("q.s.new", "ewr", from_epoch=1), PortInput("q.s.old", "ewr"))
            new.publish(2, numbers(2, 1), watermark_us=170)
            while not (taken := values(batch := await next_batch(port))):
                assert batch.watermark_us == 100
            assert (taken, batch.watermark_us) == ([2], 170)


async def test_channels_join_and_leave_while_the_port_waits(tmp_path: Path) -> None:
    async with sites(tmp_path, "jfk") as (jfk,), port_at(jfk) as port:
        fast, slow = PortInput("q.s.fast", "jfk"), PortInput("q.s.slow", "jfk")
        jfk.store.open(fast.channel).publish(0, numbers(0, 1), watermark_us=900)
        jfk.store.open(slow.channel).publish(0, numbers(1, 1), watermark_us=300)
        waiting = asyncio.create_task(next_batch(port))
        await asyncio.sleep(0)
        await port.set_inputs([slow])
        assert ((await waiting).watermark_us, port.lag_rows) == (300, 0)
        waiting = asyncio.create_task(next_batch(port))
        await asyncio.sleep(0)
        await port.set_inputs([slow, fast])
        assert ((await waiting).watermark_us, port.cursors) == (300, {fast.channel: 1, slow.channel: 1})
        waiting = asyncio.create_task(next_batch(port))
        await asyncio.sleep(0)
        await port.set_inputs([fast])
        batch = await waiting
        assert (batch.watermark_us, batch.rows, batch.cursors) == (900, 0, {fast.channel: 1})


class Producer:
    """Publishes epochs from a thread of its own; epoch `e` holds event times [1000 e, 1000 e + rows)."""

    rows = 20

    def __init__(self, log: ChannelLog, *, first_time: int, last_time: int) -> None:
        self.log = log
        self.times = range(first_time, last_time)
        self.stop = threading.Event()
        self.successor = ("", "")
        log.set_consumers(["jfk"])
        self.done = asyncio.get_running_loop().run_in_executor(None, self._run)

    @property
    def offset(self) -> int:
        return sum(self.log.id.encode()) * 1_000_000

    def _run(self) -> None:
        for epoch, time in enumerate(self.times, self.log.next_epoch):
            if self.stop.is_set():
                return
            ts = [time * 1000 + i for i in range(self.rows)]
            table = pa.table({"n": [self.offset + t for t in ts], "ts": ts})
            self.log.publish(epoch, table, watermark_us=(time + 1) * 1000)
        self.log.finish_as(EndMark(self.log.next_epoch - 1, *self.successor))

    def published(self, epochs: int | None = None) -> list[int]:
        times = self.times if epochs is None else self.times[:epochs]
        return [self.offset + time * 1000 + i for time in times for i in range(self.rows)]


class Taker:
    """Reads a port and checks what holds for every batch."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.taken: list[int] = []
        self.watermark_us = -1

    async def until(self, condition: Callable[[PortBatch], bool]) -> PortBatch:
        while True:
            batch = await next_batch(self.port, max_bytes=5_000)
            assert all(min(table.column("ts").to_pylist()) >= self.watermark_us for table in batch.tables)
            self.taken += values(batch)
            self.port.acknowledge(batch.cursors)
            if batch.watermark_us is not None:
                assert batch.watermark_us >= self.watermark_us
                self.watermark_us = batch.watermark_us
            if condition(batch):
                return batch


async def test_channels_join_and_leave_while_data_flow(tmp_path: Path) -> None:
    """Every row once, and none behind the watermark of the batch before it."""
    async with sites(tmp_path, "ewr", "lga", "jfk") as (ewr, lga, jfk), port_at(jfk) as port:
        home = {"a": ewr, "b": lga, "c": jfk, "d": ewr}
        inputs = {name: PortInput(f"q.s.{name}", site.name) for name, site in home.items()}
        logs = {name: site.store.open(inputs[name].channel) for name, site in home.items()}
        taker = Taker(port)

        a = Producer(logs["a"], first_time=0, last_time=150)
        a.successor = ("q.s.d", "ewr")
        b = Producer(logs["b"], first_time=0, last_time=150)
        await port.set_inputs([inputs["a"], inputs["b"]])
        await taker.until(lambda batch: min(batch.cursors.values()) >= 5)

        c = Producer(logs["c"], first_time=taker.watermark_us // 1000, last_time=150)
        await port.set_inputs([inputs["a"], inputs["b"], inputs["c"]])
        await taker.until(lambda batch: batch.cursors["q.s.c"] >= 3)

        b_taken = port.cursors["q.s.b"]
        assert 5 <= b_taken < 150
        await port.set_inputs([inputs["a"], inputs["c"]])
        b.stop.set()
        logs["d"].begin_at(150)
        d = Producer(logs["d"], first_time=150, last_time=200)
        last = await taker.until(lambda batch: batch.ended)

        assert last.watermark_us == END_OF_TIME_US
        assert sorted(taker.taken) == sorted(a.published() + b.published(b_taken) + c.published() + d.published())
        assert jfk.router.subscriptions("q.merge").keys() == {"q.s.a", "q.s.c", "q.s.d"}
        await asyncio.gather(a.done, b.done, c.done, d.done)
        await eventually(lambda: all(log.first_epoch == log.next_epoch for log in (logs["a"], logs["c"], logs["d"])))
        assert sum(usage.epochs for usage in jfk.router.usage()) == 150 + 50


def binned(*bins: int) -> pa.Table:
    """A row for each bin, with the bin as its number."""
    return pa.table({"n": list(bins), "_bin": list(bins)})


async def test_a_copy_has_the_bins_that_are_read_here(tmp_path: Path) -> None:
    channel, low, high = "q.s.ewr", tuple(range(32)), tuple(range(32, 64))
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(channel)
        log.set_consumers(["jfk"])
        log.publish(0, binned(1, 40, 31), watermark_us=10)
        log.publish(1, binned(50), watermark_us=20)
        jfk.router.set_bins({channel: low})
        async with port_at(jfk, "part 0") as port:
            await port.set_inputs([PortInput(channel, "ewr", bins=low)])
            found = [await next_batch(port)]
            while port.cursors != {channel: 2}:
                found.append(await next_batch(port))
            assert [value for batch in found for value in values(batch)] == [1, 31]
            assert found[-1].watermark_us == 20
            copy = jfk.store.get(channel)
            assert [copy.epochs.manifest(epoch).rows for epoch in range(2)] == [2, 0]
            assert copy.epochs.read(0) == pa.table({"n": [1, 31]})
            port.acknowledge({channel: 1})
            await eventually(lambda: log.first_epoch == 1)

            # Whoever needs other bins has to have its rows from elsewhere, also after a restart.
            async with port_at(jfk, "part 1") as other:
                await other.set_inputs([PortInput(channel, "ewr", bins=high)])
                assert other.missed_inputs == (channel,)
        await jfk.restart()
        jfk.router.set_addresses({"ewr": ewr.address})
        jfk.router.set_bins({})
        log.publish(2, binned(3, 60), watermark_us=30)
        async with port_at(jfk, "part 0") as port, port_at(jfk, "whole") as whole:
            port.restore({channel: 1})
            await port.set_inputs([PortInput(channel, "ewr", bins=low)])
            await whole.set_inputs([PortInput(channel, "ewr")])
            assert (port.missed_inputs, whole.missed_inputs) == ((), (channel,))
            found = [await next_batch(port)]
            while port.cursors != {channel: 3}:
                found.append(await next_batch(port))
            assert [value for batch in found for value in values(batch)] == [3]


async def test_a_damaged_epoch_of_some_bins_is_fetched_again(tmp_path: Path) -> None:
    channel, low = "q.s.ewr", tuple(range(32))
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk), port_at(jfk) as port:
        log = ewr.store.open(channel)
        log.set_consumers(["jfk"])
        log.publish(0, binned(1, 40, 31), watermark_us=10)
        jfk.router.set_bins({channel: low})
        copy = await jfk.router.subscribe(channel, "ewr", "q.merge")
        await copy.state.wait(0)
        (path,) = (jfk.root / channel).glob("*.epoch")
        path.write_bytes(path.read_bytes()[:-3] + b"xyz")
        await port.set_inputs([PortInput(channel, "ewr", bins=low)])
        assert values(await next_batch(port)) == [1, 31]
        assert copy.epochs.read(0) == pa.table({"n": [1, 31]})
