"""A SELECT over the rows of an aggregating one.

All rows of a window come out of the MERGE stage together, so whatever needs no more than the rows of one window can be
computed there as well: projections, filters, a top k, joins with the rows that another query has in the same window,
and an aggregate that has the window, or a longer one that it lies in, among its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from planner.bind import topk as bound
from planner.bind.binder import Binder
from planner.bind.clauses import bind_where, check_group_parts, group_keys, is_grouped
from planner.bind.groupingsets import check_grouping_calls, has_sets
from planner.bind.outputs import bind_outputs
from planner.bind.rollup import bind_rollup, rolled_up
from planner.bind.scope import Member, Scope
from planner.bind.selects import Layer, Rollup, StreamSelect, WindowRows
from planner.bind.sessions import check_over_sessions
from planner.bind.topk import bind_top_k
from planner.bind.windowkeys import Windows, part_of_window
from planner.bind.windowparts import start_within, with_window
from planner.bind.windowrows import bind_window_rows
from planner.functions.traits import RANKS
from planner.graph.expressions import conjuncts, first_aggregate, first_of, ordered_by, ties
from planner.graph.operators import Aggregate, Alias, Filter, Join, Named, Operator, Project, Scan, TopK
from planner.relations.catalog import Column, Relation, RelationKind
from planner.sql.dialect import exp, name_node
from planner.sql.refusals import refuse

MAX_LAYERS = 20
"""They are nested in one statement of the merge."""

GROUP_HINT = "Select the window in the sub-query, and group by it here as well: GROUP BY w, key, ..."


def window_columns(query: StreamSelect) -> Mapping[str, str]:
    """The result columns that are the window, its start or its end, as `Layer.windows` says it."""
    window = query.inner or query.window
    # Rows of sessions have nothing in common by which rows of other queries would close with them.
    windows: Windows = {} if window is None or window.is_session else {window.node: window.part}
    if query.layers:
        windows = query.layers[-1].windows
    found = {output.name: part_of_window(output.expression, windows) for output in query.columns}
    return {name: part for name, part in found.items() if part is not None}


def closing_time(query: StreamSelect) -> tuple[str, timedelta] | None:
    """Return the result column that says when the window of a row ends, or begins, and how much earlier than the
    watermark it may be in later rows; None: there is no such column."""
    window = query.inner or query.window
    parts = {part: name for name, part in window_columns(query).items()}
    if "end" in parts:
        return parts["end"], timedelta(0)
    return (parts["start"], window.length) if window is not None and "start" in parts else None


def rows_member(alias: str, view: str, query: StreamSelect) -> Member:
    """The rows of an aggregating query as what stands in FROM."""
    columns = tuple(Column(output.name, "") for output in query.columns)
    return Member(alias, view, Relation(alias, RelationKind.STREAM, columns, ()), derived=True)


def layer_view(query: StreamSelect) -> str:
    """Name of the query's rows in the layer that comes next."""
    return f"r{len(query.layers) + 1}"


def with_layer(
    queries: Sequence[StreamSelect], select: exp.Select, scope: Scope, *, renamed: bool = False
) -> StreamSelect:
    """The first query with a SELECT over its rows.

    Args:
        queries: what stands in FROM, then what stands behind each JOIN; all aggregate.
        select: the SELECT.
        scope: their rows, in the same order.
        renamed: the columns get other names.

    Raises:
        UnsupportedSqlError, UnknownColumnError, InvalidExpressionError: with their place.
    """
    first, source = queries[0], scope.source
    check_over_sessions(select, scope, queries)
    if len(first.layers) == MAX_LAYERS:
        raise refuse(
            select, source, f"more than {MAX_LAYERS} queries over one another are not possible", "Write fewer."
        )
    parts = [window_columns(query) for query in queries]
    windows = [
        {member.bound(name): part for name, part in found.items()}
        for member, found in zip(scope.members, parts, strict=True)
    ]
    joins = bind_window_rows(select, scope, queries, windows)
    usable: Windows = windows[0]
    for join, found in zip(joins, windows[1:], strict=True):
        usable = _usable(join, usable, found)
    scope = replace(scope, members=tuple(member for member in scope.members if not member.hidden))
    rollup = bind_rollup(select, scope, usable, first)
    if any(query.neighbours is not None for query in queries) and (joins or rollup is not None):
        message = "joins with, and windows over, rows with OVER are not possible yet"
        raise refuse(select, source, message, "Group or join the rows in a sub-query below OVER.")
    if rollup is not None:
        first = rolled_up(first, rollup.window)
        joins = tuple(replace(join, query=rolled_up(join.query, rollup.window)) for join in joins)
    binder = Binder(scope, window=rollup.window if rollup else None, window_columns=usable)
    layer = _bind(select, binder, usable, rollup, renamed=renamed)
    return replace(first, layers=(*first.layers, replace(layer, joins=joins)))


def _usable(join: WindowRows, left: Windows, right: Windows) -> Windows:
    """Return the expressions that are the window, or a part of it, in all joined rows."""
    if join.right and join.left:
        pairs = ((one, part, other) for one, part in left.items() for other, its in right.items() if its == part)
        return {first_of((one, other)): part for one, part, other in pairs}
    if join.right:
        return right
    return left if join.keeps_unmatched or join.only else {**left, **right}


