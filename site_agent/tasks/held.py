"""The rows that a combining task holds, by window; and what it knows of their groups.

Rows are partials with the column `_group`, a group's number. Where the stage's SQL, made by an earlier version, has no
such column, rows are held all the same, and leave when their window closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.values.names import BIN_COLUMN, GROUP_COLUMN
from site_agent.tasks.groups import Curve, Numbers, WindowGroups, is_among
from site_agent.tasks.spec import WindowSpec

COMPACT_ROWS = 20_000
"""A window with fewer rows is not worth a compaction."""


@dataclass(slots=True)
class HeldWindow:
    """One open window."""

    end_us: int
    tables: list[pa.Table] = field(default_factory=list)
    groups: WindowGroups = field(default_factory=WindowGroups)

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)

    def table(self) -> pa.Table | None:
        return together(self.tables)


class Departing(Protocol):
    """Groups of a window that leave."""

    @property
    def end_us(self) -> int: ...

    @property
    def groups(self) -> Numbers: ...


class HeldGroups:
    """The state. `closed_us` is the watermark up to which windows have left; rows of those are late."""

    def __init__(self, spec: WindowSpec, *, closed_us: int | None = None) -> None:
        self._spec = spec
        self._windows: dict[int, HeldWindow] = {}
        self.closed_us = closed_us
        self.last_curve = Curve()
        """Of the last window that closed."""

    @property
    def rows(self) -> int:
        return sum(window.rows for window in self._windows.values())

    @property
    def size_bytes(self) -> int:
        return sum(t.get_total_buffer_size() for window in self._windows.values() for t in window.tables)

    @property
    def windows(self) -> tuple[HeldWindow, ...]:
        """By their ends."""
        return tuple(window for _, window in sorted(self._windows.items()))

    def add(self, table: pa.Table | None) -> int:
        """Take in the rows of an epoch.

        Returns:
            How many were dropped, because their window has left.
        """
        came: dict[int, Numbers] = {}
        dropped = 0
        for start_us, rows in self._by_start(table):
            end_us = start_us + self._spec.length_us
            if self.closed_us is not None and end_us <= self.closed_us:
                dropped += rows.num_rows
                continue
            self._windows.setdefault(end_us, HeldWindow(end_us)).tables.append(rows)
            came[end_us] = numbers_of(rows)
        for end_us, window in self._windows.items():
            window.groups.update(came.get(end_us, np.empty(0, np.int64)))
        return dropped

    def begin_behind(self, until_us: int, begun_us: int | None) -> int:
        """Leave out windows of which rows up to there may be missing.

        Returns:
            Where the first window begins that is not left out; `begun_us` where that is later.
        """
        start_us = (until_us // self._spec.slide_us + 1) * self._spec.slide_us
        if begun_us is not None and start_us <= begun_us:
            return begun_us
        self.begin_at(start_us)
        return start_us

    def begin_at(self, start_us: int) -> None:
        """Leave out all windows that begin earlier, as if they had left."""
        closed_us = start_us + self._spec.length_us - 1
        self.closed_us = closed_us if self.closed_us is None else max(closed_us, self.closed_us)
        self._windows = {end_us: window for end_us, window in self._windows.items() if end_us > self.closed_us}

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Whether moving the watermark there ends at least one window, with rows or without."""
        if watermark_us is None:
            return False
        slide_us = self._spec.slide_us
        return self.closed_us is None or watermark_us // slide_us > self.closed_us // slide_us

    def close(self, watermark_us: int | None) -> pa.Table | None:
        """Take out the rows of all windows that end at or before the watermark."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return None
        self.closed_us = watermark_us
        closed = [window for window in self.windows if window.end_us <= watermark_us]
        for window in closed:
            del self._windows[window.end_us]
            if window.groups.seen:
                self.last_curve = window.groups.curve()
        return together([table for window in closed for table in window.tables])

    def take_all(self) -> pa.Table | None:
        """Take out all rows; their windows stay open."""
        taken = self.table()
        for window in self._windows.values():
            for numbers in map(numbers_of, window.tables):
                window.groups.sent(numbers)
            window.tables = []
        return taken

    def take(self, end_us: int, numbers: Numbers) -> pa.Table | None:
        """Take out all rows of these groups of a window. In order."""
        window = self._windows[end_us]
        rows = window.table()
        window.groups.sent(numbers)
        if rows is None:
            return None
        taken = is_among(_column(rows), numbers)
        window.tables = _some(rows.filter(pa.array(~taken)))
        return rows.filter(pa.array(taken))

    def take_each(self, departures: Iterable[Departing]) -> pa.Table | None:
        """Take out the rows of the groups that leave; all of them are named before the first is taken."""
        taken = [self.take(departure.end_us, departure.groups) for departure in list(departures)]
        return together([table for table in taken if table is not None])

    def drop(self, numbers: Numbers) -> None:
        """Remove the rows of these groups, which have left. In order."""
        for end_us in self._windows if len(numbers) else ():
            self.take(end_us, numbers)

    def chosen(self, end_us: int, counts: Sequence[int]) -> Numbers:
        """Of a window's groups so many of each class, the first by their keys; in order of their numbers."""
        window = self._windows[end_us]
        found = [self._first(window, place, count) for place, count in enumerate(counts) if count]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)

    def grown(self) -> Iterator[tuple[HeldWindow, pa.Table]]:
        """Windows whose rows have become worth a compaction."""
        for window in self.windows:
            if window.rows >= max(COMPACT_ROWS, 2 * window.groups.held):
                yield window, window.table()

    def table(self) -> pa.Table | None:
        """All rows."""
        return together([table for window in self.windows for table in window.tables])

    def _first(self, window: HeldWindow, place: int, count: int) -> Numbers:
        """So many of the groups of a class, those whose first key comes first."""
        numbers, rows = window.groups.of_class(place), window.table()
        if count >= len(numbers) or rows is None:
            return numbers
        there, places = np.unique(_column(rows), return_index=True)
        keys = (name for name in rows.column_names if name not in (self._spec.column, GROUP_COLUMN, BIN_COLUMN))
        with suppress(StopIteration, pa.ArrowException):
            # Keys that have no order may be in any.
            values = rows.column(next(keys)).take(pa.array(places[is_among(there, numbers)]))
            order = pc.partition_nth_indices(values.combine_chunks(), pivot=count).to_numpy()
            return np.sort(numbers[order[:count]])
        return numbers[:count]

    def _by_start(self, table: pa.Table | None) -> Iterator[tuple[int, pa.Table]]:
        if table is None or not table.num_rows:
            return
        starts = table.column(self._spec.column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).combine_chunks()
        for start_us in sorted(pc.unique(starts).to_pylist()):
            yield start_us, table.filter(pc.equal(starts, start_us))


