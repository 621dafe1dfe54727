"""Site pruning: conditions on `site` alone are decided when the query is planned, not row by row."""

from __future__ import annotations

from collections.abc import Iterable

from planner.bind.logical import LogicalQuery
from planner.graph.expressions import is_site
from planner.sql.dialect import exp, offset_of, snippet
from planner.values.errors import InvalidDefinitionError


def decides_site(conjunct: exp.Expr, view: str) -> bool:
    """Whether a condition speaks of the stream's `site` and constants only, in a form that is decided here."""
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


def holds_at(node: exp.Expr, site: str) -> bool:
    """The value of a decidable condition for rows of a site."""
    bare = node.unnest()
    if isinstance(bare, exp.And):
        return holds_at(bare.left, site) and holds_at(bare.right, site)
    if isinstance(bare, exp.Or):
        return holds_at(bare.left, site) or holds_at(bare.right, site)
    if isinstance(bare, exp.Not):
        return not holds_at(bare.this, site)
    if isinstance(bare, exp.In):
        return _value(bare.this, site) in {_value(item, site) for item in bare.expressions}
    assert isinstance(bare, exp.EQ | exp.NEQ)
    equal = _value(bare.left, site) == _value(bare.right, site)
    return equal if isinstance(bare, exp.EQ) else not equal


def _value(node: exp.Expr, site: str) -> str:
    bare = node.unnest()
    return bare.name if isinstance(bare, exp.Literal) else site


def kept_sites(query: LogicalQuery) -> tuple[str, ...]:
    """The sites of the stream whose rows can pass WHERE and find their tables, sorted.

    Raises:
        InvalidDefinitionError: there is none.
    """
    stream = query.scope.stream
    deciding = [c for c in query.where if decides_site(c, stream.view)]
    kept = [site for site in stream.relation.sites if all(holds_at(c, site) for c in deciding)]
    if not kept:
        raise _none_left(query, deciding)
    for join in query.joins:
        if join.same_site and not join.left:
            kept = [site for site in kept if site in join.member.relation.sites]
    if not kept:
        raise InvalidDefinitionError(
            "no site has both the stream and the table that are joined on site",
            position=query.scope.source.origin,
            hint=_bound_at((stream.relation.name, stream.relation.sites), *_same_site_tables(query)),
        )
    return tuple(sorted(kept))


def _none_left(query: LogicalQuery, deciding: Iterable[exp.Expr]) -> InvalidDefinitionError:
    source, relation = query.scope.source, query.scope.stream.relation
    first = next(iter(deciding), None)
    return InvalidDefinitionError(
        f"no site of {relation.name} can match the conditions on site" if first else f"{relation.name} has no binding",
        position=source.position(offset_of(first) or 0) if first else source.origin,
        found=snippet(first, source.text) if first else relation.name,
        hint=_bound_at((relation.name, relation.sites)),
    )


def _same_site_tables(query: LogicalQuery) -> list[tuple[str, tuple[str, ...]]]:
    return [(j.member.relation.name, j.member.relation.sites) for j in query.joins if j.same_site]


def _bound_at(*relations: tuple[str, tuple[str, ...]]) -> str:
    return " ".join(f"{name} is bound at {', '.join(sorted(sites)) or 'no site'}." for name, sites in relations)
