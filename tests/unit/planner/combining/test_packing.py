from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.combining.packing import MOST_BYTES, ONCE_SPARE_S, SPARE_S, THOROUGH_BYTES_PER_S, worth_packing

MBIT = 1e6 / 8


def test_small_batches_are_packed_whatever_the_link() -> None:
    assert worth_packing(300_000)
    assert worth_packing(300_000, 1000 * MBIT)
    assert worth_packing(60_000, spare_s=ONCE_SPARE_S)


def test_large_ones_are_where_the_link_takes_longer_than_the_core() -> None:
    assert worth_packing(4_000_000, MBIT)
    assert not worth_packing(4_000_000, 20 * MBIT)
    assert not worth_packing(4_000_000)
    assert not worth_packing(MOST_BYTES + 1, MBIT)


@given(st.integers(0, MOST_BYTES), st.none() | st.floats(1_000, 1e9))
def test_packing_is_late_by_no_more_than_it_may_be(size_bytes: int, bytes_per_s: float | None) -> None:
    if worth_packing(size_bytes, bytes_per_s) and (bytes_per_s is None or bytes_per_s > 0.05 * THOROUGH_BYTES_PER_S):
        assert (
            size_bytes / THOROUGH_BYTES_PER_S * (1 - 0.05 * THOROUGH_BYTES_PER_S / (bytes_per_s or 1e12)) < 2 * SPARE_S
        )
