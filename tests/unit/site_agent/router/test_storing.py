from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.base.errors import CorruptEpochError
from site_agent.base.offload import Offload
from site_agent.channels.codec import encode
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark, EpochManifest
from site_agent.channels.store import ChannelStore
from site_agent.exchange.assembler import ReceivedEpoch
from site_agent.exchange.turns import Flow
from site_agent.router.backlog import Backlog
from site_agent.router.storing import Storing

pytestmark = pytest.mark.timeout(20)


def received(epoch: int) -> ReceivedEpoch:
    encoded = encode(pa.table({"n": [epoch]}))
    size_bytes = len(encoded.payload)
    return ReceivedEpoch(EpochManifest(epoch, 1, size_bytes, encoded.crc32, epoch, False, ()), encoded)


def damaged(epoch: int) -> ReceivedEpoch:
    good = received(epoch)
    assert good.encoded is not None
    return replace(good, encoded=replace(good.encoded, crc32=good.encoded.crc32 ^ 1))


SIZE_BYTES = received(0).manifest.size_bytes


@pytest.fixture
def log(tmp_path: Path) -> ChannelLog:
    return ChannelStore(tmp_path).open("q.s.ewr")


@pytest.fixture
async def offload() -> AsyncIterator[Offload]:
    threads = Offload("test", threads=1)
    yield threads
    threads.close()


async def test_what_was_put_is_stored_in_order_with_its_end(log: ChannelLog, offload: Offload) -> None:
    told: list[int] = []
    storing = Storing(log, offload, Backlog(1000 * SIZE_BYTES, writers=1), stored=told.append)
    for epoch in range(100):
        await storing.put(received(epoch))
    await storing.put(EndMark(99))
    storing.close()
    await storing.run()
    assert (log.next_epoch, log.end) == (100, EndMark(99))
    assert sum(told) == sum(received(epoch).manifest.size_bytes for epoch in range(100))
    assert [log.epochs.manifest(epoch).watermark_us for epoch in range(100)] == list(range(100))


async def test_epochs_before_a_damaged_one_are_stored(log: ChannelLog, offload: Offload) -> None:
    backlog = Backlog(1000 * SIZE_BYTES, writers=1)
    storing = Storing(log, offload, backlog, stored=lambda size_bytes: None)
    for epoch in (received(0), received(1), damaged(2), received(3)):
        await storing.put(epoch)
    with pytest.raises(CorruptEpochError, match="checksum"):
        await storing.run()
    assert log.next_epoch == 2


async def test_a_full_backlog_makes_a_call_wait_until_something_is_stored(log: ChannelLog, offload: Offload) -> None:
    two_bytes = sum(received(epoch).manifest.size_bytes for epoch in range(2))
    storing = Storing(log, offload, Backlog(two_bytes, writers=1), stored=lambda size_bytes: None)
    for epoch in range(2):
        await storing.put(received(epoch))
    waiting = asyncio.create_task(storing.put(received(2)))
    await asyncio.sleep(0)
    assert not waiting.done()
    running = asyncio.create_task(storing.run())
    await waiting
    storing.close()
    await running
    assert log.next_epoch == 3


async def test_the_call_that_stored_least_is_next(tmp_path: Path, offload: Offload) -> None:
    """Two calls wait for the only writer; the one that asks second has stored less."""
    store, backlog, order = ChannelStore(tmp_path), Backlog(1000 * SIZE_BYTES, writers=1), list[str]()

    def storing_of(channel: str) -> Storing:
        return Storing(store.open(channel), offload, backlog, stored=lambda size_bytes: order.append(channel))

    ahead, behind = storing_of("ahead"), storing_of("behind")
    running = [asyncio.create_task(ahead.run())]
    await ahead.put(received(0))
    while not order:
        await asyncio.sleep(0)
    writer = Flow()
    await backlog.writers.take(writer, 1, cost_bytes=0)
    await ahead.put(received(1))
    await asyncio.sleep(0)
    running.append(asyncio.create_task(behind.run()))
    await behind.put(received(0))
    for _ in range(3):
        await asyncio.sleep(0)
    backlog.writers.give_back(1)
    for each in (ahead, behind):
        each.close()
    await asyncio.gather(*running)
    assert order == ["ahead", "behind", "ahead"]


async def test_what_a_cancelled_call_held_is_given_back(log: ChannelLog, offload: Offload) -> None:
    backlog = Backlog(2 * SIZE_BYTES, writers=1)
    storing = Storing(log, offload, backlog, stored=lambda size_bytes: None)
    running = asyncio.create_task(storing.run())
    await asyncio.sleep(0)
    await storing.put(received(0))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await backlog.bytes.take(Flow(), 2 * SIZE_BYTES, cost_bytes=0)
