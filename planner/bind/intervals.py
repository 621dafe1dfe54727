"""Joins of streams within an interval of time: ON says how far apart the event times of two rows may be.

ON c.user = v.user AND v.ts BETWEEN c.ts AND c.ts + INTERVAL '10 minutes'

One of the two rows is the first: the other one's event time is not before its own and a constant, and not after its own
and a constant, or not after any expression of its columns (`BETWEEN a.ts AND a.expires`). So it is known when no match
of a row can come any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from planner.bind.binder import is_event_time
from planner.bind.scope import Scope
from planner.graph.expressions import views_of
from planner.sql.dialect import exp
from planner.sql.intervals import format_interval, parse_interval

_TIGHTER = timedelta(microseconds=1)
"""Event times are in microseconds: less than an instant is at most one before."""
_NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class Interval:
    """A row of one stream matches rows of another whose event times are between bounds of its own."""

    first: str
    """View of the stream whose rows set the bounds."""
    second: str
    lower: timedelta
    """Event times of matches are not before that of the first row and this; it may be negative."""
    upper: timedelta | None
    """They are not after that of the first row and this; None: not after `until`."""
    until: exp.Expr | None = None
    """An expression of the first row."""
    newest: bool = False
    """A second row is joined with the newest matching first row alone; that one matches until a newer one comes."""
    strict: bool = False
    """With `newest`, a first row of the same instant does not match."""

    def behind(self, view: str) -> timedelta | None:
        """Return how much earlier than the later of two rows that match that of a view may be; None: any time."""
        if view == self.second:
            return max(_NOTHING, -self.lower)
        return None if self.upper is None else max(_NOTHING, self.upper)

    def other(self, view: str) -> str:
        """Return the other one of the two views."""
        return self.second if view == self.first else self.first

    @property
    def words(self) -> str:
        """Return how far the second row may be from the first, for people."""
        if self.newest:
            return "with the newest version before it" if self.strict else "with the newest version"
        upper = "an instant that the row says" if self.upper is None else _signed(self.upper)
        return f"from {_signed(self.lower)} to {upper}"

    @property
    def kept(self) -> timedelta:
        """Return how long rows of the two streams wait for each other, as far as that is known."""
        return max(_NOTHING, -self.lower) + max(_NOTHING, self.upper or _NOTHING)


def _signed(length: timedelta) -> str:
    return f"-{format_interval(-length)}" if length < _NOTHING else format_interval(length)


def interval_of(conditions: Sequence[exp.Expr], scope: Scope) -> Interval | None:
    """The interval that conditions say for the last stream of the scope and one before it; None: they say none.

    Args:
        conditions: bound conjuncts that hold for all rows that match. They are evaluated as well.
        scope: the relations up to the one that is joined.
    """
    bounds = [bound for condition in conditions for bound in _bounds(condition, scope)]
    member = scope.members[-1]
    own = _view_of_time(scope, len(scope.members) - 1)
    others = [_view_of_time(scope, place) for place, other in enumerate(scope.members[:-1]) if other.is_stream]
    if own is None or not member.is_stream:
        return None
    found = (_interval(bounds, other, own) for other in others if other is not None)
    return next((one for one in found if one is not None), None)


def _view_of_time(scope: Scope, place: int) -> str | None:
    """The view whose column is the event time of a member; of a derived table that is its stream's."""
    member = scope.members[place]
    name = member.relation.event_time
    column = None if name is None else member.bound(name).unnest()
    return column.table if isinstance(column, exp.Column) else None


@dataclass(frozen=True, slots=True)
class _Timed:
    """The event time of a stream, and a constant."""

    view: str
    offset: timedelta


@dataclass(frozen=True, slots=True)
class _Bound:
    """The event time of a view is not after that of another one and this, or not after an expression of it."""

    view: str
    other: str
    most: timedelta | None
    until: exp.Expr | None = None


def _interval(bounds: Iterable[_Bound], other: str, own: str) -> Interval | None:
    """The interval between two streams; the first of them is the one whose bounds are known."""
    between = [bound for bound in bounds if {bound.view, bound.other} == {other, own}]
    for first, second in ((other, own), (own, other)):
        lower = min((b.most for b in between if b.view == first and b.most is not None), default=None)
        if lower is None:
            continue
        upper = min((b.most for b in between if b.view == second and b.most is not None), default=None)
        if upper is not None:
            return Interval(first, second, -lower, upper)
        until = next((b.until for b in between if b.view == second and b.until is not None), None)
        if until is not None:
            return Interval(first, second, -lower, None, until)
    return None


