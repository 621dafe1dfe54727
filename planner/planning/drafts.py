"""A query's stages with the types that Spark found for their columns, and the text of what each computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import starmap

from planner.graph.expressions import cast
from planner.graph.operators import Alias, Named, Operator, Project
from planner.graph.plan import DraftPlan, Stage
from planner.graph.schema import typed
from planner.relations.catalog import Catalog, Column
from planner.rules.draft import draft_statement
from planner.rules.parts import with_parts
from planner.sql.dialect import exp, name_node
from planner.sql.statements import SelectQuery
from planner.text.spark import spark_sql
from planner.values.errors import SqlSyntaxError
from planner.values.flags import flags_of
from planner.values.names import BIN_COLUMN, GROUP_COLUMN, INPUT_VIEW


def draft_query(
    select: SelectQuery,
    catalog: Catalog,
    types: Mapping[str, Sequence[Column]] | None = None,
    *,
    parts: int = 1,
) -> DraftPlan:
    """The stages of a query, checked as far as that is possible without Spark.

    Args:
        select: the query as parsed.
        catalog: all streams, tables and views.
        types: what Spark said to the statements of `analyses_of_union` of an earlier draft of the query. Where a
            UNION ALL stands in FROM, the draft without them is not to be run: its branches may differ in type.
        parts: of each MERGE, where it can have parts.

    Raises:
        PlannerError: a leaf with the place, what was found and what is possible.
    """
    try:
        draft = draft_statement(select, catalog, types)
        return with_texts(with_parts(draft, parts))
    except RecursionError as error:
        raise SqlSyntaxError(
            "the statement is nested too deeply",
            position=select.position,
            hint="Use fewer operators in one expression.",
        ) from error


def with_columns(
    draft: DraftPlan, stage_columns: Mapping[str, tuple[Column, ...]], result_columns: Sequence[Column]
) -> DraftPlan:
    """The draft with the types that Spark found.

    Args:
        draft: as `draft_query` gave it.
        stage_columns: what Spark says of each stage's SQL (`analysis_of_stage`).
        result_columns: what Spark says of the user's text (`analysis_of_query`). Where the result stage yields another
            type, as a merge of decimals may, its SQL gets a cast, so that the result is what Spark would give.
    """
    columns = _result_types(draft.columns, result_columns)
    stages = []
    for stage in draft.stages:
        typed = replace(typed_stage(stage, stage_columns), columns=published(stage_columns.get(stage.id, ())))
        if stage.id in draft.result_stages:
            typed = _with_result_types(typed, columns)
        stages.append(typed)
    return replace(draft, stages=tuple(stages), columns=columns)


def typed_stage(stage: Stage, known: Mapping[str, tuple[Column, ...]]) -> Stage:
    """The stage over inputs of these columns, by stage; a merge of partials keeps their types."""
    views = input_columns(stage, known)
    body = None if stage.body is None else typed(stage.body, views)
    merge = stage.merge
    if merge is not None:
        merge = replace(
            merge,
            combine=_combine(merge.combine, views.get(INPUT_VIEW)),
            views=tuple(replace(v, combine=_combine(v.combine, views.get(v.view))) for v in merge.views),
        )
    return compiled(replace(stage, body=body, merge=merge))


def input_columns(stage: Stage, known: Mapping[str, tuple[Column, ...]]) -> dict[str, tuple[Column, ...]]:
    """Return the columns of the views that a stage reads, as far as they are known; with the flags of rows that
    wait."""
    views = {i.view: published(known[i.stage]) for i in reversed(stage.inputs) if i.stage in known}
    flags = () if stage.merge is None else tuple(starmap(Column, flags_of(stage.merge).items()))
    if not flags:
        return views
    return {view: (*columns, *(flags if stage.waits_for(view) else ())) for view, columns in views.items()}


def _combine(combine: Operator | None, columns: tuple[Column, ...] | None) -> Operator | None:
    """Its input is always called `input`, whichever view it is for."""
    return combine if combine is None or columns is None else typed(combine, {INPUT_VIEW: columns})


def with_texts(draft: DraftPlan) -> DraftPlan:
    """The draft with the Spark SQL of its stages."""
    return replace(draft, stages=tuple(map(compiled, draft.stages)))


def compiled(stage: Stage) -> Stage:
    """The stage with the text of what it computes."""
    merge = stage.merge
    if merge is not None:
        views = tuple(replace(view, combine_sql=_text(view.combine)) for view in merge.views)
        ranges = tuple(replace(found, sql=_text(found.body)) for found in merge.ranges)
        over_ranges_sql = _text(merge.over_ranges)
        merge = replace(
            merge, combine_sql=_text(merge.combine), views=views, ranges=ranges, over_ranges_sql=over_ranges_sql
        )
    return replace(stage, sql=_text(stage.body), merge=merge)


def _text(operator: Operator | None) -> str:
    return "" if operator is None else spark_sql(operator)


def published(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(column for column in columns if column.name not in (BIN_COLUMN, GROUP_COLUMN))


def _result_types(columns: Sequence[Column], found: Sequence[Column]) -> tuple[Column, ...]:
    """Types by position; by name when Spark has more columns (`*` beside a named `site`)."""
    if len(columns) >= len(found):
        # Spark does not know the columns that the planner adds to changes; they are last.
        own = (Column(own.name, other.type) for own, other in zip(columns, found, strict=False))
        return (*own, *columns[len(found) :])
    by_name = {column.name.lower(): column.type for column in found}
    return tuple(Column(column.name, by_name.get(column.name.lower(), "")) for column in columns)


def _with_result_types(stage: Stage, columns: Sequence[Column]) -> Stage:
    if len(stage.columns) != len(columns):
        return replace(stage, columns=tuple(columns))
    wanted = [c.type or s.type for c, s in zip(columns, stage.columns, strict=True)]
    same = [_same_type(type_, s.type) for type_, s in zip(wanted, stage.columns, strict=True)]
    named = tuple(Column(c.name, type_) for c, type_ in zip(columns, wanted, strict=True))
    if all(same):
        return replace(stage, columns=named)
    if stage.body is None:
        return replace(stage, columns=named)
    items = tuple(
        Named(c.name, _column(c.name) if kept else cast(_column(c.name), c.type))
        for c, kept in zip(named, same, strict=True)
    )
    body = Project(Alias(stage.body, "typed"), items)
    return compiled(replace(stage, columns=named, body=body, appends=False))


def _column(name: str) -> exp.Expr:
    return exp.Column(this=name_node(name))


def _same_type(first: str, second: str) -> bool:
    return first.replace(" ", "").upper() == second.replace(" ", "").upper()
