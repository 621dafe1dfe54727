"""Instants as microseconds since 1970, exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_us(instant: datetime) -> int:
    """Microseconds since 1970; the instant knows its zone."""
    return (instant - _EPOCH) // _MICROSECOND
