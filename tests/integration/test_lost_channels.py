"""Readers of a channel that its site does not send: they wait for a minute, and then are told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from site_agent.base.errors import LostChannelError
from site_agent.port import Port, PortInput
from site_agent.router.refusals import PATIENCE_S
from tests.integration.exchange_sites import CHANNEL, Site, eventually, numbers, sites
from tests.integration.test_port import next_batch, port_at, values
from tests.unit.site_agent.router.hand import HandClock

pytestmark = pytest.mark.timeout(120)

INPUT = PortInput(CHANNEL, "ewr")


async def refused(port: Port, ewr: Site, clock: HandClock) -> LostChannelError:
    """Assert that the reader waits for a minute; returns the error that it then gets."""
    reading = asyncio.create_task(next_batch(port))
    for _ in range(2):
        pulls = ewr.pulls
        await eventually(lambda before=pulls: ewr.pulls > before + 1)  # type: ignore[misc]
        assert not reading.done()
    clock.now_s += PATIENCE_S
    with pytest.raises(LostChannelError) as told:
        await reading
    return told.value


async def test_a_channel_that_is_not_there(tmp_path: Path) -> None:
    clock = HandClock()
    async with sites(tmp_path, "ewr", "jfk", now_s=clock) as (ewr, jfk), port_at(jfk) as port:
        await port.set_inputs([INPUT])
        told = await refused(port, ewr, clock)
        assert (
            told.message == f"ewr does not send channel {CHANNEL}, and has refused for 60 s: no channel {CHANNEL} here"
        )
        # Later reads are told at once, until the channel is there.
        with pytest.raises(LostChannelError):
            await next_batch(port)
        ewr.store.open(CHANNEL).publish(0, numbers(0, 2), watermark_us=1)
        await eventually(lambda: jfk.store.open(CHANNEL).next_epoch == 1)
        assert values(await next_batch(port)) == [0, 1]


async def test_a_channel_that_is_there_after_a_while(tmp_path: Path) -> None:
    clock = HandClock()
    async with sites(tmp_path, "ewr", "jfk", now_s=clock) as (ewr, jfk), port_at(jfk) as port:
        await port.set_inputs([INPUT])
        reading = asyncio.create_task(next_batch(port))
        await eventually(lambda: ewr.pulls > 1)
        clock.now_s += PATIENCE_S - 1
        await eventually(lambda pulls=ewr.pulls: ewr.pulls > pulls + 1)  # type: ignore[misc]
        ewr.store.open(CHANNEL).publish(0, numbers(0, 2), watermark_us=1)
        assert values(await reading) == [0, 1]


async def test_epochs_that_the_producer_let_go_of_before_they_were_read(tmp_path: Path) -> None:
    clock = HandClock()
    async with sites(tmp_path, "ewr", "jfk", now_s=clock) as (ewr, jfk), port_at(jfk) as port:
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        log.publish(0, numbers(0, 1), watermark_us=0)
        await port.set_inputs([INPUT])
        assert values(await next_batch(port)) == [0]
        await ewr.stop_serving()
        for epoch in (1, 2):
            log.publish(epoch, numbers(epoch, 1), watermark_us=epoch)
        log.acknowledge("jfk", 1)
        await jfk.restart()
        await ewr.serve()
        jfk.router.set_addresses({"ewr": ewr.address})
        again = Port(jfk.router, reader="q.merge", query_id="q")
        again.restore({CHANNEL: 1}, watermark_us=0)
        await again.set_inputs([INPUT])
        told = await refused(again, ewr, clock)
        assert f"epoch 1 of channel {CHANNEL} is no longer kept" in told.message
        await again.close()


async def test_a_channel_that_was_lost_at_its_site(tmp_path: Path) -> None:
    clock = HandClock()
    async with sites(tmp_path, "ewr", "jfk", now_s=clock) as (ewr, jfk), port_at(jfk) as port:
        for epoch in (0, 1):
            ewr.store.open(CHANNEL).publish(epoch, numbers(epoch, 1), watermark_us=epoch)
        await port.set_inputs([INPUT])
        while port.cursors[CHANNEL] < 2:
            await next_batch(port)
        ewr.store.remove(CHANNEL)
        ewr.store.open(CHANNEL)
        told = await refused(port, ewr, clock)
        assert f"epoch 2 was asked for, but channel {CHANNEL} is only at 0" in told.message
