"""The share of a table's rows that conditions keep, by what ANALYZE TABLE counted and by the usual guesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.rules.shape import selectivity_of
from planner.sql.dialect import exp


def counted_selectivity(conditions: Iterable[exp.Expr], distinct: Mapping[str, int]) -> float:
    """The share of rows that fulfil the conditions.

    Args:
        conditions: of one table; negations are left out, because most of them keep nearly all rows.
        distinct: how many different values columns have, as far as that is known. Each is taken to be as frequent.
    """
    share = 1.0
    for condition in conditions:
        plain = condition.unnest()
        if not isinstance(plain, exp.Not):
            share *= _of_values(plain, distinct) or selectivity_of([plain])
    return share


def _of_values(condition: exp.Expr, distinct: Mapping[str, int]) -> float | None:
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
    different = distinct.get(columns[0].name)
    return min(1.0, values / different) if different else None
