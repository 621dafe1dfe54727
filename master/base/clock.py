"""The clock port: whoever needs the time is given one of these."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time, in UTC."""
        ...

    def monotonic(self) -> timedelta:
        """The time since a fixed moment; setting the machine's clock does not change it."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> timedelta:
        return timedelta(seconds=time.monotonic())


class SteadyTime:
    """The wall clock's time at creation, advanced by the monotonic clock: setting the machine's clock has no effect.

    Code that waits for time to pass, or compares elapsed times, uses this clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origin = clock.now() - clock.monotonic()

    def now(self) -> datetime:
        return self._origin + self._clock.monotonic()

    @property
    def departure(self) -> timedelta:
        """The wall clock's lead over this time: how far it has been set forward since; below 0, back."""
        return self._clock.now() - self.now()

    def move(self, by: timedelta) -> None:
        """Shift this time by a duration, forward or back."""
        self._origin += by
