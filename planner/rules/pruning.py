"""Site pruning: conditions on `site` alone are decided when the query is planned, not row by row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from planner.bind.selects import Join, StreamSelect, TableSelect
from planner.graph.expressions import is_site
from planner.sql.dialect import exp, offset_of, snippet
from planner.values.errors import InvalidDefinitionError, UnsupportedSqlError

S = TypeVar("S", StreamSelect, TableSelect)


def prune_sites(select: S) -> S:
    """The SELECT with the sites whose rows can pass WHERE and find their tables; conditions that say which are gone.

    A SELECT over other rows than those of one relation stays as it is.

    Raises:
        InvalidDefinitionError: there is no such site.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    if not _reads_relation(select):
        return select
    stream = select.scope.stream
    deciding = [c for c in select.where if _decides_site(c, stream.view)]
    kept = list(matching_sites(stream.relation.sites, deciding, stream.view))
    if not kept:
        raise _none_left(select, deciding)
    for join in select.joins:
        if join.same_site and not join.keeps_unmatched:
            kept = [site for site in kept if site in join.member.relation.sites]
    if not kept:
        raise InvalidDefinitionError(
            "no site has both the stream and the table that are joined on site",
            position=select.scope.source.origin,
            hint=_bound_at((stream.relation.name, stream.relation.sites), *_same_site_tables(select)),
        )
    for join in select.joins:
        _check_same_site(join, kept, select)
    where = tuple(conjunct for conjunct in select.where if conjunct not in deciding)
    return replace(select, where=where, sites=tuple(sorted(kept)))


def matching_sites(sites: Iterable[str], where: Iterable[exp.Expr], view: str) -> tuple[str, ...]:
    """The sites whose rows can fulfil the conditions on the view."""
    deciding = [conjunct for conjunct in where if _decides_site(conjunct, view)]
    return tuple(site for site in sites if all(_holds_at(conjunct, site) for conjunct in deciding))


def _reads_relation(select: StreamSelect | TableSelect) -> bool:
    if isinstance(select, TableSelect):
        return select.below is None
    return not select.joins_streams and not select.inputs and select.below is None


def _decides_site(conjunct: exp.Expr, view: str) -> bool:
    """Whether a condition speaks of the relation's `site` and constants only, in a form that is decided here."""
    return any(is_site(node, view) for node in conjunct.walk()) and _is_decidable(conjunct, view)


def _is_decidable(node: exp.Expr, view: str) -> bool:
    bare = node.unnest()
    if isinstance(bare, exp.And | exp.Or):
        return _is_decidable(bare.left, view) and _is_decidable(bare.right, view)
    if isinstance(bare, exp.Not):
        return _is_decidable(bare.this, view)
    if isinstance(bare, exp.EQ | exp.NEQ):
        return _is_operand(bare.left, view) and _is_operand(bare.right, view)
    if isinstance(bare, exp.In):
        return (
            _is_operand(bare.this, view)
            and bool(bare.expressions)
            and all(_is_operand(item, view) for item in bare.expressions)
        )
    return False


def _is_operand(node: exp.Expr, view: str) -> bool:
    bare = node.unnest()
    return is_site(bare, view) or (isinstance(bare, exp.Literal) and bare.is_string)


def _holds_at(node: exp.Expr, site: str) -> bool:
    """The value of a decidable condition for rows of a site."""
    bare = node.unnest()
    if isinstance(bare, exp.And):
        return _holds_at(bare.left, site) and _holds_at(bare.right, site)
    if isinstance(bare, exp.Or):
        return _holds_at(bare.left, site) or _holds_at(bare.right, site)
    if isinstance(bare, exp.Not):
        return not _holds_at(bare.this, site)
    if isinstance(bare, exp.In):
        return _value(bare.this, site) in {_value(item, site) for item in bare.expressions}
    assert isinstance(bare, exp.EQ | exp.NEQ)
    equal = _value(bare.left, site) == _value(bare.right, site)
    return equal if isinstance(bare, exp.EQ) else not equal


def _value(node: exp.Expr, site: str) -> str:
    bare = node.unnest()
    return bare.name if isinstance(bare, exp.Literal) else site


def _check_same_site(join: Join, sites: Iterable[str], select: StreamSelect | TableSelect) -> None:
    missing = sorted(set(sites) - set(join.member.relation.sites))
    if join.same_site and join.keeps_unmatched and missing:
        raise UnsupportedSqlError(
            f"{join.member.relation.name} is joined on site but has no binding at {', '.join(missing)}",
            position=select.scope.source.position(min(offset_of(c) or 0 for c in join.on)),
            found=join.member.alias,
            hint="Bind it there, leave these sites out in WHERE, or use an INNER join.",
        )


def _none_left(select: StreamSelect | TableSelect, deciding: Iterable[exp.Expr]) -> InvalidDefinitionError:
    source, relation = select.scope.source, select.scope.stream.relation
    first = next(iter(deciding), None)
    return InvalidDefinitionError(
        f"no site of {relation.name} can match the conditions on site" if first else f"{relation.name} has no binding",
        position=source.position(offset_of(first) or 0) if first else source.origin,
        found=snippet(first, source.text) if first else relation.name,
        hint=_bound_at((relation.name, relation.sites)),
    )


def _same_site_tables(select: StreamSelect | TableSelect) -> list[tuple[str, tuple[str, ...]]]:
    return [(j.member.relation.name, j.member.relation.sites) for j in select.joins if j.same_site]


def _bound_at(*relations: tuple[str, tuple[str, ...]]) -> str:
    return " ".join(f"{name} is bound at {', '.join(sorted(sites)) or 'no site'}." for name, sites in relations)
