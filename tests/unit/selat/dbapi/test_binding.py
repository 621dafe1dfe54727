"""Values in the place of question marks: what a database that reads Spark's literals makes of them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from selat.dbapi.binding import bound, literal
from selat.dbapi.errors import DataError, ProgrammingError


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
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
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "CAST('2026-01-02 03:00:00' AS TIMESTAMP)"),
        (
            datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
            "CAST('2026-01-02 02:00:00' AS TIMESTAMP)",
        ),
        ([1, "a"], "array(1, 'a')"),
    ],
)
def test_literals(value: object, sql: str) -> None:
    assert literal(value) == sql


@pytest.mark.parametrize("value", [object(), {1}, 10**40, Decimal("NaN"), Decimal(10) ** 50])
def test_what_has_no_literal(value: object) -> None:
    with pytest.raises(DataError):
        literal(value)


@given(st.text())
def test_any_text_is_one_literal_that_means_it(text: str) -> None:
    if "\0" in text:
        return
    tree = sqlglot.parse_one(f"SELECT {literal(text)}", read="spark", into=sqlglot.exp.Select)
    (found,) = tree.expressions
    assert isinstance(found, sqlglot.exp.Literal)
    assert found.is_string
    assert len(found.this.replace("\\\\", "\\").replace("\\'", "'")) <= len(text)


def test_only_question_marks_outside_of_texts_and_comments() -> None:
    statement = "SELECT '?\\'?', \"?\", `?`, ? -- ?\n/* ? */ WHERE a = ?"
    assert bound(statement, (1, "?")) == "SELECT '?\\'?', \"?\", `?`, 1 -- ?\n/* ? */ WHERE a = '?'"


@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3)])
def test_as_many_values_as_question_marks(values: tuple[int, ...]) -> None:
    with pytest.raises(ProgrammingError):
        bound("SELECT ?, ?", values)
