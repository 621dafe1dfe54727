"""Open rows of a merge that are of no windows: each begins at an instant of its own.

Nothing is marked as out. Rows come out by their own instants and the watermark alone, so at any time the watermark up
to which results were emitted says what is out; rows of runs on disk need no mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from site_agent.state.segments import Extent, of_bins
from site_agent.state.stored import StoredRows
from site_agent.tasks.islands import instants
from site_agent.tasks.windows import OpenWindows

BEFORE_ALL_US = -(2**63)
EVERY_US = 1_000_000
"""Results come out, and the watermark is told, when it has moved on by so much."""


Mask = npt.NDArray[np.bool_]
OpenOf = Callable[[Sequence[pa.Table]], list[pa.Table]]
"""From tables with all rows that there are, or all of some bins, to the open rows of each."""


class OpenInstants(OpenWindows):
    """The rows. `closed_us` is the watermark up to which results were emitted."""

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

    def _boundary(self, watermark_us: int) -> int:
        return watermark_us // EVERY_US

    def stored_open(self) -> Iterator[pa.Table]:
        """The rows that runs have, in pieces; among them all that are open. Raises DamagedStateError."""
        for run in self.runs:
            yield from run.read(lambda _: True)

    def _due(self, watermark_us: int | None, bins: range) -> Callable[[Extent], bool]:
        """Return whether rows may be of these bins, and of results that the watermark lets out."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return lambda _: False
        return lambda extent: extent.first_us < watermark_us and extent.meets(bins)

    def _tables(self, wanted: Callable[[Extent], bool], bins: range) -> list[pa.Table]:
        """Return the rows of these bins, of tables and segments that are wanted. Raises DamagedStateError."""
        found = [fresh.table for fresh in self._fresh if wanted(fresh.extent)]
        for run in self.runs:
            found += run.read(lambda extent: wanted(extent) and extent.meets(bins))
        return [of_bins(table, bins) for table in found]

    def _let_go_but(self, open_of: OpenOf) -> None:
        """Keep only open rows, where memory has all rows; those on disk alone go when runs are merged."""
        cached = [run.cached for run in self.runs if run.cached is not None]
        if len(cached) < len(self.runs):
            return
        fresh, self._fresh = [item.table for item in self._fresh], []
        kept = open_of([*fresh, *cached])
        for rows in kept[: len(fresh)]:
            self._add_fresh(rows)
        for run, rows in zip(self.runs, kept[len(fresh) :], strict=True):
            run.cached = rows
        self.runs = [run for run, rows in zip(self.runs, kept[len(fresh) :], strict=True) if rows.num_rows]

    def _stored_open_of(self, runs: Sequence[StoredRows], bins: range, open_of: OpenOf) -> pa.Table | None:
        """Return the open rows of these bins that these runs have; None: none. Raises DamagedStateError."""
        others = [fresh.table for fresh in self._fresh if fresh.extent.meets(bins)]
        others += self._read([run for run in self.runs if all(run is not one for one in runs)], bins)
        tables = [run.run.columns.empty_table() for run in runs] + self._read(runs, bins)
        rows = pa.concat_tables(tables, promote_options="permissive")
        (kept, *_) = open_of([rows, *(of_bins(table, bins) for table in others)])
        return kept if kept.num_rows else None

    def _read(self, runs: Sequence[StoredRows], bins: range) -> list[pa.Table]:
        return [of_bins(table, bins) for run in runs for table in run.read(lambda extent: extent.meets(bins))]


def kept_of(tables: Sequence[pa.Table], kept: Mask) -> list[pa.Table]:
    """Return the rows of each table that a mask over the rows of all keeps."""
    ends = np.cumsum([0, *(table.num_rows for table in tables)])
    parts = (kept[first:end] for first, end in pairwise(ends))
    # Copies, so that small remainders do not keep the large buffers they were filtered from alive.
    return [
        table if part.all() else table.filter(pa.array(part)).combine_chunks()
        for table, part in zip(tables, parts, strict=True)
    ]
