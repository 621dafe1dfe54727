"""The rows that a combining task holds, in memory and in runs on disk; and what it knows of their groups.

Rows are partials with the column `_group`, a group's number. Where the stage's SQL, made by an earlier version, has no
such column, rows are held all the same, and leave when their window closes.

They are the open rows of a view (`site_agent.tasks.windows`), in bins by their numbers. Runs never change: of a group
that leaves before its window closes, the rows in runs are *gone*. A second view has the numbers of those groups, each
with the number of the checkpoint that was next when it left: its rows in runs of earlier checkpoints do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.state.ranges import ranges_of_bins
from planner.values.names import BIN_COLUMN, BINS, GROUP_COLUMN, INPUT_VIEW
from site_agent.state.runs import RunFile
from site_agent.state.segments import ALL_BINS, starts_of
from site_agent.tasks.groups import Curve, Numbers, WindowGroups, is_among
from site_agent.tasks.spec import ViewSpec, WindowSpec
from site_agent.tasks.views import OpenViews
from site_agent.tasks.windows import OpenWindows

GONE_VIEW = "gone"
EVERYTHING_US = 2**62
"""As a watermark it ends all windows."""
_BEFORE = "_before"
"""The rows of a group that is gone do not count in runs of checkpoints with a lower number."""
_SENT_BIN = "_sent_bin"
"""The bin with which a row is sent, while it is held."""
_BIN_BITS = BINS.bit_length() - 1
_TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(slots=True)
class HeldWindow:
    """One open window."""

    end_us: int
    groups: WindowGroups = field(default_factory=WindowGroups)


class Departing(Protocol):
    """Groups of a window that leave."""

    @property
    def end_us(self) -> int: ...

    @property
    def groups(self) -> Numbers: ...


class HeldGroups:
    """The state. Rows of windows that have left are late.

    Args:
        spec: how windows close.
        sql: makes one partial of all of a group.
        closed_us: the watermark up to which windows have left.
        runs: what the last checkpoint names.
        checkpoint: its number.
    """

    def __init__(
        self,
        spec: WindowSpec,
        *,
        sql: str = "",
        closed_us: int | None = None,
        runs: Mapping[str, Sequence[RunFile]] | None = None,
        checkpoint: int = 0,
    ) -> None:
        self.spec = held_spec(spec, sql)
        self.checkpoint = checkpoint
        """The number of the last checkpoint."""
        self._windows: dict[int, HeldWindow] = {}
        self.open = OpenViews(self.spec, closed_us=closed_us, runs=runs, alive={INPUT_VIEW: self._alive})
        self.last_curve = Curve()
        """Of the last window that closed."""
        self._know_groups()

    @property
    def closed_us(self) -> int | None:
        """The watermark up to which windows have left."""
        return self._rows.closed_us

    @property
    def rows(self) -> int:
        """Return the number of rows, with all on disk, even if they have left or their windows have closed since."""
        return self._rows.rows

    @property
    def are_numbered(self) -> bool:
        """Return whether the number of each row's group is known."""
        return self._rows.has_bins(EVERYTHING_US)

    @property
    def windows(self) -> tuple[HeldWindow, ...]:
        """By their ends."""
        return tuple(window for _, window in sorted(self._windows.items()))

    def add(self, table: pa.Table | None) -> int:
        """Take in the rows of an epoch.

        Returns:
            How many were dropped, because their window has left.
        """
        dropped = self._rows.add([as_held(table)]) if table is not None and table.num_rows else 0
        self._note(table)
        return dropped

    def add_open(self, table: pa.Table, watermark_us: int) -> tuple[pa.Table, int]:
        """Take in the rows of an epoch, but those of windows that its watermark ends.

        Returns:
            These, and how many of the others were dropped, because their window has left.
        """
        ends = pc.add(starts_of(table, self.spec.column), self.spec.length_us)
        closing = pc.less_equal(ends, watermark_us)
        if self.closed_us is not None:
            closing = pc.and_(closing, pc.greater(ends, self.closed_us))
        self._note(table)
        return table.filter(closing), self._rows.add([as_held(table.filter(pc.invert(closing)))])

    def begin_behind(self, until_us: int, begun_us: int | None) -> int:
        """Leave out windows of which rows up to there may be missing.

        Returns:
            Where the first window begins that is not left out; `begun_us` where that is later.
        """
        start_us = self.spec.next_start_us(until_us)
        if begun_us is not None and start_us <= begun_us:
            return begun_us
        self.open.begin_at(start_us)
        self._forget_closed()
        return start_us

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Whether moving the watermark there ends at least one window, with rows or without."""
        return self.open.crosses_boundary(watermark_us)

    def ends_by(self, watermark_us: int | None) -> int:
        """Return how many rows may be of windows that the watermark ends; never too few."""
        return self._rows.ends_by(watermark_us)

    def ranges(self, watermark_us: int | None, *, rows_at_once: int) -> Sequence[range]:
        """The ranges of bins in which the rows leave that the watermark ends; one, where they have no bins."""
        if not self._rows.has_bins(watermark_us):
            return (ALL_BINS,)
        found = ranges_of_bins(self._rows.ends_by(watermark_us), rows_at_once=rows_at_once)
        return found if len(found) > 1 else (ALL_BINS,)

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> pa.Table | None:
        """The rows of these bins in all windows that the watermark ends; None: there are none. Nothing changes.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        rows = self._rows.closing(watermark_us, bins)
        return None if rows is None else as_given(rows)

    def advance(self, watermark_us: int | None) -> None:
        """All windows that end at or before the watermark have left: their rows go."""
        self.open.advance(watermark_us)
        self._forget_closed()

    def clear(self) -> None:
        """All rows have left; their windows stay open."""
        for windows in self.open.windows.values():
            windows.clear()
        for window in self._windows.values():
            window.groups.sent_all()

    def take(self, end_us: int, numbers: Numbers) -> pa.Table | None:
        """Take out all rows of these groups of a window. In order. Raises DamagedStateError."""
        found = [rows.filter(pa.array(is_among(_column(rows), numbers))) for rows in self._of(end_us, numbers)]
        self._let_go(end_us, numbers)
        rows = together([table for table in found if table.num_rows])
        return None if rows is None else as_given(rows)

    def take_each(self, departures: Iterable[Departing]) -> pa.Table | None:
        """Take out the rows of the groups that leave; all of them are named before the first is taken."""
        taken = [self.take(departure.end_us, departure.groups) for departure in list(departures)]
        return together([table for table in taken if table is not None])

    def drop(self, numbers: Numbers) -> None:
        """Remove the rows of these groups, which have left. In order."""
        for end_us in self._windows if len(numbers) else ():
            self._let_go(end_us, numbers)

    def chosen(self, end_us: int, counts: Sequence[int]) -> Numbers:
        """Return as many of a window's groups of each class as `counts` says, in order of their numbers.

        As long as all rows are in memory, those are the first by their keys, which are smaller together. Otherwise they
        are the first by their numbers, which are of few bins: no more has to be read.
        """
        groups = self._windows[end_us].groups
        wanted = [(groups.of_class(place), count) for place, count in enumerate(counts) if count]
        rows = None
        if self._is_in_memory and any(count < len(numbers) for numbers, count in wanted):
            rows = together(list(self._of(end_us)))
        found = [self._first(numbers, count, rows) for numbers, count in wanted]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)

    def some_rows(self) -> pa.Table | None:
        """Some of the rows that memory has, as they are sent; None: it has none."""
        cached = [run.cached for run in self._rows.runs]
        rows = next((table for table in (self._rows.newest(), *cached) if table is not None and table.num_rows), None)
        return None if rows is None else without_numbers(as_given(rows))

    @property
    def _rows(self) -> OpenWindows:
        return self.open.windows[INPUT_VIEW]

    @property
    def _is_in_memory(self) -> bool:
        return all(run.cached is not None for run in self._rows.runs)

    def _of(self, end_us: int, numbers: Numbers | None = None) -> Iterator[pa.Table]:
        """Rows of a window, those of these groups among them; None: all of them."""
        bins = ALL_BINS
        if numbers is not None and len(numbers):
            first, last = _bins_of(numbers[[0, -1]]).tolist()
            bins = range(first, last + 1)
        yield from self._rows.of_window(end_us - self.spec.length_us, bins)

    def _let_go(self, end_us: int, numbers: Numbers) -> None:
        """The rows of these groups of a window do not count any more. In order."""
        groups, start_us = self._windows[end_us].groups, end_us - self.spec.length_us
        groups.sent(numbers)

        def others(rows: pa.Table) -> pa.Table:
            gone = is_among(_column(rows), numbers)
            if gone.any():
                gone &= starts_of(rows, self.spec.column).to_numpy() == start_us
            return rows.filter(pa.array(~gone)) if gone.any() else rows

        self._rows.filter_fresh(others)
        if self._rows.runs:
            left = groups.leave(numbers, self.checkpoint + 1)
            self.open.add(GONE_VIEW, self._gone(start_us, left))

    def _gone(self, start_us: int, numbers: Numbers) -> pa.Table:
        starts = pa.array(np.full(len(numbers), start_us), pa.int64()).cast(_TIMESTAMP)
        before = pa.array(np.full(len(numbers), self.checkpoint + 1), pa.int64())
        return pa.table({self.spec.column: starts, GROUP_COLUMN: pa.array(numbers, pa.int64()), _BEFORE: before})

    def _alive(self, run: RunFile, rows: pa.Table) -> pa.Table:
        """The rows of a run whose groups have not left since it was written."""
        numbers = _column(rows)
        if not len(numbers) or not any(window.groups.any_gone for window in self._windows.values()):
            return rows
        starts = starts_of(rows, self.spec.column).to_numpy()
        keep = np.ones(len(numbers), np.bool_)
        for start_us in np.unique(starts):
            window = self._windows.get(int(start_us) + self.spec.length_us)
            if window is not None:
                there = starts == start_us
                keep[there] = ~window.groups.is_gone(numbers[there], run.name.checkpoint)
        return rows if keep.all() else rows.filter(pa.array(keep))

    def _know_groups(self) -> None:
        """Read from the runs which groups there are. Raises DamagedStateError."""
        gone, rows = self.open.windows[GONE_VIEW], self._rows
        for windows in (gone, rows):
            for run in windows.runs:
                found: dict[int, list[Numbers]] = {}
                for table in run.read(lambda _: True):
                    for before, part in _by_before(table):
                        for end_us, numbers in self._numbers_by_end(part):
                            if self.closed_us is None or end_us > self.closed_us:
                                found.setdefault(end_us, []).append(numbers)
                                if before is not None:
                                    self._window(end_us).groups.know(np.unique(numbers), before=before)
                for end_us, many in found.items() if windows is rows else ():
                    self._window(end_us).groups.know(np.unique(np.concatenate(many)))

    def _window(self, end_us: int) -> HeldWindow:
        return self._windows.setdefault(end_us, HeldWindow(end_us))

    def _numbers_by_end(self, rows: pa.Table) -> Iterator[tuple[int, Numbers]]:
        numbers, starts = _column(rows), starts_of(rows, self.spec.column).to_numpy()
        for start_us in np.unique(starts):
            yield int(start_us) + self.spec.length_us, numbers[starts == start_us] if len(numbers) else numbers

    def _note(self, table: pa.Table | None) -> None:
        """Note which groups had rows in an epoch."""
        came: dict[int, Numbers] = {}
        if table is not None and table.num_rows:
            for end_us, numbers in self._numbers_by_end(table):
                if self.closed_us is None or end_us > self.closed_us:
                    came[end_us] = np.unique(numbers)
                    self._windows.setdefault(end_us, HeldWindow(end_us))
        for end_us, window in self._windows.items():
            window.groups.update(came.get(end_us, np.empty(0, np.int64)))

    def _forget_closed(self) -> None:
        closed_us = self.closed_us
        for end_us in [end_us for end_us in sorted(self._windows) if closed_us is not None and end_us <= closed_us]:
            groups = self._windows.pop(end_us).groups
            if groups.seen:
                self.last_curve = groups.curve()

    def _first(self, numbers: Numbers, count: int, rows: pa.Table | None) -> Numbers:
        """Return the `count` groups whose first key comes first or, where that cannot be told, whose number does."""
        if count >= len(numbers) or rows is None:
            return numbers[:count]
        there, places = np.unique(_column(rows), return_index=True)
        others = (self.spec.column, GROUP_COLUMN, BIN_COLUMN, _SENT_BIN)
        keys = (name for name in rows.column_names if name not in others)
        with suppress(StopIteration, pa.ArrowException):
            # Keys that have no order may be in any.
            values = rows.column(next(keys)).take(pa.array(places[is_among(there, numbers)]))
            order = pc.partition_nth_indices(values.combine_chunks(), pivot=count).to_numpy()
            return np.sort(numbers[order[:count]])
        return numbers[:count]


