"""Rows of a merge that come out at their event times, each beside those of its key before it.

A row is out when the watermark has passed it; then all rows before it are there. At a step the new rows are handed out,
and of their keys the rows before them that may be needed: so many of the newest, or all of so long before. Those stay;
others go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from planner.values.names import NEW_COLUMN
from site_agent.state.segments import ALL_BINS, without_bins
from site_agent.state.stored import StoredRows
from site_agent.tasks.instants import Mask, kept_of
from site_agent.tasks.islands import numbered
from site_agent.tasks.spec import NeighbourSpec
from site_agent.tasks.staying import StayingRows

LET_GO_EVERY_US = 10_000_000
"""Rows that no row needs any more go when the watermark has moved on by so much."""


class OpenNeighbours(StayingRows):
    """The rows. `closed_us` is the watermark up to which they are out."""

    _let_go_us: int | None = None

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> pa.Table | None:
        """Return the rows of these bins that are before the watermark and not out, and those before them that they
        need; a flag says which is which. None: none comes out. Nothing changes until `advance`.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        rows = None if watermark_us is None else self._rows_of_new_keys(watermark_us, bins)
        if rows is None:
            return None
        first_us = self._first_new_us
        rows = rows.append_column(NEW_COLUMN, pa.array(self._instants(rows) >= first_us))
        return without_bins(rows.filter(pa.array(self._needed(rows, first_us))))

    def advance(self, watermark_us: int | None) -> None:
        """All rows before the watermark are out; now and then, those that no row needs any more go. Those on disk,
        where memory does not have them, go when runs are merged."""
        if watermark_us is None or (self.closed_us is not None and watermark_us <= self.closed_us):
            return
        self.closed_us = watermark_us
        if self._let_go_us is None or watermark_us - self._let_go_us >= LET_GO_EVERY_US:
            self._let_go_us = watermark_us
            self._let_go_but(self._needed_of)

    def stored(self, runs: Sequence[StoredRows], bins: range) -> pa.Table | None:
        """Return the rows of these bins that runs have and that rows may need; None: none. Raises DamagedStateError."""
        return self._stored_open_of(runs, bins, self._needed_of)

    @property
    def _keys(self) -> Sequence[str]:
        return self._neighbours.keys

    @property
    def _cell_us(self) -> int:
        return 1

    @property
    def _neighbours(self) -> NeighbourSpec:
        assert self._spec.neighbours is not None
        return self._spec.neighbours

    def _needed_of(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the rows that are not out, or may be needed, of all rows there are or all in some bins."""
        if not tables or self.closed_us is None:
            return list(tables)
        names = list(dict.fromkeys((self._spec.column, *self._neighbours.keys)))
        rows = pa.concat_tables([table.select(names) for table in tables], promote_options="permissive")
        return kept_of(tables, self._needed(rows, self.closed_us))

    def _needed(self, rows: pa.Table, first_us: int) -> Mask:
        """Return a mask of the rows that are not before an instant, or that such rows of their keys may need: as many
        as are needed, and all of the instant of the last of these, for nothing here orders them."""
        times, spec = self._instants(rows), self._neighbours
        kept = times >= first_us
        if spec.within_us is not None:
            kept |= times >= first_us - spec.within_us
        if not spec.rows or kept.all():
            return kept
        old = np.flatnonzero(times < first_us)
        keys = numbered([rows.column(key) for key in spec.keys], rows.num_rows)[old]
        order = old[np.lexsort((-times[old], keys))]
        keys = np.sort(keys)
        begins = np.searchsorted(keys, keys, side="left")
        last = np.minimum(begins + spec.rows - 1, np.searchsorted(keys, keys, side="right") - 1)
        kept[order] |= times[order] >= times[order][last]
        return kept
