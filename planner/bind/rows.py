"""FROM, JOIN and WHERE of a SELECT as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.bind import selects as bound
from planner.graph.operators import Filter, Join, Operator, Scan
from planner.sql.dialect import exp
from planner.values.names import INPUT_VIEW


def joined_rows(
    joins: Sequence[bound.Join],
    sources: Mapping[str, Operator] | None = None,
) -> Operator:
    """What stands first in FROM, with all that is joined to it.

    Args:
        joins: in order.
        sources: what the views read, where that is not a view of their own name.
    """
    given = sources or {}
    rows = given.get(INPUT_VIEW, Scan(INPUT_VIEW))
    for join in joins:
        view = join.member.view
        rows = Join(rows, given.get(view, Scan(view)), join.left, join.on)
    return rows


def kept(rows: Operator, conditions: Sequence[exp.Expr]) -> Operator:
    """The rows for which all conditions hold."""
    return Filter(rows, tuple(conditions)) if conditions else rows
