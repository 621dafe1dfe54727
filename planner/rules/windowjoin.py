"""Stages of a query that joins streams inside a window.

    SOURCE per stream   its conditions and tables, the columns that are needed, the start of the row's window(s)
      -> MERGE          a view per stream; rows of closed windows are joined on keys and window start
      <- TABLE          copies of the tables that can be joined only behind the join of the streams

A stream has a SOURCE stage for each time that FROM names it. `spread_join` has said what is done where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.bind.binder import event_time_of
from planner.bind.outputs import Output
from planner.bind.scope import Member
from planner.bind.selects import StreamSelect, always_there
from planner.graph.bins import bin_of
from planner.graph.plan import JoinShape, Merge, MergeView, Stage, StageInput
from planner.rules.joinbins import bin_keys
from planner.rules.joinedrows import JoinedRows, owners_of
from planner.rules.shape import query_shape, selectivity_of
from planner.rules.spread import renamed
from planner.rules.stages import Stages, add_source, table_stage
from planner.sql.dialect import exp, name_node
from planner.values.names import BIN_COLUMN, WINDOW_START
from planner.values.stages import StageKind


def add_window_join(plan: Stages, query: StreamSelect) -> str:
    """The stages of a query that joins streams; the id of the last."""
    window = query.join_window
    assert window is not None
    rows = JoinedRows(query, window)
    body = rows.result()
    inputs, views = add_joined_rows(plan, query, rows)
    merge_id = plan.next_id(StageKind.MERGE, "m")
    merge = Merge(WINDOW_START, window.length, "", window.slide, views, panes=window.overlaps, offset=window.offset)
    plan.stages.append(Stage(id=merge_id, kind=StageKind.MERGE, body=body, pinned=(), inputs=inputs, merge=merge))
    plan.joins[merge_id] = JoinShape(
        window=window.length,
        slide=window.slide,
        selectivity=selectivity_of(query.where),
        result=query_shape(query),
    )
    return merge_id


def add_joined_rows(
    plan: Stages, query: StreamSelect, rows: JoinedRows
) -> tuple[tuple[StageInput, ...], tuple[MergeView, ...]]:
    """The stages whose rows a MERGE joins, as its inputs, and its views.

    `rows` has made the operators that read them.
    """
    inputs: list[StageInput] = []
    streams, bins = query.streams, bin_keys(query, owners_of(query))
    for stream, source in zip(streams, query.sources, strict=True):
        outputs = _outputs(query, stream, rows, bins.get(stream.view, ()))
        stage = add_source(plan, replace(source, outputs=outputs), None)
        inputs.append(StageInput(stage, rows.view_of(stream.view)))
    plan.stages += _late_tables(query, rows)
    there = always_there(query.scope.stream.view, query.joins)
    views = tuple(MergeView(rows.view_of(s.view), required=s.view in there) for s in streams)
    inputs += [StageInput(join.member.view, join.member.view) for join in query.joins if not join.member.is_stream]
    return tuple(inputs), views


def _outputs(query: StreamSelect, stream: Member, rows: JoinedRows, bins: Sequence[exp.Expr]) -> tuple[Output, ...]:
    """What the sources of a stream send: the start of the row's window, the columns that are needed, the row's bin."""
    view = stream.view
    outputs = [(WINDOW_START, _window_start(query, stream))]
    outputs += [(name, column) for column, name in rows.columns(view).items()]
    if bins:
        outputs.append((BIN_COLUMN, bin_of(bins)))
    own = ((name, renamed(expression, stream)) for name, expression in outputs)
    return tuple(Output(name, expression, expression) for name, expression in own)


def _window_start(query: StreamSelect, stream: Member) -> exp.Expr:
    """The start of a row's window, or of its pane where windows overlap."""
    assert query.join_window is not None
    node = query.join_window.panes
    node.expressions[0].replace(event_time_of(stream))
    return exp.Dot(this=node, expression=name_node("start"))


def _late_tables(query: StreamSelect, rows: JoinedRows) -> Iterator[Stage]:
    used = tuple(rows.expressions())
    for join in query.joins:
        if not join.member.is_stream:
            yield table_stage(join, used, join.member.relation.sites)
