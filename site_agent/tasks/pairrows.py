"""The rows of one of two views that are paired by their event times: how long each is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from site_agent.state.segments import ALL_BINS, of_bins, starts_of
from site_agent.state.stored import StoredRows
from site_agent.tasks.instants import Mask, OpenInstants
from site_agent.tasks.islands import Instants, instants
from site_agent.tasks.spec import PairSpec, WindowSpec

BEFORE_ALL_US, AFTER_ALL_US = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Times:
    """The event time of each row, and the last watermark at which a row may still match it, in microseconds."""

    begins: Instants
    ends: Instants


@dataclass(frozen=True, slots=True)
class Needed:
    """Rows are needed whose end, or whose beginning, is not before an instant."""

    ends_us: int
    begins_us: int

    def of(self, times: Times) -> Mask:
        return (times.ends >= self.ends_us) | (times.begins >= self.begins_us)


class OpenRows(OpenInstants):
    """The rows of one of the two views; `OpenPairs` says which of them come out."""

    is_second: bool = False
    needed: Needed | None = None
    """None: all are."""

    def advance(self, watermark_us: int | None) -> None:
        """Note up to which watermark pairs are out."""
        if watermark_us is not None and (self.closed_us is None or watermark_us > self.closed_us):
            self.closed_us = watermark_us

    def held(self, bins: range = ALL_BINS) -> pa.Table | None:
        """The rows of these bins; None: there are none. Raises DamagedStateError."""
        found = [of_bins(fresh.table, bins) for fresh in self._fresh if fresh.extent.meets(bins)]
        found += self._read(self.runs, bins)
        rows = pa.concat_tables(found, promote_options="permissive") if found else None
        return rows if rows is not None and rows.num_rows else None

    def let_go(self, needed: Needed) -> None:
        """Let go of the rows that are not needed; those on disk, where others of their run are, when runs are merged.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        self.needed = needed
        self.filter_fresh(self._those_needed)
        kept: list[StoredRows] = []
        for run in self.runs:
            cached = run.cached
            if cached is not None:
                rows = self._those_needed(cached)
                if rows is not cached:
                    # A copy, so that a small remainder does not keep the large buffers it was filtered from alive.
                    run.cached = rows = rows.combine_chunks()
                if rows.num_rows:
                    kept.append(run)
            elif any(self._those_needed(table).num_rows for table in run.read(lambda _: True)):
                kept.append(run)
        self.runs = kept

    def stored(self, runs: Sequence[StoredRows], bins: range) -> pa.Table | None:
        """The rows of these bins that are needed, of these runs; None: there are none. Raises DamagedStateError."""
        columns = [run.run.columns.empty_table() for run in runs]
        rows = pa.concat_tables([*columns, *self._read(runs, bins)], promote_options="permissive")
        rows = self._those_needed(rows)
        return rows if rows.num_rows else None

    def times(self, rows: pa.Table) -> Times:
        """The times of rows of this view."""
        pairs, begins = pairs_of(self._spec), instants(rows, self._spec.column)
        if self.is_second:
            return Times(begins, np.maximum(begins, begins - pairs.lower_us))
        if pairs.upper_us is not None:
            return Times(begins, np.maximum(begins, begins + pairs.upper_us))
        until = pc.fill_null(starts_of(rows, pairs.until), BEFORE_ALL_US).to_numpy()
        return Times(begins, np.maximum(begins, until))

    def _those_needed(self, rows: pa.Table) -> pa.Table:
        if self.needed is None or not rows.num_rows:
            return rows
        mask = self.needed.of(self.times(rows))
        return those_of(rows, mask)


def pairs_of(spec: WindowSpec) -> PairSpec:
    assert spec.pairs is not None
    return spec.pairs


def those_of(rows: pa.Table, mask: Mask) -> pa.Table:
    """Return the rows of a mask."""
    return rows if mask.all() else rows.filter(pa.array(mask))
