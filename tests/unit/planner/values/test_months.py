"""Calendar months as windows, beside the calendar of DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.values.months import LONGEST, UNITS, begins_us, ends_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(*date: int) -> int:
    return (datetime(*date, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("instant", "months", "begin", "end"),
    [
        ((2024, 2, 29, 23), 1, (2024, 2, 1), (2024, 3, 1)),
        ((2024, 3, 1), 1, (2024, 3, 1), (2024, 4, 1)),
        ((2023, 12, 31, 23, 59, 59), 1, (2023, 12, 1), (2024, 1, 1)),
        ((2024, 5, 15), 3, (2024, 4, 1), (2024, 7, 1)),
        ((2024, 12, 31), 3, (2024, 10, 1), (2025, 1, 1)),
        ((2024, 12, 31), 12, (2024, 1, 1), (2025, 1, 1)),
        ((1969, 7, 20), 12, (1969, 1, 1), (1970, 1, 1)),
    ],
)
def test_where_a_window_begins_and_ends(
    instant: tuple[int, ...], months: int, begin: tuple[int, ...], end: tuple[int, ...]
) -> None:
    assert (begins_us(us(*instant), months), ends_us(us(*instant), months)) == (us(*begin), us(*end))


@settings(max_examples=100)
@given(st.integers(us(1800, 1, 1), us(2300, 1, 1)), st.sampled_from(sorted(UNITS)))
def test_it_is_the_calendar_of_others(instant_us: int, months: int) -> None:
    text = f"SELECT epoch_us(date_trunc('{UNITS[months]}', make_timestamp({instant_us})))"
    (found,) = duckdb.execute(text).fetchall()[0]
    assert begins_us(instant_us, months) == found
    assert begins_us(ends_us(instant_us, months) - 1, months) == found
    assert ends_us(instant_us, months) - found <= LONGEST[months] // timedelta(microseconds=1)


@pytest.mark.parametrize("instant_us", [2**63 - 1, -(2**62)])
def test_where_there_is_no_calendar_it_is_the_instant(instant_us: int) -> None:
    assert (begins_us(instant_us, 1), ends_us(instant_us, 3)) == (instant_us, instant_us)
