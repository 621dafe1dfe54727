"""From logical queries to stages: a SOURCE stage for each stream, and a TABLE stage for each table joined to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.bind.joins import Join
from planner.bind.logical import LogicalQuery
from planner.bind.rows import joined_rows, kept
from planner.bind.scope import DerivedRows
from planner.graph.expressions import columns_of, enclosed, replace_columns, unqualified, views_of
from planner.graph.operators import Named, Operator, Project, Scan
from planner.graph.plan import JoinShape, QueryShape, Stage, StageInput, StageKind
from planner.relations.catalog import SITE_COLUMN
from planner.rules.pruning import decides_site, kept_sites
from planner.rules.shape import query_shape
from planner.rules.split import Split
from planner.sql.dialect import exp, name_node, offset_of
from planner.values.errors import UnsupportedSqlError
from planner.values.names import INPUT_VIEW


@dataclass(frozen=True, slots=True)
class Filters:
    """Conjuncts by where they are evaluated."""

    source: tuple[exp.Expr, ...]
    """In WHERE of the SOURCE stage."""
    joins: tuple[tuple[exp.Expr, ...], ...]
    """In ON, per join."""
    tables: tuple[tuple[exp.Expr, ...], ...]
    """In WHERE of the TABLE stage, per join."""


@dataclass(slots=True)
class Stages:
    """The stages of a statement so far."""

    stages: list[Stage] = field(default_factory=list)
    shapes: dict[str, QueryShape] = field(default_factory=dict)
    joins: dict[str, JoinShape] = field(default_factory=dict)

    def next_id(self, kind: StageKind, letter: str) -> str:
        """s1, s2, ... or m1, m2, ..."""
        return f"{letter}{1 + sum(stage.kind is kind for stage in self.stages)}"


def add_source(
    plan: Stages, query: LogicalQuery, split: Split | None, change: Callable[[exp.Expr], exp.Expr] | None = None
) -> str:
    """The SOURCE stage of a query and the TABLE stages that it reads; its id.

    Args:
        plan: gets the stages.
        query: over one stream.
        split: set when the query aggregates.
        change: from the expressions of `split` to those of this query, where it is one branch of a union.

    Raises:
        InvalidDefinitionError: no site is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    sites = kept_sites(query)
    filters = push_down(query)
    read = tuple(o.expression for o in query.outputs) if split is None else tuple(map(change or _same, split.read))
    used = (*read, *filters.source, *(conjunct for on in filters.joins for conjunct in on))
    for join, pushed in zip(query.joins, filters.tables, strict=True):
        check_same_site(join, sites, query)
        plan.stages.append(table_stage(join, pushed, used, sites))
    rows = kept(joined_rows(query.joins, filters.joins), filters.source)
    stage_id = plan.next_id(StageKind.SOURCE, "s")
    body: Operator
    if split is None:
        body = Project(rows, tuple(Named(output.name, output.expression) for output in query.outputs))
    else:
        body = split.at_source(rows, change or _same, binned=True)
    plan.stages.append(_source_stage(stage_id, query, body, used, sites))
    plan.shapes[stage_id] = query_shape(query, sites)
    return stage_id


def _same(node: exp.Expr) -> exp.Expr:
    return node


def push_down(query: LogicalQuery, *, sites_decided: bool = True) -> Filters:
    """Conjuncts that speak of one table only go to its TABLE stage; those on `site` alone may be decided already.

    A LEFT join keeps rows without a match, so WHERE on its table must stay behind the join.
    """
    stream = query.scope.stream.view
    inner = {join.member.view for join in query.joins if not join.left}
    source: list[exp.Expr] = []
    tables: dict[str, list[exp.Expr]] = {join.member.view: [] for join in query.joins}
    for conjunct in query.where:
        views = views_of(conjunct)
        if sites_decided and decides_site(conjunct, stream):
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
    return Filters(tuple(source), tuple(joins), tuple(tuple(tables[join.member.view]) for join in query.joins))


def check_same_site(join: Join, sites: Sequence[str], query: LogicalQuery) -> None:
    missing = sorted(set(sites) - set(join.member.relation.sites))
    if join.same_site and join.left and missing:
        raise UnsupportedSqlError(
            f"{join.member.relation.name} is joined on site but has no binding at {', '.join(missing)}",
            position=query.scope.source.position(min(offset_of(c) or 0 for c in join.on)),
            found=join.member.alias,
            hint="Bind it there, leave these sites out in WHERE, or use an INNER join.",
        )


def table_stage(join: Join, pushed: tuple[exp.Expr, ...], used: Sequence[exp.Expr], sites: Sequence[str]) -> Stage:
    """What of a joined table is sent: the columns that are `used`, of the rows that the `pushed` conjuncts keep."""
    view, relation, rows = join.member.view, join.member.relation, join.member.rows
    output = columns_of(used, view)
    if rows is None:
        expressions: list[exp.Expr] = [exp.Column(this=name_node(name)) for name in output]
        where = pushed
        read = set(columns_of((*used, *pushed), view))
    else:
        expressions = [rows.expressions[name.lower()] for name in output]
        where = (*rows.where, *(_over_rows(rows, conjunct) for conjunct in pushed))
        read = set(columns_of((*where, *expressions), INPUT_VIEW))
    base = relation if rows is None else rows.base
    items = tuple(Named(name, unqualified(node)) for name, node in zip(output, expressions, strict=True))
    return Stage(
        id=view,
        kind=StageKind.TABLE,
        body=Project(kept(Scan(INPUT_VIEW), [unqualified(part) for part in where]), items),
        pinned=tuple(sorted(s for s in relation.sites if s in sites or not join.same_site)),
        relation=relation.name,
        read_columns=tuple(sorted(read - {SITE_COLUMN})) or (base.columns[0].name,),
    )


def _over_rows(rows: DerivedRows, conjunct: exp.Expr) -> exp.Expr:
    """A condition on a derived table as one on the table below."""
    return replace_columns(conjunct, lambda column: enclosed(rows.expressions[column.name.lower()]))


def _source_stage(
    stage_id: str, query: LogicalQuery, body: Operator, used: Sequence[exp.Expr], sites: tuple[str, ...]
) -> Stage:
    stream = query.scope.stream
    read = {*columns_of(used, stream.view), stream.relation.event_time or ""} - {SITE_COLUMN, ""}
    return Stage(
        id=stage_id,
        kind=StageKind.SOURCE,
        body=body,
        pinned=sites,
        relation=stream.relation.name,
        read_columns=tuple(c.name for c in stream.relation.columns if c.name in read),
        inputs=tuple(StageInput(j.member.view, j.member.view, j.same_site) for j in query.joins),
    )
