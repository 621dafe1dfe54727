"""Several queries as fluids over the same links and slots, and the loop of adaptation over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import mean

from planner.adapt.model import Graph, Group, Role, Settings
from planner.adapt.situation import Decision
from planner.values.links import Pair
from simulator.wasp.fluid import STEP_S, Flow, Load, carry
from simulator.wasp.loop import Act, Loop
from simulator.wasp.world import Factor, World

TOLERANCE_S = STEP_S
"""So much above the mean without a bottleneck, a delay is still that of no bottleneck: a step of time."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query where it begins, or several that share operators."""

    graph: Graph
    load: Load
    rates: Mapping[str, float]
    """Rows per second that its sources send, by site, before any change."""
    loads: Mapping[Group, Load] = field(default_factory=dict)
    """The loads of operators that are unlike the others."""


@dataclass(frozen=True, slots=True)
class Play:
    """A run: queries, the world and its changes, and the settings of the planner."""

    queries: tuple[Query, ...]
    world: World
    rates: Mapping[str, Factor]
    """By site."""
    links: Mapping[Pair, Factor]
    seconds: float
    calm_s: float
    """Until then nothing is a bottleneck; the first half of it is left out of means."""
    settings: Settings | None
    """None: nothing is done."""
    shadow: bool = True
    """A task that moves goes on until the new one takes over; False: it stands still meanwhile."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A play in figures."""

    delays_s: Mapping[str, tuple[float, ...]]
    """The delay of each query, every half second."""
    calm_s: float
    crossed_bytes: Mapping[str, tuple[float, ...]]
    """The bytes of each flow that have crossed links so far, every half second."""
    acts: tuple[Act, ...]
    slow: Mapping[str, float]
    """The time at which each slow query was first seen to be slow."""
    rounds: tuple[tuple[Decision, ...], ...]
    """The decisions of each look."""

    @property
    def adapted(self) -> frozenset[str]:
        """Return the queries that something was done about."""
        return frozenset(act.query for act in self.acts)

    def usual_s(self, query: str) -> float:
        """Return a query's mean delay while nothing is a bottleneck."""
        return mean(self.delays_s[query][int(self.calm_s / 2 / STEP_S) : int(self.calm_s / STEP_S)])

    def mean_s(self, query: str) -> float:
        """Return a query's mean delay once that is over."""
        return mean(self.delays_s[query][int(self.calm_s / STEP_S) :])

    def constrained_s(self, query: str) -> float:
        """Return how long a query's delay was above its usual one."""
        most_s = self.usual_s(query) + TOLERANCE_S
        return STEP_S * sum(delay_s > most_s for delay_s in self.delays_s[query])

    def over_all(self, figure: Callable[[str], float]) -> float:
        """Return the mean of a figure over the queries."""
        return mean(figure(query) for query in self.delays_s)

    def bytes_per_s(self, flow: str, from_s: float, to_s: float | None = None) -> float:
        """Return what a flow sends over links, on average between two seconds; without the second one, to the end."""
        totals, first = self.crossed_bytes[flow], int(from_s / STEP_S)
        last = len(totals) - 1 if to_s is None else int(to_s / STEP_S) - 1
        return (totals[last] - totals[first]) / ((last - first) * STEP_S)


def run(play: Play) -> Outcome:
    """Return what becomes of the queries. Deterministic."""
    flows = [Flow(query.graph, query.load, query.loads) for query in play.queries]
    loop = Loop(play.settings or Settings(), play.shadow)
    delays_s: dict[str, list[float]] = {}
    crossed: dict[str, list[float]] = {flow.graph.query: [] for flow in flows}
    for step in range(int(play.seconds / STEP_S)):
        at_s = step * STEP_S
        links = play.world.links(play.links, at_s)
        factors = {site: factor(at_s) for site, factor in play.rates.items()}
        loop.finish(flows)
        for flow, query in zip(flows, play.queries, strict=True):
            flow.work({site: rate * factors[site] for site, rate in query.rates.items()}, loop.paused)
        carry(flows, links)
        for flow, query in zip(flows, play.queries, strict=True):
            rates = {site: rate * factors[site] for site, rate in query.rates.items()}
            until = flow.delays_s(links, rates)
            for node in flow.graph.nodes:
                if node.role is Role.SINK:
                    delays_s.setdefault(node.id.query, []).append(until[node.id])
            crossed[flow.graph.query].append(flow.crossed_bytes)
        if play.settings is not None and flows[0].at_s % play.settings.interval_s < STEP_S:
            loop.look(flows, links, play.world.slots)
    return Outcome(
        {query: tuple(found) for query, found in delays_s.items()},
        play.calm_s,
        {name: tuple(totals) for name, totals in crossed.items()},
        tuple(loop.acts),
        loop.slow,
        tuple(loop.rounds),
    )
