"""Compares what a combining task has with a list of rows: memory and disk, groups that leave, checkpoints, crashes."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from planner.values.names import BIN_COLUMN, BINS, GROUP_COLUMN, INPUT_VIEW
from site_agent.state.runs import RunFile
from site_agent.tasks.checkpoint import Checkpoint, SavedState
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.held import EVERYTHING_US, GONE_VIEW, HeldGroups, as_given, as_held, held_spec, numbers_of
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.spec import WindowSpec
from site_agent.tasks.views import OpenViews
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.test_merge import WINDOW, Site, partials, summed

LENGTH_US = 10
LIMITS = TaskLimits(rows_at_once=3, compact_rows=4, runs_alike=2, runs_most=5)
KEYS = "abcdefgh"
Group = tuple[int, str]


def number_of(group: Group) -> int:
    return int.from_bytes(hashlib.blake2b(repr(group).encode(), digest_size=8).digest(), signed=True)


def numbered(rows: pa.Table) -> pa.Table:
    made = summed(rows)
    starts = made["_window_start"].cast(pa.int64()).to_pylist()
    numbers = map(number_of, zip(starts, made["k"].to_pylist(), strict=True))
    return made.append_column(GROUP_COLUMN, pa.array(numbers, pa.int64()))


async def fewer(_: str, rows: pa.Table) -> pa.Table:
    return as_held(numbered(as_given(rows).drop_columns([GROUP_COLUMN])))


def counted(rows: pa.Table | None) -> Counter[Group]:
    found: Counter[Group] = Counter()
    for row in [] if rows is None else rows.to_pylist():
        assert set(row) == {"_window_start", "k", "n", GROUP_COLUMN}
        found[int(row["_window_start"].timestamp() * 1e6), row["k"]] += row["n"]
    return found


class Combining:
    """Holds the state of a combining task over one directory."""

    def __init__(self, directory: Path, limits: TaskLimits = LIMITS, window: WindowSpec = WINDOW) -> None:
        self.context = Site(directory, TableEngine({}), limits).context
        self.window = window
        self.state = MergeState(self.context, held_spec(window, "combine"), fewer, self._opened)
        self.held = HeldGroups(window)

    def _opened(self, saved: SavedState) -> OpenViews:
        number, closed_us = saved.checkpoint.number, saved.checkpoint.closed_us
        self.held = HeldGroups(self.window, sql="combine", closed_us=closed_us, runs=saved.runs, checkpoint=number)
        return self.held.open

    async def save(self) -> None:
        number = self.held.checkpoint + 1
        await self.state.save(Checkpoint(number, closed_us=self.held.closed_us))
        self.held.checkpoint = number

    def leave(self, watermark_us: int) -> Counter[Group]:
        """All that the watermark ends, range by range."""
        found: Counter[Group] = Counter()
        seen: set[Group] = set()
        for bins in self.held.ranges(watermark_us, rows_at_once=LIMITS.rows_at_once):
            rows = counted(self.held.closing(watermark_us, bins))
            assert not rows.keys() & seen, "all rows of a group come together"
            seen |= rows.keys()
            found += rows
        return found


rows_of_windows = st.lists(
    st.tuples(st.integers(0, 4).map(lambda w: w * LENGTH_US), st.sampled_from(KEYS), st.integers(1, 9)), max_size=8
)


class StateMachine(RuleBasedStateMachine):
    """The model: the count of each group that is held, and which groups were there; of the last checkpoint, too."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.runner = asyncio.Runner()

    @initialize()
    def begin(self) -> None:
        self.groups: Counter[Group] = Counter()
        self.saved: tuple[Counter[Group], int | None] = (Counter(), None)
        self.task = Combining(Path(self.directory.name))
        self.runner.run(self.task.state.restore())

    @property
    def closed_us(self) -> int | None:
        return self.task.held.closed_us

    @rule(rows=rows_of_windows)
    def take(self, rows: list[tuple[int, str, int]]) -> None:
        late = self.task.held.add(numbered(partials(*rows)) if rows else None)
        kept = [row for row in rows if self.closed_us is None or row[0] + LENGTH_US > self.closed_us]
        assert late == len({row[:2] for row in rows} - {row[:2] for row in kept})
        for start, key, count in kept:
            self.groups[start, key] += count

    @rule(share=st.floats(0, 1), data=st.data())
    def some_leave(self, share: float, data: st.DataObject) -> None:
        for window in self.task.held.windows:
            counts = [round(share * found.held) for found in window.groups.classes()]
            chosen = self.task.held.chosen(window.end_us, counts)
            assert len(chosen) == sum(counts)
            groups = {g for g in self.groups if g[0] + LENGTH_US == window.end_us and number_of(g) in set(chosen)}
            out = counted(self.task.held.take(window.end_us, chosen))
            assert out == Counter({group: self.groups[group] for group in groups})
            self.groups -= out

    @rule(keys=st.sets(st.sampled_from(KEYS)), start=st.integers(0, 4).map(lambda w: w * LENGTH_US))
    def had_left(self, keys: set[str], start: int) -> None:
        """Drop groups, as after a crash, when an epoch of its own channel has them."""
        groups = [(start, key) for key in keys]
        self.task.held.drop(np.array(sorted(map(number_of, groups)), np.int64))
        self.groups -= Counter({group: self.groups[group] for group in groups})

    @rule(ahead=st.integers(0, 3 * LENGTH_US))
    def close(self, ahead: int) -> None:
        watermark_us = (self.closed_us or 0) + ahead
        due = Counter({g: n for g, n in self.groups.items() if g[0] + LENGTH_US <= watermark_us})
        if self.closed_us is not None and watermark_us <= self.closed_us:
            due = Counter()
        assert self.task.leave(watermark_us) == due
        self.task.held.advance(watermark_us)
        self.groups -= due

    @rule()
    def fall_idle(self) -> None:
        assert self.task.leave(EVERYTHING_US) == self.groups
        self.task.held.clear()
        self.groups.clear()

    @rule()
    def save(self) -> None:
        self.runner.run(self.task.save())
        self.saved = (self.groups.copy(), self.closed_us)

    @rule()
    def forget(self) -> None:
        self.task.held.open.forget()

    @rule(half=st.booleans())
    def crash(self, *, half: bool) -> None:
        """Restart without what came since the checkpoint; perhaps in the middle of writing a run."""
        number = self.task.held.checkpoint
        if half:
            (self.task.context.directory / f"run-{number + 1}-{GONE_VIEW}-0.rows").write_bytes(b"half")
        self.task = Combining(Path(self.directory.name))
        self.runner.run(self.task.state.restore())
        assert self.task.held.checkpoint == number
        self.groups, closed_us = self.saved[0].copy(), self.saved[1]
        assert self.closed_us == closed_us

    @precondition(lambda self: hasattr(self, "task"))
    @invariant()
    def it_has_the_rows(self) -> None:
        held = self.task.held
        rows = held.closing(EVERYTHING_US)
        assert counted(rows) == self.groups
        numbers = 0 if rows is None else len(numbers_of(rows))
        assert sum(window.groups.held for window in held.windows) == numbers
        assert max(len(windows.runs) for windows in held.open.windows.values()) <= LIMITS.runs_most

    def teardown(self) -> None:
        self.runner.close()
        self.directory.cleanup()


StateMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestState = StateMachine.TestCase


@pytest.fixture
async def task(tmp_path: Path) -> Combining:
    made = Combining(tmp_path)
    await made.state.restore()
    return made


def some(count: int) -> pa.Table:
    """One row of each of so many groups."""
    return numbered(partials(*((0, f"key {number:05}", 1) for number in range(count))))


async def test_a_checkpoint_writes_what_came_and_which_groups_have_left(tmp_path: Path) -> None:
    task = Combining(tmp_path, TaskLimits())
    await task.state.restore()
    task.held.add(some(50_000))
    await task.save()
    first = {path.name: path.stat() for path in task.context.directory.glob("run-*")}

    task.held.take(LENGTH_US, numbers_of(some(50_000))[:10])
    await task.save()

    second = {path.name: path.stat() for path in task.context.directory.glob("run-*")}
    assert list(first) == [f"run-1-{INPUT_VIEW}-0.rows"]
    assert second.keys() - first.keys() == {f"run-2-{GONE_VIEW}-0.rows"}
    assert first.items() <= second.items(), "files that are there do not change"
    assert second[f"run-2-{GONE_VIEW}-0.rows"].st_size < 1200


async def test_what_is_not_in_memory_is_read_for_the_groups_that_leave(task: Combining) -> None:
    task.held.add(some(200_000))
    await task.save()
    task.held.open.forget()
    read: list[int] = []

    def reading(_: RunFile, rows: pa.Table) -> pa.Table:
        read.append(rows.num_rows)
        return rows

    (run,) = task.held.open.windows[INPUT_VIEW].runs
    run.alive = reading

    chosen = task.held.chosen(LENGTH_US, [1000])
    out = task.held.take(LENGTH_US, chosen)

    assert out is not None
    assert numbers_of(out).tolist() == chosen.tolist()
    assert out.num_rows == 1000
    assert sum(read) <= 200_000 // BINS * 3


async def test_rows_that_are_sent_in_bins_come_back_in_those(task: Combining) -> None:
    rows = some(100)
    task.held.add(rows.append_column(BIN_COLUMN, pa.array([int(key[-2:]) % 7 for key in rows["k"].to_pylist()])))
    await task.save()

    found = task.held.closing(EVERYTHING_US)

    assert found is not None
    by_key = {row["k"]: row[BIN_COLUMN] for row in found.to_pylist()}
    assert by_key == {f"key {number:05}": number % 7 for number in range(100)}
