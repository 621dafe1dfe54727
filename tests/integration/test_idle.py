"""A channel that is idle, becomes idle or wakes, whatever happens to its reader, its router and its producer meanwhile.

Each case has a quiet channel at ewr and a busy one at jfk. The reader has taken and acknowledged everything, so it can
know of the quiet one only by its standing. No test waits for time to pass: a watermark has not moved if it is unchanged
after rows of the busy channel were taken.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from contract.tasks import ReadFrom
from site_agent.channels.log import ChannelLog
from site_agent.port import Port, PortInput
from site_agent.tasks.source import end_idleness
from tests.integration.exchange_sites import Site, eventually, numbers, sites
from tests.integration.test_port import next_batch

pytestmark = pytest.mark.timeout(120)

QUIET, BUSY = "q.s.ewr", "q.s.jfk"
DELAY_US = 50
SAID_US = 200
"""The quiet channel's watermark before anything happens."""
FAR_US = 900


@dataclass
class World:
    ewr: Site
    jfk: Site
    lga: Site
    port: Port
    seen_us: list[int | None] = field(default_factory=list)

    @property
    def quiet(self) -> ChannelLog:
        return self.ewr.store.open(QUIET)

    @property
    def busy(self) -> ChannelLog:
        return self.jfk.store.open(BUSY)

    def connect(self) -> None:
        everybody = (self.ewr, self.jfk, self.lga)
        for site in everybody:
            site.router.set_addresses({other.name: other.address for other in everybody})

    def say(self, log: ChannelLog, watermark_us: int, *, idle: bool = False) -> None:
        """One more epoch, with a row unless it is idle."""
        log.publish(log.next_epoch, None if idle else numbers(0, 1), watermark_us=watermark_us, idle=idle)

    async def take(self, *, until: Callable[[], bool]) -> None:
        while not until():
            self.seen_us.append((await next_batch(self.port)).watermark_us)

    async def take_everything(self) -> None:
        logs = {QUIET: self.quiet, BUSY: self.busy}
        await self.take(until=lambda: all(self.port.cursors.get(n) == log.next_epoch for n, log in logs.items()))

    async def reaches(self, watermark_us: int) -> None:
        await self.take(until=lambda: self.port.watermark_us == watermark_us)

    async def restart_port(self, site: Site, *, reader: str = "q.merge", late: bool = False) -> None:
        """Start a new port, from a checkpoint of everything taken; a late reader's port without one."""
        cursors, watermark_us = dict(self.port.cursors), self.port.watermark_us
        await self.port.close()
        self.port = Port(site.router, reader=reader, query_id="q")
        if late:
            # Another reader, which may learn of the channels one by one: its watermark begins where it begins.
            self.seen_us.clear()
        else:
            self.port.restore(cursors, watermark_us=watermark_us)
        read_from = ReadFrom.OLDEST if late else ReadFrom.OWN
        channels = ((QUIET, "ewr"), (BUSY, "jfk"))
        await self.port.set_inputs([PortInput(c, s, read_from=read_from, event_delay_us=DELAY_US) for c, s in channels])


@asynccontextmanager
async def world(root: Path) -> AsyncIterator[World]:
    """Both channels were read to their end, and nothing of them is kept."""
    async with sites(root, "ewr", "jfk", "lga") as (ewr, jfk, lga):
        here = World(ewr, jfk, lga, Port(jfk.router, reader="q.merge", query_id="q"))
        for log in (here.quiet, here.busy):
            log.set_consumers(["jfk"])
        await here.port.set_inputs([PortInput(QUIET, "ewr"), PortInput(BUSY, "jfk")])
        for watermark_us in (100, SAID_US):
            here.say(here.quiet, watermark_us)
            here.say(here.busy, watermark_us + 50)
        yield here
        await here.port.close()


async def acknowledged(here: World) -> None:
    await here.take_everything()
    here.port.acknowledge(here.port.cursors)
    await eventually(lambda: all(log.first_epoch == log.next_epoch for log in (here.quiet, here.busy)))


async def nothing(here: World) -> None:
    """All goes well."""


async def task_restarted(here: World) -> None:
    await here.restart_port(here.jfk)


async def reader_restarted(here: World) -> None:
    await here.jfk.restart()
    here.connect()
    await here.restart_port(here.jfk)


async def copy_lost(here: World) -> None:
    await here.jfk.stop_serving()
    await here.jfk.router.close()
    shutil.rmtree(here.jfk.root / QUIET)
    await here.jfk.start()
    here.connect()
    await here.restart_port(here.jfk)


