from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from selat.cli.output import human


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (1_500_000, "1.5 MB"), (2.5e15, "2.5 PB")],
)
def test_size(count: float, expected: str) -> None:
    assert human.size(count) == expected


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (timedelta(0), "0 s"),
        (timedelta(milliseconds=45), "45 ms"),
        (timedelta(seconds=3.5), "3.5 s"),
        (timedelta(seconds=10), "10 s"),
        (timedelta(seconds=125), "2 min 5 s"),
        (timedelta(minutes=2), "2 min"),
        (timedelta(hours=1, minutes=3, seconds=20), "1 h 3 min"),
        (timedelta(days=2, hours=4), "2 d 4 h"),
        (timedelta(seconds=-5), "-5 s"),
    ],
)
def test_duration(length: timedelta, expected: str) -> None:
    assert human.duration(length) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        (True, "true"),
        ("a\tb\x1b[2Jc", r"a\tb\x1b[2Jc"),
        ("naïve 日本", "naïve 日本"),
        (datetime(2013, 1, 1, 5, tzinfo=UTC), "2013-01-01 05:00:00"),
        (datetime(2013, 1, 1, 5, 0, 0, 250000, tzinfo=UTC), "2013-01-01 05:00:00.25"),
        (Decimal("1.50"), "1.50"),
        ({"start": datetime(2013, 1, 1, tzinfo=UTC), "n": None}, "{start: 2013-01-01 00:00:00, n: NULL}"),
        ([1, "x"], "[1, x]"),
        (b"\x00", "AA=="),
    ],
)
def test_cell(value: Any, expected: str) -> None:
    assert human.cell(value) == expected


def test_one_line() -> None:
    assert human.one_line("SELECT 1\n  FROM x", 40) == "SELECT 1 FROM x"
    assert human.one_line("SELECT 1\n  FROM x", 10) == "SELECT 1 …"


def test_no_instant() -> None:
    assert human.instant(None) == "-"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0, "0.00 USD"),
        (0.28, "0.28 USD"),
        (1234.5, "1,234.50 USD"),
        (0.0043, "0.0043 USD"),
        (0.00000012, "under 0.0001 USD"),
    ],
)
def test_money(amount: float, text: str) -> None:
    assert human.money(amount, "USD") == text
