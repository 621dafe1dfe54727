"""COMBINE stages: at each site of a SOURCE, between it and the MERGE that reads its partials.

    SOURCE (site A) --at the site--> COMBINE (site A) --over the WAN--> MERGE

A SOURCE sends a group of a window in each epoch that has rows of it, a COMBINE once for each window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.graph.operators import CombinePartials, Operator, PartialAggregate
from planner.graph.plan import DraftPlan, Merge, Stage, StageInput
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind


def with_combines(draft: DraftPlan) -> DraftPlan:
    """The plan with a COMBINE for each SOURCE whose partials a MERGE reads, without the texts of the new stages.

    Args:
        draft: with types. SOURCEs that send rows, not partials, stay as they are.
    """
    stages: list[Stage] = []
    for stage in draft.stages:
        made = _combines(draft, stage, sum(s.kind is StageKind.COMBINE for s in stages))
        stages += made.values()
        inputs = (replace(i, stage=made[i].id) if i in made else i for i in stage.inputs)
        stages.append(replace(stage, inputs=tuple(inputs)))
    return replace(draft, stages=tuple(stages))


def _combines(draft: DraftPlan, stage: Stage, before: int) -> dict[StageInput, Stage]:
    """By input of a MERGE; empty for other stages."""
    found: dict[StageInput, Stage] = {}
    merge = stage.merge
    if merge is None or stage.kind is not StageKind.MERGE:
        return found
    for item, combine in _partials(stage, merge):
        source = draft.stage(item.stage)
        if source.kind is StageKind.SOURCE:
            found[item] = _combine(f"c{before + len(found) + 1}", source, stage, combine)
    return found


def _partials(stage: Stage, merge: Merge) -> Iterator[tuple[StageInput, CombinePartials]]:
    """The inputs that are partials, each with what makes fewer of them."""
    by_view = {view.view: view.combine for view in merge.views} or {INPUT_VIEW: merge.combine}
    for item in stage.inputs:
        combine: Operator | None = by_view.get(item.view)
        if isinstance(combine, CombinePartials):
            yield item, combine


def _combine(stage_id: str, source: Stage, reader: Stage, combine: CombinePartials) -> Stage:
    merge = reader.merge
    assert merge is not None
    # Rows that are sorted by key alone are smaller: there are bins only for parts that read some of them.
    bins = source.body.bins if reader.parts > 1 and isinstance(source.body, PartialAggregate) else ()
    return Stage(
        id=stage_id,
        kind=StageKind.COMBINE,
        pinned=source.pinned,
        inputs=(StageInput(source.id, INPUT_VIEW, same_site=True),),
        merge=Merge(
            merge.window_column, merge.period if merge.panes else merge.window, "", merge.slide, combine=combine
        ),
        columns=source.columns,
        body=replace(combine, bins=bins, numbered=True),
    )
