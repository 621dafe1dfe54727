"""The MERGE of an aggregating query, and of those whose rows are joined to its own.

Partials of each query come in a view of their own. Where a branch of a UNION ALL joins streams, its rows come in views
too, are joined in the MERGE, and are made partials there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.bind import selects as bound
from planner.bind.paired import behind_of
from planner.bind.rows import kept
from planner.bind.selects import StreamSelect, UnionInput, always_there
from planner.graph.operators import Alias, Named, Operator, Project, Scan, UnionAll
from planner.graph.plan import Merge, MergeView, Neighbours, Sessions, Stage, StageInput, Totals
from planner.rules.joinedrows import JoinedRows
from planner.rules.neighbours import rows_in_order
from planner.rules.pairing import add_pairs, joined_shape
from planner.rules.rankedrows import ranked_rows
from planner.rules.split import Halves, column, split_aggregates
from planner.rules.stages import Stages, add_source
from planner.rules.windowjoin import add_joined_rows
from planner.sql.dialect import exp
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
        sessions=Sessions(parts.keys, window.gap_words, query.at_start) if window.is_session else None,
        totals=_totals(query, query.totals, parts.keys) if query.totals is not None else None,
        neighbours=_neighbours(query.neighbours, parts.keys) if query.neighbours is not None else None,
    )
    if len(parts.views) > 1 or (query.ranks and query.totals is None) or query.neighbours is not None:
        merge = replace(merge, views=parts.views)
    else:
        merge = replace(merge, combine=parts.views[0].combine)
    merge_id = plan.next_id(StageKind.MERGE, "m")
    if query.below is not None or any(own.intervals for own in (query, *(i.query for i in query.inputs))):
        plan.joins[merge_id] = joined_shape(query)
    plan.stages.append(
        Stage(id=merge_id, kind=StageKind.MERGE, body=parts.body, pinned=(), inputs=parts.inputs, merge=merge)
    )
    return merge_id


def _neighbours(found: bound.Neighbours, keys: Sequence[str]) -> Neighbours:
    return Neighbours(tuple(keys), found.rows, found.within)


def _totals(query: StreamSelect, totals: bound.Totals, keys: Sequence[str]) -> Totals:
    """Return what the agent is to know of rows that are added up."""
    return Totals(
        keys=tuple(keys[:-1] if totals.ends else keys),
        upsert_by=totals.upsert_by,
        compares=bool(query.having) or query.ranks,
        ttl=totals.ttl,
        ends=keys[-1] if totals.ends else "",
    )


@dataclass(frozen=True, slots=True)
class _MergeParts:
    """Operators and inputs of one aggregating query, and of those whose rows are joined to its own."""

    body: Operator
    inputs: tuple[StageInput, ...]
    views: tuple[MergeView, ...]
    keys: tuple[str, ...]
    """Columns of the keys, besides the window."""


def _merge_parts(plan: Stages, query: StreamSelect, view: str) -> _MergeParts:
    """Adds the SOURCE stages; their partials, or ranked rows, go to `view`."""
    split = _halves(query)
    joining = [i for i in query.inputs if i.query.join_window is not None]
    senders = [i for i in query.inputs if i.query.join_window is None] or [UnionInput(query, _same)]
    inputs = [_add_sender(plan, sender, split, view) for sender in senders]
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
    return _MergeParts(split.merge(_together(partials, split), joined), tuple(inputs), tuple(views), split.keys)


def _halves(query: StreamSelect) -> Halves:
    if query.neighbours is not None:
        return rows_in_order(query)
    return ranked_rows(query) if query.ranks else split_aggregates(query)


def _add_sender(plan: Stages, sender: UnionInput, split: Halves, view: str) -> StageInput:
    """The stages that send the partials of a query, or of one branch of a union: a SOURCE, or MERGEs of pairs."""
    query = sender.query
    if query.below is not None:
        return StageInput(_add_rows(plan, query, query.below, split), view, behind=query.below.behind)
    if not query.intervals:
        return StageInput(add_source(plan, query, split, sender.change), view)
    assert query.window is not None
    lag = behind_of(query.intervals, query.window.time)
    assert lag is not None
    return StageInput(add_pairs(plan, query, split, sender.change), view, behind=lag)


def _add_rows(plan: Stages, query: StreamSelect, below: bound.Below, split: Halves) -> str:
    """Return the stages of a query whose rows another one reads; the last of them sends what a SOURCE would."""
    merge_id = add_merge(plan, below.query)
    merge = plan.stages.pop()
    assert merge.body is not None
    rows = kept(Alias(merge.body, INPUT_VIEW), query.where)
    plan.stages.append(replace(merge, body=split.at_source(rows, _same, sent=True)))
    return merge_id


def _same(node: exp.Expr) -> exp.Expr:
    return node


def _together(partials: Sequence[Operator], split: Halves) -> Operator:
    """All partials of closed windows: those that sources sent, and those that the MERGE makes of joined rows."""
    if len(partials) == 1:
        return partials[0]
    items = tuple(Named(name, column(name)) for name in split.columns())
    return UnionAll((Project(partials[0], items), *partials[1:]))


@dataclass(frozen=True, slots=True)
class _Rows:
    inputs: tuple[StageInput, ...]
    views: tuple[MergeView, ...]


def _joined_branch(plan: Stages, branch: UnionInput, split: Halves, view: str) -> tuple[Operator, _Rows]:
    """The partials of a branch that joins streams, and what they are made of; `view` has its first stream's rows."""
    window = branch.query.join_window
    assert window is not None
    rows = JoinedRows(branch.query, window, view)
    made = rows.partials(split, branch.change)
    inputs, views = add_joined_rows(plan, branch.query, rows)
    return made, _Rows(inputs, tuple(replace(v, required=False) for v in views))
