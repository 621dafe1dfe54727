"""FROM, JOIN and WHERE of a SELECT as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.bind import selects as bound
from planner.graph.operators import Alias, Filter, Generate, Join, Named, Operator, Project, Scan
from planner.sql.dialect import exp, name_node
from planner.values.names import INPUT_VIEW


def joined_rows(
    joins: Sequence[bound.Join],
    sources: Mapping[str, Operator] | None = None,
    laterals: Sequence[bound.Lateral] = (),
) -> Operator:
    """What stands first in FROM, with all that is joined to it.

    Args:
        joins: in order.
        sources: what the views read, where that is not a view of their own name.
        laterals: the lateral views, in order.
    """
    given = sources or {}
    rows = given.get(INPUT_VIEW, Scan(INPUT_VIEW))
    for place, join in enumerate((None, *joins)):
        if join is not None:
            view = join.member.view
            rows = Join(rows, given.get(view, Scan(view)), join.left, join.on, join.only)
        for lateral in (found for found in laterals if found.joins == place):
            columns = tuple(column.name for column in lateral.member.relation.columns)
            rows = Generate(rows, lateral.call, lateral.member.view, columns, lateral.outer)
            if place < len(joins):
                rows = _in_front(rows)
    return rows


def _in_front(rows: Generate) -> Operator:
    """Rows of a generator that others are joined to: Spark has lateral views behind all joins.

    What the view has becomes a structure of the view's name, so that `view.column` means the same as before.
    """
    pairs: list[exp.Expr] = []
    for name in rows.columns:
        pairs += [exp.Literal.string(name), exp.Column(this=name_node(name), table=name_node(rows.view))]
    star = exp.Column(this=exp.Star(), table=name_node(INPUT_VIEW))
    made = Named(rows.view, exp.Anonymous(this="named_struct", expressions=pairs))
    return Alias(Project(rows, (Named("*", star), made)), INPUT_VIEW)


def kept(rows: Operator, conditions: Sequence[exp.Expr]) -> Operator:
    """The rows for which all conditions hold."""
    return Filter(rows, tuple(conditions)) if conditions else rows
