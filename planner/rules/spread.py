"""Where each part of a join of streams is evaluated: at the sources of one stream, or in the MERGE.

A table is joined at a stream's sources when its condition speaks of that stream alone (and of tables joined there),
and a condition is evaluated there when it does. Both only where no outer join can fill the stream's columns with NULLs:
such a row does not exist before the streams are joined. What ON says of the joined side alone goes there in any case,
for rows that fail it match nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from planner.bind.scope import Member, Scope
from planner.bind.selects import Join, StreamSelect, TableSelect, always_there
from planner.functions.traits import WINDOW
from planner.graph.expressions import enclosed, replace_columns, views_of
from planner.sql.dialect import exp
from planner.sql.refusals import function_name
from planner.values.names import INPUT_VIEW

LATE = ""
"""In the place of a stream's view: in the MERGE."""

S = TypeVar("S", StreamSelect, TableSelect)


def spread_join(select: S) -> S:
    """A SELECT that joins streams with the rows of each as a SELECT of their own; others stay as they are."""
    if isinstance(select, TableSelect) or not select.joins_streams:
        return select
    homes = _homes(select)
    late = tuple(
        replace(join, on=homes.on[join.member.view], where=homes.of_table(join))
        for join in select.joins
        if join.member.view in homes.on
    )
    sources = tuple(_source(select, stream, homes) for stream in select.streams)
    return replace(select, joins=late, where=homes.late, sources=sources)


def renamed(node: exp.Expr, stream: Member) -> exp.Expr:
    """The expression over the views of the SOURCE stage.

    There the stream is `input`; columns of a derived table become the expressions that they stand for.
    """

    def change(column: exp.Column) -> exp.Expr:
        if column.table != stream.view:
            return column.copy()
        if stream.rows is not None:
            return enclosed(stream.rows.expressions[column.name.lower()])
        changed = column.copy()
        changed.set("table", exp.Identifier(this=INPUT_VIEW, quoted=False))
        return changed

    return replace_columns(node, change)


@dataclass(frozen=True, slots=True)
class _Homes:
    """Where relations are joined and conditions evaluated; streams and tables are named by their views."""

    owners: Mapping[str, str]
    """The stream at whose sources a stream's or table's rows come in, or LATE."""
    where: Mapping[str, tuple[exp.Expr, ...]]
    """Conditions for the sources of a stream, or for the sites of a late table."""
    on: Mapping[str, tuple[exp.Expr, ...]]
    """Conditions of the joins of streams and late tables, but for those that are evaluated before."""
    late: tuple[exp.Expr, ...]
    """Conditions on the joined rows."""

    def of_table(self, join: Join) -> tuple[exp.Expr, ...]:
        """Conditions on a late table; those of a stream are at its sources."""
        return () if join.member.is_stream else self.where[join.member.view]


def _homes(select: StreamSelect) -> _Homes:
    owners = _owners(select)
    where: dict[str, list[exp.Expr]] = {view: [] for view in owners}
    late: list[exp.Expr] = []
    fixed = frozenset(view for view, owner in owners.items() if owner) - _settled_late(select)
    for conjunct in select.where:
        home = _home(conjunct, owners, fixed) or _table_of(conjunct, select, owners)
        (where[home] if home else late).append(conjunct)
    on: dict[str, tuple[exp.Expr, ...]] = {}
    for join in select.joins:
        view = join.member.view
        if owners[view] not in (view, LATE):
            continue
        kept: list[exp.Expr] = []
        for conjunct in join.on:
            home = _home_of_on(conjunct, join, owners, fixed)
            (where[home] if home else kept).append(conjunct)
        on[view] = tuple(kept)
    return _Homes(owners, {view: tuple(parts) for view, parts in where.items()}, on, tuple(late))


def _home_of_on(conjunct: exp.Expr, join: Join, owners: Mapping[str, str], fixed: frozenset[str]) -> str:
    """Return the stream or late table at whose sites a condition of ON can be evaluated, or LATE."""
    if views_of(conjunct) == {join.member.view}:
        return LATE if join.right else join.member.view
    return LATE if join.keeps_unmatched or join.right else _home(conjunct, owners, fixed)


def _source(select: StreamSelect, stream: Member, homes: _Homes) -> StreamSelect:
    """One stream, joined to its tables, as a SELECT whose select list is still empty."""
    rows = stream.rows
    own = (join for join in select.joins if join.member.view != stream.view)
    joins = tuple(
        replace(join, on=tuple(renamed(conjunct, stream) for conjunct in join.on))
        for join in own
        if homes.owners[join.member.view] == stream.view
    )
    member = Member(stream.alias, INPUT_VIEW, stream.relation if rows is None else rows.base)
    kept = () if rows is None else rows.where
    if stream.view == select.scope.stream.view:
        kept = tuple(renamed(conjunct, stream) for conjunct in select.before)
    return StreamSelect(
        scope=Scope((member, *(join.member for join in joins)), select.scope.source),
        where=(*kept, *(renamed(conjunct, stream) for conjunct in homes.where[stream.view])),
        outputs=(),
        keys=(),
        having=(),
        top_k=None,
        joins=joins,
    )


def _settled_late(select: StreamSelect) -> frozenset[str]:
    """Streams whose rows may be NULL in joined ones, or of which the newest is joined: no condition on joined rows, and
    no table that is joined with them, may leave any out before."""
    nullable = {stream.view for stream in select.streams} - always_there(select.scope.stream.view, select.joins)
    return frozenset(nullable).union(
        join.member.view for join in select.joins if join.interval and join.interval.newest
    )


def _owners(select: StreamSelect) -> dict[str, str]:
    first = select.scope.stream.view
    owners = {first: first}
    late = _settled_late(select)
    for join in select.joins:
        view = join.member.view
        if join.member.is_stream:
            owners[view] = view
            continue
        beside = {owners[other] for conjunct in join.on for other in views_of(conjunct) - {view}}
        owner = beside.pop() if len(beside) == 1 else LATE
        owners[view] = LATE if owner in late else owner
    return owners


def _home(conjunct: exp.Expr, owners: Mapping[str, str], fixed: frozenset[str]) -> str:
    """The stream at whose sources a condition on rows can be evaluated, or LATE."""
    views = views_of(conjunct)
    found = {owners[view] for view in views}
    if len(found) != 1 or not views <= fixed or _names_window(conjunct):
        return LATE
    return found.pop()


def _table_of(conjunct: exp.Expr, select: StreamSelect, owners: Mapping[str, str]) -> str:
    """The late table that a condition speaks of alone, unless rows without a match are kept."""
    views = views_of(conjunct)
    there = always_there(select.scope.stream.view, select.joins)
    inner = {view for view in there if owners[view] == LATE}
    return next(iter(views)) if len(views) == 1 and views <= inner else LATE


def _names_window(conjunct: exp.Expr) -> bool:
    """Whether a condition reads the window: sources compute its start behind their own conditions."""
    return any(function_name(call) == WINDOW for call in conjunct.find_all(exp.Anonymous))
