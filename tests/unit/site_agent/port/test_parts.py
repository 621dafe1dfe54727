"""A port that reads some bins of its channels, and one that waits for idle channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pyarrow as pa
import pytest

from contract.tasks import ReadFrom
from site_agent.channels.store import ChannelStore
from site_agent.port import Port, PortBatch, PortInput
from site_agent.router import Router

pytestmark = pytest.mark.timeout(20)


def no_network(address: str, site: str) -> grpc.aio.Channel:
    raise AssertionError(f"nothing connects to {site} at {address} here")


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    made = Router("jfk", ChannelStore(tmp_path), no_network)
    yield made
    await made.close()


def binned(*bins: int) -> pa.Table:
    """A row for each bin, with the bin as its number."""
    return pa.table({"n": list(bins), "_bin": list(bins)})


async def taken(port: Port) -> PortBatch:
    async with asyncio.timeout(5):
        return await port.next(max_bytes=1 << 20)


def numbers(batch: PortBatch) -> list[int]:
    return [n for table in batch.tables for n in table.column("n").to_pylist()]


async def test_parts_take_the_rows_of_their_bins_and_all_epochs(router: Router) -> None:
    log = router.store.open("a")
    log.publish(0, binned(5, 40, 31, 5), watermark_us=10)
    log.publish(1, binned(63, 32), watermark_us=20)
    log.publish(2, None, watermark_us=30)
    ports = [Port(router, reader=f"part {number}", query_id="q") for number in range(2)]
    for number, port in enumerate(ports):
        await port.set_inputs([PortInput("a", "jfk", bins=tuple(range(32 * number, 32 * number + 32)))])
    first, second = [await taken(port) for port in ports]
    assert (numbers(first), numbers(second)) == ([5, 5, 31], [40, 32, 63])
    assert [(b.watermark_us, b.cursors) for b in (first, second)] == [(30, {"a": 3})] * 2
    assert (first.rows_by_bin, second.rows_by_bin) == ({5: 2, 31: 1}, {32: 1, 40: 1, 63: 1})
    # A slice would hold the rows of the other part as well.
    assert sum(table.get_total_buffer_size() for table in first.tables) == 3 * 8


async def test_who_waits_for_idle_channels_is_not_ahead_of_one_that_is_behind(router: Router) -> None:
    """Part b is idle at 10, and will read what woke part a."""
    for name in "ab":
        router.store.open(name).publish(0, None, watermark_us=10, idle=True)
    inputs = [PortInput(name, "jfk") for name in "ab"]
    merge, final = (Port(router, reader=f"{w}", query_id="q", waits_for_idle=w) for w in (False, True))
    for port in (merge, final):
        await port.set_inputs(inputs)
        batch = await taken(port)
        assert (batch.watermark_us, batch.idle) == (10, True)
    router.store.open("a").publish(1, None, watermark_us=50)
    assert (await taken(merge)).watermark_us == 50
    batch = await taken(final)
    assert (batch.watermark_us, batch.idle) == (10, False)
    router.store.open("b").publish(1, None, watermark_us=40, idle=True)
    batch = await taken(final)
    assert (batch.watermark_us, batch.idle) == (40, False)
    for name in "ab":
        router.store.open(name).finish()
    assert (await taken(final)).ended


async def test_who_may_begin_later_does_so_where_the_copy_has_other_bins(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = router.store.open("a")
    for epoch in range(4):
        log.publish(epoch, binned(5, 40), watermark_us=10 * epoch)
    monkeypatch.setattr(router, "held_from", lambda channel, bins: 2)
    late = Port(router, reader="late", query_id="q")
    await late.set_inputs([PortInput("a", "jfk", read_from=ReadFrom.OLDEST, event_delay_us=7)])
    batch = await taken(late)
    assert (numbers(batch), batch.cursors, late.missed_inputs) == ([5, 40, 5, 40], {"a": 4}, ())
    # After the first epoch that it took, the watermark was 20.
    assert late.incomplete_until_us == 27
    whole = Port(router, reader="whole", query_id="q")
    await whole.set_inputs([PortInput("a", "jfk")])
    assert whole.missed_inputs == ("a",)
