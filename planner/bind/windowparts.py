"""Expressions for a window and its ends where only the window's start is a column."""

from __future__ import annotations

from datetime import timedelta

from planner.bind.binder import Window
from planner.bind.windowkeys import WINDOW_FIELDS
from planner.graph.expressions import with_children
from planner.sql.dialect import exp, name_node
from planner.values.months import UNITS
from planner.values.names import WINDOW_END


def window_part(node: exp.Expr, window: Window, start: exp.Expr) -> exp.Expr | None:
    """The window or its start or end, made of its start; None for any other expression."""
    bare = node.unnest()
    if window.is_session:
        return _session_part(bare, window, start)
    if bare == window.node:
        return _window_struct(window, start) if window.is_call else _of_start(window, start)
    if isinstance(bare, exp.Dot) and bare.this.unnest() == window.node:
        return window_start(window, start) if bare.name.lower() == WINDOW_FIELDS[0] else _window_end(window, start)
    return None


def _session_part(bare: exp.Expr, window: Window, start: exp.Expr) -> exp.Expr | None:
    """The session or its start or end, of two columns."""
    end = exp.Column(this=name_node(WINDOW_END))
    if bare == window.node:
        return _struct(start.copy(), end)
    if isinstance(bare, exp.Dot) and bare.this.unnest() == window.node:
        return start.copy() if bare.name.lower() == WINDOW_FIELDS[0] else end
    return None


def _of_start(window: Window, start: exp.Expr) -> exp.Expr:
    """Return the expression of a calendar window's rows over an instant in it: it is the same for all of them."""
    if isinstance(window.node, exp.Column):
        return start.copy()
    node = window.node.copy()
    # `start` is the length of the longest month before the end, which may be before this window.
    within = later(start, window.length - timedelta(microseconds=1)) if window.months else start
    for column in list(node.find_all(exp.Column)):
        column.replace(within.copy())
    return node


def start_of(window: Window) -> exp.Expr:
    """Return the start of a window, where that is what rows are known by."""
    return exp.Dot(this=window.node.copy(), expression=name_node(WINDOW_FIELDS[0]))


def pane_start(window: Window) -> exp.Expr:
    """Return what a source sends of the window of a row: the start of its pane; of months, what stands for it."""
    if isinstance(window.node, exp.Column):
        return window.node.copy()
    if not window.months:
        return exp.Dot(this=window.panes, expression=exp.to_identifier(WINDOW_FIELDS[0]))
    unit = exp.Literal.string(UNITS[window.months].upper())
    begins = exp.Anonymous(this="date_trunc", expressions=[unit, window.time.copy()])
    months = exp.Interval(this=exp.Literal.string(str(window.months)), unit=exp.Var(this="MONTH"))
    ends = exp.Paren(this=exp.Add(this=begins, expression=months))
    seconds = exp.Literal.string(str(window.length // timedelta(seconds=1)))
    return exp.Paren(this=exp.Sub(this=ends, expression=exp.Interval(this=seconds, unit=exp.Var(this="SECOND"))))


def window_start(window: Window, start: exp.Expr) -> exp.Expr:
    """Return where a window begins.

    Args:
        window: the window.
        start: what stands for it; for a cumulative one that is the instant its length before its end.
    """
    if not window.cumulates:
        return start.copy()
    first_step = later(start, window.length - window.slide)
    return start_within(first_step, window.length)


def _window_end(window: Window, start: exp.Expr) -> exp.Expr:
    return later(start, window.length)


def later(instant: exp.Expr, by: timedelta) -> exp.Expr:
    """Return the instant so much later."""
    seconds, microseconds = divmod(by // timedelta(microseconds=1), 1_000_000)
    text = f"{seconds}.{microseconds:06d}" if microseconds else str(seconds)
    length = exp.Interval(this=exp.Literal.string(text), unit=exp.Var(this="SECOND"))
    return exp.Paren(this=exp.Add(this=instant.copy(), expression=length))


def _window_struct(window: Window, start: exp.Expr) -> exp.Expr:
    return _struct(window_start(window, start), _window_end(window, start))


def _struct(begins: exp.Expr, ends: exp.Expr) -> exp.Expr:
    fields = [exp.Literal.string("start"), begins, exp.Literal.string("end"), ends]
    return exp.Anonymous(this="named_struct", expressions=fields)


def with_window(node: exp.Expr, window: Window, start: exp.Expr) -> exp.Expr:
    """A copy in which the window and its ends, wherever they stand, are made of this start."""
    rebuilt = window_part(node, window, start)
    return rebuilt if rebuilt is not None else with_children(node, lambda part: with_window(part, window, start))


def end_of(window: Window) -> exp.Expr:
    """Return the end of the window that a row is in, of windows that follow one another."""
    start = pane_start(window) if window.months else start_within(window.time, window.length, window.offset)
    return later(start, window.length)


def start_within(instant: exp.Expr, length: timedelta, offset: timedelta = timedelta(0)) -> exp.Expr:
    """The start of the tumbling window that an instant is in.

    Spark has one `window(...)` in a SELECT; this can stand beside it. Windows are counted from 1970, as Spark's are,
    or from that and the offset.
    """
    micros = exp.Anonymous(this="unix_micros", expressions=[instant.copy()])
    size = exp.Literal.number(length // timedelta(microseconds=1))
    since: exp.Expr = micros.copy()
    if offset:
        since = exp.Sub(this=since, expression=exp.Literal.number(offset // timedelta(microseconds=1)))
    within = exp.Anonymous(this="pmod", expressions=[since, size])
    return exp.Anonymous(this="timestamp_micros", expressions=[exp.Sub(this=micros, expression=within)])
