"""Joins of the stream with tables, and with other streams inside a window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.plan import INPUT_VIEW
from planner.query.binder import Binder, Window
from planner.query.calls import calls_function
from planner.query.expressions import conjuncts, first_aggregate, is_site, placed, views_of
from planner.query.scope import Member, Scope, unknown_column
from planner.query.streamjoins import SameWindow, same_window
from planner.sql.dialect import exp, offset_of
from planner.sql.refusals import refuse

EQUALITY_HINT = "A join needs an equality: ON stream.x = other.y, or USING (x)."


@dataclass(frozen=True, slots=True)
class Join:
    """One table, or one stream inside a window, joined to all that stands to its left."""

    member: Member
    left: bool
    """A LEFT join: rows without a match are kept."""
    on: tuple[exp.Expr, ...]
    """Conjuncts, but for the one that says that windows are equal."""
    same_window: SameWindow | None = None
    """Set when a stream is joined."""

    @property
    def window(self) -> Window | None:
        return self.same_window.window if self.same_window is not None else None

    @property
    def same_site(self) -> bool:
        """Whether rows can match only rows of their own site."""
        return any(_links_sites(conjunct, self.member.view) for conjunct in self.on)


def bind_joins(tree: exp.Select, scope: Scope) -> tuple[Join, ...]:
    """The joins, in order.

    Raises:
        UnsupportedSqlError: one has no equality, or is of streams without equal windows.
        UnknownColumnError: at a name that means nothing there.
    """
    return tuple(_bind_join(join, scope.first(index + 2)) for index, join in enumerate(tree.args.get("joins") or []))


def _bind_join(join: exp.Join, scope: Scope) -> Join:
    member = scope.members[-1]
    using = join.args.get("using") or []
    on = join.args.get("on")
    if using:
        found = tuple(_using(name, scope) for name in using)
    else:
        found = conjuncts(Binder(scope).bind(on)) if on is not None else ()
    for conjunct in found:
        aggregate = first_aggregate(conjunct)
        if aggregate is not None:
            raise refuse(aggregate, scope.source, "an aggregate is not possible in ON", "Use HAVING.")
        _check_functions(conjunct, scope)
    equal, found = same_window(found, scope, at=_place(join))
    if not any(is_equality(conjunct, member.view) for conjunct in found):
        raise refuse(
            _place(join), scope.source, f"the join with {member.alias} has no equality of columns", EQUALITY_HINT
        )
    return Join(member, (join.args.get("side") or "").upper() == "LEFT", found, equal)


def _check_functions(conjunct: exp.Expr, scope: Scope, at: exp.Expr | None = None) -> None:
    """Spark cannot run Python in the ON of an outer join, and says so only when the query runs."""
    call = calls_function(conjunct, scope.functions)
    if call is not None:
        raise refuse(at or call, scope.source, "a Python function is not possible in ON", "Use it in WHERE.")


def check_on(joins: Iterable[Join], scope: Scope, *, at: exp.Expr) -> None:
    """Joins whose conditions were put in other words are as possible as those that were written.

    Raises:
        UnsupportedSqlError: at `at`, when a condition calls a Python function.
    """
    for conjunct in (conjunct for join in joins for conjunct in join.on):
        _check_functions(conjunct, scope, at)


def _place(join: exp.Join) -> exp.Expr:
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


def _links_sites(conjunct: exp.Expr, view: str) -> bool:
    bare = conjunct.unnest()
    if not isinstance(bare, exp.EQ):
        return False
    sides = (bare.left.unnest(), bare.right.unnest())
    return any(is_site(a, INPUT_VIEW) and is_site(b, view) for a, b in (sides, sides[::-1]))
