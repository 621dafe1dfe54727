"""Tests statements as handles, and values in them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from master.base.errors import InvalidRequestError
from master.flight.handles import Handle


def test_a_handle_holds_its_statement_and_values() -> None:
    plain = Handle("SELECT 'ü?' AS x -- ?")
    assert Handle.of(plain.data) == plain
    assert (plain.text, plain.marks) == (plain.statement, 0)
    given = Handle("SELECT ?, 'a?'").with_values(["it's"])
    assert Handle.of(given.data) == given
    assert given.text == "SELECT 'it\\'s', 'a?'"
    assert given.with_values([2]).text == "SELECT 2, 'a?'"


@pytest.mark.parametrize("data", [b"", b"SELECT 1", b"[]", b"[1]", b'["SELECT ?", 1]', b"\xff", b"{}"])
def test_what_is_no_handle_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="no such statement"):
        Handle.of(data)


def test_values_become_literals() -> None:
    values = ("it's", 3, None, Decimal("1.50"), date(2026, 1, 2))
    text = Handle("SELECT ?, ?, ?, ?, ?").with_values(values).text
    assert text.startswith("SELECT 'it\\'s', 3, NULL, CAST('1.50' AS DECIMAL(3,2)), ")
    assert "2026-01-01 00:00:00" in Handle("SELECT ?").with_values([datetime(2026, 1, 1, tzinfo=UTC)]).text


@pytest.mark.parametrize(
    ("statement", "values", "message"),
    [
        ("SELECT ?", (), "0 values are given, and the statement has 1"),
        ("SELECT 1", (1,), "1 values are given, and the statement has 0"),
        ("SELECT ?", ({"a": 1},), "literal|value"),
        ("SELECT '?", (1,), "1 values are given, and the statement has 0"),
    ],
)
def test_values_that_do_not_fit_are_refused(statement: str, values: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Handle(statement).with_values(values)


def test_a_value_that_is_missing_is_told() -> None:
    with pytest.raises(InvalidRequestError, match="no value for question mark 1"):
        _ = Handle("SELECT ?").text
