"""Open sessions of a merge: rows that wait until the watermark has passed the end of the session that they are of.

A row says where it begins and ends. It is of a session that may begin earlier and end later, of which other rows tell:
an island of its key (`site_agent.tasks.islands`). A session is out when its end is before the watermark up to which
sessions were emitted. Rows that come later begin at that watermark or after it, and touch none that is out; so which
rows are out can be told at any time, and those of runs on disk need no mark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from site_agent.state.segments import ALL_BINS, without_bins
from site_agent.state.stored import StoredRows
from site_agent.tasks.instants import Mask, OpenInstants, kept_of
from site_agent.tasks.islands import Instants, Islands, instants, islands_of, of_keys, with_islands
from site_agent.tasks.spec import SessionSpec


class OpenSessions(OpenInstants):
    """The rows. `closed_us` is the watermark up to which sessions were emitted."""

    def ends_by(self, watermark_us: int | None) -> int:
        """Return how many rows to look at for sessions that come out before the watermark and are not out; 0: none."""
        if watermark_us is None or not self._may_be(self._told_by, watermark_us):
            return 0
        return self._rows_of(self._due(watermark_us, ALL_BINS))

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> pa.Table | None:
        """The rows of these bins of all sessions that come out before the watermark and are not out, with the starts
        and ends of those; None: none. Nothing changes until `advance`.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        found = self._tables(self._due(watermark_us, bins), bins)
        if watermark_us is None or not found:
            return None
        rows = pa.concat_tables(found, promote_options="permissive")
        rows = rows.filter(pa.array(self._may_come_out(rows, watermark_us)))
        islands = islands_of(rows, self._spec.column, self._sessions)
        at_us = islands.starts if self._sessions.at_start else islands.ends
        closed = pa.array(self._not_before(at_us) & (at_us < watermark_us))
        out = with_islands(rows, islands, self._spec.column, self._sessions).filter(closed)
        return without_bins(out) if out.num_rows else None

    def advance(self, watermark_us: int | None) -> None:
        """All sessions that come out before the watermark are out. The rows of those that have ended go; those on disk,
        where memory does not have them, go when runs are merged."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return
        ends = self._may_be(self._sessions.end, watermark_us)
        self.closed_us = watermark_us
        if ends:
            self._let_go_but(self._open_of)

    def grouped(self, rows: pa.Table) -> pa.Table:
        """The rows, each with the start and end of the session that it is of among them."""
        islands = islands_of(rows, self._spec.column, self._sessions)
        return with_islands(rows, islands, self._spec.column, self._sessions)

    def stored(self, runs: Sequence[StoredRows], bins: range) -> pa.Table | None:
        """The rows of these bins and of open sessions that runs have; None: none. Raises DamagedStateError."""
        return self._stored_open_of(runs, bins, self._open_of)

    @property
    def _sessions(self) -> SessionSpec:
        assert self._spec.sessions is not None
        return self._spec.sessions

    @property
    def _told_by(self) -> str:
        """The column by which a session comes out: its end, or its start."""
        return self._spec.column if self._sessions.at_start else self._sessions.end

    def _may_be(self, column: str, watermark_us: int) -> bool:
        """Return whether sessions may end, or begin, between the two watermarks: then one of their rows does."""
        cached = [run.cached for run in self.runs]
        if any(rows is None for rows in cached):
            return True
        tables = [*(fresh.table for fresh in self._fresh), *(rows for rows in cached if rows is not None)]
        return any(bool(self._are_between(rows, column, watermark_us).any()) for rows in tables)

    def _open_of(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the rows of sessions that are not out, of all rows there are or of all in some bins."""
        narrow = [table.select([self._spec.column, self._sessions.end, *self._sessions.keys]) for table in tables]
        if not narrow or self.closed_us is None:
            return list(tables)
        rows = pa.concat_tables(narrow, promote_options="permissive")
        kept = ~self._may_be_of(rows, self.closed_us)
        kept[~kept] = self._are_open(islands_of(rows.filter(pa.array(~kept)), self._spec.column, self._sessions))
        return kept_of(tables, kept)

    def _may_come_out(self, rows: pa.Table, watermark_us: int) -> Mask:
        """Return a mask of the rows with the key of one whose session may come out by the watermark."""
        if not self._sessions.at_start:
            return self._may_be_of(rows, watermark_us)
        begun = rows.filter(pa.array(self._are_between(rows, self._spec.column, watermark_us)))
        return of_keys(rows, begun, self._sessions.keys)

    def _are_between(self, rows: pa.Table, column: str, watermark_us: int) -> Mask:
        at_us = instants(rows, column)
        return self._not_before(at_us) & (at_us < watermark_us)

    def _may_be_of(self, rows: pa.Table, watermark_us: int) -> Mask:
        """Return a mask of the rows with the key of one that ends before the watermark: their session may, too."""
        ending = instants(rows, self._sessions.end) < watermark_us
        return of_keys(rows, rows.filter(pa.array(ending)), self._sessions.keys)

    def _are_open(self, islands: Islands) -> Mask:
        return self._not_before(islands.ends)

    def _not_before(self, ends: Instants) -> Mask:
        return np.ones(len(ends), np.bool_) if self.closed_us is None else ends >= self.closed_us
