"""The share of a table's rows that conditions keep, by what ANALYZE TABLE found and by the usual guesses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date

from planner.relations.catalog import TableStatistics
from planner.rules.shape import selectivity_of
from planner.sql.dialect import exp

_LEAST = 1e-6
"""No condition is taken to keep less than this: the values may have changed since they were looked at."""
_PATTERN = 0.1
"""A pattern fits fewer texts than there are rows in half of a range."""
_PATTERNS = ("startswith", "endswith", "contains")
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


def counted_selectivity(conditions: Iterable[exp.Expr], found: TableStatistics) -> float:
    """The share of rows that fulfil the conditions.

    Each value of a column is taken to be as frequent as any other, and columns to be independent.

    Args:
        conditions: of one table; negations are left out, because most of them keep nearly all rows.
        found: what is known of the table.
    """
    share, ranges = 1.0, dict(found.ranges)
    for condition in conditions:
        plain = condition.unnest()
        negated = isinstance(plain, exp.Not) or plain.args.get("negate")
        if not negated and not _narrowed(ranges, plain):
            share *= _share(plain, found)
    for name, (low, high) in ranges.items():
        least, greatest = found.ranges[name]
        share *= max(_LEAST, (high - low) / (greatest - least)) if greatest > least else 1.0
    return share


def _share(condition: exp.Expr, found: TableStatistics) -> float:
    """Return the share that a condition keeps which narrows no range; alternatives keep what any of them keeps."""
    if isinstance(condition, exp.And):
        return counted_selectivity(condition.flatten(), found)
    if isinstance(condition, exp.Or):
        return min(1.0, sum(counted_selectivity([part], found) for part in condition.flatten()))
    if isinstance(condition, exp.Like) or (isinstance(condition, exp.Anonymous) and condition.name in _PATTERNS):
        return _PATTERN
    return _of_values(condition, found) or selectivity_of([condition])


def drawn(values: float, rows: float) -> float:
    """Return how many of the values are in rows whose values are drawn from them at random."""
    return values * -math.expm1(-rows / max(1.0, values))


def _of_values(condition: exp.Expr, found: TableStatistics) -> float | None:
    """For `column = value` and `column IN (values)` of a column that was counted; None: the condition is another."""
    if isinstance(condition, exp.EQ):
        sides = (condition.this.unnest(), condition.expression.unnest())
        columns, values = [side for side in sides if isinstance(side, exp.Column)], 1
    elif isinstance(condition, exp.In):
        columns, values = [condition.this.unnest()], len(condition.expressions)
    else:
        return None
    if len(columns) != 1 or not isinstance(columns[0], exp.Column):
        return None
    different = found.distinct.get(columns[0].name)
    return min(1.0, values / different) if different else None


def _narrowed(ranges: dict[str, tuple[float, float]], condition: exp.Expr) -> bool:
    """Cut the known range of a column that the condition compares with a value; return whether it does so."""
    if type(condition) not in _TURNED:
        return False
    kind, column, other = type(condition), condition.this.unnest(), condition.expression.unnest()
    if not isinstance(column, exp.Column):
        kind, column, other = _TURNED[kind], other, column
    value = _number(other)
    if not isinstance(column, exp.Column) or column.name not in ranges or value is None:
        return False
    low, high = ranges[column.name]
    if kind in (exp.GT, exp.GTE):
        ranges[column.name] = (min(max(low, value), high), high)
    else:
        ranges[column.name] = (low, max(min(high, value), low))
    return True


def _number(value: exp.Expr) -> float | None:
    """A number, or the day of a date (`date.toordinal`); None: it is neither."""
    literal = value.this.unnest() if isinstance(value, exp.Cast) else value
    if not isinstance(literal, exp.Literal):
        return None
    try:
        return float(literal.this)
    except ValueError:
        pass
    try:
        return float(date.fromisoformat(literal.this).toordinal())
    except ValueError:
        return None
