"""An hour in which links and rates change at random, and what is wrong once they rest.

Two questions: is anything done and taken back within two intervals, and is the query healthy in the end wherever it can
be? The second one is answered by trying every number of tasks of every operator, each by the integer program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from planner.adapt.assign import Demand, Sites, assign
from planner.adapt.model import Group, Links, Settings
from planner.adapt.program import Placeable, place_together
from planner.values.links import Pair
from simulator.wasp.fluid import ROW_BYTES, STEP_S, Load
from simulator.wasp.loop import Act
from simulator.wasp.run import RATE, Scene, run
from simulator.wasp.world import CENTRES, EDGES, SITES, Factor, World, drifting

HOUR_S = 3600.0
REST_S = 600.0
"""After the hour nothing changes any more, for so long."""
HEALTHY_S = 4.0
"""A healthy query has at most this delay in the last minute."""
MOST_TASKS = 6
"""The most tasks of an operator in the placements that are tried."""
_PROGRAM_S = 5.0


@dataclass(frozen=True, slots=True)
class Dynamics:
    """Links and rates as they change."""

    links: Mapping[Pair, Factor]
    rates: Factor

    @classmethod
    def drawn(cls, seed: int, seconds: float) -> Dynamics:
        """Each link changes every 5 min on average, rates every 3.5 min, as in the source."""
        rng = Random(1000 + seed)
        pairs = [(a, b) for a in SITES for b in SITES if a != b]
        links = {pair: drifting(rng, 0.51, 2.36, until_s=seconds, mean_s=300) for pair in pairs}
        return cls(links, drifting(rng, 0.8, 2.4, until_s=seconds, mean_s=210))


@dataclass(frozen=True, slots=True)
class Hour:
    """One seed's hour."""

    acts: int
    undone: int
    """Actions that another one took back within two intervals."""
    mean_s: float
    """Mean delay, in the hour."""
    healthy: bool
    """The delay was small in the last minute of the rest."""
    could_be: bool
    """Healthy, or a placement exists in which no link gets more than the share that is planned with."""


def hour(load: Load, seed: int, settings: Settings) -> Hour:
    """Return what became of one seed."""
    drawn = Dynamics.drawn(seed, HOUR_S)
    found = run(Scene(load, drawn.rates, drawn.links, HOUR_S + REST_S, settings), seed)
    healthy = max(found.delays_s[-int(60 / STEP_S) :]) <= HEALTHY_S
    undone = taken_back(found.acts, within_s=2 * settings.interval_s)
    could_be = healthy or placement_at(load, seed, drawn, settings) is not None
    return Hour(len(found.acts), undone, found.mean_s(0, HOUR_S), healthy, could_be)


def taken_back(acts: Sequence[Act], *, within_s: float) -> int:
    """Return how many actions put an operator back to where it had been before one, so soon after it."""
    changes = [(act.at_s, change) for act in acts for change in act.option.changes]
    return sum(
        any(
            later.group == change.group and later.after == change.before
            for other_s, later in changes
            if at_s < other_s <= at_s + within_s
        )
        for at_s, change in changes
    )


def placement_at(load: Load, seed: int, drawn: Dynamics, settings: Settings) -> Mapping[Group, Sites] | None:
    """Return sites of all operators with which nothing would wait after the hour; None: there are none.

    The merge stays where it is.
    """
    world = World.drawn(Random(seed))
    links, rate = world.links(drawn.links, HOUR_S + REST_S), RATE * drawn.rates(HOUR_S + REST_S) * ROW_BYTES
    demands = [_demand(n, rate, load) for n in range(len(EDGES) // 2)]
    for numbers in _numbers(demands, world.slots, links, settings.link_share):
        operators = [Placeable((load.name, f"c{n}"), tasks, demands[n]) for n, tasks in enumerate(numbers)]
        found = place_together(operators, world.slots, links, share=settings.link_share, time_s=_PROGRAM_S)
        if found is not None:
            return found.sites
    return None


def _numbers(demands: Sequence[Demand], slots: Sites, links: Links, share: float) -> Iterator[tuple[int, ...]]:
    """Numbers of tasks with which each operator has a placement if it is alone, few tasks first."""
    alone = [
        [tasks for tasks in range(1, MOST_TASKS + 1) if assign(demand, tasks, slots, links, share=share) is not None]
        for demand in demands
    ]
    yield from sorted(product(*alone), key=sum)


def _demand(number: int, rate: float, load: Load) -> Demand:
    inputs = dict.fromkeys(EDGES[2 * number : 2 * number + 2], rate)
    return Demand(inputs, {CENTRES[0]: 2 * rate * load.selectivity})


def outcome_of(hours: Sequence[Hour]) -> tuple[int, int, int]:
    """Return how many actions were taken back, how many queries could be healthy, and how many of those were not."""
    able = [one for one in hours if one.could_be]
    return sum(one.undone for one in hours), len(able), sum(not one.healthy for one in able)
