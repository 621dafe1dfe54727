"""Binding: each name of an expression becomes the column, alias or window that it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from planner.bind.calls import checked_call
from planner.bind.scope import Member, Scope, resolve, unknown_column
from planner.bind.settled import settle_calls
from planner.bind.windowkeys import CALENDAR, CUMULATIVE, WINDOW_FIELDS, Windows
from planner.bind.windowkeys import SESSION as SESSION_PART
from planner.functions.traits import CUMULATE, SESSION, TIME_UNIT_FUNCTIONS, WINDOW, WINDOWS
from planner.graph.expressions import (
    enclosed,
    first_aggregate,
    first_of,
    is_aggregate,
    placed,
    replace_each,
    unqualified,
)
from planner.sql.dialect import exp, offset_of, parts_of, render
from planner.sql.intervals import format_interval, format_windows, pane_of, parse_interval
from planner.sql.refusals import check_unit, function_name, refuse
from planner.sql.wholeforms import over_tables
from planner.values.errors import UnknownColumnError

_MONTHS = re.compile(r"(?i)\b\d+'?\s+(month|year|quarter)s?\b")
WINDOW_FORM = "window(ts, '10 seconds')"
MAX_PANES_OF_A_WINDOW = 1000
UNKNOWN_GAP = timedelta(minutes=1)
"""Estimates take this gap for sessions in which each row has one of its own."""


@dataclass(frozen=True, slots=True)
class Window:
    """The window of GROUP BY or of a join of streams: one of this length begins every `slide`.

    A session has no length of its own: `length` and `slide` are its gap.
    """

    node: exp.Expr
    """The canonical call; equal calls are equal nodes."""
    length: timedelta
    slide: timedelta
    """The length itself when windows follow one another; else it is shorter."""
    offset: timedelta = timedelta(0)
    """A window begins so long after 1970 began; shorter than the slide."""
    months: int = 0
    """It is so many calendar months, from January on; 0: it has one length. Then `length` is that of the longest, and
    where the start stands for a window, that is `length` before its end."""

    @property
    def cumulates(self) -> bool:
        """Return whether a window begins every `length`, and those that begin together end `slide` after one another.

        Where the start of such a window stands for it, that is `length` before its end.
        """
        return function_name(self.node) == CUMULATE

    @property
    def is_call(self) -> bool:
        """Return whether the query writes `window(...)` or the like; else a key says it, as `date(ts)` does."""
        return function_name(self.node) in WINDOWS

    @property
    def is_session(self) -> bool:
        """Return whether the rows of a key say themselves when a window begins and ends."""
        return function_name(self.node) == SESSION

    @property
    def gap(self) -> exp.Expr:
        """Return the gap of sessions: a text, or an expression of the row."""
        gap: exp.Expr = self.node.expressions[1]
        return gap

    @property
    def gap_words(self) -> str:
        """Return the gap of sessions, for people."""
        return self.gap.name if isinstance(self.gap, exp.Literal) else render(unqualified(self.gap))

    @property
    def name(self) -> str:
        """Return the name under which a query can mean it without writing the call again."""
        return SESSION if self.is_session else WINDOW

    @property
    def part(self) -> str:
        """Return what `node` is of the window, as `Windows` says it."""
        if not self.is_call:
            return WINDOW_FIELDS[0] if isinstance(self.node, exp.Column) else CALENDAR
        return CUMULATIVE if self.cumulates else SESSION_PART if self.is_session else ""

    @property
    def view(self) -> str:
        """The stream whose event time it is over."""
        return self.time.table

    @property
    def time(self) -> exp.Column:
        """The event time that it is over, or the start of shorter windows."""
        column = self.node.find(exp.Column)
        assert column is not None
        return column

    @property
    def panes(self) -> exp.Expr:
        """The call of the windows that follow one another of which every window is made up."""
        pane = pane_of(self.length, self.slide)
        return _call(self.time.copy(), pane, pane, self.offset % pane)

    @property
    def overlaps(self) -> bool:
        """True when a row is in more than one window."""
        return self.slide != self.length

    @property
    def words(self) -> str:
        """Length, slide and offset, for people."""
        if self.is_session:
            return f"sessions with a gap of {self.gap_words}"
        return format_windows(self.length, self.slide, self.offset, cumulates=self.cumulates, months=self.months)

    def like(self, other: Window) -> bool:
        """Whether windows of both begin and end at the same instants."""
        own = (self.length, self.slide, self.offset, self.cumulates, self.months, self.is_session)
        return own == (other.length, other.slide, other.offset, other.cumulates, other.months, other.is_session)


@dataclass(frozen=True, slots=True)
class Binder:
    """What names mean at one place of the query."""

    scope: Scope
    window: Window | None = None
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    """Bound expressions of the select list by lower-case alias."""
    keys: tuple[exp.Expr, ...] | None = None
    """Set for HAVING and QUALIFY: there an alias goes before a column that is not a key."""

    window_columns: Windows | None = None
    """Over the rows of an aggregate: its columns that say which window a row is of."""

    @property
    def is_over_windows(self) -> bool:
        """Whether names mean columns of rows of windows; `window` is then a longer one over them."""
        return self.window_columns is not None

    @property
    def windows(self) -> Windows | None:
        """What stands for the window; None where there is none."""
        return self.window_columns if self.window is None else {self.window.node: self.window.part}

    def bind(self, node: exp.Expr) -> exp.Expr:
        """The bound copy of an expression.

        Raises:
            UnknownColumnError, UnsupportedSqlError: at the name or call that is wrong.
        """
        root = exp.Paren(this=node.copy())
        for call in list(root.find_all(exp.Anonymous)):
            self._bind_call(call)
        columns = [column for column in root.find_all(exp.Column) if not isinstance(column.this, exp.Star)]
        replace_each([(column, self._bind_column(column)) for column in columns])
        for star in root.find_all(exp.Star):
            self._check_star(star)
        if self.scope.stream.is_stream:
            settle_calls(root, self.scope, "" if self.is_over_windows else lost_event_time(self.scope.stream))
        bound: exp.Expr = root.this
        bound.parent = None
        return bound

    def _bind_call(self, call: exp.Anonymous) -> None:
        name = function_name(call)
        call.set("this", name)
        function = self.scope.functions.get(name)
        if function is not None:
            call.set("this", checked_call(call, function, self.scope.source))
        if name in TIME_UNIT_FUNCTIONS and len(call.expressions) == 3 and isinstance(call.expressions[0], exp.Column):
            call.expressions[0].replace(self._unit(call.expressions[0]))
        if name in WINDOWS and self.scope.stream.is_stream:
            canonical = self.window.node if self.is_over_windows and self.window else window_of(call, self.scope).node
            call.set("this", function_name(canonical))
            call.set("expressions", [argument.copy() for argument in canonical.expressions])
        elif name == CUMULATE:
            raise over_tables(call, self.scope.source)

    def _unit(self, column: exp.Column) -> exp.Var:
        check_unit(column, self.scope.source)
        return exp.Var(this=column.name)

    def _bind_column(self, column: exp.Column) -> exp.Expr:
        # A part of a window call was bound with the call.
        if "bound" in column.meta:
            return column.copy()
        parts = parts_of(column)
        usable = self.aliases if _outside_aggregate(column) else {}
        alias = usable.get(parts[0].name.lower())
        found = resolve(self.scope, parts)
        if found is not None and self._is_other_window(found, parts):
            raise self._ambiguous_window(parts[0])
        if alias is not None and (found is None or (self.keys is not None and found not in self.keys)):
            return _fields(enclosed(alias), parts)
        if found is not None:
            return found
        if self._is_named_window(parts):
            return self._window_field(column, parts)
        raise unknown_column(self.scope, parts, usable)

    def _is_other_window(self, found: exp.Expr, parts: list[exp.Identifier]) -> bool:
        """Whether a column is called `window`, and is not the window."""
        named = self._is_named_window(parts) and len(parts) == 1
        return named and self.window is not None and found.unnest() != self.window.node

    def _is_named_window(self, parts: list[exp.Identifier]) -> bool:
        """Return whether a name, such as `window`, may mean the window that the query groups by."""
        window = self.window
        return window is not None and window.is_call and parts[0].name.lower() == window.name

    def _window_field(self, column: exp.Column, parts: list[exp.Identifier]) -> exp.Expr:
        assert self.window is not None
        if len(parts) > 2 or (len(parts) == 2 and parts[1].name.lower() not in WINDOW_FIELDS):
            raise refuse(
                column,
                self.scope.source,
                "a window has the fields start and end",
                f"{self.window.name}.start, {self.window.name}.end.",
            )
        node = self.window.node.copy()
        node.meta.update(start=parts[0].meta.get("start", 0), end=parts[-1].meta.get("end", 0))
        return _fields(node, parts)

    def _ambiguous_window(self, part: exp.Identifier) -> UnknownColumnError:
        name = part.name.lower()
        return UnknownColumnError(
            f"{name} is ambiguous: a column has this name too",
            position=self.scope.source.position(part.meta.get("start", 0)),
            found=part.name,
            hint=f"For the window write {name}(ts, '10 seconds'); for the column, its relation in front.",
        )

    def _check_star(self, star: exp.Star) -> None:
        call = star.parent
        if not (isinstance(call, exp.Anonymous) and function_name(call) == "count" and len(call.expressions) == 1):
            at = call if isinstance(call, exp.Column) else star
            raise refuse(at, self.scope.source, "* is not possible here", "* is possible in SELECT and in count(*).")


def _fields(node: exp.Expr, parts: list[exp.Identifier]) -> exp.Expr:
    for part in parts[1:]:
        name = part.name.lower() if part.name.lower() in WINDOW_FIELDS else part.name
        node = exp.Dot(this=node, expression=exp.Identifier(this=name, quoted=part.args.get("quoted", False)))
    return node


def _outside_aggregate(node: exp.Expr) -> bool:
    parent = node.parent
    while parent is not None:
        if is_aggregate(parent):
            return False
        parent = parent.parent
    return True


def window_of(call: exp.Expr, scope: Scope) -> Window:
    """The window that a `window(...)` call means.

    Raises:
        UnsupportedSqlError: it is not a window of literal length, slide and offset over a stream's event time.
    """
    arguments = call.expressions
    source = scope.source
    if function_name(call) == CUMULATE:
        return _cumulative(call, scope)
    if function_name(call) == SESSION:
        return _session(call, scope)
    form = f"window({scope.stream.relation.event_time}, '10 seconds')"
    if len(arguments) not in (2, 3, 4):
        message = "window needs a length" if len(arguments) < 2 else "window has a length, a slide and an offset"
        raise refuse(call, source, message, f"{form} is possible, with a slide {form[:-1]}, '5 seconds').")
    time = _any_event_time(call, scope) or event_time_of(_stream_of(call, scope, form))
    lengths = [length_of(argument, call, scope) for argument in arguments[1:3]]
    length, slide = lengths[0], lengths[-1]
    _check_slide(arguments[len(lengths)], call, scope, length, slide)
    offset = _offset_of(arguments[3], call, scope) % slide if len(arguments) > 3 else timedelta(0)
    return Window(_call(time, length, slide, offset), length, slide, offset)


def _cumulative(call: exp.Expr, scope: Scope) -> Window:
    """The windows that a `cumulate_window(...)` call means."""
    arguments, source = call.expressions, scope.source
    form = f"{CUMULATE}({scope.stream.relation.event_time}, '1 day', '1 hour')"
    if len(arguments) != 3:
        raise refuse(call, source, f"{CUMULATE} has a length and a step", f"{form} is possible.")
    stream = _stream_of(call, scope, form)
    length, step = (length_of(argument, call, scope) for argument in arguments[1:])
    if length % step:
        message = f"the step {format_interval(step)} does not divide the length {format_interval(length)}"
        swapped = f" The length comes before the step: {form}." if length < step else ""
        raise refuse(_at(arguments[2], call), source, message, f"Use a step that does.{swapped}")
    _check_slide(arguments[2], call, scope, length, step)
    time = event_time_of(stream)
    if step == length:
        return Window(_call(time, length, length, timedelta(0)), length, length)
    texts = [exp.Literal.string(format_interval(part)) for part in (length, step)]
    return Window(exp.Anonymous(this=CUMULATE, expressions=[time, *texts]), length, step)


def _any_event_time(call: exp.Expr, scope: Scope) -> exp.Expr | None:
    """Return the event time of whichever stream has a row, where that is the first argument: coalesce(a.ts, b.ts)."""
    first = call.expressions[0]
    if function_name(first) != "coalesce" or not scope.nullable:
        return None
    times = [_resolved(argument.unnest(), scope) for argument in first.expressions]
    named = all(any(is_event_time(time, stream) for time in times) for stream in scope.streams)
    return any_event_time_of(scope) if named and len(times) == len(scope.streams) else None


def any_event_time_of(scope: Scope) -> exp.Expr:
    """Return the event time of whichever stream has a row, all streams in the order of the scope."""
    return first_of([event_time_of(stream) for stream in scope.streams])


def _session(call: exp.Expr, scope: Scope) -> Window:
    """The sessions that a `session_window(...)` call means."""
    arguments, source = call.expressions, scope.source
    form = f"{SESSION}({scope.stream.relation.event_time}, '10 minutes')"
    if len(arguments) != 2:
        raise refuse(call, source, f"{SESSION} has a gap", f"{form} is possible.")
    stream = _stream_of(call, scope, form)
    length = _literal_length(arguments[1]) if isinstance(arguments[1], exp.Literal) else None
    gap = _gap(arguments[1], call, scope, form) if not length else exp.Literal.string(format_interval(length))
    node = exp.Anonymous(this=SESSION, expressions=[event_time_of(stream), gap])
    return Window(node, length or UNKNOWN_GAP, length or UNKNOWN_GAP)


def _gap(argument: exp.Expr, call: exp.Expr, scope: Scope, form: str) -> exp.Expr:
    """The gap of a row, marked so that binding it again leaves it as it is."""
    texts = (node.sql() for node in argument.find_all(exp.Literal, exp.Interval))
    if isinstance(argument, exp.Literal | exp.Interval | exp.Neg) or any(map(_MONTHS.search, texts)):
        message = "the gap must be a text of fixed length, and longer than nothing"
        raise refuse(_at(argument, call), scope.source, message, f"{form} is possible.")
    bound = placed(Binder(scope).bind(argument), None)
    inner = first_aggregate(bound) or next((c for c in bound.walk() if function_name(c) in WINDOWS), None)
    if inner is not None or bound.find(exp.Column) is None:
        message = "the gap must be a text of fixed length, or an expression of the row"
        hint = f"{form} is possible, or CASE WHEN ... THEN '5 minutes' ELSE '1 hour' END in the place of the gap."
        raise refuse(_at(argument, call), scope.source, message, hint)
    for column in bound.find_all(exp.Column):
        column.meta["bound"] = True
    return bound


def _stream_of(call: exp.Expr, scope: Scope, form: str) -> Member:
    """The stream whose event time is the first argument of a window call."""
    first = call.expressions[0]
    column = _resolved(first, scope)
    stream = next((m for m in scope.streams if is_event_time(column, m)), None)
    if stream is None:
        at = first if offset_of(first) is not None else call
        raise refuse(
            at,
            scope.source,
            f"{function_name(call)} must be on the stream's event-time column",
            _event_time_hint(scope, form),
        )
    return stream


def _resolved(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Return what a column means; any other expression as it is."""
    if not isinstance(node, exp.Column) or "bound" in node.meta:
        return node
    return resolve(scope, parts_of(node)) or node


