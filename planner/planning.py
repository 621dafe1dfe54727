"""From a query to a placed plan, step by step; between the steps the master has Spark check what the planner wrote.

draft_query --> DraftPlan --analysis_of_*, Spark, with_columns--> typed DraftPlan --place--> PhysicalPlan
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.graph.expressions import cast
from planner.graph.operators import Alias, Named, Operator, Project
from planner.graph.plan import Analysis, DraftPlan, MergeView, Stage, StatementText
from planner.graph.schema import typed
from planner.place.placement import place
from planner.relations.catalog import SITE_COLUMN, Catalog, Column
from planner.rules.draft import draft_statement
from planner.rules.statement import build_logical, draft_tables
from planner.sql.dialect import exp, name_node
from planner.sql.source import Source
from planner.sql.statements import SelectQuery
from planner.text.spark import spark_sql
from planner.values.edits import original_offset
from planner.values.errors import InvalidExpressionError, SqlSyntaxError
from planner.values.names import BIN_COLUMN, INPUT_VIEW

__all__ = [
    "analyses_of_combines",
    "analyses_of_union",
    "analyses_of_views",
    "analysis_of_query",
    "analysis_of_stage",
    "analysis_of_view",
    "columns_of_view",
    "draft_query",
    "draft_view",
    "invalid_expression",
    "original_place",
    "place",
    "with_columns",
]

_SITE = Column(SITE_COLUMN, "STRING")


def draft_query(
    select: SelectQuery, catalog: Catalog, types: Mapping[str, Sequence[Column]] | None = None
) -> DraftPlan:
    """The stages of a query, checked as far as that is possible without Spark.

    Args:
        select: the query as parsed.
        catalog: all streams, tables and views.
        types: what Spark said to the statements of `analyses_of_union` of an earlier draft of the query. Where a
            UNION ALL stands in FROM, the draft without them is not to be run: its branches may differ in type.

    Raises:
        PlannerError: a leaf with the place, what was found and what is possible.
    """
    try:
        draft = draft_tables(select, catalog, types) or draft_statement(build_logical(select, catalog, types))
        return replace(draft, stages=tuple(map(compiled, draft.stages)))
    except RecursionError as error:
        raise SqlSyntaxError(
            "the statement is nested too deeply",
            position=select.position,
            hint="Use fewer operators in one expression.",
        ) from error


def draft_view(select: SelectQuery, catalog: Catalog, types: Mapping[str, Sequence[Column]] | None = None) -> DraftPlan:
    """The definition of a view: a query as it could be run.

    Raises:
        PlannerError: as `draft_query` does.
    """
    return draft_query(select, catalog, types)


def analysis_of_query(
    draft: DraftPlan, catalog: Catalog, views: Mapping[str, Sequence[Column]] | None = None
) -> Analysis:
    """The user's own text over the relations' columns; Spark says whether functions and types are right.

    QUALIFY is left out: which names it may use differs between engines, and the MERGE stage has the same expressions.
    `site` is among the columns of a relation only where the query names it, and then each `*` is written out.
    """
    return _analysis_of_text(draft, draft.texts[-1], catalog, views or {})


def analyses_of_views(draft: DraftPlan) -> tuple[StatementText, ...]:
    """The views that the query uses, each after those that it uses itself; `analysis_of_view` says what to check."""
    return draft.texts[:-1]


def analysis_of_view(
    draft: DraftPlan, view: StatementText, catalog: Catalog, views: Mapping[str, Sequence[Column]]
) -> Analysis:
    """The definition of a view; `views` has the columns of those it uses."""
    return _analysis_of_text(draft, view, catalog, views)


def columns_of_view(view: StatementText, catalog: Catalog, found: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a view, with the types that Spark found for its definition."""
    relation = catalog.find(view.view)
    names = [column.name for column in relation.columns] if relation is not None else []
    return tuple(Column(name, column.type) for name, column in zip(names, found, strict=True))


def _analysis_of_text(
    draft: DraftPlan, text: StatementText, catalog: Catalog, views: Mapping[str, Sequence[Column]]
) -> Analysis:
    known: dict[str, tuple[Column, ...]] = {}
    for name in text.relations:
        relation = catalog.find(name)
        columns = views.get(name.lower()) or (relation.columns if relation is not None else draft.relations[name])
        known[name] = (*columns, _SITE) if name in draft.site_named else tuple(columns)
    return Analysis(known, text.sql, draft.functions, text.edits)


def analyses_of_union(draft: DraftPlan, known: Mapping[str, Sequence[Column]]) -> Mapping[str, Analysis]:
    """What Spark is to say of the next UNION ALL in FROM and its branches, by the names that `draft_query` takes.

    One after the other, because the branches of one may read another. Empty when all are known.
    """
    union = next((name for name in draft.unions if name not in known), None)
    if union is None:
        return {}
    views = {name: (*columns, _SITE) for name, columns in draft.relations.items()}
    return {name: Analysis(views, spark_sql(rows), draft.functions) for name, rows in draft.unions[union].items()}


