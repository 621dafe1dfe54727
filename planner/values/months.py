"""Windows of calendar months: they begin at midnight UTC of the first day of a month, a quarter or a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

UNITS = {1: "month", 3: "quarter", 12: "year"}
"""They have the names of such windows by the number of their months."""
LONGEST = {1: timedelta(days=31), 3: timedelta(days=92), 12: timedelta(days=366)}
"""The longest of these windows, by the number of their months."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_US = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_US = (datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def begins_us(instant_us: int, months: int) -> int:
    """Return where the window of so many months begins that an instant lies in, in microseconds since 1970.

    Before the year 1 and from the year 9999 on there are no months: there it is the instant itself.
    """
    if not _FIRST_US <= instant_us < _LAST_US:
        return instant_us
    at = _EPOCH + timedelta(microseconds=instant_us)
    return _first_us(at.year * 12 + at.month - 1 - (at.month - 1) % months)


def ends_us(instant_us: int, months: int) -> int:
    """Return where the window ends that an instant lies in, which is the beginning of the next one."""
    if not _FIRST_US <= instant_us < _LAST_US:
        return instant_us
    at = _EPOCH + timedelta(microseconds=begins_us(instant_us, months))
    return _first_us(at.year * 12 + at.month - 1 + months)


def _first_us(month: int) -> int:
    return (datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
