from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.ranges import AllOf, AnyOf, Comparison, Condition, Range, is_compared, may_match, value_of

TYPES = {"n": "INT", "word": "STRING"}
COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
NUMBERS = st.integers(-3, 3)
TESTS = st.builds(
    lambda column, operator, value: Comparison(column, operator, str(value)),
    st.sampled_from(["n", "m"]),
    st.sampled_from([*COMPARED, "IS NULL", "IS NOT NULL"]),
    NUMBERS,
)
CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    TESTS,
    lambda parts: st.builds(
        lambda kind, chosen: kind(tuple(chosen)), st.sampled_from([AllOf, AnyOf]), st.lists(parts, max_size=3)
    ),
    max_leaves=6,
)
ROWS = st.lists(st.fixed_dictionaries({"n": st.none() | NUMBERS, "m": st.none() | NUMBERS}), max_size=4)


def holds(condition: Condition, row: Mapping[str, int | None]) -> bool:
    if isinstance(condition, AllOf):
        return all(holds(part, row) for part in condition.parts)
    if isinstance(condition, AnyOf):
        return any(holds(part, row) for part in condition.parts)
    value = row[condition.column]
    if condition.operator in ("IS NULL", "IS NOT NULL"):
        return (value is None) == (condition.operator == "IS NULL")
    return value is not None and COMPARED[condition.operator](value, int(condition.value))


def range_of(values: list[int | None]) -> Range:
    known = [value for value in values if value is not None]
    return Range(min(known, default=None), max(known, default=None), len(known) < len(values), bool(known))


@given(CONDITIONS, ROWS, st.booleans())
def test_a_part_with_a_row_that_is_needed_is_never_left_out(
    condition: Condition, rows: list[dict[str, int | None]], known: bool
) -> None:
    ranges = {column: range_of([row[column] for row in rows]) for column in (("n", "m") if known else ("n",))}
    if any(holds(condition, row) for row in rows):
        assert may_match(condition, ranges, {"n": "INT", "m": "BIGINT"})


@pytest.mark.parametrize(
    ("test", "found", "expected"),
    [
        (Comparison("n", "=", "5"), Range(1, 4), False),
        (Comparison("n", "=", "4"), Range(1, 4), True),
        (Comparison("n", "<", "1"), Range(1, 4), False),
        (Comparison("n", "<=", "1"), Range(1, 4), True),
        (Comparison("n", ">", "4"), Range(1, 4), False),
        (Comparison("n", ">=", "4"), Range(1, 4), True),
        (Comparison("n", ">", "3.5"), Range(1, 4), True),
        (Comparison("n", ">", "3.5"), Range(1, 3), False),
        (Comparison("n", "="), Range(1, 3), True),
        (Comparison("n", "=", "5"), Range(None, 4), False),
        (Comparison("n", "=", "0"), Range(None, 4), True),
        (Comparison("n", "=", "5"), Range("a", "b"), True),
        (Comparison("n", "=", "5"), Range(values=False), False),
        (Comparison("n", "IS NULL"), Range(nulls=False), False),
        (Comparison("n", "IS NOT NULL"), Range(values=False), False),
        (Comparison("word", "=", "é"), Range("a", "z"), False),
        (Comparison("word", "<", "B"), Range("a", "z"), False),
        (Comparison("other", "=", "5"), Range(1, 4), True),
    ],
)
def test_one_test(test: Comparison, found: Range, expected: bool) -> None:
    assert may_match(test, {test.column: found}, TYPES) is expected


@pytest.mark.parametrize(
    ("text", "column_type", "value"),
    [
        ("-7", "BIGINT", -7),
        ("1.50", "DECIMAL(15,2)", Decimal("1.5")),
        (" x ", "STRING", " x "),
        ("2026-01-31", "DATE", date(2026, 1, 31)),
        ("2026-01-31", "TIMESTAMP", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31 10:00:00.5", "TIMESTAMP", datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_values(text: str, column_type: str, value: object) -> None:
    assert is_compared(column_type)
    assert value_of(text, column_type) == value


@pytest.mark.parametrize(
    ("text", "column_type"),
    [
        ("1e3", "INT"),
        ("٣", "INT"),
        ("1" * 19, "BIGINT"),
        ("1", "DOUBLE"),
        ("1", "DECIMAL(38,2)"),
        ("2026-1-31", "DATE"),
        ("2026-02-31", "DATE"),
        ("2026-01-31 10:00:00", "DATE"),
        ("2026-01-31T10:00:00Z", "TIMESTAMP"),
        ("true", "BOOLEAN"),
    ],
)
def test_what_is_not_compared(text: str, column_type: str) -> None:
    with pytest.raises(ValueError, match=rf"{re.escape(text)}|out of range"):
        value_of(text, column_type)
