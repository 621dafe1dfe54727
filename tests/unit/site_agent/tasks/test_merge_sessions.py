"""A merge of sessions, killed anywhere: what comes out is what a plain definition makes of the rows that it took.

The number of a partial is a power of two, so that the sum of a session says of which partials it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from pathlib import Path
from random import Random

import pytest

from machine import faults
from planner.values.stages import StageKind
from site_agent.channels.manifest import END_OF_TIME_US
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.progress import Totals
from site_agent.tasks.spec import InputSpec, TaskSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.place import Place
from tests.unit.site_agent.tasks.sessions import WINDOW, Partial, partials_of, sessions_of, summed, table_of

CHANNELS = ("q.s1.us", "q.s1.eu", "q.s1.ap")
INPUTS = tuple(InputSpec(channel, "hub", "input") for channel in CHANNELS)
SPEC = TaskSpec("q.m1.hub", "q", "m1", StageKind.MERGE, "merge", timedelta(0), inputs=INPUTS, window=WINDOW)
STEP_US = 300_000
"""Instants are multiples of it: gaps are often just reached, and some are longer than what is between watermarks."""


class Killed(BaseException):
    """A process does not survive this."""


@dataclass
class Kill:
    """Kills at some passage of any point; `spared` counts those left."""

    spared: int = 1 << 30
    armed: bool = False

    def passed(self, point: Enum) -> bool:
        if self.armed:
            self.spared -= 1
            if self.spared == 0:
                raise Killed(point.value)
        return False


@dataclass(frozen=True)
class Epoch:
    rows: tuple[Partial, ...]
    watermark_us: int
    idle: bool = False


@dataclass
class Source:
    """One site's epochs: rows out of order by less than the watermark allows; after it was idle, also earlier."""

    rng: Random
    idles: bool
    now_us: int = 0
    made: list[Epoch] = field(default_factory=list)

    def epoch(self, number: int) -> Epoch:
        rng = self.rng
        idle = self.idles and rng.random() < 0.3
        begin_us = self.now_us if not (self.made and self.made[-1].idle) else max(0, self.now_us - 20 * STEP_US)
        rows = []
        for place in range(0 if idle else rng.randrange(4)):
            start_us = begin_us + rng.randrange(12) * STEP_US
            length_us = rng.choice((1, 2, 4, 4, 15)) * STEP_US
            rows.append((start_us, start_us + length_us, rng.choice(("a", "b", None)), 1 << (number * 4 + place)))
        self.now_us += rng.randrange(6) * STEP_US
        self.made.append(Epoch(tuple(rows), self.now_us, idle))
        return self.made[-1]


@dataclass
class Outcome:
    sessions: list[Partial]
    totals: Totals
    taken: list[Partial]
    kills: int


async def played(directory: Path, rng: Random, *, idles: bool, checkpoint_bytes: int) -> Outcome:
    """Epochs of all channels in some order, and kills between them and at any point of what the merge does."""
    kill = Kill()
    sources = {channel: Source(rng, idles) for channel in CHANNELS}
    order = [rng.choice(CHANNELS) for _ in range(12)]
    with faults.watched(kill):
        world = World(directory, kill, checkpoint_bytes, rng)
        await world.begin()
        for number, channel in enumerate(order):
            world.publish(channel, sources[channel].epoch(number))
            if rng.random() < 0.5:
                await world.settle()
            if rng.random() < 0.2:
                await world.restart()
        world.finish()
        while not await world.settle():
            await world.restart()
        await world.end()
    taken = [row for source in sources.values() for epoch in source.made for row in epoch.rows]
    return Outcome(world.results(), world.totals, taken, world.kills)


