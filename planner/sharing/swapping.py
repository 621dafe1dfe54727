"""Other COMBINEs for a merge whose query runs: which plans differ in nothing else, and what the query runs then. Pure.

All new COMBINEs begin beside those that run, in the middle of the sources' channels, so each leaves out the windows
that were open then. The merge is followed by a task that reads the new ones from their beginning. It takes over as in
any handover, once the old one has emitted all windows that a COMBINE leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.graph.ids import TaskId
from planner.graph.plan import Merge, PhysicalPlan, Stage
from planner.handover.model import Swap
from planner.sharing.deployment import Deployment, alone
from planner.sharing.running import Deployed
from planner.sharing.scaling import whole_from_us
from planner.sharing.vertices import VertexKind
from planner.values.stages import StageKind


@dataclass(frozen=True, slots=True)
class Recombine:
    """Other COMBINEs that somebody asks for."""

    query: str
    running: PhysicalPlan
    """As the query runs."""
    wanted: PhysicalPlan
    """As it is to run."""
    merge_site: str
    """The site of its merge now; empty: it has none."""
    deployment: Deployment | None = None
    """The tasks that it shares; None: it shares none."""


def merge_stage(plan: PhysicalPlan) -> Stage | None:
    """Return the one MERGE that reads COMBINEs; None: none does, or several do."""
    names = {stage.id for stage in combines(plan)}
    found = [
        stage
        for stage in plan.stages
        if stage.kind is StageKind.MERGE and any(item.stage in names for item in stage.inputs)
    ]
    return found[0] if len(found) == 1 else None


def refusal(asked: Recombine) -> tuple[str, str] | None:
    """Return why the query cannot go on with these COMBINEs, and what would be right; None: it can."""
    merge = merge_stage(asked.wanted)
    if merge is None:
        return (
            f"query {asked.query} has no merge, or several, for which sites could combine",
            "only a merge of partials of a stream's windows has COMBINEs before it",
        )
    if asked.deployment is not None:
        return f"query {asked.query} may share its tasks", "submit the query with SET sharing = 'net'"
    kinds = {asked.wanted.stage(item.stage).kind for item in merge.inputs}
    if kinds != {StageKind.COMBINE}:
        others = ", ".join(sorted(kind.value for kind in kinds - {StageKind.COMBINE}))
        return f"{merge.id} reads what does not combine, too: {others}", "submit the query anew"
    if merge.merge is not None and merge.merge.takes_again:
        # The new COMBINEs leave rows out, and no window ends that would be complete without them.
        told = f"what {merge.id} adds up may be of rows that came long before other sites combine"
        return told, "submit the query anew"
    if merge.parts > 1:
        return f"{merge.id} runs in {merge.parts} parts", "submit the query anew"
    if not _differ_in_combines_alone(asked.running, asked.wanted):
        return (
            f"query {asked.query} would be planned in another way today",
            "what it reads was changed since: submit the query anew",
        )
    same_site = asked.wanted.sites.get(merge.vertices[0]) == asked.merge_site
    if same_site and combines(asked.running) == combines(asked.wanted):
        return f"query {asked.query} combines so already", "name another way"
    return None


def _differ_in_combines_alone(running: PhysicalPlan, wanted: PhysicalPlan) -> bool:
    """Return whether the plans have the same results, and read the same sources."""
    alike = [[_compared(stage) for stage in plan.stages if not _combines(stage)] for plan in (running, wanted)]
    return alike[0] == alike[1] and running.result_stages == wanted.result_stages


def _compared(stage: Stage) -> Stage:
    """Return what has to be equal of a stage: of a MERGE not what it reads, nor how it works bin by bin."""
    bare = replace(stage, body=None)
    return bare if stage.kind is not StageKind.MERGE else replace(bare, inputs=(), merge=None)


def combines(plan: PhysicalPlan) -> tuple[Stage, ...]:
    """Return the COMBINE stages of a plan."""
    return tuple(replace(stage, body=None) for stage in plan.stages if _combines(stage))


def _combines(stage: Stage) -> bool:
    return stage.kind is StageKind.COMBINE


def swap_to(running: PhysicalPlan, wanted: PhysicalPlan, note: str) -> Swap:
    """Return the swap to a plan; what was settled when the query was submitted stays."""
    kept = replace(wanted, adapting=running.adapting, degrading=running.degrading, functions=running.functions)
    return Swap(kept, note)


def combines_of(plan: PhysicalPlan, query: str) -> tuple[Deployed, ...]:
    """Return the COMBINEs of a query that shares nothing, each behind those that it reads."""
    return tuple(one for one in alone(plan, query) if one.vertex.kind is VertexKind.COMBINE)


def sources_read(plan: PhysicalPlan, query: str) -> Mapping[TaskId, tuple[TaskId, ...]]:
    """Return, by the place of each COMBINE, those of the sources that it reads itself."""
    found = combines_of(plan, query)
    own = {one.id for one in found}
    return {one.id: tuple(name for name in one.inputs if name not in own) for one in found}


def swapped_from_us(whole_after_us: int, merge: Merge) -> int:
    """The watermark from which on all windows of a merge that are still to come are made of whole partials.

    Args:
        whole_after_us: the COMBINEs have every window, or pane of one, that ends later.
        merge: how the merge's rows wait.
    """
    return whole_from_us(whole_after_us, merge) if merge.panes else whole_after_us


def told(plan: PhysicalPlan) -> str:
    """Return how a plan's sites combine, for people."""
    return "; ".join(f"{stage.id} at {', '.join(stage.pinned)}" for stage in combines(plan))
