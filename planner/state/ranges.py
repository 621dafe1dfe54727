"""In which ranges of bins the rows of a window are worked on, so that memory holds those of one range."""

from __future__ import annotations

from planner.values.names import BINS


def ranges_of_bins(rows: int, *, rows_at_once: int, first: int = 0) -> tuple[range, ...]:
    """The bins from `first` on, in ranges that have about `rows_at_once` of the rows that all bins have together.

    A bin is a hash, so bins have about as many groups each.
    """
    count = min(BINS, max(1, -(-rows // max(1, rows_at_once))))
    step = BINS // count
    return tuple(range(start, min(start + step, BINS)) for start in range(first, BINS, step))
