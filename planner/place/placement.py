"""Where the stages of a query run: a simple, documented rule.

- SOURCE runs at every site of the stream that was not pruned, TABLE at the table's sites, COMBINE where the tree says
  (`planner.place.trees`).
- MERGE runs at the one alive site that makes the fewest bytes cross the WAN per second: the partials of all other
  source sites to it, plus the results from it to the gateway.
- Of a MERGE in parts, that site has the FINAL. Its parts are given out one by one, each to the best site by the same
  rules: a share of the partials to it, a share of the groups from it to the FINAL, or else to the gateway, beside what
  the parts before put on the links. A site that has as many parts of the stage as slots gets another one only when all
  have.
- MERGEs of pairs that another MERGE reads are where that is; each part of one where the reader's part of its number is.
- A site is infeasible when a link would get more than it has available, or is missing; an infeasible site is taken
  only when all are.
- A draining site takes no stage: a query that needs one there is refused.
- Ties (to a thousandth of a byte per second) go to the lower cost, then to the gateway, then to the first by name.

Cost of a candidate, after Hourglass' network usage: the sum over its links of rate * latency^2 / capacity
(bytes/s * s^2 / (bytes/s), that is s^2): traffic weighs more on slow and on far links.

Capacity and what of it is available are as measured, else the topology file's bandwidth (`planner.wan.figures`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from planner.estimate.rates import Estimate, Flow, MergeFlows, estimate_flows
from planner.graph.ids import VertexId
from planner.graph.plan import (
    Destination,
    DraftPlan,
    LinkTraffic,
    PhysicalPlan,
    PlacementCandidate,
    Stage,
    Statistics,
)
from planner.text.logical import logical_lines
from planner.values.errors import PlacementError
from planner.values.links import LinkFigures, Pair
from planner.values.stages import StageKind
from planner.values.topology import Topology
from planner.wan.figures import link_figures
from planner.wan.snapshot import WanSnapshot

BYTES_DIGITS = 3
COST_DIGITS = 9

DRAINING = "it is draining, and gets no new work"
SETTLED = "the sharing mode has it there"


@dataclass(frozen=True, slots=True)
class _Option:
    """One site for the merge, with what its links would carry."""

    site: str
    flows: Mapping[Pair, Flow]
    wan_bytes_per_s: float
    cost: float
    obstacle: str
    """Why it is infeasible; empty when it is not."""


@dataclass(frozen=True, slots=True)
class _Load:
    """What a merge, or a part of one, receives and sends."""

    sources: Mapping[str, Flow]
    """By site."""
    out: Flow
    target: str
    """Where that goes."""


@dataclass(frozen=True, slots=True)
class _World:
    """What placement knows of sites and links."""

    destination: Destination
    sites: frozenset[str]
    """Those that are alive."""
    draining: frozenset[str]
    """Those where no merge may begin."""
    slots: Mapping[str, int]
    """Of each site of the topology."""
    links: Mapping[Pair, LinkFigures]
    settled: Mapping[VertexId, str]
    """Sites that were chosen otherwise."""

    def taken(self, vertex: VertexId, options: Sequence[_Option], best: _Option) -> _Option:
        """The option of the site that was settled for a vertex, else the best one."""
        site = self.settled.get(vertex)
        return next((option for option in options if option.site == site), best)


def place(  # noqa: PLR0913 - all that decides where stages run
    draft: DraftPlan,
    topology: Topology,
    statistics: Statistics,
    *,
    alive: frozenset[str],
    wan: WanSnapshot | None = None,
    settled: Mapping[VertexId, str] = MappingProxyType({}),
) -> PhysicalPlan:
    """The plan with a site for every stage, the links it uses and the candidates that were weighed.

    Args:
        draft: a query in stages.
        topology: all sites and links.
        statistics: rates of streams by site, as far as measured.
        alive: sites that can take tasks now.
        wan: what the monitor knows of the links now; None: nothing was measured.
        settled: sites that were chosen otherwise, as for what queries share, of vertices that are not pinned.

    Raises:
        PlacementError: a site that is needed is not in the topology, not alive, or draining.
    """
    for stage in draft.stages:
        for site in stage.pinned:
            check_site(site, topology, alive, _why_needed(stage))
    destination = checked_destination(draft, topology, alive)
    alive = alive & set(topology.sites)
    slots = {name: site.slots for name, site in topology.sites.items()}
    world = _World(destination, alive, topology.draining, slots, link_figures(topology, wan), settled)
    placed = _Placed()
    for estimate in estimate_flows(draft, statistics):
        placed = _with(placed, estimate, world)
    return _plan(draft, world, placed)


@dataclass(frozen=True, slots=True)
class _Placed:
    """What is decided so far: one result stage after the other, each beside the traffic of those before it."""

    flows: Mapping[Pair, Flow] = field(default_factory=dict)
    sites: Mapping[VertexId, str] = field(default_factory=dict)
    """Of what is not pinned."""
    candidates: tuple[PlacementCandidate, ...] = ()
    weighed: frozenset[Pair] = frozenset()
    """Links that a candidate would use."""


def _with(placed: _Placed, estimate: Estimate, world: _World) -> _Placed:
    gateway = world.destination.site
    placed = replace(placed, flows=_sum(placed.flows, estimate.between))
    if estimate.results is None:
        return replace(placed, flows=_sum(placed.flows, _to_gateway(estimate, gateway)))
    whole = _Load(estimate.sources, estimate.results, gateway)
    options = [_option(site, whole, world, placed.flows) for site in sorted(world.sites)]
    # The gateway is one of them.
    able = [option for option in options if option.site not in world.draining]
    best = min(able, key=lambda option: _order(option, gateway))
    chosen = world.taken(VertexId(estimate.stage), options, best)
    weighed = replace(
        placed,
        sites={**placed.sites, VertexId(estimate.stage): chosen.site},
        candidates=(
            *placed.candidates,
            *(replace(_candidate(o, chosen, best, world), stage=estimate.stage) for o in options),
        ),
        weighed=placed.weighed.union(*(o.flows for o in options)),
    )
    if all(merge.parts == 1 and merge.stage == estimate.stage for merge in estimate.merges):
        return _with_pairs(replace(weighed, flows=_sum(placed.flows, chosen.flows)), estimate, chosen.site, world)
    target = gateway
    if all(merge.stage != estimate.stage for merge in estimate.merges):
        target = chosen.site
        results = {(target, gateway): estimate.results} if target != gateway else {}
        weighed = replace(weighed, flows=_sum(weighed.flows, results))
    for merge in estimate.merges:
        weighed = _with_parts(weighed, merge, world, target)
    return _with_pairs(weighed, estimate, chosen.site, world)


def _with_pairs(placed: _Placed, estimate: Estimate, site: str, world: _World) -> _Placed:
    """With the MERGEs of pairs beside those that read them, else at `site`."""
    near = {vertex.partition: at for vertex, at in placed.sites.items() if vertex.stage == estimate.merges[0].stage}
    own = (VertexId(merge.stage, number) for merge in estimate.paired for number in range(merge.parts))
    sites = {vertex: world.settled.get(vertex, near.get(vertex.partition, site)) for vertex in own}
    return replace(placed, sites={**placed.sites, **sites})


def _with_parts(placed: _Placed, merge: MergeFlows, world: _World, target: str) -> _Placed:
    """With a site for each part of a MERGE, whose groups go to `target`."""
    load = _Load(
        {site: _share(flow, merge.parts) for site, flow in merge.sources.items()},
        _share(merge.out, merge.parts),
        target,
    )
    given: Counter[str] = Counter()
    for number in range(merge.parts):
        options = [_option(site, load, world, placed.flows) for site in sorted(world.sites - world.draining)]
        best = min(options, key=lambda o: _order_of_part(o, target, full=given[o.site] >= world.slots[o.site]))
        chosen = world.taken(VertexId(merge.stage, number), options, best)
        given[chosen.site] += 1
        placed = replace(
            placed,
            flows=_sum(placed.flows, chosen.flows),
            sites={**placed.sites, VertexId(merge.stage, number): chosen.site},
            weighed=placed.weighed.union(*(o.flows for o in options)),
        )
    return placed


def _share(flow: Flow, parts: int) -> Flow:
    return Flow(flow.rows_per_s / parts, flow.bytes_per_s / parts)


def _sum(first: Mapping[Pair, Flow], second: Mapping[Pair, Flow]) -> dict[Pair, Flow]:
    total = dict(first)
    for link, flow in second.items():
        total[link] = total.get(link, Flow(0.0, 0.0)) + flow
    return total


def check_site(site: str, topology: Topology, alive: frozenset[str], reason: Pair) -> None:
    """Refuse a plan for which the site can take no task.

    Args:
        site: the site.
        topology: all sites.
        alive: those that can take tasks now.
        reason: why the site is needed, and what helps when it is not alive.

    Raises:
        PlacementError
    """
    why, help_ = reason
    known = topology.sites.get(site)
    if known is None:
        obstacle, hint = "the topology has no such site", f"The topology has {', '.join(sorted(topology.sites))}."
    elif known.draining:
        obstacle, hint = "it is draining", f"End that with: selat site undrain {site}."
    elif site not in alive:
        obstacle, hint = "it is not alive", help_
    else:
        return
    raise PlacementError(f"site {site} is needed ({why}), but {obstacle}", found=site, hint=hint, ids={"site": site})


def _why_needed(stage: Stage) -> Pair:
    """Why a site of a stage is needed, and what helps when it is not alive."""
    if stage.kind is StageKind.COMBINE:
        return "groups of other sites go over it", "Start its agent or choose another combine_tree."
    leave_out = " or leave it out in WHERE, by conditions on site" if stage.kind is StageKind.SOURCE else ""
    return f"{stage.relation} is bound there", f"Start its agent{leave_out}."


def checked_destination(draft: DraftPlan, topology: Topology, alive: frozenset[str]) -> Destination:
    """Where the query's results are wanted: in its sink, else at the gateway.

    Raises:
        PlacementError: that site is not in the topology, not alive, or draining.
    """
    sink = next((stage for stage in draft.stages if stage.kind is StageKind.SINK), None)
    found = Destination(topology.gateway) if sink is None else Destination(sink.pinned[0], sink.relation)
    why = "it is the gateway, which keeps the results" if sink is None else f"sink {sink.relation} is there"
    check_site(found.site, topology, alive, (why, "Start its agent."))
    return found


def _to_gateway(estimate: Estimate, gateway: str) -> dict[Pair, Flow]:
    return {(site, gateway): flow for site, flow in sorted(estimate.sources.items()) if site != gateway}


def _option(site: str, load: _Load, world: _World, before: Mapping[Pair, Flow]) -> _Option:
    """The merge at that site; `before` is what other parts of the plan send."""
    flows = {(source, site): flow for source, flow in sorted(load.sources.items()) if source != site}
    if site != load.target:
        flows = _sum(flows, {(site, load.target): load.out})
    links = _links(flows)
    together = _sum({link: flow for link, flow in before.items() if link in flows}, flows)
    obstacles = [text for link in _links(together) if (text := link_obstacle(link, world.links))]
    return _Option(
        site=site,
        flows=flows,
        wan_bytes_per_s=sum(link.bytes_per_s for link in links),
        cost=sum(link_cost(link, world.links.get(link.pair)) for link in links),
        obstacle=obstacles[0] if obstacles else "",
    )


def _links(flows: Mapping[Pair, Flow]) -> tuple[LinkTraffic, ...]:
    return tuple(LinkTraffic(*pair, flow.rows_per_s, flow.bytes_per_s) for pair, flow in flows.items())


def link_obstacle(traffic: LinkTraffic, links: Mapping[Pair, LinkFigures]) -> str:
    """Why a link does not carry what it would get; empty when it does."""
    figures = links.get(traffic.pair)
    if figures is None:
        return f"there is no link from {traffic.source} to {traffic.target}"
    if traffic.bytes_per_s > figures.capacity_bytes_per_s:
        return f"the link from {traffic.source} to {traffic.target} is too narrow"
    if traffic.bytes_per_s > figures.available_bytes_per_s:
        return f"other queries leave too little of the link from {traffic.source} to {traffic.target}"
    return ""


def link_cost(traffic: LinkTraffic, figures: LinkFigures | None) -> float:
    """What traffic on a link costs, in s^2; 0 where there is no link."""
    if figures is None:
        return 0.0
    if not figures.capacity_bytes_per_s:
        return float("inf")
    return traffic.bytes_per_s * figures.latency.total_seconds() ** 2 / figures.capacity_bytes_per_s


def _order(option: _Option, gateway: str) -> tuple[bool, float, float, bool, str]:
    wan, cost = round(option.wan_bytes_per_s, BYTES_DIGITS), round(option.cost, COST_DIGITS)
    return bool(option.obstacle), wan, cost, option.site != gateway, option.site


def _order_of_part(option: _Option, target: str, *, full: bool) -> tuple[bool, bool, float, float, bool, str]:
    """`full`: the site has as many parts as slots."""
    obstacle, wan, cost, away, site = _order(option, target)
    return obstacle, full, wan, cost, away, site


def _candidate(option: _Option, chosen: _Option, best: _Option, world: _World) -> PlacementCandidate:
    return PlacementCandidate(
        site=option.site,
        wan_bytes_per_s=option.wan_bytes_per_s,
        cost=option.cost,
        chosen=option is chosen,
        reason=DRAINING if option.site in world.draining else _why(option, chosen, best, world.destination.site),
    )


def _why(option: _Option, chosen: _Option, best: _Option, gateway: str) -> str:
    """Return why an option was chosen or turned down, if that was not for its cost alone."""
    if chosen is best:
        return _reason(option, best, gateway)
    if option is chosen:
        return f"{SETTLED}, although {_reason(option, best, gateway)}"
    return "fewest bytes over the WAN, if nothing were shared" if option is best else _reason(option, best, gateway)


def _reason(option: _Option, chosen: _Option, gateway: str) -> str:
    """Why it was chosen or turned down: the first part of the order in which they differ."""
    if option is chosen:
        return (
            f"fewest bytes over the WAN, although {option.obstacle}" if option.obstacle else "fewest bytes over the WAN"
        )
    own, best = _order(option, gateway), _order(chosen, gateway)
    first = next(index for index, pair in enumerate(zip(own, best, strict=True)) if pair[0] != pair[1])
    more = option.wan_bytes_per_s - chosen.wan_bytes_per_s
    reasons: Sequence[str] = (
        option.obstacle,
        f"{more:.0f} bytes/s more over the WAN",
        "as many bytes, over slower or farther links",
        "as good, but the other is the gateway",
        "as good, but later by name",
    )
    return reasons[first]


def _plan(draft: DraftPlan, world: _World, placed: _Placed) -> PhysicalPlan:
    used = placed.weighed.union(placed.flows)
    return PhysicalPlan(
        stages=draft.stages,
        result_stage=draft.result_stage,
        more_results=draft.more_results,
        destination=world.destination,
        columns=draft.columns,
        sites=placed.sites,
        links=_links(placed.flows),
        candidates=placed.candidates,
        logical=logical_lines(draft.logical, draft.notes),
        functions=draft.functions,
        figures=tuple(world.links[pair] for pair in sorted(used) if pair in world.links),
    )
