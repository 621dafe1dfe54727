"""Instants and durations as whole microseconds, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_us(instant: datetime) -> int:
    """Microseconds since the Unix epoch; exact, unlike `timestamp()`."""
    return (instant - _EPOCH) // _MICROSECOND


def from_us(instant_us: int) -> datetime:
    """The UTC instant of that many microseconds since the Unix epoch."""
    return _EPOCH + timedelta(microseconds=instant_us)


def duration_us(duration: timedelta) -> int:
    return duration // _MICROSECOND
