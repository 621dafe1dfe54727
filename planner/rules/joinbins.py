"""Bins of rows that are joined: rows that match are in the same bin, at whichever stream they were read.

A bin is a hash, and equal values of two types hash differently. So both sides are cast to one type first; what is not
a column of a declared type is no part of the bin. No column is declared with a collation, by which texts may be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.bind.joins import is_equality
from planner.bind.scope import Member
from planner.bind.selects import Join, StreamSelect
from planner.graph.expressions import cast, views_of
from planner.relations.catalog import SITE_COLUMN
from planner.sql.dialect import exp, render
from planner.values.decimals import digits_of
from planner.values.ranges import WHOLE_NUMBERS

_MOST_DIGITS = 38


_Sides = tuple[exp.Column, str, exp.Column]
"""Of an equality: the column of the joined stream, the owner of the other column, and that column."""


@dataclass(frozen=True, slots=True)
class _Equal:
    """Columns of several streams that are equal in all rows that match."""

    columns: Mapping[str, exp.Column]
    """By the view of the stream."""

    def with_equal(self, view: str, sides: Iterable[_Sides]) -> _Equal | None:
        """With the column of one more stream, from its equalities as `_sides` gives them; None: none concerns these."""
        for own, owner, other in sides:
            if self.columns.get(owner) == other:
                return _Equal({**self.columns, view: own})
        return None


def bin_keys(query: StreamSelect, owners: Mapping[str, str]) -> Mapping[str, tuple[exp.Expr, ...]]:
    """What the bin of a row is made of, by the view of its stream; nothing where matches could be in different bins.

    Args:
        query: it joins streams.
        owners: by view of a relation, the view of the stream whose sources read it.
    """
    first, *more = [join for join in query.joins if join.member.is_stream]
    equal = [_Equal({owner: other, first.member.view: own}) for own, owner, other in _sides(first, owners)]
    for join in more:
        sides = list(_sides(join, owners))
        equal = [found for known in equal if (found := known.with_equal(join.member.view, sides)) is not None]
    typed = ((known, _common(type_of(node, query) for node in known.columns.values())) for known in equal)
    usable = [(known, type_) for known, type_ in typed if type_]
    stream = query.scope.stream.view
    usable.sort(key=lambda pair: render(pair[0].columns[stream]))
    return {
        member.view: tuple(_as(known.columns[member.view], type_, query) for known, type_ in usable)
        for member in query.streams
        if usable
    }


def pair_keys(query: StreamSelect, join: Join, owners: Mapping[str, str]) -> Sequence[tuple[exp.Expr, exp.Expr]]:
    """Return the expressions that bins are computed from, left and right of a join of streams; none where matches could
    be in different bins.

    Args:
        query: it joins streams.
        join: one of its joins.
        owners: as of `bin_keys`.
    """
    typed = ((pair, _common(type_of(node, query) for node in pair)) for pair in equal_columns(join, owners))
    found = [(_as(left, type_, query), _as(right, type_, query)) for (left, right), type_ in typed if type_]
    return sorted(found, key=lambda pair: render(pair[0]))


def equal_columns(join: Join, owners: Mapping[str, str]) -> Sequence[tuple[exp.Column, exp.Column]]:
    """The columns that are equal in rows that match, on the left and on the right of a join of streams."""
    return [(other, own) for own, _, other in _sides(join, owners)]


def _sides(join: Join, owners: Mapping[str, str]) -> Iterator[_Sides]:
    """The equalities of columns."""
    view = join.member.view
    for conjunct in join.on:
        if not is_equality(conjunct, view):
            continue
        bare = conjunct.unnest()
        left, right = bare.args["this"].unnest(), bare.args["expression"].unnest()
        own, other = (left, right) if views_of(left) == {view} else (right, left)
        if isinstance(own, exp.Column) and isinstance(other, exp.Column) and other.table in owners:
            yield own, owners[other.table], other


def type_of(column: exp.Column, query: StreamSelect) -> str:
    """The declared type, in capitals and without blanks; empty when it is not known."""
    members = (*query.scope.members, *query.streams)
    member = next((m for m in members if m.view == column.table), None)
    return "" if member is None else _type_in(member, column.name)


def _type_in(member: Member, name: str) -> str:
    relation = member.relation
    if member.rows is not None:
        made = member.rows.expressions[name.lower()].unnest()
        if not isinstance(made, exp.Column):
            return ""
        relation, name = member.rows.base, made.name
    if name.lower() == SITE_COLUMN and relation.column(name) is None:
        return "STRING"
    column = relation.column(name)
    return "" if column is None else column.type.upper().replace(" ", "")


def _common(types: Iterable[str]) -> str:
    """The type in which these can be compared without loss; empty when there is none, or one is not known."""
    found = set(types)
    if not all(found):
        return ""
    if len(found) == 1:
        return found.pop()
    if found <= WHOLE_NUMBERS:
        return "BIGINT"
    decimals = [known for type_ in found if (known := digits_of(type_))]
    if len(decimals) < len(found):
        return ""
    scale = max(decimal.scale for decimal in decimals)
    digits = scale + max(decimal.precision - decimal.scale for decimal in decimals)
    return f"DECIMAL({digits},{scale})" if digits <= _MOST_DIGITS else ""


def _as(column: exp.Column, type_: str, query: StreamSelect) -> exp.Expr:
    return column.copy() if type_of(column, query) == type_ else cast(column.copy(), type_)