def _bounds(condition: exp.Expr, scope: Scope) -> Iterator[_Bound]:
    bare = condition.unnest()
    if isinstance(bare, exp.Between) and not bare.args.get("symmetric"):
        yield from _at_most(bare.args["low"], bare.this, _NOTHING, scope)
        yield from _at_most(bare.this, bare.args["high"], _NOTHING, scope)
    elif isinstance(bare, exp.EQ | exp.LTE | exp.LT):
        yield from _at_most(bare.left, bare.right, _TIGHTER if isinstance(bare, exp.LT) else _NOTHING, scope)
    if isinstance(bare, exp.EQ | exp.GTE | exp.GT):
        yield from _at_most(bare.right, bare.left, _TIGHTER if isinstance(bare, exp.GT) else _NOTHING, scope)


def _at_most(less: exp.Expr, more: exp.Expr, tighter: timedelta, scope: Scope) -> Iterator[_Bound]:
    """Yield the bounds that follow if `less + tighter` is not after `more`."""
    low, high = _timed(less, scope), _timed(more, scope)
    if low is None:
        return
    if high is not None:
        if low.view != high.view:
            yield _Bound(low.view, high.view, high.offset - low.offset - tighter)
        return
    views = views_of(more)
    # A row with a stricter bound waits a little longer than it has to.
    if len(views) == 1 and low.view not in views and low.offset >= _NOTHING:
        yield _Bound(low.view, next(iter(views)), None, more.unnest())


def _timed(node: exp.Expr, scope: Scope) -> _Timed | None:
    """The event time of a stream with a constant added; None for any other expression."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        known = any(is_event_time(bare, stream) for stream in scope.streams)
        return _Timed(bare.table, _NOTHING) if known else None
    if not isinstance(bare, exp.Add | exp.Sub):
        return None
    time, length = _timed(bare.left, scope), length_of_interval(bare.right)
    if time is None and isinstance(bare, exp.Add):
        time, length = _timed(bare.right, scope), length_of_interval(bare.left)
    if time is None or length is None:
        return None
    return _Timed(time.view, time.offset + (length if isinstance(bare, exp.Add) else -length))


def length_of_interval(node: exp.Expr) -> timedelta | None:
    """The length of a literal interval; None where it is of another form, or of months."""
    bare = node.unnest()
    if isinstance(bare, exp.Neg):
        length = length_of_interval(bare.this)
        return None if length is None else -length
    if isinstance(bare, exp.Add):
        parts = length_of_interval(bare.left), length_of_interval(bare.right)
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    if not isinstance(bare, exp.Interval) or not isinstance(bare.this, exp.Literal):
        return None
    unit = bare.args.get("unit")
    text = f"{bare.this.name} {unit.name}" if unit is not None else bare.this.name
    length = parse_interval(text.strip().removeprefix("-"))
    return -length if length is not None and text.strip().startswith("-") else length


def behind(intervals: Sequence[Interval], view: str) -> timedelta | None:
    """Return how much earlier than the joined rows' watermark the event time of a view may be in a later row.

    Args:
        intervals: of joins that follow one another, each of which joins one more stream to the rows of those before.
            Rows of one that is joined to others have the event time of the stream that its interval names.
        view: a stream among them.

    Returns:
        None: any time.
    """
    apart: dict[tuple[str, str], timedelta | None] = {}
    known = {intervals[0].first, intervals[0].second}
    found: Mapping[str, timedelta | None] = {}
    for interval in intervals:
        (joined,) = {interval.first, interval.second} - known or {intervals[0].second}
        base = interval.other(joined)
        apart[interval.first, interval.second] = -interval.lower
        apart[interval.second, interval.first] = interval.upper
        for other in known - {base, joined}:
            apart[joined, other] = _sum(apart[joined, base], apart.get((base, other)))
            apart[other, joined] = _sum(apart.get((other, base)), apart[base, joined])
        known |= {joined}
        of_base = interval.behind(base)
        found = {one: _sum(of_base, apart.get((base, one))) for one in known} | {
            base: of_base,
            joined: interval.behind(joined),
        }
    lag = found.get(view)
    return None if lag is None else max(_NOTHING, lag)


def _sum(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    """`None` is no bound."""
    return None if one is None or other is None else one + other
