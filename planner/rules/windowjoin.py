"""Stages of a query that joins streams inside a window.

    SOURCE per stream   its conditions and tables, the columns that are needed, the start of the row's window(s)
      -> MERGE          a view per stream; rows of closed windows are joined on keys and window start
      <- TABLE          copies of the tables that can be joined only behind the join of the streams

A stream has a SOURCE stage for each time that FROM names it. `planner.rules.spread` says what is done where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.bind.binder import event_time_of
from planner.bind.joins import Join, is_equality
from planner.bind.logical import LogicalQuery
from planner.bind.outputs import Output
from planner.bind.scope import Member, Scope
from planner.graph.expressions import enclosed, replace_columns, views_of
from planner.graph.plan import JoinShape, Merge, MergeView, Stage, StageInput, StageKind
from planner.rules.joinedrows import JoinedRows
from planner.rules.logical_lines import join_lines, rows_lines
from planner.rules.shape import query_shape, selectivity_of
from planner.rules.spread import LATE, Spread, spread_of
from planner.rules.stages import Stages, add_source, table_stage
from planner.sql.dialect import exp, name_node
from planner.values.names import BIN_COLUMN, BINS, INPUT_VIEW, WINDOW_START


def add_window_join(plan: Stages, query: LogicalQuery) -> str:
    """The stages of a query that joins streams; the id of the last.

    Raises:
        InvalidDefinitionError: no site of a stream is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    window = query.join_window
    assert window is not None
    spread = spread_of(query)
    rows = JoinedRows(query, spread, window)
    body = rows.result()
    inputs, views = add_joined_rows(plan, query, spread, rows)
    merge_id = plan.next_id(StageKind.MERGE, "m")
    merge = Merge(WINDOW_START, window.length, "", window.slide, views)
    plan.stages.append(Stage(id=merge_id, kind=StageKind.MERGE, body=body, pinned=(), inputs=inputs, merge=merge))
    plan.joins[merge_id] = JoinShape(
        window=window.length,
        slide=window.slide,
        selectivity=selectivity_of(spread.late),
        result=query_shape(query, ()),
    )
    return merge_id


def add_joined_rows(
    plan: Stages, query: LogicalQuery, spread: Spread, rows: JoinedRows
) -> tuple[tuple[StageInput, ...], tuple[MergeView, ...]]:
    """The stages whose rows a MERGE joins, as its inputs, and its views; `rows` has made what reads them.

    Raises:
        InvalidDefinitionError: no site of a stream is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    inputs: list[StageInput] = []
    for stream in query.scope.streams:
        outputs = _outputs(query, stream, spread, rows)
        source = add_source(plan, replace(_rows_of(query, stream, spread), outputs=outputs), None)
        inputs.append(StageInput(source, rows.view_of(stream.view)))
    plan.stages += _late_tables(query, spread, rows)
    optional = {join.member.view for join in query.joins if join.left}
    views = tuple(MergeView(rows.view_of(s.view), required=s.view not in optional) for s in query.scope.streams)
    inputs += [StageInput(view, view) for view, owner in spread.owners.items() if owner == LATE]
    return tuple(inputs), views


def window_join_lines(query: LogicalQuery) -> tuple[str, ...]:
    """The joined rows of a query in the logical plan.

    Raises:
        InvalidDefinitionError: no site of a stream is left to read from.
    """
    spread = spread_of(query)
    streams = [_rows_of(query, stream, spread) for stream in query.scope.streams]
    return join_lines(query, [rows_lines(stream) for stream in streams], spread)


def _rows_of(query: LogicalQuery, stream: Member, spread: Spread) -> LogicalQuery:
    """One stream, its tables and conditions, as a query by itself, yet without outputs."""
    rows = stream.rows
    joins = tuple(_alone(join, stream) for join in spread.tables_of(stream.view, query.joins))
    member = Member(stream.alias, INPUT_VIEW, stream.relation if rows is None else rows.base)
    kept = () if rows is None else rows.where
    return LogicalQuery(
        scope=Scope((member, *(join.member for join in joins)), query.scope.source),
        joins=joins,
        where=(*kept, *(_renamed(conjunct, stream) for conjunct in spread.where[stream.view])),
        outputs=(),
        window=None,
        join_window=None,
        keys=(),
        having=(),
        top_k=None,
    )


def _outputs(query: LogicalQuery, stream: Member, spread: Spread, rows: JoinedRows) -> tuple[Output, ...]:
    """What the sources of a stream send: the start of the row's window, the columns that are needed, the row's bin."""
    view = stream.view
    outputs = [(WINDOW_START, _window_start(query, stream))]
    outputs += [(name, column) for column, name in rows.columns(view).items()]
    if keys := _join_keys(query, view, spread):
        outputs.append((BIN_COLUMN, _bin(keys)))
    renamed = ((name, _renamed(expression, stream)) for name, expression in outputs)
    return tuple(Output(name, expression, expression) for name, expression in renamed)


def _alone(join: Join, stream: Member) -> Join:
    return replace(join, on=tuple(_renamed(conjunct, stream) for conjunct in join.on))


def _renamed(node: exp.Expr, stream: Member) -> exp.Expr:
    """Over the SOURCE stage's views: there the stream is `input`, and a derived table what it is made of."""

    def change(column: exp.Column) -> exp.Expr:
        if column.table != stream.view:
            return column.copy()
        if stream.rows is not None:
            return enclosed(stream.rows.expressions[column.name.lower()])
        changed = column.copy()
        changed.set("table", exp.Identifier(this=INPUT_VIEW, quoted=False))
        return changed

    return replace_columns(node, change)


def _window_start(query: LogicalQuery, stream: Member) -> exp.Expr:
    """The start of a row's window; a row in several windows comes once for each."""
    assert query.join_window is not None
    node = query.join_window.node.copy()
    node.expressions[0].replace(event_time_of(stream))
    return exp.Dot(this=node, expression=name_node("start"))


def _bin(keys: Sequence[exp.Expr]) -> exp.Expr:
    digest = exp.Anonymous(this="xxhash64", expressions=list(keys))
    return exp.Anonymous(this="pmod", expressions=[digest, exp.Literal.number(BINS)])


def _join_keys(query: LogicalQuery, view: str, spread: Spread) -> tuple[exp.Expr, ...]:
    """What rows of the stream must have equal to rows of others: in its own join, for the first stream in the first."""
    for join in query.joins:
        if not join.member.is_stream or (view != query.scope.stream.view and join.member.view != view):
            continue
        sides = [_sides(c, join.member.view) for c in join.on if is_equality(c, join.member.view)]
        keys = [own if join.member.view == view else other for own, other in sides]
        if all({spread.owners[v] for v in views_of(key)} == {view} for key in keys):
            return tuple(keys)
    return ()


def _sides(equality: exp.Expr, view: str) -> tuple[exp.Expr, exp.Expr]:
    """The side of the joined stream and the other one."""
    left, right = equality.unnest().args["this"], equality.unnest().args["expression"]
    return (left, right) if views_of(left) == {view} else (right, left)


def _late_tables(query: LogicalQuery, spread: Spread, rows: JoinedRows) -> Iterator[Stage]:
    used = tuple(rows.expressions())
    for join in query.joins:
        view = join.member.view
        if spread.owners[view] == LATE:
            yield table_stage(join, spread.where[view], used, join.member.relation.sites)
