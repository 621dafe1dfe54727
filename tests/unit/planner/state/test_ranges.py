from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.state.ranges import ranges_of_bins
from planner.values.names import BINS


@given(st.integers(0, 10**9), st.integers(1, 10**7), st.integers(0, BINS - 1))
def test_each_bin_is_in_one_range_and_no_range_has_many_rows(rows: int, rows_at_once: int, first: int) -> None:
    found = ranges_of_bins(rows, rows_at_once=rows_at_once, first=first)

    assert [bin_ for bins in found for bin_ in bins] == list(range(first, BINS))
    # A range is a whole number of bins: at most one more than would do.
    assert all(len(bins) == 1 or rows / BINS * len(bins) <= 2 * rows_at_once for bins in found)


def test_few_rows_are_one_range() -> None:
    assert ranges_of_bins(500, rows_at_once=500) == (range(BINS),)
    assert len(ranges_of_bins(501, rows_at_once=500)) == 2
