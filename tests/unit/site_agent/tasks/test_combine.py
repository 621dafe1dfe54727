"""COMBINE: whatever the order of rows, silences, checkpoints and kills, what it publishes adds up to its input."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from site_agent.channels.manifest import EpochManifest
from site_agent.tasks.combine import CombineTask
from tests.unit.site_agent.tasks.test_merge import WINDOW, Site, engine, partials, site

Row = tuple[int, str, int]


@asynccontextmanager
async def running(hub: Site) -> AsyncIterator[asyncio.Task[None]]:
    """A task over both channels of the site; it is killed at the end of the block."""
    task = asyncio.create_task(CombineTask(hub.context, WINDOW).run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def epochs(hub: Site) -> list[tuple[EpochManifest, list[Row]]]:
    found = []
    for number in range(hub.log.next_epoch):
        table = hub.log.epochs.read(number)
        rows = [] if table is None else table.to_pylist()
        found.append(
            (
                hub.log.epochs.manifest(number),
                sorted((int(r["_window_start"].timestamp() * 1e6), r["k"], r["n"]) for r in rows),
            )
        )
    return found


async def published(hub: Site, count: int) -> None:
    async with asyncio.timeout(10):
        while hub.log.next_epoch < count:
            await hub.log.state.wait(hub.log.next_epoch)


async def test_groups_leave_once_when_their_window_closes(tmp_path: Path) -> None:
    async with site(tmp_path, engine()) as hub:
        us, eu = hub.inputs
        eu.finish()
        async with running(hub):
            us.publish(0, partials((0, "a", 1), (10, "b", 1)), watermark_us=0)
            await published(hub, 1)
            for number in range(1, 3):
                us.publish(number, partials((0, "a", 1), (10, "b", 1)), watermark_us=number)
            us.publish(3, partials((0, "a", 1)), watermark_us=10)
            await published(hub, 2)
        assert [rows for _, rows in epochs(hub)] == [[], [(0, "a", 4)]]
        assert [manifest.watermark_us for manifest, _ in epochs(hub)] == [0, 10]


async def test_what_is_held_leaves_when_the_source_falls_idle(tmp_path: Path) -> None:
    """Nobody waits for an idle channel: rows that came later would be late."""
    async with site(tmp_path, engine()) as hub:
        us, eu = hub.inputs
        eu.finish()
        async with running(hub):
            us.publish(0, partials((0, "a", 1)), watermark_us=1)
            await published(hub, 1)
            us.publish(1, None, watermark_us=1, idle=True)
            await published(hub, 2)
            manifest, rows = epochs(hub)[1]
            assert (manifest.idle, manifest.watermark_us, rows) == (True, 1, [(0, "a", 1)])
            us.publish(2, partials((0, "a", 5)), watermark_us=2)
            await published(hub, 3)
            us.publish(3, None, watermark_us=10)
            await published(hub, 4)
        assert [rows for _, rows in epochs(hub)[2:]] == [[], [(0, "a", 5)]]
        assert hub.context.progress.totals.rows_late == 0


@dataclass(frozen=True, slots=True)
class Step:
    """An epoch of the source."""

    rows: tuple[Row, ...]
    watermark_us: int
    idle: bool


def steps_of(rng: random.Random) -> list[Step]:
    steps, watermark_us = [], 0
    for _ in range(rng.randrange(4, 12)):
        if rng.random() < 0.25:
            steps.append(Step((), watermark_us, idle=True))
            continue
        starts = [watermark_us // 10 * 10 + 10 * rng.randrange(3) for _ in range(rng.randrange(4))]
        rows = tuple((start, rng.choice("ab"), rng.randrange(1, 9)) for start in starts)
        watermark_us += rng.randrange(9)
        steps.append(Step(rows, watermark_us, idle=False))
    return steps


def summed_up(rows: list[Row]) -> Counter[tuple[int, str]]:
    total: Counter[tuple[int, str]] = Counter()
    for start, key, count in rows:
        total[start, key] += count
    return total


@pytest.mark.parametrize("checkpoint_bytes", [0, 100, 10**9])
@pytest.mark.parametrize("seed", range(12))
async def test_random_kills(tmp_path: Path, seed: int, checkpoint_bytes: int) -> None:
    rng = random.Random(f"{seed}.{checkpoint_bytes}")
    steps = steps_of(rng)
    given = 0
    while given < len(steps):
        async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
            us, eu = hub.inputs
            if eu.end is None:
                eu.finish()
            async with running(hub):
                for number in range(given, given := min(len(steps), given + rng.randrange(1, 4))):
                    step = steps[number]
                    rows = partials(*step.rows) if step.rows else None
                    us.publish(number, rows, watermark_us=step.watermark_us, idle=step.idle)
                    await asyncio.sleep(rng.choice([0, 0, 0.01, 0.03]))
    async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
        hub.inputs[0].finish()
        async with running(hub) as task:
            await asyncio.wait_for(asyncio.shield(task), 10)
        out = epochs(hub)
        assert summed_up([r for _, rows in out for r in rows]) == summed_up([r for s in steps for r in s.rows])
        assert hub.context.progress.totals.rows_late == 0
    # Rule of readers: no row of a window comes behind the watermark that passes its end, nor after silence.
    passed_us = -1
    for manifest, rows in out:
        assert all(start + 10 > passed_us for start, _, _ in rows)
        passed_us = manifest.watermark_us if manifest.watermark_us is not None else passed_us