def _call(time: exp.Expr, length: timedelta, slide: timedelta, offset: timedelta) -> exp.Expr:
    """The canonical call of these windows."""
    lengths = [length] if slide == length and not offset else [length, slide]
    texts = [exp.Literal.string(format_interval(part)) for part in (*lengths, *([offset] if offset else []))]
    return exp.Anonymous(this=WINDOW, expressions=[time, *texts])


def event_time_of(stream: Member) -> exp.Column:
    """The column, marked so that binding it again leaves it as it is."""
    column = placed(stream.bound(stream.relation.event_time or "").unnest(), None)
    assert isinstance(column, exp.Column)
    column.meta["bound"] = True
    return column


def is_event_time(column: exp.Expr, stream: Member) -> bool:
    """Return whether a bound expression is the event time of a stream."""
    event_time = stream.relation.event_time
    return event_time is not None and column.unnest() == stream.bound(event_time).unnest()


def _event_time_hint(scope: Scope, form: str) -> str:
    return next((hint for stream in scope.streams if (hint := lost_event_time(stream))), f"{form} is possible.")


def lost_event_time(stream: Member) -> str:
    """What helps when a derived table has no event time; empty when it has one."""
    if stream.relation.event_time is not None:
        return ""
    return f"{stream.alias} does not select the event-time column of its stream; add it there as it is."


