"""Delays between attempts."""

from __future__ import annotations

from collections.abc import Callable

FIRST_S = 0.1
LONGEST_S = 5.0


class Backoff:
    """Doubles the delay from the first to the longest; each is shortened by up to half, so that sites do not act in
    step."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._failures = 0

    def next_delay_s(self, *, longest_s: float | None = None) -> float:
        """The delay after one more failure; `longest_s` lowers the limit for this failure only."""
        longest = LONGEST_S if longest_s is None else min(longest_s, LONGEST_S)
        full = min(longest, FIRST_S * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return full * (1.0 - self._random() / 2.0)

    def reset(self) -> None:
        """Start again from the first delay, after a success."""
        self._failures = 0
