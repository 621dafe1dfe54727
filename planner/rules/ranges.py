"""MERGEs whose windows can be closed range by range of the bins of their groups, so that memory holds one range.

As for parts: where each result is made of one group, or of rows that match, each range gives its results. A top-k,
layers over groups and joins of aggregates are cut: each range gives what a part would send, and what FINAL would do is
done over that of all ranges.

All rows that wait have to have bins. Partials that sites have combined come without any, but the MERGE can say them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from planner.graph.operators import CombinePartials, Operator, PartialAggregate, Project
from planner.graph.plan import DraftPlan, RangeResult, Stage
from planner.rules.bins import is_binned
from planner.rules.cuts import cut, is_splittable, needs_no_others
from planner.rules.parts import feeds_merge
from planner.values.names import BIN_COLUMN, INPUT_VIEW
from planner.values.stages import StageKind


def with_ranges(draft: DraftPlan) -> DraftPlan:
    """The plan, with a mark on each MERGE that may work bin by bin, without the texts of changed stages.

    Args:
        draft: with types, and with the COMBINEs that it is to have.
    """
    return replace(draft, stages=tuple(_marked(draft, stage) for stage in draft.stages))


def _marked(draft: DraftPlan, stage: Stage) -> Stage:
    merge, body = stage.merge, stage.body
    if merge is None or body is None or stage.kind is not StageKind.MERGE:
        return stage
    senders = {
        view: [draft.stage(item.stage) for item in stage.inputs if item.view == view]
        for view in {item.view for item in stage.inputs if stage.waits_for(item.view)}
    }
    sources = {view: [_source(draft, sender) for sender in found] for view, found in senders.items()}
    if feeds_merge(draft, stage):
        return stage
    if not (senders and all(map(is_binned, chain(*sources.values()))) and is_splittable(body)):
        return stage
    views = tuple(replace(v, combine=_binned(v.combine, sources.get(v.view, ()))) for v in merge.views)
    combine = _binned(merge.combine, sources.get(INPUT_VIEW, ()))
    marked = replace(merge, combine=combine, views=views)
    if needs_no_others(body) or merge.pairs is not None:
        return replace(stage, merge=replace(marked, by_bins=True))
    top, cuts = cut(body)
    if any(found.combine is not None for found in cuts) or INPUT_VIEW not in {found.view for found in cuts}:
        # Ranges would give partials, of which others have to be made.
        return stage
    ranges = tuple(RangeResult(found.view, body=found.body) for found in cuts)
    return replace(stage, merge=replace(marked, ranges=ranges, over_ranges=top))


def _source(draft: DraftPlan, sender: Stage) -> Stage:
    """Return the stage that made the partials that a stage sends; any of several."""
    return _source(draft, draft.stage(sender.inputs[0].stage)) if sender.kind is StageKind.COMBINE else sender


def _binned(combine: Operator | None, sources: Iterable[Stage]) -> Operator | None:
    """Return the operator that combines partials, which then says their bins as their sources do."""
    body = next((source.body for source in sources), None)
    if isinstance(combine, CombinePartials):
        return replace(combine, bins=body.bins if isinstance(body, PartialAggregate) else ())
    if isinstance(combine, Project) and isinstance(body, Project):
        return replace(combine, items=(*combine.items, *(item for item in body.items if item.name == BIN_COLUMN)))
    return combine