class World:
    """A merge over three channels, and again over the same directory."""

    def __init__(self, directory: Path, kill: Kill, checkpoint_bytes: int, rng: Random) -> None:
        self.directory = directory
        self.kill = kill
        self.limits = TaskLimits(checkpoint_bytes=checkpoint_bytes, compact_rows=3, runs_alike=2, rows_at_once=4)
        self.rng = rng
        self.kills = 0
        self.published = dict.fromkeys(CHANNELS, 0)

    async def begin(self) -> None:
        self.place = Place(self.directory, TableEngine({"merge": summed, "combine": summed}), self.limits)
        self.log = self.place.store.open(SPEC.task_id)
        self.log.set_consumers(["hub"])
        for channel in CHANNELS:
            self.place.store.open(channel).set_consumers(["hub"])
        self.kill.spared = self.rng.randrange(1, 80)
        self.merge = MergeTask(self.place.context(SPEC), WINDOW)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> bool:
        """It came to its end."""
        self.kill.armed = True
        try:
            await self.merge.run()
        except Killed:
            return False
        finally:
            self.kill.armed = False
        return True

    def publish(self, channel: str, epoch: Epoch) -> None:
        armed, self.kill.armed = self.kill.armed, False
        log, number = self.place.store.open(channel), self.published[channel]
        rows = table_of(epoch.rows) if epoch.rows else None
        log.publish(number, rows, watermark_us=epoch.watermark_us, idle=epoch.idle)
        self.published[channel] += 1
        self.kill.armed = armed

    def finish(self) -> None:
        armed, self.kill.armed = self.kill.armed, False
        for channel in CHANNELS:
            self.place.store.open(channel).finish()
        self.kill.armed = armed

    async def settle(self) -> bool:
        """Until the merge has taken everything, or is dead; whether it came to its end."""
        ended = all(self.place.store.open(channel).end is not None for channel in CHANNELS)
        async with asyncio.timeout(20):
            while not self.task.done():
                cursors = {read.channel: read.next_epoch for read in self.merge.reads}
                if not ended and cursors == self.published:
                    return False
                await asyncio.sleep(0.001)
        return self.task.result()

    async def restart(self) -> None:
        await self.end()
        self.kills += 1
        await self.begin()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.totals = self.merge._context.progress.totals
        await self.merge.close()
        await self.place.router.close()

    def results(self) -> list[Partial]:
        """All sessions; each is in the first epoch whose watermark has passed its end."""
        found: list[Partial] = []
        before_us = -1
        for epoch in range(self.log.next_epoch):
            watermark_us = self.log.epochs.manifest(epoch).watermark_us
            rows = partials_of(self.log.epochs.read(epoch))
            assert all(watermark_us is not None and before_us <= row[1] < watermark_us for row in rows)
            found += rows
            before_us = watermark_us if watermark_us is not None else before_us
        assert before_us == END_OF_TIME_US
        return sorted(found, key=repr)


def check(outcome: Outcome) -> Sequence[Partial]:
    """Return the partials that were late; of all others each is in one session."""
    numbers = sum(session[3] for session in outcome.sessions)
    kept = [row for row in outcome.taken if row[3] & numbers]
    assert outcome.sessions == sessions_of(kept)
    late = [row for row in outcome.taken if not row[3] & numbers]
    assert (outcome.totals.rows_in, outcome.totals.rows_late) == (len(outcome.taken), len(late))
    return late


@pytest.mark.parametrize("idles", [False, True])
@pytest.mark.parametrize("seed", range(15))
async def test_killed_anywhere_each_session_comes_out_once(tmp_path: Path, seed: int, *, idles: bool) -> None:
    """Rows behind a channel that was idle may be late, and are so once."""
    stored = (0, 200, 10**9)[seed % 3]
    late = check(await played(tmp_path, Random(seed), idles=idles, checkpoint_bytes=stored))
    assert idles or not late


async def test_a_row_that_was_late_is_late_again_after_a_crash(tmp_path: Path) -> None:
    """It reaches beyond the watermark at which the merge was killed, so it would come out if it were taken in then."""
    world = World(tmp_path, Kill(), 10**9, Random(1))
    await world.begin()
    us, eu, ap = CHANNELS
    late = (1_000_000, 9_000_000, "a", 2)
    for channel, rows, watermark_s, idle in (
        *((us, [(0, 900_000, "a", 1)], 3, False), (eu, [], 0, True), (ap, [], 0, True)),
        *((eu, [late], 5, False), (us, [], 6, False)),
    ):
        world.publish(channel, Epoch(tuple(rows), watermark_s * 1_000_000, idle))
        await world.settle()
    await world.log.state.wait(1)
    await world.restart()
    world.publish(us, Epoch(((8_000_000, 9_500_000, "a", 4),), 7_000_000))
    world.finish()
    assert await world.settle()
    await world.end()
    assert world.results() == [(0, 900_000, "a", 1), (8_000_000, 9_500_000, "a", 4)]
    assert (world.totals.rows_in, world.totals.rows_late) == (3, 1)
