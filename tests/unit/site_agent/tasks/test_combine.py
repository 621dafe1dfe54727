"""COMBINE: whatever the order of rows, silences, decisions, checkpoints and kills, it publishes what came in."""

from __future__ import annotations

import asyncio
import hashlib
import random
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from site_agent.channels.manifest import EpochManifest
from site_agent.engine import EpochRequest, EpochResult, OperatorRows
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.combine import CombineTask
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.departures import Departure, Departures
from site_agent.tasks.held import HeldGroups
from site_agent.tasks.progress import Totals
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.older_state import save_older
from tests.unit.site_agent.tasks.test_merge import SPEC, WINDOW, Site, partials, summed

Row = tuple[int, str, int]

PATIENCE_S = 60.0
"""A limit alone: the disk of a machine may be slow."""


def numbered(rows: pa.Table) -> pa.Table:
    """As a stage's SQL combines them; some groups have the same number."""
    made = summed(rows)
    pairs = zip(made["_window_start"].cast(pa.int64()).to_pylist(), made["k"].to_pylist(), strict=True)
    names = (f"{start} {zlib.crc32(key.encode()) % 5}" for start, key in pairs)
    numbers = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True) for name in names]
    return made.append_column("_group", pa.array(numbers, pa.int64()))


def engine() -> TableEngine:
    return TableEngine({"merge": numbered, "combine": summed})


def older_engine() -> TableEngine:
    """Of a stage whose SQL was made before groups had numbers."""
    return TableEngine({"merge": summed, "combine": summed})


class RandomDepartures(Departures):
    """Has any groups leave, and rows combined, at any time."""

    def __init__(self, hub: Site, rng: random.Random, fewer: float) -> None:
        context = hub.context
        super().__init__(context.spec, context.site, context.log, context.pool)
        self._rng = rng
        self._fewer = fewer

    def due(self, held: HeldGroups, now_s: float) -> Iterator[Departure]:
        for window in held.windows:
            numbers = window.groups.of_class(0)
            if len(numbers) and self._rng.random() < 0.6:
                some = self._rng.sample(list(numbers), self._rng.randint(1, len(numbers)))
                yield Departure(window.end_us, np.array(sorted(some), np.int64))

    def is_time_for_fewer(self, held: HeldGroups, now_s: float) -> bool:
        return self._rng.random() < self._fewer


@asynccontextmanager
async def site(
    directory: Path, engine: TableEngine, *, checkpoint_bytes: int = 0, tight: bool = False
) -> AsyncIterator[Site]:
    """Another site reads what the task publishes, and has acknowledged nothing.

    `tight` leaves no memory for rows that are on disk, and has few rows leave at once.
    """
    limits = TaskLimits(checkpoint_bytes=checkpoint_bytes)
    if tight:
        limits = replace(limits, rows_at_once=2, compact_rows=2, runs_alike=2, runs_most=4)
    made = Site(directory, engine, limits, readers=("hub", "away", SPEC.task_id))
    made.context.memory.limit_bytes = 0 if tight else made.context.memory.limit_bytes
    try:
        yield made
    finally:
        await made.router.close()


