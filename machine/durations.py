"""Histograms of durations, by label values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets: from a call that reads memory to an epoch that reads files."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The histogram of one set of label values."""

    up_to: tuple[tuple[float, int], ...]
    """For each bound in seconds, the number of durations that were not longer."""
    count: int
    sum_s: float


class Durations:
    """Durations by label values. One thread observes and reads."""

    def __init__(self, bounds_s: Sequence[float] = BOUNDS_S) -> None:
        self._bounds_s = tuple(bounds_s)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums_s: dict[tuple[str, ...], float] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        """Count one duration."""
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds_s) + 1))
        counts[bisect_left(self._bounds_s, seconds)] += 1
        self._sums_s[labels] = self._sums_s.get(labels, 0.0) + seconds

    def read(self) -> Mapping[tuple[str, ...], Distribution]:
        """All that was observed so far, by label values."""
        return {
            labels: Distribution(
                tuple(zip(self._bounds_s, accumulate(counts), strict=False)), sum(counts), self._sums_s[labels]
            )
            for labels, counts in sorted(self._counts.items())
        }
