"""Virtual time: events in order of their instants, and of their making where instants are equal."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class Event:
    """Something that will be done, unless it is cancelled."""

    __slots__ = ("action", "at_s")

    def __init__(self, at_s: float, action: Callable[[], None]) -> None:
        self.at_s = at_s
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """It will not be done; nothing happens when it was done already."""
        self.action = None


class Clock:
    """Seconds since the start of the run, and what is still to come."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._made = 0
        self._queue: list[tuple[float, int, Event]] = []

    @property
    def now(self) -> datetime:
        """The same as an instant, for the planner."""
        return START + timedelta(seconds=self.now_s)

    def at(self, instant_s: float, action: Callable[[], None]) -> Event:
        """Do it then, or now when then is past."""
        event = Event(max(instant_s, self.now_s), action)
        self._made += 1
        heapq.heappush(self._queue, (event.at_s, self._made, event))
        return event

    def after(self, delay_s: float, action: Callable[[], None]) -> Event:
        return self.at(self.now_s + delay_s, action)

    def run(self, until_s: float = float("inf")) -> None:
        """Do everything up to an instant, or until nothing is left."""
        while self._queue and self._queue[0][0] <= until_s:
            self.now_s, _, event = heapq.heappop(self._queue)
            action, event.action = event.action, None
            if action is not None:
                action()


def seconds(instant: datetime) -> float:
    """An instant of the planner in seconds since the start."""
    return (instant - START).total_seconds()
