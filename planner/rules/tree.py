"""From SELECTs that all rules have rewritten to the logical operators that EXPLAIN shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.bind.binder import Window
from planner.bind.outputs import Output
from planner.bind.scope import Member
from planner.bind.selects import Join, Layer, Select, StreamSelect, TableRows, TableSelect
from planner.bind.selects import UnionAll as Union
from planner.bind.topk import TopK
from planner.graph import logical
from planner.graph.logical import LogicalOperator
from planner.graph.operators import Named
from planner.sql.dialect import exp
from planner.sql.emit import is_rank


def stream_tree(select: StreamSelect) -> LogicalOperator:
    """The operators of a SELECT over streams, and of its layers."""
    names = _Names(select.scope.members if select.joins or select.sources else ())
    totals = select.totals
    rows = names.results(select, _groups(select, names), windowed=select.window is not None and totals is None)
    if totals is not None:
        return logical.Changes(rows, totals.every, totals.upsert_by)
    for layer in select.layers:
        rows = _layer(layer, rows)
    return rows


def table_tree(rows: TableRows) -> LogicalOperator:
    """The operators of a SELECT over tables, or of a UNION ALL of them."""
    if isinstance(rows, Union):
        return logical.UnionAll(tuple(map(table_tree, rows.branches)))
    names = _Names(rows.scope.members if rows.joins or rows.laterals else ())
    found = _scan(rows.scope.stream, rows.sites) if rows.below is None else table_tree(rows.below)
    for join in rows.joins:
        found = names.join(join, found, _joined(join, rows))
    for lateral in rows.laterals:
        found = logical.Generate(found, names.of(lateral.call))
    found = names.filter(rows.where, found)
    if rows.grouped:
        found = logical.Aggregate(found, names.each(rows.keys))
    found = names.results(rows, found, windowed=False)
    if rows.order:
        found = logical.Sort(found, names.ordered(rows.order))
    if rows.limit is not None or rows.offset:
        found = logical.Limit(found, rows.limit, rows.offset)
    return found


class _Names:
    """Gives columns the names of the query: with the relation in front where there are several."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._aliases = {member.view: member.alias for member in members}

    def of(self, node: exp.Expr) -> exp.Expr:
        root = exp.Paren(this=node.copy())
        for rank in [part for part in root.find_all(exp.Var) if is_rank(part)]:
            rank.replace(exp.Var(this="rank"))
        for column in root.find_all(exp.Column):
            alias = self._aliases.get(column.table)
            column.set("table", exp.to_identifier(alias) if alias else None)
        named: exp.Expr = root.this
        return named

    def each(self, nodes: Sequence[exp.Expr]) -> tuple[exp.Expr, ...]:
        return tuple(map(self.of, nodes))

    def ordered(self, order: Sequence[exp.Ordered]) -> tuple[exp.Ordered, ...]:
        named = self.each(order)
        return tuple(item for item in named if isinstance(item, exp.Ordered))

    def filter(self, conditions: Sequence[exp.Expr], rows: LogicalOperator) -> LogicalOperator:
        return logical.Filter(rows, self.each(conditions)) if conditions else rows

    def join(self, join: Join, rows: LogicalOperator, other: LogicalOperator) -> LogicalOperator:
        name = join.member.alias if join.member.is_stream else join.member.relation.name
        windows = None if join.window is None else _windows(join.window)
        on = self.each(join.on)
        interval = "" if join.interval is None else join.interval.words
        return logical.Join(rows, other, name, join.left, on, join.same_site, windows, join.only, join.right, interval)

    def results(self, select: Select, rows: LogicalOperator, *, windowed: bool) -> LogicalOperator:
        """HAVING, QUALIFY and the select list."""
        if select.having:
            rows = logical.Having(rows, self.each(select.having))
        if select.top_k is not None:
            rows = self._top_k(select.top_k, rows, windowed=windowed)
        return logical.Project(rows, tuple(map(self._item, select.outputs)))

    def _top_k(self, top_k: TopK, rows: LogicalOperator, *, windowed: bool) -> LogicalOperator:
        partition, order = self.each(top_k.partition), self.ordered(top_k.order)
        return logical.TopK(rows, top_k.function, partition, order, top_k.k, windowed)

    def _item(self, output: Output) -> Named:
        return Named(output.name, self.of(output.expression))


def _groups(select: StreamSelect, names: _Names) -> LogicalOperator:
    """The rows of a SELECT, or the groups that it makes of them."""
    window = select.inner or select.window
    if window is None or select.ranks or select.neighbours is not None:
        return logical.UnionAll(tuple(_rows(i.query) for i in select.inputs)) if select.inputs else _rows(select)
    # Where rows wait for a longer window, the query's own window is the first of the keys.
    own = select.keys if select.inner is None else select.keys[1:]
    keys = names.each(own[:-1] if select.totals is not None and select.totals.ends else own)
    if select.join_window is not None:
        return logical.Aggregate(_rows(select), keys, windowed=True)
    queries = [i.query for i in select.inputs] or [select]
    partials = tuple(logical.PartialAggregate(_rows(query), keys, _windows(window)) for query in queries)
    sets = len(select.sets.sets) if select.sets is not None else 1
    return logical.MergeAggregate(logical.UnionAll(partials) if select.inputs else partials[0], keys, sets)


def _rows(select: StreamSelect) -> LogicalOperator:
    """The rows behind joins and WHERE."""
    names = _Names(select.scope.members if select.joins else ())
    streams = [_rows(source) for source in select.sources]
    if select.below is not None:
        found = stream_tree(select.below.query)
    else:
        found = streams.pop(0) if streams else _scan(select.scope.stream, select.sites)
    for join in select.joins:
        found = names.join(join, found, streams.pop(0) if join.member.is_stream else _joined(join, select))
    for lateral in select.laterals:
        found = logical.Generate(found, names.of(lateral.call))
    return names.filter(select.where, found)


def _joined(join: Join, select: StreamSelect | TableSelect) -> LogicalOperator:
    """A table, or a query over tables, behind the conditions that are evaluated before it is joined."""
    if join.rows is not None:
        rows = table_tree(join.rows)
    else:
        own = join.member.rows
        member = join.member if own is None else replace(join.member, relation=own.base)
        at = sorted(site for site in member.relation.sites if site in select.sites or not join.same_site)
        rows = _Names(()).filter(() if own is None else own.where, _scan(member, at))
    return _Names(()).filter(join.where, rows)


def _scan(member: Member, sites: Sequence[str]) -> LogicalOperator:
    left_out = sorted(set(member.relation.sites) - set(sites))
    return logical.Scan(member.relation.name, tuple(sites), tuple(left_out))


def _layer(layer: Layer, rows: LogicalOperator) -> LogicalOperator:
    names = _Names(layer.scope.members if layer.joins else ())
    for join in layer.joins:
        other = stream_tree(join.query)
        on = names.each(join.on)
        rows = logical.JoinOfWindows(rows, other, join.member.alias, join.left, on, join.only, join.right)
    rows = names.filter(layer.where, rows)
    if layer.grouped:
        rows = logical.Aggregate(rows, names.each(layer.keys))
    return names.results(layer, rows, windowed=True)


def _windows(window: Window) -> logical.Windows:
    gap = window.gap_words if window.is_session else ""
    return logical.Windows(window.length, window.slide, window.offset, window.cumulates, window.months, gap)
