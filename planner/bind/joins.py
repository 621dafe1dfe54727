"""Joins of the stream with tables, and with other streams inside a window or within an interval of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from planner.bind.binder import Binder
from planner.bind.calls import function_calls
from planner.bind.intervals import interval_of
from planner.bind.scope import Member, Scope, unknown_column
from planner.bind.selects import Join
from planner.bind.streamjoins import check_is_bounded, same_window, unbounded
from planner.bind.subqueries import OF_WHERE
from planner.bind.versions import versions_of
from planner.graph.expressions import conjuncts, first_aggregate, placed, views_of
from planner.sql.asof import is_asof
from planner.sql.dialect import exp, offset_of
from planner.sql.refusals import JOIN_HINT, refuse

EQUALITY_HINT = "Say which rows match: ON stream.x = other.y, or USING (x)."


def bind_joins(tree: exp.Select, scope: Scope, *, by_equality: bool = False) -> tuple[Join, ...]:
    """The joins, in order.

    Args:
        tree: the SELECT.
        scope: what stands in FROM and behind each JOIN, then lateral views.
        by_equality: tables too are joined by an equality.

    Raises:
        UnsupportedSqlError: one has no equality, or is of streams without equal windows.
        UnknownColumnError: at a name that means nothing there.
    """
    joins = tree.args.get("joins") or []
    where = tree.args.get("where")
    return tuple(
        _bind_join(
            join,
            _known(scope, index, len(joins), join),
            by_equality,
            lambda: conjuncts(Binder(scope).bind(where.this)) if where is not None else (),
        )
        for index, join in enumerate(joins)
    )


def _known(scope: Scope, index: int, joins: int, join: exp.Join) -> Scope:
    """Return what the condition of a join sees: what stands before it, and for one of WHERE lateral views as well."""
    before = tuple(member for member in scope.members[: index + 1] if not member.hidden)
    laterals = scope.members[joins + 1 :] if OF_WHERE in join.meta else ()
    return replace(scope, members=(*before, *laterals, scope.members[index + 1]))


def only_of(join: exp.Expr) -> str:
    """SEMI, ANTI, or empty."""
    kind = (join.args.get("kind") or "").upper()
    return kind if kind in ("SEMI", "ANTI") else ""


def _bind_join(join: exp.Join, scope: Scope, by_equality: bool, where: Callable[[], tuple[exp.Expr, ...]]) -> Join:
    """`where` are the conditions of WHERE, which hold for rows of inner joins as those of ON do."""
    member, only = scope.members[-1], only_of(join)
    _check_side(join, scope)
    if only and not member.is_stream:
        return Join(member, left=False, on=conditions(join, scope), only=only)
    found = conditions(join, scope)
    if is_asof(join):
        left, versions = is_left(join), versions_of(join, found, scope)
        _check_equality(found, join, scope)
        return Join(member, left, found, interval=versions)
    if OF_WHERE in join.meta and member.is_stream:
        check_is_bounded(found, scope, at=join.this)
    equal, found = same_window(found, scope)
    interval = interval_of(found, scope) if equal is None else None
    if member.is_stream and equal is None and interval is None and not (only or side_of(join)):
        interval = interval_of((*found, *where()), scope)
    if member.is_stream and equal is None and interval is None:
        raise unbounded(scope, at=place_of(join))
    if by_equality or member.is_stream:
        _check_equality(found, join, scope)
    left, right = is_left(join) and not only, is_right(join)
    return Join(member, left, found, equal, only=only, right=right, interval=interval)


def _check_equality(found: Iterable[exp.Expr], join: exp.Join, scope: Scope) -> None:
    member = scope.members[-1]
    if not any(is_equality(conjunct, member.view) for conjunct in found):
        message = f"the join with {member.alias} has no equality of columns"
        raise refuse(place_of(join), scope.source, message, EQUALITY_HINT)


def _check_side(join: exp.Join, scope: Scope) -> None:
    """Refuse rows of a table without a match: nobody knows before the end of the stream that they are without one."""
    streams = [member for member in (scope.stream, scope.members[-1]) if member.is_stream]
    if not is_right(join) or len(streams) == 2:
        return
    why = " with a table is not possible: its rows without a match are known only at the end"
    message = f"{side_of(join)} JOIN{why if streams else ' is not possible'}"
    raise refuse(join.this, scope.source, message, JOIN_HINT)


def conditions(join: exp.Join, scope: Scope) -> tuple[exp.Expr, ...]:
    """The bound conjuncts of ON or USING; the last relation of the scope is the one that is joined.

    Raises:
        UnsupportedSqlError: one cannot be evaluated there.
        UnknownColumnError: at a name that means nothing there.
    """
    names, on = join.args.get("using") or [], join.args.get("on")
    if names and is_right(join):
        message = f"USING is not possible in a {side_of(join)} JOIN: either side may lack the column"
        raise refuse(names[0], scope.source, message, "Write ON a.x = b.x, and select coalesce(a.x, b.x).")
    if names:
        return tuple(_using(name, scope) for name in names)
    found = conjuncts(Binder(scope).bind(on)) if on is not None else ()
    for conjunct in found:
        aggregate = first_aggregate(conjunct)
        if aggregate is not None:
            raise refuse(aggregate, scope.source, "an aggregate is not possible in ON", "Use HAVING.")
        if side_of(join):
            _check_functions(conjunct, scope.members[-1], scope)
    return found


def side_of(join: exp.Join) -> str:
    """Return LEFT, RIGHT, FULL, or empty."""
    return (join.args.get("side") or "").upper()


def is_left(join: exp.Join) -> bool:
    """Return whether left rows without a match are kept."""
    return side_of(join) in ("LEFT", "FULL")


def is_right(join: exp.Join) -> bool:
    """Return whether rows of the right side without a match are kept."""
    return side_of(join) in ("RIGHT", "FULL")


def _check_functions(conjunct: exp.Expr, member: Member, scope: Scope, at: exp.Expr | None = None) -> None:
    """Refuses a Python function of both sides in ON of an outer join.

    Spark computes it only behind an inner join, and refuses an outer join only when the query runs.
    """
    for call in function_calls(conjunct, scope.functions):
        views = views_of(call)
        if member.view in views and len(views) > 1:
            message = "a Python function of both sides is not possible in ON of an outer join"
            hint = "Give it columns of one side, as in ON f(a.x) = g(b.y), or use an inner join."
            raise refuse(at or call, scope.source, message, hint)


def check_on(joins: Iterable[Join], scope: Scope, *, at: exp.Expr) -> None:
    """Checks joins whose conditions were rewritten as those that a user wrote are checked.

    Raises:
        UnsupportedSqlError: at `at`, when a condition calls a Python function that is not possible there.
    """
    for join in joins:
        for conjunct in join.on if join.left or join.right else ():
            _check_functions(conjunct, join.member, scope, at)


def place_of(join: exp.Join) -> exp.Expr:
    """What an error about the whole condition points to."""
    on = join.args.get("on")
    at: exp.Expr = on if on is not None and offset_of(on) is not None else join.this
    return at


def _using(name: exp.Identifier, scope: Scope) -> exp.Expr:
    """`USING (x)` as `left.x = table.x`; columns of an earlier USING are the stream's."""
    member, before = scope.members[-1], scope.first(len(scope.members) - 1)
    owners = before.owners(name.name)
    own = member.column(name.name)
    if not owners or own is None:
        raise unknown_column(scope if not owners else Scope((member,), scope.source), [name])
    owner = owners[0]
    start, end = name.meta.get("start"), name.meta.get("end")
    left, right = (placed(owner.bound(owner.column(name.name) or name.name), start, end), member.bound(own))
    return exp.EQ(this=left, expression=placed(right, start, end))


def is_equality(conjunct: exp.Expr, view: str) -> bool:
    """Whether it says that something of the view equals something of others."""
    bare = conjunct.unnest()
    if not isinstance(bare, exp.EQ | exp.NullSafeEQ):
        return False
    left, right = views_of(bare.left), views_of(bare.right)
    return (left == {view} and bool(right) and view not in right) or (
        right == {view} and bool(left) and view not in left
    )
