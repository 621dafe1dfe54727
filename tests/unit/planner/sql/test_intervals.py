from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.sql.intervals import format_interval, parse_interval


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 seconds", timedelta(seconds=10)),
        ("1 HOUR 30 minutes", timedelta(minutes=90)),
        ("interval 2 days", timedelta(days=2)),
        ("0.5 seconds", timedelta(milliseconds=500)),
        ("1 week", timedelta(weeks=1)),
        *(
            (text, None)
            for text in ("", "10", "ten seconds", "1 month", "1 year", "-1 second", "1 second x", "9e9 days")
        ),
        ("99999999 days", None),
    ],
)
def test_parse(text: str, expected: timedelta | None) -> None:
    assert parse_interval(text) == expected


@given(st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=3650)))
def test_what_is_formatted_parses_back(length: timedelta) -> None:
    assert parse_interval(format_interval(length)) == length