def length_of(argument: exp.Expr, call: exp.Expr, scope: Scope) -> timedelta:
    """The length or slide that an argument of a window call says.

    Raises:
        UnsupportedSqlError: it is no literal of fixed length.
    """
    length = _literal_length(argument)
    if not length:
        what = "length" if argument is call.expressions[1] else "slide"
        message = f"the window's {what} must be a literal of fixed length"
        raise refuse(_at(argument, call), scope.source, message, f"{WINDOW_FORM} is possible.")
    return length


def _offset_of(argument: exp.Expr, call: exp.Expr, scope: Scope) -> timedelta:
    """The offset that the last argument of a window call says; it may be negative.

    Raises:
        UnsupportedSqlError: it is no literal of fixed length.
    """
    bare = argument.this if isinstance(argument, exp.Neg) else argument
    sign = -1 if bare is not argument else 1
    if isinstance(bare, exp.Literal) and bare.is_string and bare.name.strip().startswith("-"):
        sign, bare = -1, exp.Literal.string(bare.name.strip()[1:])
    offset = _literal_length(bare)
    if offset is None:
        message = "the window's offset must be a literal of fixed length"
        hint = "window(ts, '1 hour', '1 hour', '15 minutes') is possible."
        raise refuse(_at(argument, call), scope.source, message, hint)
    return sign * offset


def _at(argument: exp.Expr, call: exp.Expr) -> exp.Expr:
    """What a refusal of an argument points at."""
    return argument if offset_of(argument) is not None else call


def _check_slide(argument: exp.Expr, call: exp.Expr, scope: Scope, length: timedelta, slide: timedelta) -> None:
    if slide > length:
        message = f"the slide {format_interval(slide)} is longer than the windows of {format_interval(length)}"
        hint = "Rows between the windows would be in none: filter them by WHERE, or use longer windows."
        raise refuse(_at(argument, call), scope.source, message, hint)
    panes = length // pane_of(length, slide)
    if panes > MAX_PANES_OF_A_WINDOW:
        raise refuse(
            _at(argument, call),
            scope.source,
            f"a window would be made up of {panes} parts, which its length and slide have in common; at most "
            f"{MAX_PANES_OF_A_WINDOW} are possible",
            "Use a longer slide or shorter windows, or ones with a longer common part.",
        )


def _literal_length(node: exp.Expr) -> timedelta | None:
    if isinstance(node, exp.Literal) and node.is_string:
        return parse_interval(node.name)
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal) and node.args.get("unit") is not None:
        return parse_interval(f"{node.this.name} {render(node.args['unit'])}")
    return None
