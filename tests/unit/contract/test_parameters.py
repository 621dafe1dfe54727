"""Literals in the place of parameters: what a database that reads Spark's literals makes of them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.parameters import NoLiteralError, ParameterError, bound, literal, question_marks
from planner.sql.dialect import TokenType, tokenize
from planner.sql.source import Source


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (-7, "-7"),
        (-(2**40), "CAST('-1099511627776' AS BIGINT)"),
        (2**70, "CAST('1180591620717411303424' AS DECIMAL(38,0))"),
        (0.1, "CAST('0.1' AS DOUBLE)"),
        (math.nan, "CAST('NaN' AS DOUBLE)"),
        (-math.inf, "CAST('-Infinity' AS DOUBLE)"),
        (Decimal("1.50"), "CAST('1.50' AS DECIMAL(3,2))"),
        (Decimal("0.001"), "CAST('0.001' AS DECIMAL(3,3))"),
        (Decimal("2E+3"), "CAST('2000' AS DECIMAL(4,0))"),
        ("it's \\ so", "'it\\'s \\\\ so'"),
        (b"\x00\xff", "X'00FF'"),
        (date(2026, 1, 2), "CAST('2026-01-02' AS DATE)"),
        (time(1, 2, 3), "CAST('01:02:03.000000' AS TIME)"),
        (datetime(2026, 1, 2, 3), "CAST('2026-01-02 03:00:00' AS TIMESTAMP_NTZ)"),  # noqa: DTZ001 - without a zone
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "CAST('2026-01-02 03:00:00+00:00' AS TIMESTAMP_LTZ)"),
        (
            datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
            "CAST('2026-01-02 02:00:00+00:00' AS TIMESTAMP_LTZ)",
        ),
        (timedelta(days=1, seconds=2, microseconds=3), "INTERVAL '1 00:00:02.000003' DAY TO SECOND"),
        (timedelta(microseconds=-1), "INTERVAL '-0 00:00:00.000001' DAY TO SECOND"),
        ([1, "a"], "array(1, 'a')"),
    ],
)
def test_literals(value: object, sql: str) -> None:
    assert literal(value) == sql


@pytest.mark.parametrize("value", [object(), {1}, 10**40, Decimal("NaN"), Decimal(10) ** 50])
def test_what_has_no_literal(value: object) -> None:
    with pytest.raises(NoLiteralError):
        literal(value)


@given(st.text())
def test_any_text_is_one_literal_that_means_it(text: str) -> None:
    (found,) = tokenize(Source(bound("?", (literal(text),))))
    assert (found.token_type, found.text) == (TokenType.STRING, text)


def test_only_parameters_outside_of_texts_names_and_comments() -> None:
    statement = "SELECT '?\\'?''?', \"?\"\"?\", `?``?`, r'\\', ? -- ?\\\n?\n/* ? */ WHERE a = ?"
    assert bound(statement, ("1", "2")) == statement.replace(", ? --", ", 1 --").replace("a = ?", "a = 2")
    assert question_marks(statement) == 2
    named = "SELECT ':x', \":x\", `:x`, r':x\\' -- :x\n, /* :x */ :x, :`y``` FROM t"
    assert bound(named, named={"x": "1", "y`": "2"}) == named.replace(" :x,", " 1,").replace(":`y```", "2")


def test_literals_do_not_run_into_their_neighbours() -> None:
    assert bound("SELECT a-?,'x'?AND(?)", ("-1", "'y'", "2")) == "SELECT a- -1,'x' 'y' AND(2)"
    assert bound("SELECT?", ("1",)) == "SELECT 1"


def test_colons_that_are_no_parameters() -> None:
    statement = "SELECT v:x, f(y):x, a[1]:x, `v`:x, b::INT, CAST(c AS STRUCT<x:INT>), :5"
    assert bound(statement, named={"x": "1"}) == statement


def test_names_are_exact() -> None:
    assert bound("SELECT :date, :Größe, :_1, :2nd", named={"date": "1", "Größe": "2", "_1": "3", "2nd": "4"}) == (
        "SELECT 1, 2, 3, 4"
    )
    with pytest.raises(ParameterError, match="no value for parameter :X") as raised:
        bound("SELECT :X", named={"x": "1"})
    assert raised.value.condition == "UNBOUND_SQL_PARAMETER"


def test_each_parameter_has_a_value_and_more_may_be_given() -> None:
    assert bound("SELECT ?", ("1", "2")) == "SELECT 1"
    with pytest.raises(ParameterError, match="question mark 2"):
        bound("SELECT ?, ?", ("1",))
    with pytest.raises(ParameterError, match="question mark 1"):
        bound("SELECT ?, :x", named={"x": "1"})


@pytest.mark.parametrize(
    "statement",
    ["SELECT 'x", 'SELECT "x', "SELECT `x", "/* a /* b */ c */", "/* a", "SELECT 1.0R'\\' , ?", "$$ ? $$", "$a$?$a$"],
)
def test_what_cannot_be_read_safely_is_refused(statement: str) -> None:
    with pytest.raises(ParameterError, match=r"cannot have this.*line 1, column"):
        bound(statement, ("1",))