def held_spec(spec: WindowSpec, sql: str) -> WindowSpec:
    """The views of what a combining task holds; `sql` makes one partial of all of a group."""
    return replace(spec, views=(ViewSpec(INPUT_VIEW, sql), ViewSpec(GONE_VIEW)), panes=False, by_bins=True)


def as_held(rows: pa.Table) -> pa.Table:
    """Rows as they are held: in bins by the numbers of their groups, not by those in which they are sent."""
    names = [_SENT_BIN if name == BIN_COLUMN else name for name in rows.column_names]
    rows = rows.rename_columns(names)
    return rows.append_column(BIN_COLUMN, pa.array(_bins_of(_column(rows)))) if GROUP_COLUMN in names else rows


def as_given(rows: pa.Table) -> pa.Table:
    """Rows as they came: `as_held`, undone."""
    rows = rows.drop_columns([name for name in (BIN_COLUMN,) if name in rows.column_names])
    return rows.rename_columns([BIN_COLUMN if name == _SENT_BIN else name for name in rows.column_names])


def numbers_of(rows: pa.Table) -> Numbers:
    """The numbers of the groups that have rows, each once and in order; none where rows have no numbers."""
    return np.unique(_column(rows))


def without_numbers(rows: pa.Table) -> pa.Table:
    """Return the rows as they are sent."""
    return rows.drop_columns([GROUP_COLUMN]) if GROUP_COLUMN in rows.column_names else rows


