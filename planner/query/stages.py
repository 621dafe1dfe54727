"""From a logical query to stages: a TABLE stage per joined table, the SOURCE stage, the MERGE when it aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.catalog import SITE_COLUMN, Column
from planner.errors import UnsupportedSqlError
from planner.merge import WINDOW_START
from planner.plan import INPUT_VIEW, DraftPlan, Merge, Stage, StageInput, StageKind
from planner.query.expressions import columns_of, enclosed, unqualified, views_of
from planner.query.joins import Join
from planner.query.logical import LogicalQuery
from planner.query.operators import logical_lines
from planner.query.pruning import decides_site, kept_sites
from planner.query.shape import query_shape
from planner.query.split import Split, split_aggregates
from planner.sql.dialect import exp, offset_of, quoted, render

SOURCE_ID = "s1"
MERGE_ID = "m1"


@dataclass(frozen=True, slots=True)
class _Filters:
    """Conjuncts by where they are evaluated."""

    source: tuple[exp.Expr, ...]
    """In WHERE of the SOURCE stage."""
    joins: tuple[tuple[exp.Expr, ...], ...]
    """In ON, per join."""
    tables: tuple[tuple[exp.Expr, ...], ...]
    """In WHERE of the TABLE stage, per join."""


def draft_stages(query: LogicalQuery) -> DraftPlan:
    """The stages of a query.

    Raises:
        InvalidDefinitionError: no site is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    sites = kept_sites(query)
    filters = _push_down(query)
    split = split_aggregates(query) if query.window is not None else None
    read = split.read if split else tuple(output.expression for output in query.outputs)
    used = (*read, *filters.source, *(conjunct for on in filters.joins for conjunct in on))
    tables = tuple(
        _table_stage(join, pushed, used, sites)
        for join, pushed in zip(query.joins, filters.tables, strict=True)
        if _check_same_site(join, sites, query)
    )
    stages = [*tables, _source_stage(query, filters, used, (split, sites))]
    if split is not None and query.window is not None:
        merge = Merge(WINDOW_START, query.window.length, split.recipe.combine_sql({}), query.window.slide)
        inputs = (StageInput(SOURCE_ID, INPUT_VIEW),)
        stages.append(
            Stage(id=MERGE_ID, kind=StageKind.MERGE, sql=split.recipe.sql({}), sites=(), inputs=inputs, merge=merge)
        )
    return DraftPlan(
        text=query.scope.source.text,
        stages=tuple(stages),
        result_stage=stages[-1].id,
        columns=tuple(Column(output.name, "") for output in query.outputs),
        logical=logical_lines(query, sites),
        relations=_relation_columns(query),
        recipe=split.recipe if split else None,
        shape=query_shape(query, sites),
        site_named=query.site_named,
    )


def _relation_columns(query: LogicalQuery) -> dict[str, tuple[Column, ...]]:
    return {m.relation.name: m.relation.columns for m in query.scope.members}


def _push_down(query: LogicalQuery) -> _Filters:
    """Conjuncts that speak of one table only go to its TABLE stage; those on `site` alone are decided already.

    A LEFT join keeps rows without a match, so WHERE on its table must stay behind the join.
    """
    stream = query.scope.stream.view
    inner = {join.member.view for join in query.joins if not join.left}
    source: list[exp.Expr] = []
    tables: dict[str, list[exp.Expr]] = {join.member.view: [] for join in query.joins}
    for conjunct in query.where:
        views = views_of(conjunct)
        if decides_site(conjunct, stream):
            continue
        if len(views) == 1 and views <= inner:
            tables[next(iter(views))].append(conjunct)
        else:
            source.append(conjunct)
    joins: list[tuple[exp.Expr, ...]] = []
    for join in query.joins:
        own = [c for c in join.on if views_of(c) == {join.member.view}]
        tables[join.member.view] += own
        joins.append(tuple(c for c in join.on if c not in own))
    return _Filters(tuple(source), tuple(joins), tuple(tuple(tables[join.member.view]) for join in query.joins))


def _check_same_site(join: Join, sites: Sequence[str], query: LogicalQuery) -> bool:
    missing = sorted(set(sites) - set(join.member.relation.sites))
    if join.same_site and join.left and missing:
        raise UnsupportedSqlError(
            f"{join.member.relation.name} is joined on site but has no binding at {', '.join(missing)}",
            position=query.scope.source.position(min(offset_of(c) or 0 for c in join.on)),
            found=join.member.alias,
            hint="Bind it there, leave these sites out in WHERE, or use an INNER join.",
        )
    return True


def _table_stage(join: Join, pushed: tuple[exp.Expr, ...], used: Sequence[exp.Expr], sites: Sequence[str]) -> Stage:
    view, relation = join.member.view, join.member.relation
    output = columns_of(used, view)
    read = tuple(name for name in columns_of((*used, *pushed), view) if name != SITE_COLUMN)
    where = _where([unqualified(conjunct) for conjunct in pushed])
    return Stage(
        id=view,
        kind=StageKind.TABLE,
        sql=f"SELECT {', '.join(map(quoted, output))} FROM {INPUT_VIEW}{where}",
        sites=tuple(sorted(s for s in relation.sites if s in sites or not join.same_site)),
        relation=relation.name,
        read_columns=read or (relation.columns[0].name,),
    )


def _source_stage(
    query: LogicalQuery, filters: _Filters, used: Sequence[exp.Expr], plan: tuple[Split | None, tuple[str, ...]]
) -> Stage:
    split, sites = plan
    stream = query.scope.stream
    rows = _from(query.joins, filters.joins) + _where(filters.source)
    if split is not None:
        sql = split.source_head + rows + split.source_tail
    else:
        sql = f"SELECT {', '.join(f'{render(o.expression)} AS {quoted(o.name)}' for o in query.outputs)} {rows}"
    read = {*columns_of(used, stream.view), stream.relation.event_time or ""} - {SITE_COLUMN, ""}
    return Stage(
        id=SOURCE_ID,
        kind=StageKind.SOURCE,
        sql=sql,
        sites=sites,
        relation=stream.relation.name,
        read_columns=tuple(c.name for c in stream.relation.columns if c.name in read),
        inputs=tuple(StageInput(j.member.view, j.member.view, j.same_site) for j in query.joins),
    )


def _from(joins: Sequence[Join], conditions: Sequence[tuple[exp.Expr, ...]]) -> str:
    parts = [f"FROM {INPUT_VIEW}"]
    for join, on in zip(joins, conditions, strict=True):
        kind = "LEFT JOIN" if join.left else "JOIN"
        parts.append(f"{kind} {join.member.view} ON {_conjunction(on)}")
    return " ".join(parts)


def _where(conjuncts: Sequence[exp.Expr]) -> str:
    return f" WHERE {_conjunction(conjuncts)}" if conjuncts else ""


def _conjunction(parts: Sequence[exp.Expr]) -> str:
    return " AND ".join(render(part if _binds_tightly(part) else enclosed(part)) for part in parts)


def _binds_tightly(part: exp.Expr) -> bool:
    return isinstance(part, exp.Predicate) and not isinstance(part, exp.Or)
