"""Hand-written fakes of the master's ports, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class VirtualClock:
    """A clock that stands still until a test advances or sets it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._passed = timedelta(0)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))

    def advance(self, duration: timedelta) -> None:
        self._now += duration
        self._passed += duration

    def set_wall(self, by: timedelta) -> None:
        """Set the machine's clock by so much; no time passes."""
        self._now += by


class CountingHex:
    """Not random at all: 000001, 000002, ..."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, digits: int) -> str:
        self._count += 1
        return f"{self._count:0{digits}x}"
