"""Figure 5.9: two queries that share the operator over two of their four sources, when a link out of it is halved.

Free choices: Q1 brought the operator, which holds the state of both, because what is shared is one task with one state;
all other operators hold their own query's. Results are put together where they are read, at two data centres: a merge
that may move would be moved, and nothing had to be kept or split. A link that is halved carries so much that 0.7 of it
is used before. A new task of a query has its windows whole after two minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from planner.adapt.model import Graph, Group, Node, Role, Settings
from planner.adapt.options import Action
from planner.adapt.situation import Decision, Verdict
from planner.graph.ids import TaskId
from planner.values.links import Pair
from simulator.nako.many import Outcome, Play, Query, run
from simulator.nako.scenes import RATE, ROW_BYTES, SOURCE
from simulator.wasp.fluid import Load
from simulator.wasp.world import CENTRES, EDGES, Factor, World, alike, phases

QUERIES = ("Q1", "Q2")
BOTH = "both"
SHARED: Group = ("Q1", "c0")
WINDOW_S = 120.0
USED = 0.7
HALVED_AT_S = 300.0
SECONDS = 600.0
OFTEN = replace(SOURCE, horizon_s=30.0)
"""A query counts as adapted every 30 s, not every five minutes."""
STATES_MB = (0, 30, 90)
MB = 1e6
KEPT_BY_SOURCE = frozenset({(0, 0), (0, 30), (30, 0), (90, 90)})
"""States of Q1 and Q2, in MB, with which the source goes on sharing; with others it splits one off."""


def split_by_source(states_mb: tuple[int, int]) -> str:
    """Return what the source does: "keep", or the query that it splits off, which is the one of less state.

    Of two with as much state, it does not say which.
    """
    if states_mb in KEPT_BY_SOURCE:
        return "keep"
    if states_mb[0] == states_mb[1]:
        return "split"
    return "split Q1" if states_mb[0] < states_mb[1] else "split Q2"


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome for the two queries in one world."""

    answer: str
    """As of `split_by_source`; "none": nothing was done about the operator."""
    mean_s: float
    """The delay of both, once the link is halved."""
    more: float
    """Bytes on links in the last hundred seconds over those before."""


def shared(seed: int, states_mb: tuple[int, int], halved: tuple[str, ...], settings: Settings) -> Found:
    """Return what becomes of the queries when the links to the merges of these are halved."""
    found = run(_play(seed, states_mb, halved, settings))
    first = next(iter(_about(found)), None)
    before, after = found.bytes_per_s(BOTH, HALVED_AT_S / 2, HALVED_AT_S), found.bytes_per_s(BOTH, SECONDS - 100)
    return Found(_answer(first), found.over_all(found.mean_s), after / before)


def _about(found: Outcome) -> Iterator[Decision]:
    """Yield the actions upon the shared operator."""
    for decision in (one for decisions in found.rounds for one in decisions):
        option = decision.chosen
        if decision.verdict is not Verdict.ACT or option is None:
            continue
        if option.shared == SHARED or any(change.group == SHARED for change in option.changes):
            yield decision


def _answer(decision: Decision | None) -> str:
    if decision is None or decision.chosen is None:
        return "none"
    if decision.chosen.action is not Action.SPLIT:
        return "keep"
    return f"split {decision.query}"


def _play(seed: int, states_mb: tuple[int, int], halved: tuple[str, ...], settings: Settings) -> Play:
    rng = Random(seed)
    world = World.drawn(rng)
    hub, *homes = rng.sample(CENTRES, 3)
    own = rng.sample([site for site in CENTRES if site not in {hub, *homes}], 2)
    sites = dict(zip(QUERIES, zip(homes, own, strict=True), strict=True))
    edges = rng.sample(EDGES, 6)
    sent = 2 * RATE * ROW_BYTES * Load("", 0).selectivity
    links: dict[Pair, Factor] = dict(alike(phases(1, each_s=HALVED_AT_S)))
    capacity = dict(world.capacity)
    for query, home in zip(QUERIES, homes, strict=True):
        if query in halved:
            capacity[hub, home] = sent / USED
            links[hub, home] = phases(1, 0.5, each_s=HALVED_AT_S)
    world = replace(world, capacity=capacity, slots={**world.slots, **dict.fromkeys(EDGES, 0)})
    loads = _loads(states_mb)
    both = Query(_graph(edges, hub, sites), loads[SHARED], dict.fromkeys(edges, RATE), loads)
    rates = dict.fromkeys(EDGES, phases(1, each_s=HALVED_AT_S))
    return Play((both,), world, rates, links, SECONDS, HALVED_AT_S, settings, shadow=False)


def _loads(states_mb: tuple[int, int]) -> Mapping[Group, Load]:
    loads = {SHARED: Load(BOTH, sum(states_mb) * MB, row_bytes=ROW_BYTES)}
    for query, state_mb in zip(QUERIES, states_mb, strict=True):
        loads[query, "c1"] = Load(query, state_mb * MB, row_bytes=ROW_BYTES)
    return loads


def _graph(edges: list[str], hub: str, sites: Mapping[str, tuple[str, str]]) -> Graph:
    """Return the operator over two sources, and for each query one over two of its own, and where both meet."""
    nodes = [Node(TaskId("Q1", f"s{n}"), Role.SOURCE, edges[n]) for n in range(2)]
    inputs = tuple(node.id for node in nodes)
    common = Node(TaskId(*SHARED), Role.OPERATOR, hub, inputs, late_s=WINDOW_S)
    nodes.append(common)
    for number, (query, (home, own)) in enumerate(sites.items(), start=1):
        first = [Node(TaskId(query, f"s{n}"), Role.SOURCE, edges[n]) for n in (2 * number, 2 * number + 1)]
        second = Node(TaskId(query, "c1"), Role.OPERATOR, own, tuple(node.id for node in first), late_s=WINDOW_S)
        nodes += [*first, second, Node(TaskId(query, "sink"), Role.SINK, home, (common.id, second.id))]
    return Graph(BOTH, tuple(nodes))
