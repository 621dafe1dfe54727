"""A SELECT that joins streams within intervals gives rows as a stream does, each with its times: checks of the rest.

The event time of a stream is one of the joined rows if a row of the stream is in each of them, and if it is known how
far it may be before the watermark; so is the instant until which the rows of one stream match others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from planner.bind.intervals import Interval, behind
from planner.bind.scope import Scope
from planner.bind.selects import StreamSelect, always_there
from planner.sql.dialect import exp
from planner.sql.refusals import refuse
from planner.sql.source import Source


def behind_of(intervals: Sequence[Interval], time: exp.Expr) -> timedelta | None:
    """Return how much earlier than the watermark of joined rows an instant in later ones may be; None: any time.

    Args:
        intervals: of the joins, in their order.
        time: the event time of a stream, or the instant until which the rows of one match others.
    """
    *_, last = intervals
    if last.until is not None and time == last.until:
        # No match is after that instant, and the row itself is before its matches by no more than this.
        return max(timedelta(0), -last.lower)
    return behind(intervals, time.table) if isinstance(time, exp.Column) else None


def instants(intervals: Sequence[Interval], scope: Scope) -> Sequence[exp.Expr]:
    """The columns of rows by which groups are complete at some time: of a stream, its event time.

    Args:
        intervals: those in which the streams of the scope are joined; none: there is one stream.
        scope: the relations; it says of which streams a row may be lacking.
    """
    times = [stream.bound(time).unnest() for stream in scope.streams if (time := stream.relation.event_time)]
    if not intervals:
        return times
    last = intervals[-1]
    if isinstance(last.until, exp.Column) and not {last.first, last.second} & scope.nullable:
        times.append(last.until)
    there = [time for time in times if isinstance(time, exp.Column) and time.table not in scope.nullable]
    return [time for time in there if behind_of(intervals, time) is not None]


def event_times(select: StreamSelect) -> Sequence[exp.Expr]:
    """The columns that can be the event time of the rows of a SELECT that does not aggregate."""
    if not select.intervals:
        return () if select.scope.event_time is None else (select.scope.event_time,)
    until = select.intervals[-1].until
    return [time for time in instants(select.intervals, select.scope) if time != until]


def check_paired(query: StreamSelect, source: Source, *, at: exp.Expr) -> None:
    """Check what a SELECT that joins streams within intervals, if it does, has besides.

    Raises:
        UnsupportedSqlError: at `at`.
    """
    intervals = query.intervals
    if not intervals:
        return
    if query.join_window is not None:
        message = "a query joins all its streams in the same windows, or all within intervals of time"
        raise refuse(at, source, message, "Join those of windows in a query of their own.")
    before: list[Interval] = []
    for place, join in enumerate(query.joins):
        if join.interval is None:
            continue
        base = join.interval.other(join.member.view)
        there = always_there(query.scope.stream.view, query.joins[:place])
        if before and (base not in there or behind(before, base) is None):
            name = join.member.alias
            message = f"{name} is joined by an event time that joined rows may lack, or that may be any time ago"
            raise refuse(at, source, message, f"Let ON say when a row of {name} is by another stream of an inner join.")
        before.append(join.interval)
    window = query.window
    if window is None:
        return
    if window.view in query.scope.nullable:
        message = "the window is over the event time of a stream of which a joined row may have no row"
        raise refuse(at, source, message, "Use that of a stream of which each joined row has one.")
    if behind_of(intervals, window.time) is None:
        message = (
            "how long ago the event time of the window may be is not known: its stream's rows say how long they wait"
        )
        raise refuse(at, source, message, "Use the event time of the other stream, or constants as bounds in ON.")
