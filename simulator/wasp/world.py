"""Sites, links, and how they and the rates of sources change over time."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from planner.adapt.model import Links
from planner.values.links import Pair

BYTES_PER_MBIT = 1e6 / 8
EDGES = tuple(f"e{n}" for n in range(1, 9))
CENTRES = tuple(f"d{n}" for n in range(1, 9))
SITES = (*EDGES, *CENTRES)

Factor = Callable[[float], float]
"""By the second, what a rate or a bandwidth is multiplied with."""


@dataclass(frozen=True, slots=True)
class World:
    """Eight edges with few slots and thin links, eight data centres with many and thick ones."""

    capacity: Mapping[Pair, float]
    """Bytes per second, before any change."""
    latency_s: Mapping[Pair, float]
    slots: Mapping[str, int]

    @classmethod
    def drawn(cls, rng: Random) -> World:
        capacity, latency_s = {}, {}
        for source in SITES:
            for target in SITES:
                if source != target:
                    thin = source in EDGES or target in EDGES
                    mbit = rng.uniform(7, 14) if thin else rng.uniform(15, 250)
                    capacity[source, target] = mbit * BYTES_PER_MBIT
                    latency_s[source, target] = rng.uniform(0.01, 0.12)
        slots = {site: rng.randint(2, 4) if site in EDGES else 8 for site in SITES}
        return cls(capacity, latency_s, slots)

    def links(self, factors: Mapping[Pair, Factor], at_s: float) -> Links:
        """As they are at that second."""
        now = {pair: whole * factors[pair](at_s) for pair, whole in self.capacity.items()}
        return Links(now, self.latency_s)


def phases(*values: float, each_s: float) -> Factor:
    """One value after the other; the last one stays."""
    return lambda at_s: values[min(int(at_s / each_s), len(values) - 1)]


def alike(factor: Factor) -> Mapping[Pair, Factor]:
    """All links change together."""
    return {(a, b): factor for a in SITES for b in SITES if a != b}


def drifting(rng: Random, low: float, high: float, *, until_s: float, mean_s: float) -> Factor:
    """A value that changes now and then, to any between the two."""
    since, values, at_s = [0.0], [1.0], 0.0
    while (at_s := at_s + rng.expovariate(1 / mean_s)) < until_s:
        since.append(at_s)
        values.append(rng.uniform(low, high))
    return lambda now_s: values[bisect(since, now_s) - 1]
