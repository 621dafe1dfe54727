"""MERGE stages in parts, each of some bins, side by side; and FINAL stages for what needs the groups of all parts.

    SOURCE --bins 0..31--> MERGE part 0 --+--> results, where each needs one group alone
           --bins 32..63-> MERGE part 1 --+--> FINAL (top-k, layers, joins of aggregates) --> results

What a MERGE computes is cut where all groups are needed first. Below the cut is what each part does:

    a rank over groups           the first k of the part's groups; FINAL ranks those of all parts
    layers over groups           the groups; each query that is joined has a MERGE of its own, binned by its own keys
    an aggregate of joined rows  its partials, for joined rows are binned by what joins them
    a UNION ALL with joined rows partials likewise
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from planner.functions.aggregates import MERGEABLE
from planner.graph.operators import (
    Aggregate,
    Alias,
    CombinePartials,
    Filter,
    Join,
    MergeAggregate,
    Named,
    Operator,
    Partial,
    PartialAggregate,
    Project,
    Scan,
    TopK,
    inputs_of,
    walk,
    with_inputs,
)
from planner.graph.plan import DraftPlan, Merge, MergeView, Stage, StageInput
from planner.graph.schema import names_of
from planner.rules.bins import is_binned
from planner.rules.split import column, merged_of
from planner.sql.dialect import exp
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


def _of_rows(body: Operator) -> Iterator[Aggregate]:
    """The aggregates of joined rows."""
    found = (operator for operator in walk(body) if isinstance(operator, Aggregate))
    return (aggregate for aggregate in found if not _has_groups(aggregate.input))


def _has_groups(operator: Operator) -> bool:
    return any(isinstance(part, Aggregate | MergeAggregate) for part in walk(operator))


def _is_splittable(aggregate: Aggregate) -> bool:
    """Whether all it computes can be made of partials."""
    found = (merged_of(item.name, item.expression, {}) for item in aggregate.items[len(aggregate.keys) :])
    return not aggregate.having and all(merged.function.split()[0] in MERGEABLE for merged in found)


@dataclass(slots=True)
class _Cuts:
    """What was cut off the body of a MERGE so far."""

    found: list[_Cut] = field(default_factory=list)

    def add(self, body: Operator, combine: CombinePartials | None = None) -> Scan:
        """Cuts off `body`; what reads it in its place. `combine` makes fewer partials of many, where it gives some."""
        view = next(part.view for part in walk(body) if isinstance(part, Scan))
        self.found.append(_Cut(view, body, combine))
        return Scan(view)


@dataclass(frozen=True, slots=True)
class _Cut:
    """What each part computes for one view of FINAL."""

    view: str
    """Also that of its own first input."""
    body: Operator
    combine: CombinePartials | None


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
        if any(not _is_splittable(aggregate) for aggregate in _of_rows(stage.body)):
            self.notes.append(f"{stage.id}: one task, for an aggregate over its joined rows cannot be made of partials")
            return (stage,)
        if _needs_no_others(stage.body):
            return (self._counted(stage),)
        cuts = _Cuts()
        top = _cut(stage.body, cuts)
        ids = [stage.id, *(self.names.new("m") for _ in cuts.found[1:])]
        made = [self._counted(_part(stage, *cut)) for cut in zip(cuts.found, ids, strict=True)]
        if all(part.parts == 1 for part in made):
            self.notes = [f"{stage.id}: one task, for {_obstacle(stage)}"]
            self.names.give_back(ids[1:])
            return (stage,)
        return (*made, _final(stage, top, cuts.found, made, self.names.new("f")))

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


def _final(stage: Stage, top: Operator, cuts: Sequence[_Cut], made: Sequence[Stage], stage_id: str) -> Stage:
    merge = stage.merge
    assert merge is not None
    views = tuple(MergeView(cut.view, required=_view(stage, cut.view).required, combine=cut.combine) for cut in cuts)
    return Stage(
        id=stage_id,
        kind=StageKind.FINAL,
        pinned=(),
        inputs=tuple(StageInput(part.id, cut.view) for part, cut in zip(made, cuts, strict=True)),
        merge=Merge(WINDOW_START, merge.window, "", merge.slide, views),
        body=top,
    )


def _needs_no_others(operator: Operator) -> bool:
    """Whether each result is made of one group, or of rows that match."""
    match operator:
        case Scan() | MergeAggregate(Scan()):
            return True
        case Alias() | Filter() | Project() | Join():
            return not (isinstance(operator, Join) and _has_groups(operator)) and all(
                map(_needs_no_others, inputs_of(operator))
            )
        case _:
            return False


def _cut(operator: Operator, cuts: _Cuts) -> Operator:
    """The operator over what the parts compute."""
    if (groups := _groups_below(operator)) is not None:
        return _over_groups(operator, groups, cuts)
    if isinstance(operator, MergeAggregate):
        return replace(operator, input=_cut_partials(operator.input, operator.keys, operator.partials, cuts))
    if isinstance(operator, Aggregate) and not _has_groups(operator.input):
        return _of_partials(operator, cuts)
    return with_inputs(operator, lambda below: _cut(below, cuts))


def _groups_below(operator: Operator) -> MergeAggregate | None:
    """The groups that a select list is over, where sources have sent all of their partials."""
    below = operator.input if isinstance(operator, Project) else None
    while isinstance(below, TopK | Filter | Alias):
        below = below.input
    return below if isinstance(below, MergeAggregate) and isinstance(below.input, Scan) else None


def _over_groups(operator: Operator, groups: MergeAggregate, cuts: _Cuts) -> Operator:
    """A select list over groups. Parts do what is below it, a rank included, which is taken again of what they keep."""
    assert isinstance(operator, Project)
    names = names_of(groups)
    assert names is not None
    below = operator.input
    kept = Project(below, tuple(Named(name, column(name)) for name in names))
    rows: Operator = Alias(cuts.add(kept), _name_of(below))
    return replace(operator, input=replace(below, input=rows) if isinstance(below, TopK) else rows)


def _name_of(operator: Operator) -> str:
    """What expressions call the groups."""
    return next(part.name for part in walk(operator) if isinstance(part, Alias))


def _cut_partials(rows: Operator, keys: tuple[str, ...], partials: tuple[Partial, ...], cuts: _Cuts) -> Scan:
    return cuts.add(CombinePartials(rows, keys, partials), CombinePartials(Scan(INPUT_VIEW), keys, partials))


def _of_partials(aggregate: Aggregate, cuts: _Cuts) -> Operator:
    """Groups of joined rows, made of the partials of all parts."""
    keys = tuple(item.name for item in aggregate.items[: len(aggregate.keys)])
    calls: dict[exp.Expr, Partial] = {}
    found = tuple(merged_of(item.name, item.expression, calls) for item in aggregate.items[len(keys) :])
    partials = tuple(calls.values())
    part = PartialAggregate(aggregate.input, keys, partials, tuple(calls))
    return MergeAggregate(cuts.add(part, CombinePartials(Scan(INPUT_VIEW), keys, partials)), keys, partials, found)


def _part(stage: Stage, cut: _Cut, stage_id: str) -> Stage:
    """The MERGE of a cut; its first view is called `input`, as every MERGE has one."""
    merge = stage.merge
    assert merge is not None
    read = {part.view for part in walk(cut.body) if isinstance(part, Scan)}
    views = tuple(replace(_view(stage, view), view=_own(view, cut)) for view in sorted(read) if stage.waits_for(view))
    alone = len(views) == 1 and views[0].combine is not None
    return Stage(
        id=stage_id,
        kind=StageKind.MERGE,
        pinned=(),
        inputs=tuple(replace(item, view=_own(item.view, cut)) for item in stage.inputs if item.view in read),
        merge=Merge(
            merge.window_column,
            merge.window,
            "",
            merge.slide,
            () if alone else views,
            combine=views[0].combine if alone else None,
            panes=merge.panes,
        ),
        body=_with_views(cut.body, cut),
    )


def _own(view: str, cut: _Cut) -> str:
    return INPUT_VIEW if view == cut.view else view


def _with_views(operator: Operator, cut: _Cut) -> Operator:
    if isinstance(operator, Scan):
        return replace(operator, view=_own(operator.view, cut))
    return with_inputs(operator, lambda below: _with_views(below, cut))


def _view(stage: Stage, view: str) -> MergeView:
    merge = stage.merge
    assert merge is not None
    known = next((found for found in merge.views if found.view == view), None)
    return known if known is not None else MergeView(view, combine=merge.combine)
