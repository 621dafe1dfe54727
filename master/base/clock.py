"""A time that setting the machine's clock does not change."""

from __future__ import annotations

from datetime import datetime, timedelta

from machine.clock import Clock


class SteadyTime:
    """The wall clock's time at creation, advanced by the monotonic clock: setting the machine's clock has no effect.

    Code that waits for time to pass, or compares elapsed times, uses this clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origin = clock.now() - _running(clock)

    def now(self) -> datetime:
        return self._origin + _running(self._clock)

    @property
    def departure(self) -> timedelta:
        """The wall clock's lead over this time: how far it has been set forward since; below 0, back."""
        return self._clock.now() - self.now()

    def move(self, by: timedelta) -> None:
        """Shift this time by a duration, forward or back."""
        self._origin += by


def _running(clock: Clock) -> timedelta:
    return timedelta(seconds=clock.monotonic())
