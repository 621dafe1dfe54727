"""The MERGE of an aggregating query, and of those whose rows are joined to its own.

Partials of each query come in a view of their own. Where a branch of a UNION ALL joins streams, its rows come in views
too, are joined in the MERGE, and are made partials there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.merge import WINDOW_START, MergeRecipe
from planner.plan import INPUT_VIEW, Merge, MergeView, Stage, StageInput, StageKind
from planner.query.joinedrows import JoinedRows
from planner.query.logical import LogicalQuery, UnionInput
from planner.query.split import Split, split_aggregates
from planner.query.spread import spread_of
from planner.query.stages import Stages, add_source
from planner.query.windowjoin import add_joined_rows


def add_merge(plan: Stages, query: LogicalQuery) -> str:
    """The stages of an aggregating query; the id of the last."""
    window = query.window
    assert window is not None
    parts = _merge_parts(plan, query, INPUT_VIEW)
    recipe = parts.recipe
    if len(parts.views) > 1:
        merge = Merge(WINDOW_START, window.length, "", window.slide, parts.views)
    else:
        merge = Merge(WINDOW_START, window.length, recipe.combine_sql({}), window.slide)
    merge_id = plan.next_id(StageKind.MERGE, "m")
    plan.stages.append(
        Stage(id=merge_id, kind=StageKind.MERGE, sql=recipe.sql({}), sites=(), inputs=parts.inputs, merge=merge)
    )
    plan.recipes[merge_id] = recipe
    return merge_id


@dataclass(frozen=True, slots=True)
class _MergeParts:
    """What a MERGE takes for one aggregating query, and for those whose rows are joined to its own."""

    recipe: MergeRecipe
    inputs: tuple[StageInput, ...]
    views: tuple[MergeView, ...]


def _merge_parts(plan: Stages, query: LogicalQuery, view: str) -> _MergeParts:
    """Adds the SOURCE stages; their partials go to `view`."""
    split = split_aggregates(query)
    joining = [i for i in query.inputs if i.query.join_window is not None]
    if query.inputs:
        sources = [add_source(plan, i.query, split, i.change) for i in query.inputs if i.query.join_window is None]
    else:
        sources = [add_source(plan, query, split)]
    inputs = [StageInput(source, view) for source in sources]
    # Rows of one branch give a result without those of the others.
    views = [MergeView(view, split.recipe.combine_sql({}), required=not joining)]
    inline = []
    for number, branch in enumerate(joining, 1):
        sql, rows = _joined_branch(plan, branch, split, f"{view}_{number}")
        inline.append(sql)
        inputs += rows.inputs
        views += rows.views
    joined: dict[str, MergeRecipe] = {}
    for join in (join for layer in query.layers for join in layer.joins):
        parts = _merge_parts(plan, join.query, f"{join.member.view}_partials")
        joined[join.member.view] = parts.recipe
        inputs += parts.inputs
        views += [replace(v, required=v.required and not join.left) for v in parts.views]
    return _MergeParts(
        replace(split.recipe, view=view, inline=tuple(inline), joined=joined), tuple(inputs), tuple(views)
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    inputs: tuple[StageInput, ...]
    views: tuple[MergeView, ...]


def _joined_branch(plan: Stages, branch: UnionInput, split: Split, view: str) -> tuple[str, _Rows]:
    """The partials of a branch that joins streams, and what they are made of; `view` has its first stream's rows."""
    window = branch.query.join_window
    assert window is not None
    spread = spread_of(branch.query)
    rows = JoinedRows(branch.query, spread, window, view)
    sql = rows.partials_sql(split, branch.change)
    inputs, views = add_joined_rows(plan, branch.query, spread, rows)
    return sql, _Rows(inputs, tuple(replace(v, required=False) for v in views))
