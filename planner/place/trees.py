"""Whether partials of several sites go over a site between, where they are combined once more, on their way to a merge.

Less crosses the last link then, the long one as a rule, but all of it crosses one link more and waits there for a
moment. A tree is worth it when it saves a fifth: of the cost (bytes/s * latency^2 / capacity over all links) while
windows close hardly later, or of the time until a window's groups are at the merge while the cost does not grow; or
when the links do not carry the groups otherwise. Bytes are those of the estimates, times those of links that carry
what is available and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.graph.plan import LinkTraffic, PhysicalPlan, Stage, TreeCandidate
from planner.place.placement import link_cost, link_obstacle
from planner.values.links import LinkFigures, Pair
from planner.values.stages import StageKind
from planner.values.trees import HOP_S, Tree

LEAST_SAVING = 0.2
MOST_LATER_S = 0.5
"""So much later, windows close hardly later: 0.15 of the usual delay, which is about 3 s."""

Links = Mapping[Pair, LinkFigures]
Rates = Mapping[tuple[str, str], float]
"""Bytes per second that a task is expected to send, by stage and site."""


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A plan with one tree, and what is expected of it."""

    tree: Tree
    plan: PhysicalPlan
    cost: float
    closing_s: float
    obstacle: str
    """Why its links do not carry it; empty when they do."""


def tree_plan(tree: Tree, plan: PhysicalPlan, rates: Rates, links: Links) -> TreePlan:
    """What is expected of a placed plan."""
    obstacles = [text for traffic in plan.links if (text := link_obstacle(traffic, links))]
    cost = sum(link_cost(traffic, links.get(traffic.pair)) for traffic in plan.links)
    return TreePlan(tree, plan, cost, closing_s(plan, rates, links), obstacles[0] if obstacles else "")


def closing_s(plan: PhysicalPlan, rates: Rates, links: Links) -> float:
    """How long the groups of a window are on their way to the merges, if all leave their sites when it closes."""
    gathered_s: dict[tuple[str, str], float] = {}

    def arrive_s(reader: Stage, site: str) -> float:
        """When the groups of other sites are at a task; 0: it reads none."""
        arrivals = [0.0]
        for sender in (plan.stage(item.stage) for item in reader.inputs if not item.same_site):
            if sender.kind is StageKind.COMBINE and sender.merge is not None:
                period_s = sender.merge.period.total_seconds()
                for home in sender.pinned:
                    way_s = _way_s(home, site, rates.get((sender.id, home), 0.0) * period_s, links)
                    arrivals.append(gathered_s[sender.id, home] + way_s)
        return max(arrivals)

    last_s = 0.0
    for stage in plan.stages:
        for site in plan.sites_of(stage):
            if stage.kind is StageKind.COMBINE:
                found_s = arrive_s(stage, site)
                gathered_s[stage.id, site] = found_s + HOP_S if found_s else 0.0
            elif stage.kind is StageKind.MERGE:
                last_s = max(last_s, arrive_s(stage, site))
    return last_s


def _way_s(source: str, target: str, size_bytes: float, links: Links) -> float:
    if source == target:
        return 0.0
    figures = links.get((source, target))
    if figures is None or figures.available_bytes_per_s <= 0:
        return math.inf
    return figures.latency.total_seconds() + size_bytes / figures.available_bytes_per_s


def merge_sites(plan: PhysicalPlan) -> frozenset[str]:
    """Where the tasks of a plan's merges are."""
    merges = (stage for stage in plan.stages if stage.kind is StageKind.MERGE)
    return frozenset(site for stage in merges for site in plan.sites_of(stage))


def joining(plan: PhysicalPlan, at: str, merge: str, links: Links) -> tuple[str, ...]:
    """The sites that send to the merge, and have a link to another site that costs less by the byte."""
    read = {item.stage for stage in plan.stages if stage.kind is StageKind.MERGE for item in stage.inputs}
    senders = {
        site for stage in plan.stages if stage.id in read and stage.kind is StageKind.COMBINE for site in stage.pinned
    }
    return tuple(
        site for site in sorted(senders - {at, merge}) if _by_byte(site, at, links) < _by_byte(site, merge, links)
    )


def _by_byte(source: str, target: str, links: Links) -> float:
    figures = links.get((source, target))
    return math.inf if figures is None else link_cost(LinkTraffic(source, target, 1.0, 1.0), figures)


def saves(one: TreePlan, other: TreePlan) -> str:
    """What a tree saves against another one; empty: too little."""
    if one.obstacle:
        return ""
    if other.obstacle:
        return f"without it, {other.obstacle}"
    if merge_sites(one.plan) != merge_sites(other.plan):
        return ""
    cost, time = _saving(one.cost, other.cost), _saving(one.closing_s, other.closing_s)
    if cost >= LEAST_SAVING and one.closing_s <= other.closing_s + MOST_LATER_S:
        return f"{cost:.0%} less cost"
    if time >= LEAST_SAVING and one.cost <= other.cost:
        return f"groups are at the merge in {time:.0%} less time"
    return ""


def why_not(one: TreePlan, other: TreePlan) -> str:
    """Why a tree that does not save was turned down for the other."""
    if one.obstacle:
        return one.obstacle
    moved = merge_sites(one.plan) - merge_sites(other.plan)
    if moved:
        return f"the merge would move to {', '.join(sorted(moved))}"
    cost, time = _saving(one.cost, other.cost), _saving(one.closing_s, other.closing_s)
    if cost >= LEAST_SAVING:
        return f"{cost:.0%} less cost, but windows would close {one.closing_s - other.closing_s:.2f} s later"
    if time >= LEAST_SAVING:
        return f"{time:.0%} less time to the merge, but {-cost:.0%} more cost"
    return f"{max(0.0, cost):.0%} less cost, where {LEAST_SAVING:.0%} are wanted"


def candidate(one: TreePlan, reason: str, *, chosen: bool) -> TreeCandidate:
    """A tree that was weighed, for EXPLAIN."""
    return TreeCandidate(str(one.tree), one.cost, one.closing_s, chosen, reason)


def best(found: Sequence[TreePlan]) -> TreePlan:
    """Of trees that save the one with the least cost; ties go to the faster, then to the first by name."""
    return min(found, key=lambda one: (one.cost, one.closing_s, str(one.tree)))


def _saving(one: float, other: float) -> float:
    return 1 - one / other if other else 0.0
