"""How rows of open windows are cut into segments of a run: by the start of their window, then by bin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from planner.values.names import BIN_COLUMN, BINS

SEGMENT_ROWS = 4096
"""A segment with so many rows ends where the window or the bin changes: the rows of some bins are read alone."""
LARGEST_ROWS = 262_144
"""A segment has no more rows, whatever they are of."""
NO_BIN = -1
"""The bin of a row, among rows with bins, of which no bin is known."""
ALL_BINS = range(NO_BIN, BINS)
_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Extent:
    """Which windows and bins rows are of."""

    first_us: int
    """The earliest start of a window, or of a pane."""
    last_us: int
    bins: range | None
    """The bins that they lie in; None: they have none."""

    @property
    def has_bins(self) -> bool:
        """Whether the bin of each row is known."""
        return self.bins is not None and self.bins.start != NO_BIN

    def meets(self, bins: range) -> bool:
        """Whether rows of these bins may be among them; rows without bins are of any."""
        return self.bins is None or (self.bins.start < bins.stop and bins.start < self.bins.stop)


def starts_of(rows: pa.Table, column: str) -> pa.ChunkedArray:
    """The starts of the rows' windows or panes in microseconds."""
    return rows.column(column).cast(_MICROSECONDS).cast(pa.int64())


def extent_of(rows: pa.Table, column: str) -> Extent:
    """Of rows, of which there is one at least."""
    starts = pc.min_max(starts_of(rows, column)).as_py()
    bins: range | None = None
    if BIN_COLUMN in rows.column_names:
        found = pc.min_max(rows.column(BIN_COLUMN)).as_py()
        bins = range(found["min"], found["max"] + 1)
    return Extent(starts["min"], starts["max"], bins)


def of_bins(rows: pa.Table, bins: range) -> pa.Table:
    """The rows of these bins; all of them where they have none."""
    if bins == ALL_BINS or BIN_COLUMN not in rows.column_names:
        return rows
    column = rows.column(BIN_COLUMN)
    return rows.filter(pc.and_(pc.greater_equal(column, bins.start), pc.less(column, bins.stop)))


def without_bins(rows: pa.Table) -> pa.Table:
    """As SQL reads them."""
    return rows.drop_columns([BIN_COLUMN]) if BIN_COLUMN in rows.column_names else rows


def in_order(rows: pa.Table, column: str) -> pa.Table:
    """The rows by window, then by bin."""
    if BIN_COLUMN not in rows.column_names:
        return rows.sort_by([(column, "ascending")])
    return rows.sort_by([(column, "ascending"), (BIN_COLUMN, "ascending")])


def segments(rows: pa.Table, column: str) -> Iterator[pa.Table]:
    """Rows that are in order, cut."""
    changes = _changes(rows, column)
    first = 0
    while first < rows.num_rows:
        least = first + SEGMENT_ROWS
        place = int(np.searchsorted(changes, least))
        end = int(changes[place]) if place < len(changes) else rows.num_rows
        end = min(end, first + LARGEST_ROWS)
        yield rows.slice(first, end - first)
        first = end


def _changes(rows: pa.Table, column: str) -> npt.NDArray[np.int64]:
    """The numbers of the rows that are of another window or bin than the row before."""
    starts = starts_of(rows, column).to_numpy()
    changed = starts[1:] != starts[:-1]
    if BIN_COLUMN in rows.column_names:
        bins = rows.column(BIN_COLUMN).to_numpy()
        changed |= bins[1:] != bins[:-1]
    return np.flatnonzero(changed) + 1