async def late_reader(here: World) -> None:
    await here.restart_port(here.jfk, reader="q2.merge", late=True)


async def late_reader_at_the_producer(here: World) -> None:
    here.busy.set_consumers(["ewr", "jfk"])
    await here.restart_port(here.ewr, reader="q2.merge", late=True)


async def late_reader_elsewhere(here: World) -> None:
    for log in (here.quiet, here.busy):
        log.set_consumers(["jfk", "lga"])
    await here.restart_port(here.lga, reader="q2.merge", late=True)


async def late_reader_restarted(here: World) -> None:
    """Its copy holds no epoch, so the standing that it learned must outlive the process."""
    await late_reader_elsewhere(here)
    await eventually(lambda: here.lga.store.open(QUIET).standing is not None)
    await here.ewr.stop_serving()
    await here.lga.restart()
    here.connect()
    await here.restart_port(here.lga, reader="q2.merge", late=True)


async def router_reconnected(here: World) -> None:
    await here.ewr.stop_serving()
    await here.ewr.serve()


async def producer_restarted(here: World) -> None:
    await here.ewr.restart()
    here.connect()
    end_idleness(here.quiet)


async def both_restarted(here: World) -> None:
    await producer_restarted(here)
    await reader_restarted(here)


Event = Callable[[World], Awaitable[None]]
EVENTS: tuple[Event, ...] = (
    nothing,
    task_restarted,
    reader_restarted,
    copy_lost,
    late_reader,
    late_reader_at_the_producer,
    late_reader_elsewhere,
    late_reader_restarted,
    router_reconnected,
    producer_restarted,
    both_restarted,
)
RESTARTS_THE_PRODUCER = (producer_restarted, both_restarted)
each_event = pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__.replace("_", " "))


async def holds(here: World, at_us: int) -> None:
    """Assert that the watermark does not follow when the busy channel goes far ahead."""
    here.say(here.busy, FAR_US)
    await here.take(until=lambda: here.port.cursors.get(BUSY) == here.busy.next_epoch)
    assert here.port.watermark_us == at_us


async def serve_again(here: World) -> None:
    """The quiet site answers, if it does not already."""
    if here.ewr.server is None:
        await here.ewr.serve()


def never_went_back(here: World) -> bool:
    known = [watermark_us for watermark_us in here.seen_us if watermark_us is not None]
    return known == sorted(known)


@each_event
async def test_a_channel_that_was_idle_before(tmp_path: Path, event: Event) -> None:
    async with world(tmp_path) as here:
        here.say(here.quiet, SAID_US, idle=True)
        await acknowledged(here)
        await event(here)
        if event in RESTARTS_THE_PRODUCER:
            # It has not looked yet, so nobody knows that it has nothing.
            await here.take_everything()
            await holds(here, 250)
            here.say(here.quiet, SAID_US, idle=True)
        else:
            here.say(here.busy, FAR_US)
        await here.reaches(FAR_US)
        assert never_went_back(here)


@each_event
async def test_a_channel_that_becomes_idle_afterwards(tmp_path: Path, event: Event) -> None:
    async with world(tmp_path) as here:
        await acknowledged(here)
        await event(here)
        if event is not late_reader_restarted:
            if here.port.watermark_us != SAID_US:
                await here.reaches(SAID_US)
            await holds(here, SAID_US)
        await serve_again(here)
        here.say(here.quiet, SAID_US, idle=True)
        here.say(here.busy, FAR_US)
        await here.reaches(FAR_US)
        assert never_went_back(here)


@each_event
async def test_a_channel_that_wakes_afterwards(tmp_path: Path, event: Event) -> None:
    async with world(tmp_path) as here:
        here.say(here.quiet, SAID_US, idle=True)
        await acknowledged(here)
        await event(here)
        await serve_again(here)
        here.say(here.quiet, 300)
        await here.take_everything()
        await holds(here, 300)
        here.say(here.quiet, FAR_US + 50)
        await here.reaches(FAR_US)
        assert never_went_back(here)


async def test_who_comes_late_to_a_silent_channel_knows_up_to_when_rows_are_missing(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.say(here.quiet, SAID_US, idle=True)
        await acknowledged(here)
        await late_reader_elsewhere(here)
        await here.reaches(250)
        # All rows of both channels are gone: those of the busy one had events up to its watermark and the delay.
        assert here.port.incomplete_until_us == 250 + DELAY_US
