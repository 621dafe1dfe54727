"""Joins of the stream with tables."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan import INPUT_VIEW
from planner.query.binder import Binder
from planner.query.expressions import conjuncts, first_aggregate, is_site, views_of
from planner.query.scope import Member, Scope, unknown_column
from planner.sql.dialect import exp, offset_of, snippet
from planner.sql.refusals import refuse

EQUALITY_HINT = "A join needs an equality: ON stream.x = table.y, or USING (x)."


@dataclass(frozen=True, slots=True)
class Join:
    """One table joined to all that stands to its left."""

    member: Member
    left: bool
    """A LEFT join: rows without a match are kept."""
    on: tuple[exp.Expr, ...]
    """Conjuncts."""

    @property
    def same_site(self) -> bool:
        """Whether rows can match only rows of their own site."""
        return any(_links_sites(conjunct, self.member.view) for conjunct in self.on)


def bind_joins(tree: exp.Select, scope: Scope) -> tuple[Join, ...]:
    """The joins, in order.

    Raises:
        UnsupportedSqlError: one has no equality.
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
    if not any(_is_equality(conjunct, member.view) for conjunct in found):
        at = on if on is not None and offset_of(on) is not None else join.this
        raise refuse(at, scope.source, f"the join with {member.alias} has no equality of columns", EQUALITY_HINT)
    return Join(member, (join.args.get("side") or "").upper() == "LEFT", found)


def _using(name: exp.Identifier, scope: Scope) -> exp.Expr:
    """`USING (x)` as `left.x = table.x`; columns of an earlier USING are the stream's."""
    member, before = scope.members[-1], scope.first(len(scope.members) - 1)
    owners = before.owners(name.name)
    own = member.column(name.name)
    if not owners or own is None:
        raise unknown_column(scope if not owners else Scope((member,), scope.source), [name])
    owner = owners[0]
    left, right = owner.bound(owner.column(name.name) or name.name), member.bound(own)
    for column in (left, right):
        column.this.meta.update(name.meta)
    return exp.EQ(this=left, expression=right)


def _is_equality(conjunct: exp.Expr, view: str) -> bool:
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


def describe_join(join: Join, text: str) -> str:
    """One line for the logical plan."""
    on = " AND ".join(snippet(conjunct, text, 200) for conjunct in join.on)
    where = " at the same site" if join.same_site else ""
    kind = "LEFT" if join.left else "INNER"
    return f"Join[{kind} {join.member.relation.name}{where} ON {on}]"
