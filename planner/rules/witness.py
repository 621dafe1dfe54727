"""Values that fulfil conditions: they stand in the REDUCE for columns that only these conditions read.

All rows that a MAP sends fulfil the conditions of their scan, so a column that nothing else reads need not be sent: any
values that fulfil the conditions do as well as the row's own. They are looked for among the conditions' constants and
their neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from planner.values import ranges
from planner.values.decimals import digits_of
from planner.values.scans import SparkExpression

Value = ranges.Value | bool | None
"""A value of a column or expression; None is NULL."""

MAX_TRIED = 20_000
"""The search gives up after so many values, and the columns are sent after all."""
_MAX_OF_KIND = 40

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FIRST_DAY = date(2000, 1, 1)


class _UnknownError(Exception):
    """An expression has a value that is not known here."""


def witness(conditions: Sequence[SparkExpression], types: Mapping[str, str]) -> dict[str, Value]:
    """Return values with which all conditions are true, of those columns for which some were found.

    Args:
        conditions: each reads one of the columns or more, and no others.
        types: Spark's types of the columns in capitals, by name.
    """
    found: dict[str, Value] = {}
    for names, parts in _apart(conditions, types):
        with suppress(_UnknownError):
            found |= _Search(names, parts, [types[name] for name in names]).values_from(0, {}) or {}
    return found


def _apart(
    conditions: Iterable[SparkExpression], names: Iterable[str]
) -> list[tuple[list[str], list[SparkExpression]]]:
    """Return the columns in groups, with their conditions: none compares columns of two groups."""
    groups: list[tuple[set[str], list[SparkExpression]]] = [({name}, []) for name in names]
    for condition in conditions:
        read = set(columns_in(condition))
        met = [group for group in groups if group[0] & read]
        together = set[str]().union(*(group[0] for group in met)), [part for group in met for part in group[1]]
        groups = [*(group for group in groups if group not in met), (together[0], [*together[1], condition])]
    return [(sorted(group), parts) for group, parts in groups if group]


@dataclass(slots=True)
class _Search:
    """Tries values of one column after the other; a condition is looked at when its last column has a value."""

    names: list[str]
    conditions: list[SparkExpression]
    types: list[str]
    tried: int = 0

    def values_from(self, place: int, values: dict[str, Value]) -> dict[str, Value] | None:
        """Return these values and those of all further columns; None: there are none, or too many were tried."""
        if place == len(self.names):
            return values
        complete = [part for part in self.conditions if self._last(part) == place]
        literals = [value for part in self.conditions for value in _literals(part)]
        for value in _candidates(self.types[place], literals, len(self.names)):
            self.tried += 1
            more = {**values, self.names[place]: value}
            if self.tried <= MAX_TRIED and all(_value(part, more) is True for part in complete):
                found = self.values_from(place + 1, more)
                if found is not None:
                    return found
        return None

    def _last(self, condition: SparkExpression) -> int:
        return max(map(self.names.index, columns_in(condition)))


def columns_in(expression: SparkExpression) -> Iterator[str]:
    """Yield the names of the columns that an expression reads."""
    if expression.kind == "AttributeReference" and expression.text is not None:
        yield expression.text
    for part in expression.arguments:
        yield from columns_in(part)


def _literals(expression: SparkExpression) -> Iterator[Value]:
    if expression.kind == "Literal":
        yield _parsed(expression)
    for part in expression.arguments:
        yield from _literals(part)


def _parsed(literal: SparkExpression) -> Value:
    if literal.text is None:
        return None
    if literal.type == "BOOLEAN":
        return literal.text == "true"
    try:
        return ranges.value_of(literal.text, literal.type)
    except ValueError as error:
        raise _UnknownError from error


def _candidates(kind: str, literals: Sequence[Value], columns: int) -> list[Value]:
    """Return values of a type to try: constants, those next to them (as many as there are columns), and NULL."""
    if kind == "BOOLEAN":
        return [True, False, None]
    steps = range(-columns, columns + 1)
    if kind == "STRING":
        found: list[Value] = [form for text in literals if isinstance(text, str) for form in _forms(text)]
        found.append("")
    elif kind == "DATE":
        days = [value for value in literals if isinstance(value, date)] or [_FIRST_DAY]
        found = [day + timedelta(days=step) for day in days for step in steps]
    else:
        found = _numbers(kind, literals, steps)
    return [*list(dict.fromkeys(found))[:_MAX_OF_KIND], None]


def _forms(text: str) -> tuple[str, ...]:
    """Return a constant itself, a text that fits it where it is a pattern, and a text behind it."""
    return text, text.replace("%", "").replace("_", "a"), f"{text}a"


def _numbers(kind: str, literals: Sequence[Value], steps: range) -> list[Value]:
    near = [Decimal(value) for value in literals if isinstance(value, int | Decimal) and not isinstance(value, bool)]
    digits = digits_of(kind)
    if kind in _BITS:
        limit, unit = Decimal(1 << (_BITS[kind] - 1)), Decimal(1)
    elif digits is not None:
        limit, unit = Decimal(10) ** (digits.precision - digits.scale), Decimal(1).scaleb(-digits.scale)
    else:
        raise _UnknownError
    exact = [value.quantize(unit) for value in near or [Decimal(0)] if abs(value) < limit]
    numbers = [value + step * unit for value in exact for step in steps]
    return [int(number) if kind in _BITS else number for number in numbers if abs(number) < limit]


def _value(expression: SparkExpression, values: Mapping[str, Value]) -> Value:
    """Return the value that Spark gives an expression. Raises _UnknownError when that is not known here."""
    if "COLLATE" in expression.type:
        raise _UnknownError
    if expression.kind == "AttributeReference":
        return values[expression.text or ""]
    if expression.kind == "Literal":
        return _parsed(expression)
    evaluate = _KINDS.get(expression.kind)
    if evaluate is None:
        raise _UnknownError
    return evaluate(expression, [_value(part, values) for part in expression.arguments])


def _and(_: SparkExpression, parts: list[Value]) -> Value:
    return False if False in parts else (None if None in parts else True)


def _or(_: SparkExpression, parts: list[Value]) -> Value:
    return True if True in parts else (None if None in parts else False)


def _of_values(call: Callable[..., Value]) -> Callable[[SparkExpression, list[Value]], Value]:
    """Return a function that gives NULL where a part is NULL."""

    def evaluate(expression: SparkExpression, parts: list[Value]) -> Value:
        if None in parts:
            return None
        try:
            return call(*parts)
        except TypeError as error:
            raise _UnknownError from error

    return evaluate


def _in(_: SparkExpression, parts: list[Value]) -> Value:
    value, *choices = parts
    if value is None:
        return None
    return True if value in choices else (None if None in choices else False)


def _like(expression: SparkExpression, parts: list[Value]) -> Value:
    text, pattern = parts
    if not isinstance(text, str) or not isinstance(pattern, str) or expression.text != "\\" or "\\" in pattern:
        raise _UnknownError
    regular = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(regular, text, re.DOTALL) is not None


def _cast(expression: SparkExpression, parts: list[Value]) -> Value:
    """Return the value itself: conditions that a MAP evaluates have casts to wider numbers alone."""
    (value,) = parts
    to_number = expression.type in _BITS or digits_of(expression.type) is not None
    if not to_number or not (value is None or (isinstance(value, int | Decimal) and not isinstance(value, bool))):
        raise _UnknownError
    return value


def _substring(text: Value, position: Value, length: Value) -> Value:
    if not isinstance(text, str) or not isinstance(position, int) or not isinstance(length, int):
        raise _UnknownError
    if position < 1 or length < 0:
        raise _UnknownError
    return text[position - 1 : position - 1 + length]


_KINDS: Mapping[str, Callable[[SparkExpression, list[Value]], Value]] = {
    "And": _and,
    "Or": _or,
    "Not": _of_values(lambda a: not a),
    "IsNull": lambda _, parts: parts[0] is None,
    "IsNotNull": lambda _, parts: parts[0] is not None,
    "In": _in,
    "Like": lambda expression, parts: None if None in parts else _like(expression, parts),
    "Cast": _cast,
    "EqualTo": _of_values(lambda a, b: a == b),
    "EqualNullSafe": lambda _, parts: parts[0] == parts[1],
    "LessThan": _of_values(lambda a, b: a < b),
    "LessThanOrEqual": _of_values(lambda a, b: a <= b),
    "GreaterThan": _of_values(lambda a, b: a > b),
    "GreaterThanOrEqual": _of_values(lambda a, b: a >= b),
    "StartsWith": _of_values(lambda a, b: a.startswith(b)),
    "EndsWith": _of_values(lambda a, b: a.endswith(b)),
    "Contains": _of_values(lambda a, b: b in a),
    "Substring": _of_values(_substring),
}
"""The functions that evaluate expressions, by the class of Spark, as in `pushed`."""
