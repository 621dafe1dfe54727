"""Bins of groups, checked once Spark has said what types keys have.

All partials of a group must be in one bin, whichever source sent them. A bin is a hash: equal values of different types
hash differently, and so do texts that a collation takes for equal. Such keys are left out of the bin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.graph.operators import PartialAggregate, Project
from planner.graph.plan import DraftPlan, Stage
from planner.relations.catalog import Column
from planner.values.names import BIN_COLUMN
from planner.values.stages import StageKind


def hashes_alike(type_: str) -> bool:
    """Whether equal values of a Spark type have equal hashes."""
    return "COLLATE" not in type_.upper()


def is_binned(stage: Stage) -> bool:
    """Whether the rows that a stage sends have bins."""
    body = stage.body
    if isinstance(body, PartialAggregate):
        return bool(body.bins)
    return isinstance(body, Project) and any(item.name == BIN_COLUMN for item in body.items)


def with_checked_bins(draft: DraftPlan) -> DraftPlan:
    """The plan with bins of keys that hash alike at all sources of a merge, without the texts of changed stages.

    A MERGE whose rows have no bins then has one part.

    Args:
        draft: with types.
    """
    for merge in (stage for stage in draft.stages if stage.kind is StageKind.MERGE):
        views = dict.fromkeys(item.view for item in merge.inputs if merge.waits_for(item.view))
        for view in views:
            draft = _with_checked_view(draft, [draft.stage(i.stage) for i in merge.inputs if i.view == view])
        waiting = [draft.stage(item.stage) for item in merge.inputs if merge.waits_for(item.view)]
        if merge.parts > 1 and not all(map(is_binned, waiting)):
            draft = _with_stage(draft, replace(merge, parts=1))
    return draft


def _with_checked_view(draft: DraftPlan, sources: list[Stage]) -> DraftPlan:
    """The plan, in which the bins of these sources of one view are made of the same keys."""
    types: dict[str, set[str]] = {}
    for column in (column for source in sources for column in _bin_columns(source)):
        types.setdefault(column.name, set()).add(column.type.upper().replace(" ", ""))
    wrong = {name for name, found in types.items() if len(found) > 1 or not all(map(hashes_alike, found))}
    for source in sources if wrong else ():
        body = source.body
        assert isinstance(body, PartialAggregate)
        bins = tuple(key for key in body.bins if key not in wrong)
        draft = _with_stage(draft, replace(source, body=replace(body, bins=bins)))
    return draft


def _bin_columns(source: Stage) -> Iterator[Column]:
    """The columns of groups that make their bin; nothing of rows that are joined."""
    bins = source.body.bins if isinstance(source.body, PartialAggregate) else ()
    return (column for column in source.columns if column.name in bins)


def _with_stage(draft: DraftPlan, changed: Stage) -> DraftPlan:
    return replace(draft, stages=tuple(changed if stage.id == changed.id else stage for stage in draft.stages))
