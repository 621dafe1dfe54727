"""MERGEs whose windows can be closed range by range of the bins of their groups, so that memory holds one range.

As for parts: each result has to be made of one group, or of rows that match, and all rows that wait have to have bins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.graph.operators import CombinePartials, Operator, PartialAggregate
from planner.graph.plan import DraftPlan, Stage
from planner.rules.bins import is_binned
from planner.rules.cuts import is_splittable, needs_no_others
from planner.values.names import INPUT_VIEW
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
    sends_bins = all(_sends_bins(sender) for found in senders.values() for sender in found)
    if not (senders and sends_bins and is_splittable(body) and needs_no_others(body)):
        return stage
    views = tuple(replace(v, combine=_binned(v.combine, senders.get(v.view, ()))) for v in merge.views)
    combine = _binned(merge.combine, senders.get(INPUT_VIEW, ()))
    return replace(stage, merge=replace(merge, combine=combine, views=views, by_bins=True))


def _sends_bins(sender: Stage) -> bool:
    body = sender.body
    return bool(body.bins) if isinstance(body, CombinePartials) else is_binned(sender)


def _binned(combine: Operator | None, senders: Iterable[Stage]) -> Operator | None:
    """What combines partials, which then says their bins as their senders do."""
    bodies = (sender.body for sender in senders)
    bins = next((body.bins for body in bodies if isinstance(body, PartialAggregate | CombinePartials)), ())
    return replace(combine, bins=bins) if isinstance(combine, CombinePartials) else combine
