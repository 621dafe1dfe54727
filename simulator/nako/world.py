"""Draws small worlds in which a link is cut that several queries need, as agents would report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from planner.adapt.model import (
    ChannelSeen,
    Counters,
    Edge,
    Graph,
    Links,
    Node,
    Phase,
    Role,
    Seen,
    TaskSeen,
)
from planner.adapt.situation import Situation
from planner.graph.ids import TaskId
from planner.values.links import Pair

HUB = "hub"
SITES = ("a", "b", HUB, "far")
CUT: Pair = ("a", HUB)
ROW_BYTES = 100.0
_START = datetime(2026, 11, 1, tzinfo=UTC)
_RUNS_S = 600.0
_SPAN_S = 20.0


@dataclass(frozen=True, slots=True)
class Load:
    """A query of sources at a and b, whose merge is at the hub, where its results are read."""

    query: str
    rates: Mapping[str, float]
    """Rows per second that are born, by site."""
    selectivity: float
    """Rows out of the merge, for a row in."""
    state_bytes: int

    @property
    def merge(self) -> TaskId:
        return TaskId(self.query, "m1")

    def source(self, site: str) -> TaskId:
        return TaskId(self.query, "s1", sorted(self.rates).index(site))

    @property
    def results(self) -> TaskId:
        return TaskId(self.query, "results")

    @property
    def graph(self) -> Graph:
        sources = tuple(Node(self.source(site), Role.SOURCE, site) for site in sorted(self.rates))
        merge = Node(self.merge, Role.OPERATOR, HUB, tuple(node.id for node in sources), combined=True, partials=True)
        return Graph(self.query, (*sources, merge, Node(self.results, Role.SINK, HUB, (self.merge,))))


@dataclass(frozen=True, slots=True)
class World:
    loads: tuple[Load, ...]
    links: Links
    slots: Mapping[str, int]
    """The free ones, by site."""

    @property
    def situation(self) -> Situation:
        """Return the queries twenty seconds after the cut, and twenty seconds later."""
        whole = sum(load.rates["a"] for load in self.loads) * ROW_BYTES
        part = min(1.0, self.links.capacity[CUT] / whole)
        before, after = (self._seen(at_s, part) for at_s in (_RUNS_S, _RUNS_S + _SPAN_S))
        return Situation(tuple(load.graph for load in self.loads), before, after, self.links, self.slots)

    def _seen(self, at_s: float, part: float) -> Seen:
        at = _START + timedelta(seconds=at_s)
        counters: dict[TaskId, Counters] = {}
        channels: dict[Edge, ChannelSeen] = {}
        for load in self.loads:
            taken = 0
            for site, rate in load.rates.items():
                rows = int(rate * at_s)
                counters[load.source(site)] = Counters(
                    at_s, rows, rows, int(rows * ROW_BYTES), at_s * 0.2, 0.0, 0.0, 0.0, 0
                )
                lost = rate * (1 - part) * (at_s - _RUNS_S + _SPAN_S) if site == CUT[0] else 0.0
                stored = int(rate * at_s - lost)
                channels[load.source(site), load.merge] = ChannelSeen(rows, stored, stored)
                taken += stored
            out = int(taken * load.selectivity)
            size, busy_s = int(out * ROW_BYTES), min(taken * 1e-5, at_s)
            counters[load.merge] = Counters(at_s, taken, out, size, busy_s, 0.0, 0.0, 0.0, None, load.state_bytes)
            counters[load.results] = Counters(at_s, out, 0, 0, 0.0, 0.0, 0.0, 0.0)
            channels[load.merge, load.results] = ChannelSeen(out, out, out)
        tasks = {name: TaskSeen(at, Phase.RUNNING, "i1", one) for name, one in counters.items()}
        return Seen(at, tasks, channels)


def drawn(seed: int) -> World:
    """Return a world of two to four queries."""
    random = Random(seed)
    loads = []
    for number in range(random.randint(2, 4)):
        rate = random.choice((200.0, 500.0, 1000.0, 2000.0))
        loads.append(
            Load(
                f"q{number}",
                {"a": rate, "b": random.choice((100.0, rate))},
                random.choice((0.01, 0.1, 0.5)),
                random.choice((0, 10_000, 1_000_000, 20_000_000)),
            )
        )
    pairs = [(x, y) for x in SITES for y in SITES if x != y]
    capacity = {pair: random.choice((0.0, 1e5, 3e5, 1e6)) for pair in pairs}
    capacity["b", HUB] = 1e6
    capacity[CUT] = random.choice((0.3, 0.5, 0.7, 0.9)) * sum(load.rates["a"] for load in loads) * ROW_BYTES
    most = {HUB: 2, "far": 4, "b": 2, "a": 2}
    slots = {site: random.randint(0, number) for site, number in most.items()}
    return World(tuple(loads), Links(capacity, dict.fromkeys(pairs, 0.04)), slots)
