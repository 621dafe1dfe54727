"""What Spark is asked about a query on its way to a plan, and how its answers are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.graph.operators import Definition, Statement
from planner.graph.plan import Analysis, DraftPlan, MergeView, StatementText
from planner.graph.whole import WholeQuery
from planner.planning.drafts import input_columns, published, typed_stage
from planner.relations.catalog import SITE_COLUMN, Catalog, Column
from planner.rules.wholestages import client_views
from planner.sql.source import Source
from planner.sql.statements import SelectQuery
from planner.text.spark import spark_sql
from planner.values.edits import Edit, original_offset
from planner.values.errors import InvalidExpressionError
from planner.values.names import INPUT_VIEW

SITE = Column(SITE_COLUMN, "STRING")


def analysis_of_query(
    draft: DraftPlan, catalog: Catalog, views: Mapping[str, Sequence[Column]] | None = None
) -> Analysis:
    """The user's own text over the relations' columns; Spark says whether functions and types are right.

    QUALIFY is left out: which names it may use differs between engines, and the MERGE stage has the same expressions.
    `site` is among the columns of a relation only where the query names it, and then each `*` is written out.
    """
    if draft.whole is not None:
        return _analysis_of_whole(draft, draft.whole, catalog)
    return _analysis_of_text(draft, draft.texts[-1], catalog, views or {})


def _analysis_of_whole(draft: DraftPlan, query: WholeQuery, catalog: Catalog) -> Analysis:
    """The user's own text over tables and the definitions of views: what do scans of the tables have to deliver?"""
    site = (SITE,) if query.site_named else ()
    tables = {table.name: (*table.columns, *site) for table in query.tables}
    if query.plan is not None:
        client = replace(query.plan, views=client_views(query, query.plan))
        return Analysis(tables, "", draft.functions, scans=True, client=client)
    text = draft.texts[-1].text
    if not query.views:
        return Analysis(tables, text, draft.functions, scans=True)
    marker = "\0"
    views = tuple(Definition(view.name, Statement(view.sql), view.columns) for view in query.views)
    before, _, behind = spark_sql(Statement(marker, views)).partition(marker)
    edits = (Edit(0, 0, before), Edit(len(text), len(text), behind))
    return Analysis(tables, f"{before}{text}{behind}", draft.functions, edits, scans=True)


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
        known[name] = (*columns, SITE) if name in draft.site_named else tuple(columns)
    return Analysis(known, text.sql, draft.functions, text.edits)


def analyses_of_union(draft: DraftPlan, known: Mapping[str, Sequence[Column]]) -> Mapping[str, Analysis]:
    """What Spark is to say of the next UNION ALL in FROM and its branches, by the names that `draft_query` takes.

    One after the other, because the branches of one may read another. Empty when all are known.
    """
    union = next((parts for parts in draft.unions.values() if not parts.keys() <= known.keys()), None)
    if union is None:
        return {}
    views = {name: (*columns, SITE) for name, columns in draft.relations.items()}
    return {name: Analysis(views, spark_sql(rows), draft.functions) for name, rows in union.items()}


def analysis_of_stage(draft: DraftPlan, stage_id: str, known: Mapping[str, tuple[Column, ...]]) -> Analysis:
    """A stage's SQL over its inputs; `known` has the output of the stages before it.

    Raises:
        KeyError: there is no such stage, or an input of it is not known.
    """
    stage = draft.stage(stage_id)
    views = input_columns(stage, known)
    if stage.relation is not None:
        declared = draft.relations[stage.relation]
        views[INPUT_VIEW] = (*(c for c in declared if c.name in stage.read_columns), SITE)
    return Analysis(views, typed_stage(stage, known).sql, draft.functions)


def analyses_of_combines(
    draft: DraftPlan, stage_id: str, known: Mapping[str, tuple[Column, ...]]
) -> tuple[Analysis, ...]:
    """The combine SQL of each view of a MERGE that has one; its output must equal its input."""
    stage = draft.stage(stage_id)
    merge = typed_stage(stage, known).merge
    if merge is None:
        return ()
    views = merge.views or (MergeView(INPUT_VIEW, merge.combine_sql),)
    columns = {i.view: published(known[i.stage]) for i in reversed(stage.inputs)}
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
