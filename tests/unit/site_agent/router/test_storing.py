from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.channels.codec import encode
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark, EpochManifest
from site_agent.channels.store import ChannelStore
from site_agent.errors import CorruptEpochError
from site_agent.exchange.assembler import ReceivedEpoch
from site_agent.exchange.offload import Offload
from site_agent.router.storing import Backlog, Storing

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
    storing = Storing(log, offload, Backlog(1000 * SIZE_BYTES), stored=told.append)
    for epoch in range(100):
        await storing.put(received(epoch))
    await storing.put(EndMark(99))
    storing.close()
    await storing.run()
    assert (log.next_epoch, log.end) == (100, EndMark(99))
    assert sum(told) == sum(received(epoch).manifest.size_bytes for epoch in range(100))
    assert [log.manifest(epoch).watermark_us for epoch in range(100)] == list(range(100))


async def test_epochs_before_a_damaged_one_are_stored(log: ChannelLog, offload: Offload) -> None:
    backlog = Backlog(1000 * SIZE_BYTES)
    storing = Storing(log, offload, backlog, stored=lambda size_bytes: None)
    for epoch in (received(0), received(1), damaged(2), received(3)):
        await storing.put(epoch)
    with pytest.raises(CorruptEpochError, match="checksum"):
        await storing.run()
    assert log.next_epoch == 2


async def test_a_full_backlog_makes_whoever_comes_wait_in_turn(log: ChannelLog, offload: Offload) -> None:
    backlog = Backlog(2 * SIZE_BYTES)
    storing = Storing(log, offload, backlog, stored=lambda size_bytes: None)
    await storing.put(received(0))
    await backlog.take(SIZE_BYTES)
    order: list[str] = []

    async def take(name: str, size_bytes: int) -> None:
        await backlog.take(size_bytes)
        order.append(name)

    large = asyncio.create_task(take("large", 2 * SIZE_BYTES))
    small = asyncio.create_task(take("small", 1))
    await asyncio.sleep(0)
    backlog.give_back(SIZE_BYTES)
    await asyncio.sleep(0)
    assert order == []
    storing.close()
    await storing.run()
    await large
    assert order == ["large"]
    backlog.give_back(2 * SIZE_BYTES)
    await small


async def test_what_a_cancelled_call_held_is_given_back(log: ChannelLog, offload: Offload) -> None:
    backlog = Backlog(2 * SIZE_BYTES)
    storing = Storing(log, offload, backlog, stored=lambda size_bytes: None)
    running = asyncio.create_task(storing.run())
    await asyncio.sleep(0)
    await storing.put(received(0))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await backlog.take(2 * SIZE_BYTES)
