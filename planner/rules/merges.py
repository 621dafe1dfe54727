"""The MERGE of an aggregating query, and of those whose rows are joined to its own.

Partials of each query come in a view of their own. Where a branch of a UNION ALL joins streams, its rows come in views
too, are joined in the MERGE, and are made partials there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.bind.selects import StreamSelect, UnionInput, always_there
from planner.graph.operators import Named, Operator, Project, Scan, UnionAll
from planner.graph.plan import Merge, MergeView, Sessions, Stage, StageInput
from planner.rules.joinedrows import JoinedRows
from planner.rules.split import Split, column, split_aggregates
from planner.rules.stages import Stages, add_source
from planner.rules.windowjoin import add_joined_rows
from planner.values.names import INPUT_VIEW, WINDOW_START
from planner.values.stages import StageKind


def add_merge(plan: Stages, query: StreamSelect) -> str:
    """The stages of an aggregating query; the id of the last."""
    window = query.window
    assert window is not None
    parts = _merge_parts(plan, query, INPUT_VIEW)
    merge = Merge(
        WINDOW_START,
        window.length,
        "",
        window.slide,
        panes=window.overlaps,
        offset=window.offset,
        cumulates=window.cumulates,
        months=window.months,
        sessions=Sessions(parts.keys, window.gap_words) if window.is_session else None,
    )
    if len(parts.views) > 1:
        merge = replace(merge, views=parts.views)
    else:
        merge = replace(merge, combine=parts.views[0].combine)
    merge_id = plan.next_id(StageKind.MERGE, "m")
    plan.stages.append(
        Stage(id=merge_id, kind=StageKind.MERGE, body=parts.body, pinned=(), inputs=parts.inputs, merge=merge)
    )
    return merge_id


@dataclass(frozen=True, slots=True)
class _MergeParts:
    """Operators and inputs of one aggregating query, and of those whose rows are joined to its own."""

    body: Operator
    inputs: tuple[StageInput, ...]
    views: tuple[MergeView, ...]
    keys: tuple[str, ...]
    """Columns of the keys, besides the window."""


def _merge_parts(plan: Stages, query: StreamSelect, view: str) -> _MergeParts:
    """Adds the SOURCE stages; their partials go to `view`."""
    split = split_aggregates(query)
    joining = [i for i in query.inputs if i.query.join_window is not None]
    if query.inputs:
        sources = [add_source(plan, i.query, split, i.change) for i in query.inputs if i.query.join_window is None]
    else:
        sources = [add_source(plan, query, split)]
    inputs = [StageInput(source, view) for source in sources]
    joins = [join for layer in query.layers for join in layer.joins]
    there = always_there(view, joins)
    # A window has a result as soon as one branch has rows in it.
    views = [MergeView(view, required=view in there and not joining, combine=split.combine(Scan(INPUT_VIEW)))]
    partials: list[Operator] = [Scan(view)]
    for number, branch in enumerate(joining, 1):
        made, rows = _joined_branch(plan, branch, split, f"{view}_{number}")
        partials.append(made)
        inputs += rows.inputs
        views += rows.views
    joined: dict[str, Operator] = {}
    for join in joins:
        parts = _merge_parts(plan, join.query, f"{join.member.view}_partials")
        joined[join.member.view] = parts.body
        inputs += parts.inputs
        views += [replace(v, required=v.required and join.member.view in there) for v in parts.views]
    return _MergeParts(
        split.merge(_together(partials, split), joined), tuple(inputs), tuple(views), split.splitter.keys
    )


def _together(partials: Sequence[Operator], split: Split) -> Operator:
    """All partials of closed windows: those that sources sent, and those that the MERGE makes of joined rows."""
    if len(partials) == 1:
        return partials[0]
    items = tuple(Named(name, column(name)) for name in split.columns())
    return UnionAll((Project(partials[0], items), *partials[1:]))


@dataclass(frozen=True, slots=True)
class _Rows:
    inputs: tuple[StageInput, ...]
    views: tuple[MergeView, ...]


def _joined_branch(plan: Stages, branch: UnionInput, split: Split, view: str) -> tuple[Operator, _Rows]:
    """The partials of a branch that joins streams, and what they are made of; `view` has its first stream's rows."""
    window = branch.query.join_window
    assert window is not None
    rows = JoinedRows(branch.query, window, view)
    made = rows.partials(split, branch.change)
    inputs, views = add_joined_rows(plan, branch.query, rows)
    return made, _Rows(inputs, tuple(replace(v, required=False) for v in views))
