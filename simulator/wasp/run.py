"""One run: a query, what changes, and the loop of adaptation or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from statistics import quantiles

from planner.adapt.assign import Demand, assign
from planner.adapt.model import Settings
from planner.values.links import Pair
from simulator.wasp.fluid import ROW_BYTES, STEP_S, Flow, Load, query
from simulator.wasp.loop import Act, Loop
from simulator.wasp.world import CENTRES, EDGES, Factor, World

RATE = 10_000.0
"""Rows per second of a source, as in the source."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A run: queries, the world and its changes, and the settings of the planner."""

    load: Load
    rates: Factor
    links: Mapping[Pair, Factor]
    seconds: float
    settings: Settings | None = field(default_factory=Settings)
    """None: nothing is done."""
    shadow: bool = True
    """A task that moves goes on until the new one takes over; False: it stands still meanwhile."""
    lost_s: tuple[float, float] | None = None
    """From when until when no site has a slot: no operator works."""
    drop_after_s: float | None = None
    """Rows that would wait longer before a link are dropped; None: none are."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run in figures."""

    delays_s: tuple[float, ...]
    """Every half second."""
    ratio: float
    """Rows that passed over rows that arrived."""
    dropped: float
    """Rows that were dropped over rows that arrived."""
    acts: tuple[Act, ...]
    tasks: int
    """Of operators, at the end."""

    def mean_s(self, from_s: float = 0.0, to_s: float = float("inf")) -> float:
        """Mean delay between two seconds."""
        found = [d for n, d in enumerate(self.delays_s) if from_s <= n * STEP_S < to_s]
        return sum(found) / len(found)

    @property
    def p95_s(self) -> float:
        return quantiles(self.delays_s, n=20)[-1]

    def above(self, delay_s: float) -> float:
        """The share of the time with more delay than that."""
        return sum(d > delay_s for d in self.delays_s) / len(self.delays_s)

    def back_s(self, since_s: float, delay_s: float = 4.0) -> float | None:
        """How long after a change the delay was last above that, within five minutes; None: it still was."""
        late = [
            n * STEP_S for n, d in enumerate(self.delays_s) if since_s <= n * STEP_S < since_s + 300 and d > delay_s
        ]
        if late and late[-1] >= since_s + 300 - STEP_S:
            return None
        return late[-1] - since_s if late else 0.0


def run(scene: Scene, seed: int) -> Outcome:
    """Deterministic: the same seed, the same world."""
    rng = Random(seed)
    world = World.drawn(rng)
    flow = Flow(query(scene.load, EDGES, _near(world), CENTRES[0]), scene.load)
    settings = scene.settings
    loop = Loop(settings or Settings(), scene.shadow)
    delays = []
    for step in range(int(scene.seconds / STEP_S)):
        at_s = step * STEP_S
        links = world.links(scene.links, at_s)
        rates = dict.fromkeys(EDGES, RATE * scene.rates(at_s))
        loop.finish([flow])
        lost = scene.lost_s is not None and scene.lost_s[0] <= at_s < scene.lost_s[1]
        flow.step(rates, links, flow.operators if lost else loop.paused)
        if scene.drop_after_s is not None:
            flow.drop(rates, scene.drop_after_s)
        delays.append(flow.delay_s(links, rates))
        if settings is not None and flow.at_s % settings.interval_s < STEP_S:
            loop.look([flow], links, {} if lost else world.slots)
    operators = sum(1 for node in flow.graph.nodes if node.inputs) - 1
    ratio, dropped = flow.passed / flow.arrived, flow.dropped / flow.arrived
    return Outcome(tuple(delays), ratio, dropped, tuple(loop.acts), operators)


def _near(world: World) -> list[str]:
    """Where each operator begins: the best site for it at the rates of the beginning."""
    links, slots = world.links({pair: lambda at_s: 1.0 for pair in world.capacity}, 0.0), dict(world.slots)
    chosen = []
    for n in range(len(EDGES) // 2):
        inputs = dict.fromkeys(EDGES[2 * n : 2 * n + 2], RATE * ROW_BYTES)
        sites = assign(Demand(inputs, {CENTRES[0]: 1.0}), 1, slots, links, share=0.9)
        # Where no site has the room, a data centre makes do.
        site = next(iter(sites), CENTRES[n]) if sites else CENTRES[n]
        chosen.append(site)
        slots[site] -= 1
    return chosen