@asynccontextmanager
async def running(
    hub: Site, rng: random.Random | None = None, *, fewer: float = 0.2
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task over both channels of the site; it is killed at the end of the block.

    With `rng`, groups leave at random, and after so many of the batches (`fewer`) rows are combined, which saves a
    checkpoint.
    """
    combine = CombineTask(hub.context, WINDOW)
    if rng is not None:
        combine._departures = RandomDepartures(hub, rng, fewer)
    task = asyncio.create_task(combine.run())
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
        assert table is None or table.column_names == ["_window_start", "k", "n"]
        found.append(
            (
                hub.log.epochs.manifest(number),
                [(int(r["_window_start"].timestamp() * 1e6), r["k"], r["n"]) for r in rows],
            )
        )
    return found


async def published(hub: Site, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while hub.log.next_epoch < count:
            await hub.log.state.wait(hub.log.next_epoch)


@pytest.mark.parametrize("made", [engine, older_engine])
async def test_groups_leave_once_when_their_window_closes(tmp_path: Path, made: Any) -> None:
    async with site(tmp_path, made()) as hub:
        us, eu = hub.inputs
        eu.finish()
        async with running(hub):
            us.publish(0, partials((0, "b", 1), (10, "b", 1)), watermark_us=0)
            await published(hub, 1)
            for number in range(1, 3):
                us.publish(number, partials((0, "b", 1), (10, "b", 1)), watermark_us=number)
            us.publish(3, partials((0, "b", 1), (0, "a", 1)), watermark_us=10)
            await published(hub, 2)
        assert [rows for _, rows in epochs(hub)] == [[], [(0, "a", 1), (0, "b", 4)]], "in the order of their keys"
        assert [manifest.watermark_us for manifest, _ in epochs(hub)] == [0, 10]


class CountingEngine(TableEngine):
    """Says of each job how many rows its one operator gave."""

    def run(self, request: EpochRequest) -> EpochResult:
        result = super().run(request)
        return replace(result, operators=(OperatorRows("Aggregate", result.table.num_rows),))


async def test_rows_of_operators_are_those_of_the_last_job_of_each_step(tmp_path: Path) -> None:
    """The first step holds rows, the second closes their window, and the third has no rows and no job."""
    made = CountingEngine({"merge": numbered, "combine": summed})
    async with site(tmp_path, made) as hub:
        progress = hub.context.progress
        us, eu = hub.inputs
        eu.finish()
        async with running(hub):
            for number, watermark_us in enumerate([0, 10, 20]):
                rows = partials((0, "a", 1), (0, "b", 1)) if number < 2 else None
                us.publish(number, rows, watermark_us=watermark_us)
                async with asyncio.timeout(PATIENCE_S):
                    while progress.watermark_us != watermark_us:
                        await asyncio.sleep(0.005)
    assert [(found.name, found.rows_out) for found in progress.operators(0.0)] == [("Aggregate", 4)]


async def test_one_job_takes_small_epochs_and_closes_their_window(tmp_path: Path) -> None:
    """A job has a cost that does not depend on its rows: epochs in which nothing ends wait for one another."""
    made = engine()
    async with site(tmp_path, made) as hub:
        hub.context = replace(hub.context, spec=replace(SPEC, epoch_interval=timedelta(hours=1)))
        us, eu = hub.inputs
        eu.finish()
        us.publish(0, partials((0, "a", 1)), watermark_us=0)
        async with running(hub):
            await published(hub, 1)
            for number in range(1, 5):
                us.publish(number, partials((0, "b", 1), (10, "b", 1)), watermark_us=number)
                await asyncio.sleep(0.01)
            assert len(made.requests) == 1
            us.publish(5, partials((0, "a", 1), (10, "b", 1)), watermark_us=10)
            await published(hub, 2)
            assert len(made.requests) == 2
            assert epochs(hub)[1][1] == [(0, "a", 2), (0, "b", 4)]
            us.publish(6, partials((0, "c", 1), (10, "c", 1)), watermark_us=20)
            await published(hub, 3)
            manifest, rows = epochs(hub)[2]
            assert rows == [(10, "b", 5), (10, "c", 1)], "(0, c) is late"
            assert Totals.from_json(manifest.commit["totals"]).rows_late == 1


@pytest.mark.parametrize("made", [engine, older_engine])
async def test_what_is_held_leaves_when_the_source_falls_idle(tmp_path: Path, made: Any) -> None:
    """Nobody waits for an idle channel: rows that came later would be late."""
    async with site(tmp_path, made()) as hub:
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


async def test_a_silent_input_of_a_site_between_holds_no_window(tmp_path: Path) -> None:
    """Its windows close by the other's watermark; when both are silent, all that is held leaves."""
    async with site(tmp_path, engine()) as hub:
        us, eu = hub.inputs
        async with running(hub):
            us.publish(0, partials((0, "a", 1), (10, "a", 1)), watermark_us=1)
            eu.publish(0, partials((0, "a", 2), (10, "b", 1)), watermark_us=1)
            await published(hub, 1)
            us.publish(1, None, watermark_us=1, idle=True)
            eu.publish(1, None, watermark_us=12)
            await published(hub, 2)
            eu.publish(2, None, watermark_us=12, idle=True)
            await published(hub, 3)
        assert [(m.watermark_us, m.idle, rows) for m, rows in epochs(hub)][1:] == [
            (12, False, [(0, "a", 3)]),
            (12, True, [(10, "a", 1), (10, "b", 1)]),
        ]
        assert hub.context.progress.totals.rows_late == 0


async def test_a_large_window_leaves_in_several_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watermark that closes it is that of the last one; killed between them, the rest is published once."""
    monkeypatch.setattr("site_agent.tasks.combine.EPOCH_BYTES", 100)
    keys = [f"key {number:03}" for number in range(40)]
    async with site(tmp_path, engine(), checkpoint_bytes=10**9) as hub:
        us, eu = hub.inputs
        eu.finish()
        async with running(hub):
            us.publish(0, partials(*((0, key, 1) for key in keys)), watermark_us=0)
            await published(hub, 1)
            us.publish(1, None, watermark_us=12)
            await published(hub, 2)
            us.finish()
            async with asyncio.timeout(PATIENCE_S):
                while hub.log.end is None:
                    await asyncio.sleep(0.01)
        out = [(manifest.watermark_us, rows) for manifest, rows in epochs(hub)]
        assert [key for _, rows in out for _, key, _ in rows] == keys
        closing = [watermark_us for watermark_us, rows in out if rows]
        assert len(closing) > 1
        assert closing == [0] * (len(closing) - 1) + [12]


@pytest.mark.parametrize("saved", ["no checkpoint", "checkpoint", "checkpoint behind the silence"])
async def test_what_an_older_version_left_is_restored(tmp_path: Path, saved: str) -> None:
    """It let all go when a window closed or its source fell silent, and knew what was out by `released`."""
    async with site(tmp_path, engine()) as hub:
        us, eu = hub.inputs
        eu.finish()
        us.publish(0, partials((0, "a", 1), (10, "a", 1)), watermark_us=5)
        us.publish(1, None, watermark_us=5, idle=True)
        us.publish(2, partials((10, "b", 7), (0, "c", 1)), watermark_us=8)
        us.publish(3, partials((10, "d", 2)), watermark_us=12)
        us.publish(4, partials((10, "d", 2)), watermark_us=13)
        told = Totals(rows_in=2)
        hub.log.publish(0, None, watermark_us=5, commit=_commit(1, 0, told))
        hub.log.publish(1, partials((0, "a", 1), (10, "a", 1)), watermark_us=5, idle=True, commit=_commit(2, 2, told))
        hub.log.publish(2, partials((0, "c", 1)), watermark_us=12, commit=_commit(4, 2, Totals(rows_in=5)))
        if saved == "checkpoint":
            save_older(
                hub.context.directory,
                Checkpoint(1, {"q.s1.us": 1}, closed_us=5, watermark_us=5, totals=told),
                {"input": partials((0, "a", 1), (10, "a", 1))},
            )
        elif saved != "no checkpoint":
            save_older(
                hub.context.directory,
                Checkpoint(1, {"q.s1.us": 3}, closed_us=5, watermark_us=8, totals=Totals(rows_in=4)),
                {"input": partials((10, "b", 7), (0, "c", 1))},
            )
        async with running(hub) as task:
            us.finish()
            await asyncio.wait_for(asyncio.shield(task), PATIENCE_S)
        assert [rows for _, rows in epochs(hub)[3:]] == [[(10, "b", 7), (10, "d", 4)]]
        assert hub.context.progress.totals.rows_late == 0


def _commit(cursor: int, released: int, totals: Totals) -> dict[str, Any]:
    let_go = {"q.s1.us": released, "q.s1.eu": 0} if released else {}
    return {"cursors": {"q.s1.us": cursor, "q.s1.eu": 0}, "totals": totals.to_json(), "released": let_go}


async def test_its_own_channel_is_kept_until_a_checkpoint_and_slows_nothing_down(tmp_path: Path) -> None:
    async with site(tmp_path, engine(), checkpoint_bytes=10**9) as hub:
        us, eu = hub.inputs
        eu.finish()
        async with running(hub, random.Random(3), fewer=0.0):
            for number in range(20):
                us.publish(number, partials((0, f"k{number}", 1)), watermark_us=0)
                await asyncio.sleep(0.01)
            hub.log.set_consumers([SPEC.task_id])
            assert hub.log.first_epoch == 0
            assert hub.log.epochs.retained_bytes > 0
            assert hub.log.readers.awaited_bytes == 0


async def test_of_its_own_channel_nothing_is_kept_once_it_has_ended(tmp_path: Path) -> None:
    async with site(tmp_path, engine(), checkpoint_bytes=10**9) as hub:
        us, eu = hub.inputs
        us.publish(0, partials((0, "a", 1)), watermark_us=5)
        for log in (us, eu):
            log.finish()
        async with running(hub) as task:
            await asyncio.wait_for(asyncio.shield(task), PATIENCE_S)
        assert hub.log.end is not None
        assert hub.log.readers.acknowledged(SPEC.task_id) == hub.log.next_epoch - 1
    async with site(tmp_path, engine()) as hub:
        async with running(hub) as task:
            await asyncio.wait_for(asyncio.shield(task), PATIENCE_S)
        assert hub.log.readers.acknowledged(SPEC.task_id) == hub.log.next_epoch - 1


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
        rows = tuple((start, rng.choice("abcdefgh"), rng.randrange(1, 9)) for start in starts)
        watermark_us += rng.randrange(9)
        steps.append(Step(rows, watermark_us, idle=False))
    return steps


def summed_up(rows: list[Row]) -> Counter[tuple[int, str]]:
    total: Counter[tuple[int, str]] = Counter()
    for start, key, count in rows:
        total[start, key] += count
    return total


@pytest.mark.parametrize("made", [engine, older_engine])
@pytest.mark.parametrize("checkpoint_bytes", [0, 100, 10**9])
@pytest.mark.parametrize("seed", range(12))
async def test_random_kills(tmp_path: Path, seed: int, checkpoint_bytes: int, made: Any) -> None:
    rng = random.Random(f"{seed}.{checkpoint_bytes}")
    steps, tight = steps_of(rng), rng.random() < 0.5
    given = 0
    seen: list[tuple[EpochManifest, list[Row]]] = []
    while given < len(steps):
        async with site(tmp_path, made(), checkpoint_bytes=checkpoint_bytes, tight=tight) as hub:
            us, eu = hub.inputs
            if eu.end is None:
                eu.finish()
            async with running(hub, rng):
                for number in range(given, given := min(len(steps), given + rng.randrange(1, 4))):
                    step = steps[number]
                    rows = partials(*step.rows) if step.rows else None
                    us.publish(number, rows, watermark_us=step.watermark_us, idle=step.idle)
                    await asyncio.sleep(rng.choice([0, 0, 0.01, 0.03]))
            out = epochs(hub)
            assert out[: len(seen)] == seen, "what was published does not change"
            seen = out
    async with site(tmp_path, made(), checkpoint_bytes=checkpoint_bytes, tight=tight) as hub:
        hub.inputs[0].finish()
        async with running(hub, rng) as task:
            await asyncio.wait_for(asyncio.shield(task), PATIENCE_S)
        out = epochs(hub)
        assert summed_up([r for _, rows in out for r in rows]) == summed_up([r for s in steps for r in s.rows])
        totals = hub.context.progress.totals
        assert (totals.rows_late, totals.rows_in) == (0, sum(len(step.rows) for step in steps))
    # Rule of readers: no row of a window comes behind the watermark that passes its end, nor after silence.
    passed_us = -1
    for manifest, rows in out:
        assert all(start + 10 > passed_us for start, _, _ in rows)
        passed_us = manifest.watermark_us if manifest.watermark_us is not None else passed_us


@pytest.mark.parametrize("checkpoint_bytes", [0, 100, 10**9])
@pytest.mark.parametrize("seed", range(8))
async def test_random_kills_of_a_site_between(tmp_path: Path, seed: int, checkpoint_bytes: int) -> None:
    """Two channels, each with its own watermark and silences, in any order: what comes in goes out once."""
    rng = random.Random(f"between.{seed}.{checkpoint_bytes}")
    steps, tight = [steps_of(rng), steps_of(rng)], rng.random() < 0.5
    given = [0, 0]
    seen: list[tuple[EpochManifest, list[Row]]] = []
    while any(count < len(own) for count, own in zip(given, steps, strict=True)):
        made = site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes, tight=tight)
        async with made as hub, running(hub, rng):
            for _ in range(rng.randrange(1, 5)):
                which = rng.choice([n for n in (0, 1) if given[n] < len(steps[n])] or [0])
                if given[which] < len(steps[which]):
                    step = steps[which][given[which]]
                    rows = partials(*step.rows) if step.rows else None
                    log = hub.inputs[which]
                    log.publish(given[which], rows, watermark_us=step.watermark_us, idle=step.idle)
                    given[which] += 1
                await asyncio.sleep(rng.choice([0, 0, 0.01]))
        async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes) as hub:
            out = epochs(hub)
            assert out[: len(seen)] == seen, "what was published does not change"
            seen = out
    async with site(tmp_path, engine(), checkpoint_bytes=checkpoint_bytes, tight=tight) as hub:
        for log in hub.inputs:
            log.finish()
        async with running(hub, rng) as task:
            await asyncio.wait_for(asyncio.shield(task), PATIENCE_S)
        out = epochs(hub)
        totals = hub.context.progress.totals
    came = summed_up([row for own in steps for step in own for row in step.rows])
    went = summed_up([row for _, rows in out for row in rows])
    # A channel that was silent is not waited for: what it has of windows that are out meanwhile is late, and counted.
    assert totals.rows_in == sum(len(step.rows) for own in steps for step in own)
    assert all(went[group] <= came[group] for group in went)
    assert (went == came) == (totals.rows_late == 0)
    passed_us = -1
    for manifest, rows in out:
        assert all(start + 10 > passed_us for start, _, _ in rows)
        passed_us = manifest.watermark_us if manifest.watermark_us is not None else passed_us
    assert hub.log.standing is not None
    assert passed_us >= max(step.watermark_us for own in steps for step in own)
