"""The workloads of figures 5.6 to 5.8: eight queries of table 5.1, each over four of eight edges.

Free choices, for the source does not say: rows are 200 bytes, and as many are born at each edge; a query is two
operators that take two sources each, and a merge where its results are read, at a drawn data centre; sources hold the
slots of the edges, so operators are at data centres; a query sends 95 to 105 % of the rows, drawn. States are so many
seconds of the mean link between data centres, half of which the planner gives a state that moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from planner.adapt.assign import Demand, assign, flows_of, overload
from planner.adapt.model import Links, Settings
from planner.values.links import Pair
from simulator.nako.many import Play, Query
from simulator.wasp.fluid import Load, query
from simulator.wasp.world import BYTES_PER_MBIT, CENTRES, EDGES, SITES, Factor, World, alike, phases

ROW_BYTES = 200.0
DRIFT_ROW_BYTES = 400.0
"""The size of rows for figure 5.8: with 200 bytes, one or two queries are slow at all."""
RATE = 12_000.0 / len(EDGES)
"""Rows per second of an edge: 12,000 in all, as in the source."""
STATES_S: Mapping[str, float] = {"Q1": 7, "Q2": 0, "Q3": 9, "Q4": 10, "Q5": 13, "Q6": 3, "Q7": 6, "Q8": 8}
"""Seconds that the state of an operator takes to send; those of Q1, Q2, Q5 and Q7 are the source's."""
SENT_BYTES_PER_S = (15 + 250) / 2 * BYTES_PER_MBIT * Settings().seed_share
SOURCE = replace(Settings(), interval_s=30.0, link_share=0.8, prepare_s=0.0)
"""As in the source: looks every 30 s, 0.8 of a link, and nothing is done before a task stands still."""
OURS = replace(SOURCE, prepare_s=Settings().prepare_s)
"""With the time that a shadow takes to start; all else is the same."""
NAMED = ("Q1", "Q2", "Q5", "Q7")
"""The queries that the source says were slow."""
OVERLOAD = 1.15
"""The bytes that the queries of a narrow link need of it after the step, over those that it carries."""
STEP = 1.25
STEP_AT_S = 120.0
STEP_RUN_S = 600.0
DRIFT_CALM_S = 120.0
DRIFT_RUN_S = 1800.0
DRIFT_S = (120.0, 300.0)
"""Between two changes of a link or a source."""


@dataclass(slots=True)
class _Deployment:
    """The slots and links that are taken so far, while queries are placed one by one."""

    world: World
    factor: float
    """Links are to have room for so many times the rate."""
    row_bytes: float = ROW_BYTES
    state_factor: float = 1.0
    slots: dict[str, int] = field(init=False)
    left: dict[Pair, float] = field(init=False)

    def __post_init__(self) -> None:
        self.slots, self.left = dict(self.world.slots), dict(self.world.capacity)

    def home(self, rng: Random) -> str:
        """Return a drawn data centre with slots for a merge and results."""
        site = rng.choice([site for site in CENTRES if self.slots[site] >= 2])
        self.slots[site] -= 2
        return site

    def operator(self, sources: Sequence[str], rate: float, home: str, at: str | None = None) -> str:
        """Return the site of an operator of these sources: the given one, or the best that has room."""
        bytes_per_s = rate * self.row_bytes * self.factor
        demand = Demand(
            dict.fromkeys(sources, bytes_per_s), {home: bytes_per_s * len(sources) * Load("", 0).selectivity}
        )
        links = Links(self.left, self.world.latency_s)
        sites = {at: 1} if at else assign(demand, 1, self.slots, links, share=SOURCE.link_share)
        if sites is None:
            free = (site for site in CENTRES if self.slots[site])
            sites = {min(free, key=lambda site: overload(demand, {site: 1}, links)): 1}
        (site,) = sites
        self.slots[site] -= 1
        for pair, rate_of_pair in flows_of(demand, sites).items():
            self.left[pair] -= rate_of_pair / SOURCE.link_share
        return site


