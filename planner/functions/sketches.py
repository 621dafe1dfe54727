"""Sizes of sketches, from the error that a query asks for.

    HyperLogLog   2^lg_k registers; relative standard deviation 1.04 / sqrt(2^lg_k)
    KLL           k; with 99 % confidence a rank is off by at most 2.296 / k^0.9723 of all rows

Both figures are those of Apache DataSketches, whose sketches Spark has.
"""

from __future__ import annotations

import math

DEFAULT_LG_K = 12
"""1.6 %."""
MIN_LG_K, MAX_LG_K = 4, 21
MAX_DEVIATION = 0.39
DEFAULT_ACCURACY = 200
"""A rank is off by 1 / 200 of the rows."""
MIN_K, MAX_K = 8, 65_535
DEFAULT_ITEMS = 10_000
"""Values that Spark's `approx_top_k` counts at a time."""
_LEAST_ERROR = 1e-6
"""Smaller ones would have the largest sketches as well, but floating-point numbers do not reach as far."""


def hll_lg_k(deviation: str = "") -> int:
    """For a relative standard deviation as written in the query."""
    if not deviation:
        return DEFAULT_LG_K
    registers = (1.04 / max(float(deviation), _LEAST_ERROR)) ** 2
    return min(max(math.ceil(math.log2(registers)), MIN_LG_K), MAX_LG_K)


def kll_k(accuracy: str = "") -> int:
    """For an accuracy of 1/error as written in the query."""
    error = max(1 / int(accuracy or DEFAULT_ACCURACY), _LEAST_ERROR)
    return min(max(math.ceil(math.pow(2.296 / error, 1 / 0.9723)), MIN_K), MAX_K)


def top_k_items(items: str = "") -> int:
    """The most values that a sketch of the most frequent ones counts, as written in the query."""
    return int(items) if items.isdecimal() else DEFAULT_ITEMS
