"""Rates of counters that only grow and are sampled now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from datetime import datetime, timedelta

WINDOW = timedelta(seconds=10)


class RateMeter:
    """The mean rate per second of each counter over its last samples (at most WINDOW)."""

    def __init__(self, window: timedelta = WINDOW) -> None:
        self._window = window
        self._samples: dict[Hashable, deque[tuple[datetime, int]]] = {}

    def observe(self, key: Hashable, at: datetime, total: int) -> None:
        """Record a counter's value. A value below the last one starts the counter again."""
        samples = self._samples.setdefault(key, deque())
        if samples and total < samples[-1][1]:
            samples.clear()
        samples.append((at, total))
        # The one sample older than the window stays as the base of the rate.
        while len(samples) > 2 and samples[1][0] <= at - self._window:
            samples.popleft()

    def per_second(self, key: Hashable, now: datetime) -> float:
        """The rate; 0 with fewer than two samples, or when the last one is older than the window."""
        samples = self._samples.get(key, deque())
        if len(samples) < 2 or samples[-1][0] <= now - self._window:
            return 0.0
        (start, first), (end, last) = samples[0], samples[-1]
        seconds = (end - start).total_seconds()
        return (last - first) / seconds if seconds > 0 else 0.0

    def forget(self, key: Hashable) -> None:
        self._samples.pop(key, None)
