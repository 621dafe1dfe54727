"""A merge's state against a dictionary: rows in memory and on disk, checkpoints, crashes, windows closed by ranges."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from planner.values.names import BIN_COLUMN, BINS
from site_agent.base import posix
from site_agent.base.errors import NoSpaceError
from site_agent.state.runs import DamagedStateError
from site_agent.state.segments import without_bins
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.spec import ViewSpec, WindowSpec
from site_agent.tasks.views import Rows
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.older_state import save_older
from tests.unit.site_agent.tasks.test_merge import Site, partials, summed

LENGTH_US = 10
PARTIALS, JOINED = "input", "t1"
WINDOW = WindowSpec(
    "_window_start", LENGTH_US, LENGTH_US, (ViewSpec(PARTIALS, "combine"), ViewSpec(JOINED)), by_bins=True
)
LIMITS = TaskLimits(rows_at_once=3, compact_rows=4, runs_alike=2, runs_most=5)
KEYS = "abcdefgh"
Group = tuple[str, int, str]
"""View, start of the window, key."""


def bins_of(keys: list[str]) -> pa.Array:
    return pa.array([KEYS.index(key) * BINS // len(KEYS) for key in keys], pa.int64())


def with_bins(table: pa.Table) -> pa.Table:
    return table.append_column(BIN_COLUMN, bins_of(table.column("k").to_pylist()))


async def combine(sql: str, rows: pa.Table) -> pa.Table:
    assert sql == "combine"
    return with_bins(summed(without_bins(rows)))


def counted(closed: Rows) -> Counter[Group]:
    found: Counter[Group] = Counter()
    for view, table in closed.items():
        assert BIN_COLUMN not in table.column_names
        for row in table.to_pylist():
            found[view, int(row["_window_start"].timestamp() * 1e6), row["k"]] += row["n"]
    return found


class Merge:
    """A merge's state over one directory."""

    def __init__(self, directory: Path, limits: TaskLimits = LIMITS) -> None:
        self.context = Site(directory, TableEngine({}), limits).context
        self.state = MergeState(self.context, WINDOW, combine)

    async def restore(self) -> Checkpoint:
        saved = await self.state.restore()
        for view, rows in saved.rows.items():
            self.state.open.add(view, rows)
        return saved.checkpoint

    def close(self, watermark_us: int) -> Counter[Group]:
        """All ranges; then the windows are closed."""
        found: Counter[Group] = Counter()
        seen: set[tuple[int, str]] = set()
        for bins in self.state.ranges(watermark_us):
            closed = self.state.open.closing(watermark_us, bins)
            # All rows of a group come together, those of views that are joined as well.
            keys = {(start, key) for _, start, key in counted(closed)}
            assert not keys & seen
            seen |= keys
            found += counted(closed)
        self.state.open.advance(watermark_us)
        return found


rows_of_windows = st.lists(
    st.tuples(st.integers(0, 6).map(lambda w: w * LENGTH_US), st.sampled_from(KEYS), st.integers(1, 9)), max_size=8
)


