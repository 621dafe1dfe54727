"""Which part of a query that joins streams is done where: at the sources of one stream, or in the MERGE.

A table is joined at a stream's sources when its condition speaks of that stream alone (and of tables joined there),
and a condition is evaluated there when it does. Both only where no LEFT JOIN can fill the stream's columns with NULLs:
such a row does not exist before the streams are joined. What ON says of the joined side alone goes there in any case,
for rows that fail it match nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from planner.bind.joins import Join
from planner.bind.logical import LogicalQuery
from planner.functions.traits import WINDOW
from planner.graph.expressions import views_of
from planner.sql.dialect import exp
from planner.sql.refusals import function_name

LATE = ""
"""In the place of a stream's view: in the MERGE."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Who does what. Streams and tables go by their views."""

    owners: Mapping[str, str]
    """The stream at whose sources a stream's or table's rows come in, or LATE."""
    where: Mapping[str, tuple[exp.Expr, ...]]
    """Conditions for the sources of a stream, or for the sites of a late table."""
    on: Mapping[str, tuple[exp.Expr, ...]]
    """Conditions of the joins of streams and late tables, but for those that are evaluated before."""
    late: tuple[exp.Expr, ...]
    """Conditions on the joined rows."""

    def tables_of(self, stream: str, joins: Iterable[Join]) -> tuple[Join, ...]:
        """The tables that are joined at the stream's sources."""
        return tuple(j for j in joins if j.member.view != stream and self.owners[j.member.view] == stream)

    def late_joins(self, joins: Iterable[Join]) -> tuple[Join, ...]:
        """Those of the MERGE: streams, and tables that are not joined before."""
        return tuple(j for j in joins if self.owners[j.member.view] in (j.member.view, LATE))


def spread_of(query: LogicalQuery) -> Spread:
    """Who does what in a query that joins streams."""
    owners = _owners(query)
    where: dict[str, list[exp.Expr]] = {view: [] for view in owners}
    late: list[exp.Expr] = []
    fixed = frozenset(view for view, owner in owners.items() if owner) - _nullable(query)
    for conjunct in query.where:
        home = _home(conjunct, owners, fixed) or _table_of(conjunct, query, owners)
        (where[home] if home else late).append(conjunct)
    on: dict[str, tuple[exp.Expr, ...]] = {}
    for join in query.joins:
        view = join.member.view
        if owners[view] not in (view, LATE):
            continue
        kept: list[exp.Expr] = []
        for conjunct in join.on:
            home = view if views_of(conjunct) == {view} else LATE if join.left else _home(conjunct, owners, fixed)
            (where[home] if home else kept).append(conjunct)
        on[view] = tuple(kept)
    return Spread(owners, {view: tuple(parts) for view, parts in where.items()}, on, tuple(late))


def _nullable(query: LogicalQuery) -> frozenset[str]:
    return frozenset(join.member.view for join in query.joins if join.left and join.member.is_stream)


def _owners(query: LogicalQuery) -> dict[str, str]:
    first = query.scope.stream.view
    owners = {first: first}
    nullable = _nullable(query)
    for join in query.joins:
        view = join.member.view
        if join.member.is_stream:
            owners[view] = view
            continue
        beside = {owners[other] for conjunct in join.on for other in views_of(conjunct) - {view}}
        owner = beside.pop() if len(beside) == 1 else LATE
        owners[view] = LATE if owner in nullable else owner
    return owners


def _home(conjunct: exp.Expr, owners: Mapping[str, str], fixed: frozenset[str]) -> str:
    """The stream at whose sources a condition on rows can be evaluated, or LATE."""
    views = views_of(conjunct)
    found = {owners[view] for view in views}
    if len(found) != 1 or not views <= fixed or _names_window(conjunct):
        return LATE
    return found.pop()


def _table_of(conjunct: exp.Expr, query: LogicalQuery, owners: Mapping[str, str]) -> str:
    """The late table that a condition speaks of alone, unless rows without a match are kept."""
    views = views_of(conjunct)
    inner = {join.member.view for join in query.joins if not join.left and owners[join.member.view] == LATE}
    return next(iter(views)) if len(views) == 1 and views <= inner else LATE


def _names_window(conjunct: exp.Expr) -> bool:
    """The window of a row is there, as its start, only behind the sources' own conditions."""
    return any(function_name(call) == WINDOW for call in conjunct.find_all(exp.Anonymous))
