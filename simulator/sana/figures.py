"""The runs behind each figure of the evaluation of Sana (section 3.7), and what they show.

Every figure compares systems on the same worlds, round by round; a round is a seed. A run that several figures show is
made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from planner.sharing.modes import Sharing
from simulator.sana.queries import QUERIES, SETS_OF_FOUR, Query, standard
from simulator.sana.run import Outcome, System, run
from simulator.sana.world import World, WorldSettings
from simulator.statistics import Mean, mean

DEFAULT = System("Default", Sharing.NO_SHARE, routers=False)
NET = System("NET", Sharing.NET, routers=False)
MQO = System("MQO", Sharing.MAX_SHARE)
SANA = System("Sana", Sharing.SANA)
STRICT = System("Strict-Share", Sharing.STRICT, routers=False)
STRICT_FREE = replace(STRICT, name="Strict-Share, at its own pace", sources_wait=False)
"""No channel of a shared source waits for another: the interpretation under which Strict-Share gains most."""
ROUTED = System("Strict-Share with routers", Sharing.STRICT)
SYSTEMS = (DEFAULT, NET, MQO, SANA)
COUNTS = (1, 2, 4, 8, 12)
RATES = (0.5, 1.0, 1.5, 2.0)
"""Times the source's rates."""
AMPLE = WorldSettings(bandwidth=100.0)
"""Links that are never full."""

Runs = Sequence[Outcome]
"""Of one system, round by round."""
Value = Callable[[Outcome], float]


def throughput(outcome: Outcome) -> float:
    """Records processed per second, mean over the queries."""
    return outcome.rows_per_s


def wan_mb_per_s(outcome: Outcome) -> float:
    return outcome.wan_bytes_per_s / 1e6


def latency(outcome: Outcome) -> float:
    """Seconds."""
    return outcome.latency_s


@cache
def runs(settings: WorldSettings, system: System, queries: tuple[Query, ...], rounds: int) -> tuple[Outcome, ...]:
    """One for each round."""
    return tuple(run(World(settings, seed), system, queries, standard()) for seed in range(rounds))


def over(found: Runs, value: Value) -> Mean:
    """A figure of several rounds."""
    return mean([value(outcome) for outcome in found])


def change(found: Runs, base: Runs, value: Value) -> Mean:
    """By how much a figure differs from that of another system, round by round; 0.5 is half as much again."""
    return mean([value(own) / value(other) - 1 for own, other in zip(found, base, strict=True)])


def together(
    rounds: int, systems: Sequence[System] = SYSTEMS, settings: WorldSettings | None = None
) -> dict[str, Runs]:
    """Figures 3.8 to 3.11: all twelve queries; by system."""
    return {system.name: runs(settings or WorldSettings(), system, QUERIES, rounds) for system in systems}


@dataclass(frozen=True, slots=True)
class Series:
    """One figure's runs along its x axis."""

    xs: tuple[float, ...]
    by_system: Mapping[str, Sequence[Runs]]

    def last(self, system: str) -> Runs:
        return self.by_system[system][-1]


def by_count(rounds: int, systems: Sequence[System], settings: WorldSettings | None = None) -> Series:
    """Figures 3.12, 3.14 and 3.15a: the first so many of the queries."""
    known = settings or WorldSettings()
    found = {s.name: [runs(known, s, QUERIES[:count], rounds) for count in COUNTS] for s in systems}
    return Series(tuple(map(float, COUNTS)), found)


def by_rate(rounds: int, systems: Sequence[System]) -> Series:
    """Figure 3.13: four queries, at other rates."""
    plain = WorldSettings()
    worlds = [
        replace(plain, rows_per_s=(low * times, high * times)) for times in RATES for low, high in [plain.rows_per_s]
    ]
    found = {s.name: [runs(world, s, FOUR, rounds) for world in worlds] for s in systems}
    return Series(RATES, found)


FOUR = QUERIES[1:5]
"""Two over each of two streams."""


def by_ratio(rounds: int, systems: Sequence[System]) -> Series:
    """Figure 3.15b: four queries with more and more in common, where links are never full."""
    found = {s.name: [runs(AMPLE, s, queries, rounds) for queries in SETS_OF_FOUR] for s in systems}
    ratios = [over(outcomes, lambda o: o.sharing_ratio).value for outcomes in found[SANA.name]]
    return Series(tuple(ratios), found)


def pairs(series: Series, system: str, value: Value) -> Iterator[tuple[float, Mean]]:
    """A line of a plot."""
    for x, found in zip(series.xs, series.by_system[system], strict=True):
        yield x, over(found, value)