class StateMachine(RuleBasedStateMachine):
    """The model: the count of each group; of the last checkpoint, too."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        self.runner = asyncio.Runner()

    @initialize()
    def begin(self) -> None:
        self.groups: Counter[Group] = Counter()
        self.saved: tuple[Counter[Group], int | None] = (Counter(), None)
        self.number = 0
        self.merge = Merge(Path(self.directory.name))
        self.runner.run(self.merge.restore())

    @property
    def closed_us(self) -> int | None:
        return self.merge.state.open.closed_us

    @rule(view=st.sampled_from([PARTIALS, JOINED]), rows=rows_of_windows, known=st.booleans())
    def take(self, view: str, rows: list[tuple[int, str, int]], *, known: bool) -> None:
        """Rows whose bins are known, or are not, as those of an older agent."""
        table = partials(*rows)
        late = self.merge.state.open.add(view, with_bins(table) if known else table)
        kept = [row for row in rows if self.closed_us is None or row[0] + LENGTH_US > self.closed_us]
        assert late == len(rows) - len(kept)
        for start, key, count in kept:
            self.groups[view, start, key] += count

    @rule(ahead=st.integers(0, 3 * LENGTH_US))
    def close(self, ahead: int) -> None:
        watermark_us = (self.closed_us or 0) + ahead
        due = Counter({g: n for g, n in self.groups.items() if g[1] + LENGTH_US <= watermark_us})
        if self.closed_us is not None and watermark_us <= self.closed_us:
            due = Counter()
        assert self.merge.close(watermark_us) == due
        self.groups -= due

    @rule(one_of_each=st.booleans())
    def save(self, *, one_of_each: bool) -> None:
        self.number += 1
        checkpoint = Checkpoint(self.number, closed_us=self.closed_us)
        self.runner.run(self.merge.state.save(checkpoint, one_of_each=one_of_each))
        self.saved = (self.groups.copy(), self.closed_us)

    @rule()
    def forget(self) -> None:
        self.merge.state.open.forget()

    @rule(half=st.booleans())
    def crash(self, *, half: bool) -> None:
        """Without what came since the checkpoint; perhaps in the middle of writing a run."""
        if half:
            (self.merge.context.directory / f"run-{self.number + 1}-{PARTIALS}-0.rows").write_bytes(b"half")
        self.merge = Merge(Path(self.directory.name))
        assert self.runner.run(self.merge.restore()).number == self.number
        self.groups, closed_us = self.saved[0].copy(), self.saved[1]
        assert self.closed_us == closed_us

    @precondition(lambda self: hasattr(self, "merge"))
    @invariant()
    def it_has_the_rows(self) -> None:
        ahead_us = (self.closed_us or 0) + 100 * LENGTH_US
        assert counted(self.merge.state.open.closing(ahead_us)) == self.groups
        runs = max(len(windows.runs) for windows in self.merge.state.open.windows.values())
        assert runs <= LIMITS.runs_most

    def teardown(self) -> None:
        self.runner.close()
        self.directory.cleanup()


StateMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestState = StateMachine.TestCase


@pytest.fixture
def merge(tmp_path: Path) -> Merge:
    return Merge(tmp_path)


def some(count: int) -> pa.Table:
    return with_bins(partials(*((0, KEYS[number % 8], 1) for number in range(count))))


async def test_a_checkpoint_writes_what_changed_and_leaves_the_rest_where_it_is(tmp_path: Path) -> None:
    merge = Merge(tmp_path, TaskLimits())
    await merge.restore()
    merge.state.open.add(JOINED, some(1000))
    await merge.state.save(Checkpoint(1))
    first = merge.context.directory / f"run-1-{JOINED}-0.rows"
    before = first.stat()

    merge.state.open.add(JOINED, some(1))
    await merge.state.save(Checkpoint(2))

    second = merge.context.directory / f"run-2-{JOINED}-0.rows"
    assert {path.name for path in first.parent.glob("run-*")} == {first.name, second.name}
    assert first.stat() == before
    assert second.stat().st_size < 1200


@pytest.mark.parametrize("at_once", [4, 1000])
async def test_one_row_of_each_group_is_left_where_that_is_wanted(tmp_path: Path, at_once: int) -> None:
    merge = Merge(tmp_path, replace(LIMITS, rows_at_once=at_once, runs_alike=8))
    await merge.restore()
    for number in range(1, 4):
        merge.state.open.add(PARTIALS, some(16))
        merge.state.open.add(JOINED, some(16))
        await merge.state.save(Checkpoint(number), one_of_each=number == 3)

    partials_, joined = (merge.state.open.windows[view] for view in (PARTIALS, JOINED))
    assert [run.run.rows for run in partials_.runs] == [8]
    # Rows of all ranges are in memory, if they are no more than those of one.
    assert (partials_.runs[0].cached is not None) == (at_once >= 8)
    assert joined.rows == 48, "no statement combines them"
    assert merge.close(LENGTH_US).total() == 96


async def test_runs_of_closed_windows_go_with_the_next_checkpoint(merge: Merge) -> None:
    await merge.restore()
    merge.state.open.add(JOINED, some(8))
    await merge.state.save(Checkpoint(1))

    merge.close(LENGTH_US)
    await merge.state.save(Checkpoint(2, closed_us=LENGTH_US))

    assert list(merge.context.directory.glob("run-*")) == []


async def test_when_memory_is_short_rows_are_read_from_disk(merge: Merge) -> None:
    merge.context.memory.limit_bytes = 1
    await merge.restore()
    merge.state.open.add(JOINED, some(64))

    await merge.state.save(Checkpoint(1))

    assert merge.state.open.memory_bytes == 0
    assert merge.close(LENGTH_US).total() == 64


async def test_a_checkpoint_of_an_older_agent_is_restored_and_stored_anew(merge: Merge) -> None:
    rows = {PARTIALS: partials((0, "a", 2), (10, "a", 3))}
    save_older(merge.context.directory, Checkpoint(7, {"c": 3}, closed_us=0), rows)

    assert (await merge.restore()).cursors == {"c": 3}
    await merge.state.save(Checkpoint(8, {"c": 4}, closed_us=0))
    again = Merge(merge.context.directory.parent)
    await again.restore()

    assert not list(merge.context.directory.glob("state-*"))
    assert again.close(LENGTH_US) == Counter({(PARTIALS, 0, "a"): 2})
    assert again.close(2 * LENGTH_US) == Counter({(PARTIALS, 10, "a"): 3})


async def test_a_damaged_run_is_an_error_that_names_the_file(merge: Merge) -> None:
    await merge.restore()
    merge.state.open.add(JOINED, some(8))
    await merge.state.save(Checkpoint(1))
    (path,) = merge.context.directory.glob("run-*")
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    again = Merge(merge.context.directory.parent)
    await again.restore()

    with pytest.raises(DamagedStateError, match=r"run-1-t1-0\.rows cannot be read"):
        again.close(LENGTH_US)


class FullDisk(posix.Calls):
    """Takes what is written, and has no room for it."""

    def sync(self, file: IO[Any]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("count", [8, 0])
async def test_on_a_full_disk_the_checkpoint_before_counts(merge: Merge, count: int) -> None:
    """The run cannot be written; or, without rows, the checkpoint cannot."""
    await merge.restore()
    merge.state.open.add(JOINED, some(8))
    await merge.state.save(Checkpoint(1))
    merge.state.open.add(JOINED, some(count))
    files = {path.name for path in merge.context.directory.iterdir()}

    with posix.taken(FullDisk()), pytest.raises(NoSpaceError, match="the disk is full: cannot write the"):
        await merge.state.save(Checkpoint(2))

    assert {path.name for path in merge.context.directory.iterdir()} == files
    again = Merge(merge.context.directory.parent)
    assert (await again.restore()).number == 1
    assert again.close(LENGTH_US).total() == 8
