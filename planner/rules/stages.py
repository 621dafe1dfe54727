"""Stages over one stream: a SOURCE stage for the stream, and a TABLE stage for each table joined to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.bind.rows import joined_rows, kept
from planner.bind.scope import DerivedRows
from planner.bind.selects import Join, StreamSelect
from planner.graph.expressions import columns_of, enclosed, generates, replace_columns, unqualified
from planner.graph.operators import Alias, Named, Operator, Project, Scan
from planner.graph.plan import JoinShape, QueryShape, Stage, StageInput
from planner.relations.catalog import SITE_COLUMN
from planner.rules.joinedgroups import group_stage, joined_groups
from planner.rules.shape import query_shape
from planner.rules.split import Halves
from planner.sql.dialect import exp, name_node
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind


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
    plan: Stages, query: StreamSelect, split: Halves | None, change: Callable[[exp.Expr], exp.Expr] | None = None
) -> str:
    """The SOURCE stage of a query and the TABLE stages that it reads; its id.

    Args:
        plan: gets the stages.
        query: over one stream.
        split: set when the query aggregates.
        change: from the expressions of `split` to those of this query, where it is one branch of a union.
    """
    read = tuple(o.expression for o in query.outputs) if split is None else tuple(map(change or _same, split.read))
    used = (*read, *query.where, *(conjunct for join in query.joins for conjunct in join.on))
    used += tuple(lateral.call for lateral in query.laterals)
    for join in query.joins:
        grouped = join.rows is not None
        plan.stages.append(group_stage(join, query.sites) if grouped else table_stage(join, used, query.sites))
    rows = kept(joined_rows(query.joins, joined_groups(query.joins), query.laterals), query.where)
    stage_id = plan.next_id(StageKind.SOURCE, "s")
    body: Operator
    if split is None:
        body = Project(rows, tuple(Named(output.name, output.expression) for output in query.outputs))
    else:
        body = split.at_source(rows, change or _same, sent=True)
    plan.stages.append(_source_stage(stage_id, query, body, used))
    plan.shapes[stage_id] = query_shape(query)
    return stage_id


def _same(node: exp.Expr) -> exp.Expr:
    return node


def table_stage(join: Join, used: Sequence[exp.Expr], sites: Sequence[str]) -> Stage:
    """What of a joined table is sent to `sites`: the columns that are `used`, of the rows that its conditions keep."""
    view, relation, rows = join.member.view, join.member.relation, join.member.rows
    output = columns_of(used, view)
    if rows is None:
        expressions: list[exp.Expr] = [exp.Column(this=name_node(name)) for name in output]
        where = join.where
        read = set(columns_of((*used, *join.where), view))
    else:
        expressions = [rows.expressions[name.lower()] for name in output]
        where = (*rows.where, *(_over_rows(rows, conjunct) for conjunct in join.where))
        read = set(columns_of((*where, *expressions), INPUT_VIEW))
    base = relation if rows is None else rows.base
    items = tuple(Named(name, unqualified(node)) for name, node in zip(output, expressions, strict=True))
    body = Project(kept(Scan(INPUT_VIEW), [unqualified(part) for part in where]), items)
    return Stage(
        id=view,
        kind=StageKind.TABLE,
        body=body if rows is None or not generates(rows.expressions.values()) else _generated(join, rows, output),
        pinned=tuple(sorted(s for s in relation.sites if s in sites or not join.same_site)),
        relation=relation.name,
        read_columns=tuple(sorted(read - {SITE_COLUMN})) or (base.columns[0].name,),
    )


def _generated(join: Join, rows: DerivedRows, output: Sequence[str]) -> Project:
    """Return what is sent of a table whose rows a generator makes: conditions on them are evaluated after it."""
    view = join.member.view
    used = dict.fromkeys((*output, *columns_of(join.where, view)))
    made = tuple(Named(name, unqualified(rows.expressions[name.lower()])) for name in used)
    below = Project(kept(Scan(INPUT_VIEW), [unqualified(part) for part in rows.where]), made)
    items = tuple(Named(name, exp.Column(this=name_node(name))) for name in output)
    return Project(kept(Alias(below, view), join.where), items)


def _over_rows(rows: DerivedRows, conjunct: exp.Expr) -> exp.Expr:
    """A condition on a derived table, as a condition on the table that it reads."""
    return replace_columns(conjunct, lambda column: enclosed(rows.expressions[column.name.lower()]))


def _source_stage(stage_id: str, query: StreamSelect, body: Operator, used: Sequence[exp.Expr]) -> Stage:
    stream = query.scope.stream
    read = {*columns_of(used, stream.view), stream.relation.event_time or ""} - {SITE_COLUMN, ""}
    return Stage(
        id=stage_id,
        kind=StageKind.SOURCE,
        body=body,
        pinned=query.sites,
        relation=stream.relation.name,
        read_columns=tuple(c.name for c in stream.relation.columns if c.name in read),
        by_arrival=stream.relation.by_arrival,
        inputs=tuple(StageInput(j.member.view, j.member.view, j.same_site) for j in query.joins),
    )
