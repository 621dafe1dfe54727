"""How long to wait before a program that died is restarted."""

from __future__ import annotations

from datetime import timedelta

LONGEST_PAUSE = timedelta(seconds=10)
"""The longest pause, however often the program dies."""


class Backoff:
    """Doubles the pause with each death, up to a limit; a program that ran long enough starts afresh."""

    def __init__(
        self, *, first_s: float = 0.5, most_s: float = LONGEST_PAUSE.total_seconds(), forgiven_after_s: float = 60.0
    ) -> None:
        self._first_s = min(first_s, most_s)
        self._most_s = most_s
        self._forgiven_after_s = forgiven_after_s
        self._next_s = self._first_s

    def pause_s(self, lived_s: float) -> float:
        """The pause after a run of that length."""
        if lived_s >= self._forgiven_after_s:
            self._next_s = self._first_s
        pause_s = self._next_s
        self._next_s = min(self._most_s, pause_s * 2)
        return pause_s