def _bind(
    select: exp.Select, binder: Binder, below: Mapping[exp.Expr, str], rollup: Rollup | None, *, renamed: bool
) -> Layer:
    scope = binder.scope
    outputs = bind_outputs(select, binder, renamed=renamed)
    aliases = {output.name.lower(): output.expression for output in outputs}
    keys = group_keys(select, outputs, replace(binder, aliases=aliases))
    later = replace(binder, aliases=aliases, keys=keys if is_grouped(select) else None)
    having = select.args.get("having")
    windows = below if rollup is None else {rollup.window.node: ""}
    if is_grouped(select):
        found = ((key, part_of_window(key, windows)) for key in keys)
        windows = {key: part for key, part in found if part is not None}
    rows = tuple(member.bound(column.name) for member in scope.members for column in member.relation.columns)
    layer = Layer(
        scope=scope,
        joins=(),
        where=bind_where(select, Binder(scope)),
        outputs=outputs,
        grouped=is_grouped(select),
        keys=keys,
        having=conjuncts(later.bind(having.this)) if having is not None else (),
        top_k=bind_top_k(select, later),
        ties=keys if is_grouped(select) else rows,
        windows=windows,
        rollup=rollup,
    )
    _check(select, layer)
    return layer


def _check(select: exp.Select, layer: Layer) -> None:
    source = layer.scope.source
    if not layer.grouped:
        for item in select.expressions:
            if (aggregate := first_aggregate(item)) is not None:
                raise refuse(aggregate, source, "an aggregate over all windows would never be complete", GROUP_HINT)
        if layer.having:
            raise refuse(select.args["having"], source, "HAVING is possible only with GROUP BY", GROUP_HINT)
        return
    if not layer.windows:
        at = select.args.get("group") or select.expressions[0]
        raise refuse(at, source, "groups over the rows of windows need the window as a key", GROUP_HINT)
    window = layer.rollup.window if layer.rollup is not None else None
    if has_sets(select):
        message = "grouping sets over the rows of windows are not possible yet"
        raise refuse(select.args["group"], source, message, "Group the stream itself by them, or write UNION ALL.")
    check_grouping_calls(layer.results, layer.keys, None, source)
    for node in layer.results:
        check_group_parts(node, layer.keys, window, source)


def over_rows(layer: Layer, rows: Operator, joined: Mapping[str, Operator]) -> Operator:
    """The layer over the rows of windows below it.

    Args:
        layer: the SELECT.
        rows: those below.
        joined: the rows of other queries, by the view that the layer calls them.
    """
    found: Operator = Alias(rows, layer.view)
    for join in layer.joins:
        view = join.member.view
        found = Join(found, Alias(joined[view], view), join.left, _over(layer, join.on), join.only, join.right)
    if layer.where:
        found = Filter(found, _over(layer, layer.where))
    items = tuple(Named(output.name, _made(layer, output.expression)) for output in layer.outputs)
    if layer.top_k is None:
        return _grouped(layer, found, items) if layer.grouped else Project(found, items)
    ranked = _ranked(layer, layer.top_k)
    if not layer.grouped:
        return Project(replace(ranked, input=found), items)
    names = {node: f"_o{number}" for number, node in enumerate(_parts(ranked))}
    groups = _grouped(layer, found, (*items, *(Named(name, node) for node, name in names.items())))
    return Project(
        TopK(
            groups,
            ranked.function,
            tuple(_column(names[part]) for part in ranked.partition),
            tuple(ordered_by(ordered, _column(names[ordered.this])) for ordered in ranked.order),
            ranked.k,
        ),
        tuple(Named(item.name, _column(item.name)) for item in items),
    )


def _grouped(layer: Layer, rows: Operator, items: tuple[Named, ...]) -> Aggregate:
    return Aggregate(rows, tuple(_key(layer, key) for key in layer.keys), items, _over(layer, layer.having))


def _over(layer: Layer, parts: Sequence[exp.Expr]) -> tuple[exp.Expr, ...]:
    return tuple(_made(layer, part) for part in parts)


def _made(layer: Layer, node: exp.Expr) -> exp.Expr:
    """An expression over the rows; there longer windows than theirs are made of their starts."""
    rollup = layer.rollup
    if rollup is None:
        return node
    return with_window(node, rollup.window, start_within(rollup.start, rollup.window.length))


def _key(layer: Layer, key: exp.Expr) -> exp.Expr:
    """A group key; of a longer window its start, which Spark then finds again wherever the window is made of it."""
    if layer.rollup is not None and key in layer.windows:
        return start_within(layer.rollup.start, layer.rollup.window.length)
    return _made(layer, key)


def _ranked(layer: Layer, top_k: bound.TopK) -> TopK:
    """The rank of a layer, over its rows; its input is still to be given."""
    partition = tuple(_key(layer, part) for part in (next(iter(layer.windows)), *top_k.partition))
    order = [ordered_by(ordered, _made(layer, ordered.this)) for ordered in top_k.order]
    if top_k.function == RANKS[0]:
        order += ties(order, (_key(layer, part) for part in layer.ties))
    return TopK(Scan(layer.view), top_k.function, partition, tuple(order), top_k.k)


def _parts(ranked: TopK) -> tuple[exp.Expr, ...]:
    return tuple(dict.fromkeys((*ranked.partition, *(ordered.this for ordered in ranked.order))))


def _column(name: str) -> exp.Expr:
    return exp.Column(this=name_node(name))
