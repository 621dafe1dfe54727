"""From a query as parsed to a draft: names bound, SELECTs rewritten, stages made of them.

Each branch of a UNION ALL of streams at the top has stages of its own, and all their last stages are results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.bind.compose import bind_statement
from planner.bind.gathered import STATEMENT, Gathered, Text
from planner.bind.outputs import Output
from planner.bind.selects import StreamSelect
from planner.bind.tablequery import bind_batch, rests_on_tables
from planner.bind.wholequery import bind_client, bind_whole
from planner.graph.clientplan import ClientQuery
from planner.graph.logical import LogicalOperator, UnionAll, Whole
from planner.graph.plan import DraftPlan, StatementText
from planner.graph.whole import Scanned
from planner.relations.catalog import Catalog, Column
from planner.rules.copies import large_copy
from planner.rules.merges import add_merge
from planner.rules.pairing import add_pairs
from planner.rules.rewrite import rewritten, rewritten_tables
from planner.rules.stages import Stages, add_source
from planner.rules.tablestages import REDUCE, batch_stages
from planner.rules.tree import stream_tree, table_tree
from planner.rules.wholestages import whole_stages
from planner.rules.windowjoin import add_window_join
from planner.sql.asof import without_asof
from planner.sql.dialect import tokenize
from planner.sql.emit import emit_edits, emit_of
from planner.sql.qualify import sparks_windows, without_qualify
from planner.sql.statements import SelectQuery
from planner.sql.within import without_within
from planner.values.edits import edited
from planner.values.errors import PlannerError
from planner.values.names import CHANGED_AT, OPERATION


def draft_statement(
    select: SelectQuery, catalog: Catalog, types: Mapping[str, Sequence[Column]] | None = None
) -> DraftPlan:
    """The stages of a query, without their text.

    Args:
        select: the query as parsed.
        catalog: all streams, tables and views.
        types: of the columns of unions, as far as they are known; see `DraftPlan.unions`.

    Raises:
        PlannerError: with the place.
    """
    try:
        draft = _in_parts(select, Gathered(catalog, types or {}))
    except PlannerError as error:
        whole = whole_draft(select, catalog, error) if emit_of(select.tree) is None else None
        if whole is None:
            raise
        return whole
    refusal = large_copy(draft, catalog) if draft.batch else None
    return draft if refusal is None else whole_draft(select, catalog, refusal) or draft


def _in_parts(select: SelectQuery, gathered: Gathered) -> DraftPlan:
    """A query over streams, or one over tables whose SELECTs MAPs and a REDUCE compute."""
    if select.refusal is not None:
        raise select.refusal
    if rests_on_tables(select.tree, select.source, gathered):
        return _of_tables(select, gathered)
    return _of_streams(select, gathered)


def whole_draft(select: SelectQuery, catalog: Catalog, refusal: PlannerError) -> DraftPlan | None:
    """The beginning of a query over tables that is run as it is written; None: it cannot be.

    Args:
        select: the query as parsed.
        catalog: all streams, tables and views.
        refusal: why it does not run in parts.

    Raises:
        PlannerError: with the place.
    """
    gathered = Gathered(catalog, {})
    query = bind_whole(select, gathered, refusal)
    if query is None:
        return None
    gathered.note("it runs whole", f"in parts, {refusal.message}")
    return replace(_without_stages(select, gathered, Whole(())), result_stage=REDUCE, batch=True, whole=query)


def client_draft(query: ClientQuery, select: SelectQuery, catalog: Catalog) -> DraftPlan:
    """The beginning of a query whose plan a client made; without stages if it reads no table.

    Args:
        query: the plan and its names.
        select: what stands for it where a query has a text.
        catalog: all streams, tables and views.

    Raises:
        PlannerError: a name is unknown or that of a stream, or a SQL text in the plan is not possible.
    """
    gathered = Gathered(catalog, {})
    whole = bind_client(query, select.text, gathered)
    gathered.note("it runs whole", "a client of Spark made its plan")
    return replace(_without_stages(select, gathered, Whole(())), result_stage=REDUCE, batch=True, whole=whole)


def with_scans(draft: DraftPlan, scanned: Scanned) -> DraftPlan:
    """The draft of a query that runs whole, once Spark has said what its scans must deliver."""
    assert draft.whole is not None
    plan = draft.whole.plan
    if plan is not None and plan.moves_clock and scanned.scans is not None:
        # The sites would evaluate a condition by their own clock.
        scanned = replace(scanned, scans=tuple(replace(scan, conditions=()) for scan in scanned.scans))
    stages = whole_stages(draft.whole, scanned)
    return replace(
        draft,
        stages=stages.stages,
        columns=scanned.columns,
        logical=stages.logical,
        scans=stages.scans,
        whole_scans=stages.whole_scans,
        site_read=stages.site_read,
    )


def _of_streams(select: SelectQuery, gathered: Gathered) -> DraftPlan:
    branches = tuple(map(rewritten, bind_statement(select.tree, select.source, gathered)))
    plan = Stages()
    result, *more = [_add_branch(plan, branch) for branch in branches]
    trees = tuple(map(stream_tree, branches))
    return replace(
        _without_stages(select, gathered, UnionAll(trees) if len(trees) > 1 else trees[0]),
        stages=tuple(plan.stages),
        result_stage=result,
        more_results=tuple(more),
        columns=_columns(branches[0].columns) + _changes(branches[0]),
        shapes=plan.shapes,
        joins=plan.joins,
    )


def _add_branch(plan: Stages, query: StreamSelect) -> str:
    if query.join_window is not None:
        return add_window_join(plan, query)
    if query.window is None and query.intervals:
        return add_pairs(plan, query)
    return add_source(plan, query, None) if query.window is None else add_merge(plan, query)


def _of_tables(select: SelectQuery, gathered: Gathered) -> DraftPlan:
    if (emit := emit_of(select.tree)) is not None:
        raise emit.refused(
            select.source, "EMIT EVERY is possible over streams only", "A table has one result: leave it out."
        )
    rows = rewritten_tables(bind_batch(select.tree, select.source, gathered))
    plan = batch_stages(rows)
    assert plan.reduce is not None
    return replace(
        _without_stages(select, gathered, table_tree(rows)),
        stages=plan.stages,
        result_stage=plan.reduce.id,
        columns=_columns(rows.outputs),
        batch=True,
        site_read=frozenset(plan.site_read),
    )


def _without_stages(select: SelectQuery, gathered: Gathered, logical: LogicalOperator) -> DraftPlan:
    return DraftPlan(
        text=select.text,
        stages=(),
        result_stage="",
        columns=(),
        logical=logical,
        shapes={},
        notes=tuple(gathered.notes),
        relations={name: relation.columns for name, relation in gathered.relations.items()},
        functions=tuple(gathered.functions[name] for name in sorted(gathered.functions)),
        site_named=frozenset(gathered.site_named),
        texts=tuple(_text(name, text, gathered) for name, text in gathered.texts.items()),
        unions={name: union.statements for name, union in gathered.unions.items()},
    )


def _columns(outputs: Sequence[Output]) -> tuple[Column, ...]:
    return tuple(Column(output.name, "") for output in outputs)


def _changes(query: StreamSelect) -> tuple[Column, ...]:
    """Return the columns of a query that tells changes, besides its own."""
    return () if query.totals is None else (Column(OPERATION, "STRING"), Column(CHANGED_AT, "TIMESTAMP"))


def _text(name: str, text: Text, gathered: Gathered) -> StatementText:
    stars = text.stars.values() if gathered.site_named else ()
    ranks = without_qualify(text.source)
    tokens = tokenize(text.source)
    ranks += without_within(tokens, ranks)
    ranks += without_asof(tokens) + emit_edits(tokens)
    named = (edit for edit in text.named_windows.values() if not any(r.start <= edit.start < r.end for r in ranks))
    edits = (*ranks, *sparks_windows(text.source, ranks), *text.equal_windows.values(), *named, *stars)
    return StatementText(
        view=name,
        text=text.source.text,
        sql=edited(text.source.text, edits),
        edits=edits,
        relations=tuple(sorted(text.relations)),
        position=None if name == STATEMENT else text.source.position(0),
    )