def sorted_by_key(rows: pa.Table) -> pa.Table:
    """In the order of their columns, of which the keys are the first: neighbours are alike, and smaller together."""
    names = [item.name for item in rows.schema if item.name != BIN_COLUMN and not pa.types.is_nested(item.type)]
    return rows.sort_by([(name, "ascending") for name in names]) if names else rows


def together(tables: Sequence[pa.Table]) -> pa.Table | None:
    """The rows of several tables; None: there are none."""
    return pa.concat_tables(tables, promote_options="permissive") if tables else None


def _bins_of(numbers: Numbers) -> Numbers:
    """Return bins that follow the order of the numbers, so that the first numbers are in few bins."""
    bins: Numbers = (numbers >> (64 - _BIN_BITS)) + BINS // 2
    return bins


def _by_before(rows: pa.Table) -> Iterator[tuple[int | None, pa.Table]]:
    """Rows of groups that are gone, by the checkpoint before which; other rows as they are."""
    if _BEFORE not in rows.column_names:
        yield None, rows
        return
    for before in pc.unique(rows.column(_BEFORE)).to_pylist():
        yield before, rows.filter(pc.equal(rows.column(_BEFORE), before))


def _column(rows: pa.Table) -> Numbers:
    if GROUP_COLUMN not in rows.column_names:
        return np.empty(0, np.int64)
    numbers: Numbers = rows.column(GROUP_COLUMN).to_numpy()
    return numbers
