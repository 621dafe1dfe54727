"""FROM, JOIN and WHERE of a stage as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.plan import INPUT_VIEW
from planner.query.expressions import enclosed
from planner.query.joins import Join
from planner.sql.dialect import exp, render


def rows_sql(
    joins: Sequence[Join],
    conditions: Sequence[tuple[exp.Expr, ...]],
    where: Sequence[exp.Expr],
    sources: Mapping[str, str] | None = None,
) -> str:
    """`FROM input JOIN t1 ON ... WHERE ...`.

    Args:
        joins, conditions: each join and the conjuncts of its ON.
        where: conjuncts.
        sources: what the views read, where the SQL stands alone; without it the views are there.
    """
    parts = [f"FROM {_source(INPUT_VIEW, sources)}"]
    for join, on in zip(joins, conditions, strict=True):
        kind = "LEFT JOIN" if join.left else "JOIN"
        parts.append(f"{kind} {_source(join.member.view, sources)} ON {conjunction(on)}")
    return " ".join(parts) + where_sql(where)


def _source(view: str, sources: Mapping[str, str] | None) -> str:
    return view if sources is None else f"{sources[view]} AS {view}"


def where_sql(parts: Sequence[exp.Expr]) -> str:
    """With a blank in front; empty when there are none."""
    return f" WHERE {conjunction(parts)}" if parts else ""


def conjunction(parts: Sequence[exp.Expr]) -> str:
    """Conditions that must all hold."""
    return " AND ".join(render(part if _binds_tightly(part) else enclosed(part)) for part in parts)


def _binds_tightly(part: exp.Expr) -> bool:
    return isinstance(part, exp.Predicate) and not isinstance(part, exp.Or)
