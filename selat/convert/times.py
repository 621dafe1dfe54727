"""Instants as the wire has them: microseconds since the Unix epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from selat.values import (
    END_OF_TIME,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


MICROSECOND = timedelta(microseconds=1)


_END_OF_TIME_US = (END_OF_TIME - _EPOCH) // MICROSECOND


def to_datetime(us: int) -> datetime:
    """The instant so many microseconds after the Unix epoch; `END_OF_TIME` for all that lie beyond the calendar."""
    return _EPOCH + timedelta(microseconds=us) if us < _END_OF_TIME_US else END_OF_TIME


def to_us(instant: datetime) -> int:
    """Microseconds since the Unix epoch."""
    return (instant - _EPOCH) // MICROSECOND
