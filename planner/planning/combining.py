"""Placing a plan whose sites combine: over which sites the partials go is weighed on placed plans, one for each way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.estimate.rates import task_rates
from planner.graph.plan import DraftPlan, PhysicalPlan, Statistics, TreeCandidate
from planner.place.placement import place
from planner.place.trees import TreePlan, best, candidate, joining, merge_sites, saves, tree_plan, why_not
from planner.planning.drafts import with_texts
from planner.rules.combines import FLAT, with_combines
from planner.rules.ranges import with_ranges
from planner.values.stages import StageKind
from planner.values.topology import Topology
from planner.values.trees import Tree
from planner.wan.figures import link_figures
from planner.wan.snapshot import WanSnapshot

MOST_ROUNDS = 4
"""So many sites between at most are taken, one after the other, each beside those before it."""


@dataclass(frozen=True, slots=True)
class Combined:
    """A query whose sites combine, with a site for every stage."""

    draft: DraftPlan
    plan: PhysicalPlan


def place_combining(  # noqa: PLR0913 - all that places a plan, and the tree
    draft: DraftPlan,
    topology: Topology,
    statistics: Statistics,
    *,
    alive: frozenset[str],
    wan: WanSnapshot | None = None,
    tree: Tree | None = None,
) -> Combined:
    """The plan with COMBINEs, placed.

    Args:
        draft: with types and without COMBINEs.
        topology: all sites and links.
        statistics: rates of streams by site, as far as measured.
        alive: sites that can take tasks now.
        wan: what the monitor knows of the links now; None: nothing was measured.
        tree: over which sites the partials go, as the author asks for; None: as the links' figures say.

    Raises:
        PlacementError: as `place`.
    """
    links = link_figures(topology, wan)

    def placed(tree: Tree) -> Combined:
        combined = with_texts(with_ranges(with_combines(draft, tree)))
        return Combined(combined, place(combined, topology, statistics, alive=alive, wan=wan))

    def weighed(tree: Tree) -> TreePlan:
        made = placed(tree)
        return tree_plan(tree, made.plan, task_rates(made.draft, statistics), links)

    if tree is not None:
        return placed(tree)
    flat = weighed(FLAT)
    merges = merge_sites(flat.plan)
    if len(merges) != 1 or all(stage.kind is not StageKind.COMBINE for stage in flat.plan.stages):
        # Nothing is combined, or parts of merges at several sites read bins of it.
        return placed(FLAT)
    (merge,) = merges
    usable = sorted((alive & topology.sites.keys()) - topology.draining - merges)
    chosen, turned_down = flat, list[TreeCandidate]()
    for _ in range(MOST_ROUNDS):
        tried: list[TreePlan] = []
        for at in (site for site in usable if site not in chosen.tree.over.values()):
            sites = set(joining(chosen.plan, at, merge, links)).difference(chosen.tree.beyond(at))
            if sites:
                tried.append(weighed(chosen.tree.with_edges(sites, at)))
        better = [one for one in tried if saves(one, chosen)]
        found = best(better) if better else chosen
        turned_down += _turned_down(tried, found, chosen)
        if found is chosen:
            break
        chosen = found
    return _with_candidates(placed(chosen.tree), chosen, flat, turned_down)


def _turned_down(tried: Sequence[TreePlan], found: TreePlan, before: TreePlan) -> list[TreeCandidate]:
    lines = []
    for one in tried:
        if one is not found:
            reason = "it saves less than the one that was taken" if saves(one, before) else why_not(one, before)
            lines.append(candidate(one, reason, chosen=False))
    return lines


def _with_candidates(made: Combined, chosen: TreePlan, flat: TreePlan, others: Sequence[TreeCandidate]) -> Combined:
    if chosen is flat:
        reason = "no tree saves enough" if others else "no site has a link to another site that costs less by the byte"
        trees = (candidate(flat, reason, chosen=True), *others)
    else:
        trees = (
            candidate(chosen, saves(chosen, flat), chosen=True),
            candidate(flat, "all sites send to the merge", chosen=False),
            *others,
        )
    return replace(made, plan=replace(made.plan, trees=trees))
