"""Which parts of a table can hold rows that a task needs: its conditions as trees, against what is known of a part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal

from planner.values.decimals import MAX_LONG_DIGITS, digits_of

Value = int | Decimal | str | date
Operator = Literal["=", "<", "<=", ">", ">=", "IS NULL", "IS NOT NULL"]

WHOLE_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a value."""

    column: str
    operator: Operator
    value: str = ""
    """As text of the column's type; see `value_of`."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """True where all parts are."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where a part is."""

    parts: tuple[Condition, ...]


Condition = Comparison | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Range:
    """What is known of the values of a column in a part of a table."""

    low: Value | None = None
    """No value is less. None: not known."""
    high: Value | None = None
    """No value is greater. None: not known."""
    nulls: bool = True
    """A row may have NULL."""
    values: bool = True
    """A row may have a value."""


def value_of(text: str, column_type: str) -> Value:
    """The value that a text stands for in a column; equal and ordered as Spark compares values of the type.

    Raises:
        ValueError: the text is no value of the type, or the type's order is not known here.
    """
    if column_type == "STRING":
        return text
    if column_type in WHOLE_NUMBERS or _few_digits(column_type):
        if not _NUMBER.fullmatch(text) or sum(map(str.isdigit, text)) > MAX_LONG_DIGITS:
            raise ValueError(text)
        return Decimal(text) if "." in text else int(text)
    if column_type == "DATE" and _DATE.fullmatch(text):
        return date.fromisoformat(text)
    if column_type == "TIMESTAMP" and _TIMESTAMP.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    raise ValueError(text)


def is_compared(column_type: str) -> bool:
    """Return True when values of the type are compared here."""
    return column_type in WHOLE_NUMBERS | {"STRING", "DATE", "TIMESTAMP"} or _few_digits(column_type)


def may_match(condition: Condition, ranges: Mapping[str, Range], types: Mapping[str, str]) -> bool:
    """Return True when the condition may be true for a row of a part.

    Args:
        condition: of the rows that are needed.
        ranges: by column; of others nothing is known.
        types: of the columns.
    """
    if isinstance(condition, AllOf):
        return all(may_match(part, ranges, types) for part in condition.parts)
    if isinstance(condition, AnyOf):
        return any(may_match(part, ranges, types) for part in condition.parts)
    found = ranges.get(condition.column)
    return found is None or _test_may_hold(condition, found, types.get(condition.column, ""))


def _test_may_hold(test: Comparison, known: Range, column_type: str) -> bool:
    if test.operator == "IS NULL":
        return known.nulls
    if test.operator == "IS NOT NULL":
        return known.values
    try:
        value = value_of(test.value, column_type)
    except ValueError:
        return True
    if not known.values:
        return False
    low, high = (bound if _comparable(bound, value) else None for bound in (known.low, known.high))
    above = low is not None and (low >= value if test.operator == "<" else low > value)  # type: ignore[operator]
    below = high is not None and (high <= value if test.operator == ">" else high < value)  # type: ignore[operator]
    return not ((above and test.operator in ("=", "<", "<=")) or (below and test.operator in ("=", ">", ">=")))


def _comparable(bound: Value | None, value: Value) -> bool:
    if isinstance(value, int | Decimal):
        return isinstance(bound, int | Decimal) and not isinstance(bound, bool)
    return type(bound) is type(value)


def _few_digits(column_type: str) -> bool:
    """Return whether Spark compares two such decimals exactly, whichever they are."""
    digits = digits_of(column_type)
    return digits is not None and digits.precision <= MAX_LONG_DIGITS
