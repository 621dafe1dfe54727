"""COMBINE stages: at each site of a SOURCE, between it and the MERGE that reads its partials.

    SOURCE (site A) --at the site--> COMBINE (site A) --over the WAN--> MERGE

A SOURCE sends a group of a window in each epoch that has rows of it, a COMBINE once for each window. In a tree, the
COMBINE of a site between reads those of other sites, beside its own SOURCE where the stream is bound there:

    SOURCE (site A) --> COMBINE (site A) --+
    SOURCE (site B) -----------------------+--> COMBINE (site B) --> MERGE
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from planner.graph.operators import CombinePartials, Operator, PartialAggregate
from planner.graph.plan import DraftPlan, Merge, Stage, StageInput
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind
from planner.values.trees import Tree

FLAT = Tree()
"""Every site sends to the merge."""


def with_combines(draft: DraftPlan, tree: Tree = FLAT) -> DraftPlan:
    """The plan with COMBINEs for each SOURCE whose partials a MERGE reads, without the texts of the new stages.

    Args:
        draft: with types. SOURCEs that send rows, not partials, stay as they are.
        tree: which sites send to another site, not to the merge; ways of sites without partials are left out.
    """
    stages: list[Stage] = []
    notes: list[str] = []
    for stage in draft.stages:
        if stage.merge is not None and stage.merge.sessions is not None:
            notes.append(
                f"{stage.id}: sites do not combine its partials, for nothing says when a session is whole there"
            )
        inputs: list[StageInput] = []
        for item, combine in _inputs(draft, stage):
            if combine is None:
                inputs.append(item)
                continue
            first = sum(s.kind is StageKind.COMBINE for s in stages) + 1
            made = _Combines(draft.stage(item.stage), stage, combine, tree, first)
            inputs += [StageInput(last, item.view) for last in made.last()]
            stages += made.stages
        stages.append(replace(stage, inputs=tuple(inputs)))
    return replace(draft, stages=tuple(stages), notes=(*draft.notes, *notes))


def _inputs(draft: DraftPlan, stage: Stage) -> Iterator[tuple[StageInput, CombinePartials | None]]:
    """The inputs of a stage; those that are partials of a SOURCE with what makes fewer of them."""
    merge = stage.merge if stage.kind is StageKind.MERGE else None
    if merge is not None and merge.sessions is not None:
        merge = None
    by_view: dict[str, Operator | None] = {}
    if merge is not None:
        by_view = {view.view: view.combine for view in merge.views} or {INPUT_VIEW: merge.combine}
    for item in stage.inputs:
        combine = by_view.get(item.view)
        is_source = draft.stage(item.stage).kind is StageKind.SOURCE
        yield item, combine if is_source and isinstance(combine, CombinePartials) else None


@dataclass(slots=True)
class _Combines:
    """The COMBINEs between a SOURCE and a MERGE: one stage for all sites that send to the same one, and one for each
    site between."""

    source: Stage
    reader: Stage
    combine: CombinePartials
    tree: Tree
    number: int
    """Of the next stage."""
    stages: list[Stage] = field(default_factory=list)

    def last(self) -> list[str]:
        """Makes the stages, each behind those it reads; those that the MERGE reads."""
        return self._towards(None)

    def _towards(self, site: str | None) -> list[str]:
        """The stages whose output goes to that site; None: to the MERGE."""
        between = {over for home in self.source.pinned for over in self.tree.beyond(home)}
        senders = [home for home in sorted({*self.source.pinned, *between}) if self.tree.over.get(home) == site]
        leaves = [home for home in senders if home not in between]
        made = [self._stage(leaves, [])] if leaves else []
        return made + [self._stage([home], self._towards(home)) for home in senders if home in between]

    def _stage(self, sites: Sequence[str], read: Sequence[str]) -> str:
        merge, source = self.reader.merge, self.source
        assert merge is not None
        period = merge.pane if merge.panes else merge.window
        own = [StageInput(source.id, INPUT_VIEW, same_site=True)] if set(sites) & set(source.pinned) else []
        # Rows that are sorted by key alone are smaller: there are bins only for parts that read some of them.
        last = not set(sites) & self.tree.over.keys()
        bins = source.body.bins if isinstance(source.body, PartialAggregate) and self.reader.parts > 1 else ()
        stage = Stage(
            id=f"c{self.number}",
            kind=StageKind.COMBINE,
            pinned=tuple(sites),
            inputs=(*own, *(StageInput(name, INPUT_VIEW) for name in read)),
            merge=Merge(
                merge.window_column,
                period,
                "",
                combine=self.combine,
                offset=merge.offset % period,
                months=merge.months,
            ),
            columns=source.columns,
            body=replace(self.combine, bins=bins if last else (), numbered=True),
        )
        self.number += 1
        self.stages.append(stage)
        return stage.id
