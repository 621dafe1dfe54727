"""Conditions that speak of one joined table are evaluated before it is joined."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from planner.bind.selects import Join, StreamSelect, TableSelect, always_there
from planner.graph.expressions import views_of
from planner.sql.dialect import exp

S = TypeVar("S", StreamSelect, TableSelect)


def push_conditions(select: S) -> S:
    """The SELECT with such conditions at its joins.

    An outer join keeps rows without a match, so WHERE on its table must stay behind the join. A stream that is joined
    has its conditions already (`spread_join`).
    """
    tables = {join.member.view: list(join.where) for join in select.joins}
    there = always_there(select.scope.stream.view, select.joins)
    inner = there.intersection(join.member.view for join in select.joins if not join.member.is_stream)
    where: list[exp.Expr] = []
    for conjunct in select.where:
        views = views_of(conjunct)
        if len(views) == 1 and views <= inner:
            tables[next(iter(views))].append(conjunct)
        else:
            where.append(conjunct)
    joins = tuple(_with_conditions(join, tables[join.member.view]) for join in select.joins)
    return replace(select, where=tuple(where), joins=joins)


def _with_conditions(join: Join, pushed: list[exp.Expr]) -> Join:
    if join.member.is_stream:
        return join
    own = tuple(c for c in join.on if views_of(c) == {join.member.view})
    return replace(join, on=tuple(c for c in join.on if c not in own), where=(*pushed, *own))
