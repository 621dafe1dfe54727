from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from contract.times import to_us


def test_microseconds_since_1970_in_any_zone() -> None:
    assert to_us(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert to_us(datetime(1970, 1, 1, 1, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))) == 1
    assert to_us(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
