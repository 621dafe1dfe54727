"""MERGE stages in parts, each of some bins, side by side; and FINAL stages for what needs the groups of all parts.

    SOURCE --bins 0..31--> MERGE part 0 --+--> results, where each needs one group alone
           --bins 32..63-> MERGE part 1 --+--> FINAL (top-k, layers, joins of aggregates) --> results

What a MERGE computes is cut where the groups of all parts are needed first (`cuts`): below the cut is what each part
does, above it what FINAL does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from planner.graph.operators import Operator, Scan, walk, with_inputs
from planner.graph.plan import DraftPlan, Merge, MergeView, Stage, StageInput
from planner.rules.bins import is_binned
from planner.rules.cuts import Cut, cut, is_splittable, needs_no_others
from planner.values.names import INPUT_VIEW, WINDOW_START
from planner.values.stages import StageKind


def with_parts(draft: DraftPlan, parts: int) -> DraftPlan:
    """The plan with each MERGE in parts where that is possible, without the texts of changed stages; a note says where
    it is not.

    Args:
        draft: without types, for Spark has to check the stages that this makes.
        parts: of each MERGE, from 1 to the number of bins.
    """
    if parts == 1:
        return draft
    stages: list[Stage] = []
    notes: list[str] = []
    renamed: dict[str, str] = {}
    names = _Names({stage.id for stage in draft.stages})
    for stage in draft.stages:
        made: tuple[Stage, ...] = (stage,)
        if stage.kind is StageKind.MERGE:
            splitting = _Splitting(draft, parts, names)
            made = splitting.split(stage)
            notes += splitting.notes
            renamed[stage.id] = made[-1].id
        stages += made
    result, *more = [renamed.get(name, name) for name in draft.result_stages]
    return replace(
        draft,
        stages=tuple(stages),
        result_stage=result,
        more_results=tuple(more),
        notes=(*draft.notes, *notes),
    )


def feeds_merge(draft: DraftPlan, stage: Stage) -> bool:
    """Return whether another MERGE reads what a MERGE gives of windows."""
    reads = (item.stage for other in draft.stages if other.kind is StageKind.MERGE for item in other.inputs)
    return stage.merge is not None and stage.merge.pairs is None and stage.id in set(reads)


@dataclass(slots=True)
class _Names:
    """Ids of stages that are taken."""

    taken: set[str]

    def new(self, letter: str) -> str:
        """One that is not."""
        number = 1
        while f"{letter}{number}" in self.taken:
            number += 1
        self.taken.add(f"{letter}{number}")
        return f"{letter}{number}"

    def give_back(self, names: Iterable[str]) -> None:
        """These are not used after all."""
        self.taken.difference_update(names)


@dataclass(slots=True)
class _Splitting:
    """Puts one MERGE into parts."""

    draft: DraftPlan
    parts: int
    names: _Names
    notes: list[str] = field(default_factory=list)
    """Which MERGEs have one task, and why."""

    def split(self, stage: Stage) -> tuple[Stage, ...]:
        """The MERGEs in parts, then the FINAL if there is one; the stage as it is where nothing of it can be split."""
        assert stage.body is not None
        if stage.merge is not None and stage.merge.pairs is not None:
            # Whatever it sends is made of rows that match.
            return (self._counted(stage),)
        if feeds_merge(self.draft, stage):
            self.notes.append(f"{stage.id}: one task, for another MERGE reads its results")
            return (stage,)
        if not is_splittable(stage.body):
            self.notes.append(f"{stage.id}: one task, for what it makes of its joined rows cannot be made of partials")
            return (stage,)
        if needs_no_others(stage.body):
            return (self._counted(stage),)
        top, cuts = cut(stage.body)
        ids = [stage.id, *(self.names.new("m") for _ in cuts[1:])]
        made = [self._counted(_part(stage, found, name)) for found, name in zip(cuts, ids, strict=True)]
        if all(part.parts == 1 for part in made):
            self.notes = [f"{stage.id}: one task, for {_obstacle(stage)}"]
            self.names.give_back(ids[1:])
            return (stage,)
        return (*made, _final(stage, top, cuts, made, self.names.new("f")))

    def _counted(self, merge: Stage) -> Stage:
        """With the number of its parts."""
        waiting = [self.draft.stage(item.stage) for item in merge.inputs if merge.waits_for(item.view)]
        if all(map(is_binned, waiting)):
            return replace(merge, parts=self.parts)
        self.notes.append(f"{merge.id}: one task, for {_obstacle(merge)}")
        return merge


def _obstacle(merge: Stage) -> str:
    joins = merge.merge is not None and any(view.combine is None for view in merge.merge.views)
    return "no columns of one type say which of its rows match" if joins else "its groups have no keys"


def _final(stage: Stage, top: Operator, cuts: Sequence[Cut], made: Sequence[Stage], stage_id: str) -> Stage:
    merge = stage.merge
    assert merge is not None
    views = tuple(MergeView(c.view, required=_view(stage, c.view).required, combine=c.combine) for c in cuts)
    return Stage(
        id=stage_id,
        kind=StageKind.FINAL,
        pinned=(),
        inputs=tuple(StageInput(part.id, found.view) for part, found in zip(made, cuts, strict=True)),
        merge=Merge(WINDOW_START, merge.window, "", merge.slide, views, offset=merge.offset, months=merge.months),
        body=top,
    )


def _part(stage: Stage, found: Cut, stage_id: str) -> Stage:
    """The MERGE of a cut; its first view is called `input`, as every MERGE has one."""
    merge = stage.merge
    assert merge is not None
    read = {part.view for part in walk(found.body) if isinstance(part, Scan)}
    views = tuple(replace(_view(stage, view), view=_own(view, found)) for view in sorted(read) if stage.waits_for(view))
    alone = len(views) == 1 and views[0].combine is not None
    return Stage(
        id=stage_id,
        kind=StageKind.MERGE,
        pinned=(),
        inputs=tuple(replace(item, view=_own(item.view, found)) for item in stage.inputs if item.view in read),
        merge=Merge(
            merge.window_column,
            merge.window,
            "",
            merge.slide,
            () if alone else views,
            combine=views[0].combine if alone else None,
            panes=merge.panes,
            offset=merge.offset,
            cumulates=merge.cumulates,
            months=merge.months,
        ),
        body=_with_views(found.body, found),
    )


def _own(view: str, found: Cut) -> str:
    return INPUT_VIEW if view == found.view else view


def _with_views(operator: Operator, found: Cut) -> Operator:
    if isinstance(operator, Scan):
        return replace(operator, view=_own(operator.view, found))
    return with_inputs(operator, lambda below: _with_views(below, found))


def _view(stage: Stage, view: str) -> MergeView:
    merge = stage.merge
    assert merge is not None
    known = next((own for own in merge.views if own.view == view), None)
    return known if known is not None else MergeView(view, combine=merge.combine)