def stepped(seed: int, settings: Settings | None, *, shadow: bool, state_factor: float = 1.0) -> Play:
    """Return the play of figures 5.6 and 5.7: rates grow by a quarter, and two links are too narrow for three queries.

    Which six of the queries are behind the links, and which of the links, is drawn; those that the source names are.
    States are `state_factor` times as large as `STATES_S` has them.
    """
    rng = Random(seed)
    deployment = _Deployment(_drawn(rng), STEP, state_factor=state_factor)
    narrow = list(zip(rng.sample(EDGES, 2), rng.sample(CENTRES, 2), strict=True))
    slow = [*NAMED, *rng.sample([name for name in STATES_S if name not in NAMED], 2)]
    rng.shuffle(slow)
    groups = [(link, slow[3 * n : 3 * n + 3]) for n, link in enumerate(narrow)]
    others = [edge for edge in EDGES if edge not in {edge for edge, _ in narrow}]
    queries = []
    capacity = dict(deployment.world.capacity)
    for (edge, hub), names in groups:
        # No other link to the hub is behind two of them.
        beside = rng.sample(others, len(names))
        members = []
        for name, one in zip(names, beside, strict=True):
            rest = rng.sample([other for other in others if other != one], 2)
            members.append(_query(name, [edge, one, *rest], rng, deployment, at=hub))
        capacity[edge, hub] = sum(one.rates[edge] for one in members) * ROW_BYTES * STEP / OVERLOAD
        queries += members
    queries += [_query(name, rng.sample(others, 4), rng, deployment) for name in STATES_S if name not in slow]
    return Play(
        tuple(sorted(queries, key=lambda one: one.graph.query)),
        replace(deployment.world, capacity=capacity),
        dict.fromkeys(EDGES, phases(1, STEP, each_s=STEP_AT_S)),
        alike(phases(1, each_s=STEP_AT_S)),
        STEP_RUN_S,
        STEP_AT_S,
        settings,
        shadow,
    )


def drifting(seed: int, settings: Settings | None, *, shadow: bool) -> Play:
    """Return the play of figure 5.8: every 2 to 5 min each link has 0.7 to 0.9, each source 1 to 1.2 of what it had."""
    rng = Random(seed)
    deployment = _Deployment(_drawn(rng), 1.0, DRIFT_ROW_BYTES)
    queries = tuple(_query(name, rng.sample(EDGES, 4), rng, deployment) for name in STATES_S)
    links = {(a, b): _drifting(rng, 0.7, 0.9) for a in SITES for b in SITES if a != b}
    rates = {edge: _drifting(rng, 1.0, 1.2) for edge in EDGES}
    return Play(queries, deployment.world, rates, links, DRIFT_RUN_S, DRIFT_CALM_S, settings, shadow)


def _drawn(rng: Random) -> World:
    world = World.drawn(rng)
    return replace(world, slots={**world.slots, **dict.fromkeys(EDGES, 0)})


def _query(name: str, sources: Sequence[str], rng: Random, deployment: _Deployment, at: str | None = None) -> Query:
    load = Load(name, STATES_S[name] * SENT_BYTES_PER_S * deployment.state_factor, row_bytes=deployment.row_bytes)
    rate, home = RATE * rng.uniform(0.95, 1.05), deployment.home(rng)
    near = [deployment.operator(sources[:2], rate, home, at), deployment.operator(sources[2:], rate, home)]
    return Query(query(load, sources, near, home), load, dict.fromkeys(sources, rate))


def _drifting(rng: Random, low: float, high: float) -> Factor:
    """Return a value that is one while all is calm, and then changes every few minutes to any between the two."""
    since, values, at_s = [0.0], [1.0], DRIFT_CALM_S
    while at_s < DRIFT_RUN_S:
        since.append(at_s)
        values.append(rng.uniform(low, high))
        at_s += rng.uniform(*DRIFT_S)
    return lambda now_s: next(
        value for start, value in zip(reversed(since), reversed(values), strict=True) if start <= now_s
    )
