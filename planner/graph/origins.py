"""What a COMBINE is made of: the SOURCE behind it, and the sites whose rows its tasks have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planner.graph.plan import Stage, find_stage
from planner.values.stages import StageKind


def source_behind(stage: Stage, stages: Iterable[Stage]) -> Stage:
    """Of a COMBINE the SOURCE whose partials it combines, even over other COMBINEs; any other stage itself."""
    stages = tuple(stages)
    while stage.kind is StageKind.COMBINE:
        stage = find_stage(stages, stage.inputs[0].stage)
    return stage


def combines_behind(stage: Stage, stages: Sequence[Stage]) -> Iterator[Stage]:
    """A COMBINE and the COMBINEs that it reads, directly or through others; nothing of another stage."""
    if stage.kind is StageKind.COMBINE:
        yield stage
        for item in stage.inputs:
            yield from combines_behind(find_stage(stages, item.stage), stages)


def origins(stage: Stage, site: str, stages: Sequence[Stage]) -> frozenset[str]:
    """The sites at which the rows of a task were born, by the site of the task."""
    if stage.kind is not StageKind.COMBINE:
        return frozenset({site})
    found: set[str] = set()
    for item in stage.inputs:
        read = find_stage(stages, item.stage)
        for home in [site] if item.same_site else read.pinned:
            found |= origins(read, home, stages)
    return frozenset(found)
