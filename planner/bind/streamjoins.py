"""Joins of streams inside a window: rows match only rows of the same window, which is joined whole when it is over.

ON c.user = v.user AND window(c.ts, '10 seconds') = window(v.ts, '10 seconds')

Those within an interval of time are for `planner.bind.intervals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.bind.binder import Window, lost_event_time, window_of
from planner.bind.intervals import interval_of
from planner.bind.scope import Member, Scope
from planner.functions.traits import WINDOW, WINDOWS
from planner.sql.dialect import TokenType, exp, offset_of, tokenize
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source
from planner.values.errors import UnsupportedSqlError

EXAMPLE_LENGTH = "10 seconds"
EXAMPLE_INTERVAL = "1 hour"


@dataclass(frozen=True, slots=True)
class SameWindow:
    """What says that rows of two streams lie in the same window."""

    window: Window
    """That of the stream that is joined."""
    other: str
    """View of the stream to its left whose window it equals."""
    span: tuple[int, int]
    """Offsets of its first character in the query's text, and of the one behind its last."""


def same_window(found: Sequence[exp.Expr], scope: Scope) -> tuple[SameWindow | None, tuple[exp.Expr, ...]]:
    """The conjunct of ON that equals windows, and the other conjuncts; None and all where there is none.

    Args:
        found: bound conjuncts of ON.
        scope: the relations up to the one that is joined.

    Raises:
        UnsupportedSqlError: a window stands elsewhere in ON.
    """
    member = scope.members[-1]
    equal = [c for c in found if member.is_stream and _links(c, member.view)]
    rest = tuple(c for c in found if c not in equal[:1])
    _refuse_other_windows(rest, scope)
    return (_same_window(equal[0], scope) if equal else None), rest


def unbounded(scope: Scope, *, at: exp.Expr) -> UnsupportedSqlError:
    """The error for a stream, the last of the scope, that ON joins neither in a window nor within an interval."""
    message = (
        f"streams are joined inside a window or an interval of time, and ON says neither of {scope.members[-1].alias}"
    )
    return refuse(at, scope.source, message, same_window_hint(scope))


def check_is_bounded(found: Sequence[exp.Expr], scope: Scope, *, at: exp.Expr) -> None:
    """Check that a sub-query over a stream, the last of the scope, says that windows are equal, or an interval.

    Raises:
        UnsupportedSqlError: at `at`, if it does not.
    """
    member = scope.members[-1]
    if any(_links(conjunct, member.view) for conjunct in found) or interval_of(found, scope) is not None:
        return
    relation, first = member.relation if member.rows is None else member.rows.base, scope.stream
    form = f"{_form(first)} = window({relation.name}.{relation.event_time}, '{EXAMPLE_LENGTH}')"
    raise refuse(
        at,
        scope.source,
        f"{relation.name} is a stream: a sub-query over it looks within a window, and says which",
        lost_event_time(first)
        or f"Write EXISTS (SELECT 1 FROM {relation.name} WHERE {relation.name}.x = {first.alias}.x AND {form}), or NOT "
        "EXISTS.",
    )


def same_window_hint(scope: Scope) -> str:
    """How the conjunct is written."""
    first, own = scope.stream, scope.members[-1]
    lost = lost_event_time(first) or lost_event_time(own)
    return lost or f"Add to ON: AND {_form(first)} = {_form(own)}, or AND {_interval_form(first, own)}."


def _interval_form(first: Member, own: Member) -> str:
    time = f"{first.alias}.{first.relation.event_time}"
    interval = f"INTERVAL '{EXAMPLE_INTERVAL}'"
    return f"{own.alias}.{own.relation.event_time} BETWEEN {time} - {interval} AND {time} + {interval}"


def _form(stream: Member) -> str:
    return f"window({stream.alias}.{stream.relation.event_time}, '{EXAMPLE_LENGTH}')"


def _calls(conjunct: exp.Expr) -> list[exp.Anonymous]:
    return [call for call in conjunct.find_all(exp.Anonymous, bfs=False) if function_name(call) in WINDOWS]


def _links(conjunct: exp.Expr, view: str) -> bool:
    """Whether it is an equality of a window of the view and one of another stream."""
    bare = conjunct.unnest()
    if not isinstance(bare, exp.EQ):
        return False
    sides = (bare.left.unnest(), bare.right.unnest())
    if any(function_name(side) != WINDOW for side in sides):
        return False
    views = [side.expressions[0].table for side in sides]
    return views.count(view) == 1


def _same_window(conjunct: exp.Expr, scope: Scope) -> SameWindow:
    view = scope.members[-1].view
    windows = {window.view: window for window in (window_of(call, scope) for call in _calls(conjunct))}
    own = windows.pop(view)
    (other,) = windows.values()
    start, end = _span(_calls(conjunct), scope.source)
    if not own.like(other):
        raise UnsupportedSqlError(
            f"the windows that are joined differ: {other.words} and {own.words}",
            position=scope.source.position(start),
            found=scope.source.text[start:end],
            hint="Give both the same length and slide.",
        )
    return SameWindow(own, other.view, (start, end))


def _refuse_other_windows(conjuncts: Sequence[exp.Expr], scope: Scope) -> None:
    call = next((call for conjunct in conjuncts for call in _calls(conjunct)), None)
    if call is not None:
        form = same_window_hint(scope) if len(scope.streams) > 1 else "Compare other columns."
        raise refuse(call, scope.source, "window(...) is possible in ON only to join the windows of two streams", form)


def _span(calls: Sequence[exp.Anonymous], source: Source) -> tuple[int, int]:
    """From the first call's name to the last one's closing bracket; the tree does not know where brackets close."""
    start, last = (pick(offset_of(call) or 0 for call in calls) for pick in (min, max))
    depth = 0
    for token in tokenize(source):
        if token.start > last:
            depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
            if depth == 0:
                return start, token.end + 1
    return start, len(source.text)


def check_join_window(windows: Sequence[tuple[exp.Expr, Window]], joined: Window, scope: Scope) -> None:
    """Every window of the query must be the one in which its streams are joined.

    It is written over the first stream of which there is a row in each joined row, or over all where there is none.

    Raises:
        UnsupportedSqlError: at the first that is not.
    """
    for call, window in windows:
        if window.node != joined.node:
            raise refuse(
                call,
                scope.source,
                "a query that joins streams has one window, that of the join",
                lost_event_time(scope.stream) or f"Write window({_time_of(joined, scope)}, {_literals(joined)}).",
            )


def _time_of(joined: Window, scope: Scope) -> str:
    named = {stream.view: f"{stream.alias}.{stream.relation.event_time}" for stream in scope.streams}
    found = [named[column.table] for column in joined.node.find_all(exp.Column, bfs=False)]
    return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


def _literals(window: Window) -> str:
    return ", ".join(f"'{literal.name}'" for literal in window.node.expressions[1:])
