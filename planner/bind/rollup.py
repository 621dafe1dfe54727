"""Longer windows over the rows of windows, as in GROUP BY window(w.start, '5 minutes') over counts per minute.

Where the longer window is a multiple of the shorter, every shorter one lies in one longer one. So the rows wait in the
MERGE for the end of the longer window, and the start of their own becomes one more key of their groups.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from planner.bind.binder import Window, length_of
from planner.bind.clauses import is_grouped
from planner.bind.scope import Scope, resolve
from planner.bind.selects import Rollup, StreamSelect, UnionInput
from planner.bind.topk import TopK
from planner.bind.windowkeys import CALENDAR, Windows, part_of_window
from planner.bind.windowparts import start_within, with_window
from planner.functions.traits import CUMULATE, SESSION, WINDOW, WINDOWS
from planner.sql.blocks import block_nodes
from planner.sql.dialect import exp, offset_of, parts_of
from planner.sql.intervals import format_interval
from planner.sql.refusals import function_name, refuse

FORM = "Over a sub-query that selects window(ts, '1 minute') AS w, GROUP BY window(w.start, '5 minutes') is possible."


def bind_rollup(select: exp.Select, scope: Scope, windows: Windows, below: StreamSelect) -> Rollup | None:
    """The longer windows of a SELECT over the rows of windows, None when it has none.

    Args:
        select: the SELECT.
        scope: the rows.
        windows: which of their columns are their window.
        below: what they are the rows of.

    Raises:
        UnsupportedSqlError: the longer window is not made up of whole shorter ones, or there are two.
    """
    calls = [node for node in block_nodes(select) if function_name(node) in WINDOWS]
    rollups = [_rollup(call, scope, windows, below) for call in calls]
    for call, rollup in zip(calls, rollups, strict=True):
        if rollup.window.node != rollups[0].window.node:
            raise refuse(call, scope.source, "a query has one window", "Submit one query for each window.")
    if rollups and not is_grouped(select):
        raise refuse(calls[0], scope.source, "window(...) is possible only with GROUP BY", FORM)
    return rollups[0] if rollups else None


def _rollup(call: exp.Expr, scope: Scope, windows: Windows, below: StreamSelect) -> Rollup:
    inner = below.window
    assert inner is not None
    arguments, source = call.expressions, scope.source
    if function_name(call) == SESSION:
        message = "sessions over the rows of windows are not possible yet"
        raise refuse(call, source, message, "Group the stream itself by session_window(ts, '10 minutes').")
    if function_name(call) == CUMULATE:
        raise refuse(call, source, "cumulative windows over the rows of windows are not possible yet", FORM)
    column = arguments[0] if arguments else call
    bound = resolve(scope, parts_of(column)) if isinstance(column, exp.Column) else None
    part = part_of_window(bound, windows) if bound is not None else None
    at = column if offset_of(column) is not None else call
    if bound is None or part in (None, CALENDAR):
        raise refuse(at, source, "over the rows of windows, window must be on the start of their window", FORM)
    if part == "end":
        raise refuse(at, source, "the end of a window lies in the next one", "Use its start: window(w.start, ...).")
    if len(arguments) != 2:
        message = "windows over the rows of windows follow one another, without slide or shift"
        raise refuse(call, source, message, FORM)
    if below.join_window is not None or any(i.query.join_window is not None for i in below.inputs):
        message = "longer windows over joined streams are not possible yet"
        raise refuse(call, source, message, "Join the streams in the longer windows.")
    if below.ranks:
        message = "longer windows over ranked rows are not possible yet"
        raise refuse(call, source, message, "Rank the rows in the longer windows.")
    length = length_of(arguments[1], call, scope)
    _check_length(arguments[1] if offset_of(arguments[1]) is not None else call, scope, inner, length)
    start = bound if part else exp.Dot(this=bound, expression=exp.Identifier(this="start", quoted=False))
    return Rollup(_window(start, length), start)


def _check_length(at: exp.Expr, scope: Scope, inner: Window, length: timedelta) -> None:
    own = format_interval(inner.length)
    if inner.offset:
        message = f"windows of {inner.words} do not fit into longer ones"
        raise refuse(at, scope.source, message, "Let the windows of the sub-query begin without an offset.")
    if inner.slide != inner.length:
        message = f"windows of {own} every {format_interval(inner.slide)} overlap, and do not fit into longer ones"
        raise refuse(at, scope.source, message, "Let the windows of the sub-query follow one another.")
    if length % inner.length:
        message = f"windows of {own} do not fit into windows of {format_interval(length)}"
        raise refuse(at, scope.source, message, f"Use a multiple of {own}.")


def _window(start: exp.Expr, length: timedelta) -> Window:
    """The call, marked so that binding it again leaves it as it is."""
    argument = start.copy()
    for column in argument.find_all(exp.Column):
        column.meta["bound"] = True
    node = exp.Anonymous(this=WINDOW, expressions=[argument, exp.Literal.string(format_interval(length))])
    return Window(node, length, length)


def rolled_up(query: StreamSelect, to: Window) -> StreamSelect:
    """The query with rows that wait for the end of the longer window that theirs lies in."""
    inner = query.window
    assert inner is not None
    layers = tuple(
        replace(layer, joins=tuple(replace(join, query=rolled_up(join.query, to)) for join in layer.joins))
        for layer in query.layers
    )
    longer = _longer(inner, to)
    if query.inner is not None:
        return replace(query, window=longer, layers=layers, inputs=_inputs(query, longer, ()))
    start = start_within(inner.time, inner.length)

    def made(node: exp.Expr) -> exp.Expr:
        return with_window(node, inner, start)

    return replace(
        query,
        window=longer,
        inner=inner,
        keys=(start, *map(made, query.keys)),
        outputs=tuple(replace(output, expression=made(output.expression)) for output in query.outputs),
        having=tuple(map(made, query.having)),
        top_k=_top_k(query.top_k, inner, start) if query.top_k is not None else None,
        sets=query.sets.behind(1) if query.sets is not None else None,
        inputs=_inputs(query, longer, (start,)),
        layers=layers,
    )


def _longer(window: Window, to: Window) -> Window:
    column = window.time.copy()
    node = exp.Anonymous(this=WINDOW, expressions=[column, exp.Literal.string(format_interval(to.length))])
    return Window(node, to.length, to.slide)


def _inputs(query: StreamSelect, longer: Window, keys: tuple[exp.Expr, ...]) -> tuple[UnionInput, ...]:
    """The branches of a UNION ALL; what they compute is said by the query over them."""
    return tuple(
        replace(
            i, query=replace(i.query, window=longer, inner=query.inner or query.window, keys=(*keys, *i.query.keys))
        )
        for i in query.inputs
    )


def _top_k(top_k: TopK, inner: Window, start: exp.Expr) -> TopK:
    order = []
    for ordered in top_k.order:
        copy = ordered.copy()
        copy.set("this", with_window(ordered.this, inner, start))
        order.append(copy)
    partition = (start, *(with_window(part, inner, start) for part in top_k.partition))
    return replace(top_k, partition=partition, order=tuple(order))
