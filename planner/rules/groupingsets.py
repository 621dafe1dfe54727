"""Groups by several sets of keys: each row of a group of all keys once for each set, without the keys it lacks."""

from __future__ import annotations

from collections.abc import Sequence

from planner.bind.groupingsets import GroupingSets
from planner.graph.operators import Generate, Named, Operator, Project
from planner.sql.dialect import exp, name_node

SET_COLUMN = "_g"
"""The place of the set; a key that is NULL in a row is told from one that its set lacks by it."""


def expanded(rows: Operator, names: Sequence[str], keys: Sequence[str], sets: GroupingSets) -> Operator:
    """The rows for each set, which `SET_COLUMN` says.

    Args:
        rows: of groups by all keys, or single ones.
        names: their columns.
        keys: names of the columns that are keys besides the window, in the order of the query.
        sets: of places among these.
    """
    places = [exp.Literal.number(place) for place in range(len(sets.sets))]
    call = exp.Anonymous(this="explode", expressions=[exp.Anonymous(this="array", expressions=places)])
    generated = Generate(rows, call, "sets", (SET_COLUMN,), outer=False)
    having = {key: [n for n, set_ in enumerate(sets.sets) if place in set_] for place, key in enumerate(keys)}
    items = [Named(name, _kept(name, having.get(name), len(sets.sets))) for name in names]
    return Project(generated, (*items, Named(SET_COLUMN, _column(SET_COLUMN))))


def grouping(ids: Sequence[int]) -> exp.Expr:
    """Return the expression for `grouping`, over rows that say their set."""
    numbers = exp.Anonymous(this="array", expressions=[exp.Literal.number(number) for number in ids])
    place = exp.Add(this=_column(SET_COLUMN), expression=exp.Literal.number(1))
    return exp.Anonymous(this="element_at", expressions=[numbers, place])


def _kept(name: str, sets: Sequence[int] | None, total: int) -> exp.Expr:
    """A column where the row's set has it."""
    if sets is None or len(sets) == total:
        return _column(name)
    numbers = [exp.Literal.number(number) for number in sets]
    if not numbers:
        # A column of no set, as in GROUPING SETS (()), is NULL, of the column's type.
        return exp.Case(ifs=[exp.If(this=exp.Boolean(this=False), true=_column(name))])
    return exp.Case(ifs=[exp.If(this=exp.In(this=_column(SET_COLUMN), expressions=numbers), true=_column(name))])


def _column(name: str) -> exp.Expr:
    return exp.Column(this=name_node(name))