def analysis_of_stage(draft: DraftPlan, stage_id: str, known: Mapping[str, tuple[Column, ...]]) -> Analysis:
    """A stage's SQL over its inputs; `known` has the output of the stages before it.

    Raises:
        KeyError: there is no such stage, or an input of it is not known.
    """
    stage = draft.stage(stage_id)
    views = {i.view: _published(known[i.stage]) for i in reversed(stage.inputs)}
    if stage.relation is not None:
        declared = draft.relations[stage.relation]
        views[INPUT_VIEW] = (*(c for c in declared if c.name in stage.read_columns), _SITE)
    return Analysis(views, _typed(stage, known).sql, draft.functions)


def analyses_of_combines(
    draft: DraftPlan, stage_id: str, known: Mapping[str, tuple[Column, ...]]
) -> tuple[Analysis, ...]:
    """The combine SQL of each view of a MERGE that has one; its output must equal its input."""
    stage = draft.stage(stage_id)
    merge = _typed(stage, known).merge
    if merge is None:
        return ()
    views = merge.views or (MergeView(INPUT_VIEW, merge.combine_sql),)
    columns = {i.view: _published(known[i.stage]) for i in reversed(stage.inputs)}
    return tuple(
        Analysis({INPUT_VIEW: columns[view.view]}, view.combine_sql, draft.functions)
        for view in views
        if view.combine_sql
    )


def original_place(analysis: Analysis, text: str, line: int, column: int) -> tuple[int, int]:
    """Line and column in the text as it was written, from those in the statement; (0, 0) when there are none."""
    offset = Source(analysis.statement).offset(line, column)
    if offset is None:
        return 0, 0
    before = text[: original_offset(offset, analysis.edits)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def invalid_expression(
    select: SelectQuery, *, line: int, column: int, message: str, fragment: str
) -> InvalidExpressionError:
    """Spark's answer as an error of the script.

    Args:
        select: the query that Spark refused.
        line, column: the place in the statement's text, from 1; 0 when Spark gave none.
        message: Spark's words.
        fragment: the piece of text Spark speaks of; when it does not stand at the place (it was refused in a stage's
            SQL), it is looked for in the query.
    """
    source = select.source
    offset = source.offset(line, column)
    if offset is None or (fragment and not source.text[offset:].lower().startswith(fragment.lower())):
        found = source.text.lower().find(fragment.lower()) if fragment else -1
        offset = found if found >= 0 else None
    return InvalidExpressionError(
        message,
        position=select.position if offset is None else source.position(offset),
        found=fragment,
        hint="Functions, types and operators are those of Spark SQL.",
    )


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
        typed = replace(_typed(stage, stage_columns), columns=_published(stage_columns.get(stage.id, ())))
        if stage.id in draft.result_stages:
            typed = _with_result_types(typed, columns)
        stages.append(typed)
    return replace(draft, stages=tuple(stages), columns=columns)


def _typed(stage: Stage, known: Mapping[str, tuple[Column, ...]]) -> Stage:
    """The stage over inputs of these columns, by stage; a merge of partials keeps their types."""
    views = {i.view: _published(known[i.stage]) for i in reversed(stage.inputs) if i.stage in known}
    body = None if stage.body is None else typed(stage.body, views)
    merge = stage.merge
    if merge is not None:
        merge = replace(
            merge,
            combine=_combine(merge.combine, views.get(INPUT_VIEW)),
            views=tuple(replace(v, combine=_combine(v.combine, views.get(v.view))) for v in merge.views),
        )
    return compiled(replace(stage, body=body, merge=merge))


def _combine(combine: Operator | None, columns: tuple[Column, ...] | None) -> Operator | None:
    """Its input is always called `input`, whichever view it is for."""
    return combine if combine is None or columns is None else typed(combine, {INPUT_VIEW: columns})


def compiled(stage: Stage) -> Stage:
    """The stage with the text of what it computes."""
    merge = stage.merge
    if merge is not None:
        views = tuple(replace(view, combine_sql=_text(view.combine)) for view in merge.views)
        merge = replace(merge, combine_sql=_text(merge.combine), views=views)
    return replace(stage, sql=_text(stage.body), merge=merge)


def _text(operator: Operator | None) -> str:
    return "" if operator is None else spark_sql(operator)


def _published(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(column for column in columns if column.name != BIN_COLUMN)


def _result_types(columns: Sequence[Column], found: Sequence[Column]) -> tuple[Column, ...]:
    """Types by position; by name when Spark has more columns (`*` beside a named `site`)."""
    if len(columns) == len(found):
        return tuple(Column(own.name, other.type) for own, other in zip(columns, found, strict=True))
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
