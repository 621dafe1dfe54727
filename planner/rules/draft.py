"""The stages of any statement.

Each branch of a UNION ALL at the top has stages of its own, and all their last stages are results.
"""

from __future__ import annotations

from planner.bind.logical import LogicalQuery
from planner.graph.plan import DraftPlan
from planner.relations.catalog import Column
from planner.rules.merges import add_merge
from planner.rules.stages import Stages, add_source
from planner.rules.statement import LogicalStatement
from planner.rules.windowjoin import add_window_join


def draft_statement(statement: LogicalStatement) -> DraftPlan:
    """The stages of a statement.

    Raises:
        InvalidDefinitionError: no site is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    plan = Stages()
    result, *more = [_add_branch(plan, branch) for branch in statement.branches]
    return DraftPlan(
        text=statement.source.text,
        stages=tuple(plan.stages),
        result_stage=result,
        more_results=tuple(more),
        columns=tuple(Column(output.name, "") for output in statement.branches[0].results),
        logical=statement.lines(),
        relations={name: relation.columns for name, relation in statement.relations.items()},
        shapes=plan.shapes,
        joins=plan.joins,
        functions=statement.functions,
        site_named=statement.site_named,
        texts=statement.texts,
        unions=statement.unions,
    )


def _add_branch(plan: Stages, query: LogicalQuery) -> str:
    if query.join_window is not None:
        return add_window_join(plan, query)
    return add_source(plan, query, None) if query.window is None else add_merge(plan, query)
