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
        """The time since a fixed moment, which setting the machine's clock does not change."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> timedelta:
        return timedelta(seconds=time.monotonic())


class SteadyTime:
    """The wall clock's time of a moment, carried on by the monotonic clock: setting the machine's clock moves nothing.

    Whatever waits for time to pass, or judges by how much has passed, takes its time from here.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origin = clock.now() - clock.monotonic()

    def now(self) -> datetime:
        return self._origin + self._clock.monotonic()

    @property
    def departure(self) -> timedelta:
        """How far the wall clock is ahead: by how much it was set forward since; below 0, it was set back."""
        return self._clock.now() - self.now()

    def move(self, by: timedelta) -> None:
        """Go on from an instant so much later."""
        self._origin += by
