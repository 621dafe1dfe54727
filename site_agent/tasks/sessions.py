"""Open sessions of a merge: rows that wait until the watermark has passed the end of the session that they are of.

A row says where it begins and ends. It is of a session that may begin earlier and end later, of which other rows tell:
an island of its key (`site_agent.tasks.islands`). A session is out when its end is before the watermark up to which
sessions were emitted. Rows that come later begin at that watermark or after it, and touch none that is out; so which
rows are out can be told at any time, and those of runs on disk need no mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from site_agent.state.segments import ALL_BINS, Extent, of_bins, without_bins
from site_agent.state.stored import StoredRows
from site_agent.tasks.islands import Instants, Islands, instants, islands_of, of_keys, with_islands
from site_agent.tasks.spec import SessionSpec
from site_agent.tasks.windows import OpenWindows

EVERY_US = 1_000_000
"""Sessions come out, and the watermark is told, when it has moved on by so much."""


class OpenSessions(OpenWindows):
    """The rows. `closed_us` is the watermark up to which sessions were emitted."""

    def add(self, tables: Sequence[pa.Table], *, late_us: int | None = None) -> int:
        """Take rows in, but for those that begin before an instant; None: all.

        Returns:
            How many were dropped.
        """
        dropped = 0
        for table in tables:
            kept = table
            if late_us is not None and table.num_rows:
                kept = table.filter(pa.array(instants(table, self._spec.column) >= late_us))
            self._add_fresh(kept)
            dropped += table.num_rows - kept.num_rows
        return dropped

    def begin_at(self, start_us: int) -> None:
        """Leave out what begins earlier."""
        self.advance(start_us if self.closed_us is None else max(start_us, self.closed_us))

    def ends_by(self, watermark_us: int | None) -> int:
        """Return how many rows to look at for sessions that end before the watermark and are not out; 0: none."""
        wanted = self._due(watermark_us, ALL_BINS)
        if watermark_us is None or not self._may_end(watermark_us):
            return 0
        fresh_rows: int = sum(fresh.table.num_rows for fresh in self._fresh if wanted(fresh.extent))
        return fresh_rows + sum(run.rows(wanted) for run in self.runs)

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> pa.Table | None:
        """The rows of these bins of all sessions that end before the watermark and are not out, with the starts and
        ends of those; None: none. Nothing changes until `advance`.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        found = self._tables(self._due(watermark_us, bins), bins)
        if watermark_us is None or not found:
            return None
        rows = pa.concat_tables(found, promote_options="permissive")
        rows = rows.filter(pa.array(self._may_be_of(rows, watermark_us)))
        islands = islands_of(rows, self._spec.column, self._sessions)
        closed = pa.array(self._are_open(islands) & (islands.ends < watermark_us))
        out = with_islands(rows, islands, self._spec.column, self._sessions).filter(closed)
        return without_bins(out) if out.num_rows else None

    def advance(self, watermark_us: int | None) -> None:
        """All sessions that end before the watermark are out: their rows go. Those on disk, where memory does not have
        them, go when runs are merged."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return
        ends = self._may_end(watermark_us)
        self.closed_us = watermark_us
        cached = [run.cached for run in self.runs if run.cached is not None]
        if not ends or len(cached) < len(self.runs):
            return
        fresh, self._fresh = [item.table for item in self._fresh], []
        kept = self._open_of([*fresh, *cached])
        for rows in kept[: len(fresh)]:
            self._add_fresh(rows)
        for run, rows in zip(self.runs, kept[len(fresh) :], strict=True):
            run.cached = rows
        self.runs = [run for run, rows in zip(self.runs, kept[len(fresh) :], strict=True) if rows.num_rows]

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Return whether the watermark has moved on by enough to see which sessions it ends."""
        if watermark_us is None or self.closed_us is None:
            return watermark_us is not None
        return watermark_us // EVERY_US > self.closed_us // EVERY_US

    def grouped(self, rows: pa.Table) -> pa.Table:
        """The rows, each with the start and end of the session that it is of among them."""
        islands = islands_of(rows, self._spec.column, self._sessions)
        return with_islands(rows, islands, self._spec.column, self._sessions)

    def stored(self, runs: Sequence[StoredRows], bins: range) -> pa.Table | None:
        """The rows of these bins and of open sessions that runs have; None: none. Raises DamagedStateError."""
        others = [fresh.table for fresh in self._fresh if fresh.extent.meets(bins)]
        others += self._read([run for run in self.runs if all(run is not one for one in runs)], bins)
        tables = [run.run.columns.empty_table() for run in runs] + self._read(runs, bins)
        rows = pa.concat_tables(tables, promote_options="permissive")
        (kept, *_) = self._open_of([rows, *(of_bins(table, bins) for table in others)])
        return kept if kept.num_rows else None

    def stored_open(self) -> Iterator[pa.Table]:
        """The rows that runs have, in pieces; among them all those of open sessions. Raises DamagedStateError."""
        for run in self.runs:
            yield from run.read(lambda _: True)

    @property
    def _sessions(self) -> SessionSpec:
        assert self._spec.sessions is not None
        return self._spec.sessions

    def _due(self, watermark_us: int | None, bins: range) -> Callable[[Extent], bool]:
        """Return whether rows may be of these bins, and of sessions that end before the watermark and are not out."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return lambda _: False
        return lambda extent: extent.first_us < watermark_us and extent.meets(bins)

    def _may_end(self, watermark_us: int) -> bool:
        """Return whether sessions may end before the watermark that are not out: then one of their rows ends there."""
        cached = [run.cached for run in self.runs]
        if any(rows is None for rows in cached):
            return True
        tables = [*(fresh.table for fresh in self._fresh), *(rows for rows in cached if rows is not None)]
        ends = (instants(rows, self._sessions.end) for rows in tables)
        return any(bool(((some < watermark_us) & self._not_before(some)).any()) for some in ends)

    def _tables(self, wanted: Callable[[Extent], bool], bins: range) -> list[pa.Table]:
        found = [fresh.table for fresh in self._fresh if wanted(fresh.extent)]
        found += [table for run in self.runs for table in run.read(wanted)]
        return [of_bins(table, bins) for table in found]

    def _read(self, runs: Sequence[StoredRows], bins: range) -> list[pa.Table]:
        return [of_bins(table, bins) for run in runs for table in run.read(lambda extent: extent.meets(bins))]

    def _open_of(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the rows of sessions that are not out, of all rows there are or of all in some bins."""
        narrow = [table.select([self._spec.column, self._sessions.end, *self._sessions.keys]) for table in tables]
        if not narrow or self.closed_us is None:
            return list(tables)
        rows = pa.concat_tables(narrow, promote_options="permissive")
        kept = ~self._may_be_of(rows, self.closed_us)
        kept[~kept] = self._are_open(islands_of(rows.filter(pa.array(~kept)), self._spec.column, self._sessions))
        ends = np.cumsum([0, *(table.num_rows for table in tables)])
        parts = [kept[first:last] for first, last in pairwise(ends)]
        # Copies, so that small remainders do not keep the large buffers they were filtered from alive.
        return [
            table if part.all() else table.filter(pa.array(part)).combine_chunks()
            for table, part in zip(tables, parts, strict=True)
        ]

    def _may_be_of(self, rows: pa.Table, watermark_us: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows with the key of one that ends before the watermark: their session may, too."""
        ending = instants(rows, self._sessions.end) < watermark_us
        return of_keys(rows, rows.filter(pa.array(ending)), self._sessions)

    def _are_open(self, islands: Islands) -> npt.NDArray[np.bool_]:
        return self._not_before(islands.ends)

    def _not_before(self, ends: Instants) -> npt.NDArray[np.bool_]:
        return np.ones(len(ends), np.bool_) if self.closed_us is None else ends >= self.closed_us
