"""Joins with the newest version: what ASOF JOIN must say, and what stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from planner.bind.binder import Binder, is_event_time
from planner.bind.intervals import Interval
from planner.bind.scope import Member, Scope
from planner.graph.expressions import views_of
from planner.sql.asof import ASOF
from planner.sql.dialect import exp
from planner.sql.refusals import refuse

HINT = "a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k is possible, LEFT ASOF JOIN too."
_MIRRORED = {exp.LTE: exp.GTE, exp.LT: exp.GT}


def versions_of(join: exp.Join, found: Sequence[exp.Expr], scope: Scope) -> Interval:
    """Return the interval of an ASOF JOIN, or of a join FOR SYSTEM_TIME AS OF, with the last stream of the scope.

    Args:
        join: as parsed.
        found: bound conjuncts of ON.
        scope: the relations up to the one that is joined.

    Raises:
        UnsupportedSqlError: it is not with a stream, or compares other things than event times, or ON says more than
            that columns are equal.
        UnknownColumnError: at a name that means nothing there.
    """
    source, member = scope.source, scope.members[-1]
    if not member.is_stream:
        message = f"{member.alias} is a table, whose rows have no versions"
        raise refuse(join.this, source, message, "Use JOIN, or declare it as a stream with an event time.")
    left, strict = _compared(join, scope)
    both = next((part for part in found if len(views_of(part)) > 1 and not _equals(part)), None)
    if both is not None:
        message = "ON of an ASOF JOIN says which columns are equal, and conditions on one side"
        raise refuse(both, source, message, "Filter the joined rows by WHERE.")
    interval = Interval(_view(member, scope, join), left, timedelta(0), None, newest=True, strict=strict)
    if interval.first == left:
        raise refuse(join.this, source, "the event times of both streams must be compared", HINT)
    return interval


def _equals(conjunct: exp.Expr) -> bool:
    bare = conjunct.unnest()
    sides = (bare.left.unnest(), bare.right.unnest()) if isinstance(bare, exp.EQ) else ()
    return bool(sides) and all(isinstance(side, exp.Column) for side in sides)


def _compared(join: exp.Join, scope: Scope) -> tuple[str, bool]:
    """The view on the left whose event time decides, and whether a version of the same instant is left out."""
    source, version = scope.source, join.this.args.get("version")
    if version is not None:
        return _time(Binder(scope).bind(version.expression), join, scope), False
    condition = join.args.get("match_condition")
    if condition is None or (join.args.get("method") or "").upper() != ASOF:
        raise refuse(join.this, source, "ASOF JOIN needs a MATCH_CONDITION", HINT)
    bare = condition.unnest()
    if type(bare) in _MIRRORED:
        bare = _MIRRORED[type(bare)](this=bare.right.copy(), expression=bare.left.copy())
    if not isinstance(bare, exp.GTE | exp.GT):
        raise refuse(join.this, source, "MATCH_CONDITION compares two event times", HINT)
    later, earlier = (Binder(scope).bind(side).unnest() for side in (bare.left, bare.right))
    own = scope.members[-1]
    if is_event_time(later, own):
        message = "the next version may never come: a row is joined with the newest one before it"
        raise refuse(join.this, source, message, HINT)
    if not is_event_time(earlier, own):
        raise refuse(join.this, source, f"MATCH_CONDITION must compare with the event time of {own.alias}", HINT)
    return _time(later, join, scope), isinstance(bare, exp.GT)


def _time(time: exp.Expr, join: exp.Join, scope: Scope) -> str:
    bare = time.unnest()
    known = any(is_event_time(bare, stream) for stream in scope.streams if stream is not scope.members[-1])
    if not (known and isinstance(bare, exp.Column)):
        message = "the version is that of the event time of a stream on the left"
        raise refuse(join.this, scope.source, message, HINT)
    return bare.table


def _view(member: Member, scope: Scope, join: exp.Join) -> str:
    name = member.relation.event_time
    column = None if name is None else member.bound(name).unnest()
    if not isinstance(column, exp.Column):
        raise refuse(join.this, scope.source, f"{member.alias} has no event time", HINT)
    return column.table