def numbers_of(rows: pa.Table) -> Numbers:
    """The numbers of the groups that have rows, each once and in order; none where rows have no numbers."""
    return np.unique(_column(rows))


def without_numbers(rows: pa.Table) -> pa.Table:
    """As they are stored and sent."""
    return rows.drop_columns([GROUP_COLUMN]) if GROUP_COLUMN in rows.column_names else rows


def sorted_by_key(rows: pa.Table) -> pa.Table:
    """In the order of their columns, of which the keys are the first: neighbours are alike, and smaller together."""
    names = [item.name for item in rows.schema if item.name != BIN_COLUMN and not pa.types.is_nested(item.type)]
    return rows.sort_by([(name, "ascending") for name in names]) if names else rows


def together(tables: Sequence[pa.Table]) -> pa.Table | None:
    """The rows of several tables; None: there are none."""
    return pa.concat_tables(tables, promote_options="permissive") if tables else None


def _column(rows: pa.Table) -> Numbers:
    if GROUP_COLUMN not in rows.column_names:
        return np.empty(0, np.int64)
    numbers: Numbers = rows.column(GROUP_COLUMN).to_numpy()
    return numbers


def _some(rows: pa.Table) -> list[pa.Table]:
    # A copy, so that a small remainder does not keep the large buffers it was filtered from alive.
    return [rows.combine_chunks()] if rows.num_rows else []
