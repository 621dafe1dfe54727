"""The runs behind each figure of the evaluation of Awan (section 2.5), and what they show.

Every figure compares ways on the same worlds, seed by seed. A seed is a deployment of nodes, on which five rounds of
jobs follow each other, as in the source; its figures are means over all of its jobs or tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from planner.batch import Policy, SkipRule, accuracy
from simulator.awan.framework import THINK_S, Scheduling
from simulator.awan.models import Model
from simulator.awan.run import Outcome, Setup, run_rounds
from simulator.awan.world import World, WorldSettings
from simulator.statistics import Mean, mean

ROUNDS = 5
LOW_GAP_S, HIGH_GAP_S = 100.0, 50.0
LEASE = "lease"
"""The framework whose scheduler is aware of leases; with offers or direct access, it has none to be aware of."""
COMPUTE_NODES = (30, 40, 50, 60)
REFRESHES_S = (2.0, 5.0, 10.0)
EQUALLY_FAST_S = (0.2, 0.2)
"""All frameworks take the same time to answer a change: the lease-aware one, named first, wins every race."""
THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0)


def mixed(*, knows_all: bool = False) -> Mapping[str, Scheduling]:
    """Three frameworks, each with a scheduler of its own."""
    policies = {LEASE: Policy.LEASE, "first-come": Policy.FIRST_COME, "random": Policy.RANDOM}
    return {name: Scheduling(policy, knows_all=knows_all) for name, policy in policies.items()}


@dataclass(frozen=True, slots=True)
class Way:
    """A way to share slots, in the terms of `Setup`."""

    model: Model
    refresh_s: float = 0.0
    think_s: tuple[float, float] = THINK_S


@dataclass(frozen=True, slots=True)
class Shares:
    """Of one way to share slots, at one load; one value for each seed."""

    gap_s: float
    model: Model
    turnaround_s: tuple[float, ...]
    """Of all jobs."""
    local: tuple[float, ...]
    """Share of all tasks."""
    lease_turnaround_s: tuple[float, ...]
    """Of the jobs of the lease-aware framework."""
    lease_local: tuple[float, ...]


@cache
def shares(settings: WorldSettings, way: Way, seeds: int) -> Shares:
    """One way to share slots among three frameworks, at the load of the settings."""
    setup = Setup(way.model, mixed(), way.refresh_s, way.think_s)
    outcomes = _outcomes(settings, setup, seeds)
    return Shares(
        settings.gap_s,
        way.model,
        tuple(o.turnaround_s for o in outcomes),
        tuple(o.local_share for o in outcomes),
        tuple(o.of(LEASE).turnaround_s for o in outcomes),
        tuple(o.of(LEASE).local_share for o in outcomes),
    )


@dataclass(frozen=True, slots=True)
class Localities:
    """Share of the lease-aware framework's tasks that were local."""

    compute_nodes: int
    estimated: Mean
    known: Mean
    """When every scheduler knows how long each task will take, and so when each slot will be free."""
    reachable: Mean
    """Tasks that have a local compute node at all."""


def foresight(settings: WorldSettings, seeds: int) -> Iterator[Localities]:
    """Figure 2.4a: how close estimates come to knowing the future."""
    for nodes in COMPUTE_NODES:
        sized = replace(settings, gap_s=HIGH_GAP_S, compute_nodes=nodes, storage_nodes=60)
        local = {}
        for knows_all in (False, True):
            outcomes = _outcomes(sized, Setup(Model.LEASE, mixed(knows_all=knows_all)), seeds)
            local[knows_all] = mean([o.of(LEASE).local_share for o in outcomes])
        reachable = [mean([_reachable(sized, seed, n) for n in range(ROUNDS)]).value for seed in range(seeds)]
        yield Localities(nodes, local[False], local[True], mean(reachable))


def _reachable(settings: WorldSettings, seed: int, number: int) -> float:
    return World(settings, seed, number).reachable_locality()


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Of the estimates of the lease-aware framework, in order."""

    informed: Sequence[float]
    first: Sequence[float]
    """Of tasks whose like had not ended yet anywhere: the default was asked for."""


def accuracies(settings: WorldSettings, seeds: int, *, anew: bool) -> Accuracies:
    """Figure 2.4b, at high load. `anew`: frameworks begin each round without a history."""
    high, setup = replace(settings, gap_s=HIGH_GAP_S), Setup(Model.LEASE, mixed())
    outcomes = [run_rounds(high, setup, seed, ROUNDS, anew=anew) for seed in range(seeds)]
    tasks = [task for outcome in outcomes for task in outcome.of(LEASE).tasks]

    def of(*, informed: bool) -> list[float]:
        chosen = [task for task in tasks if task.informed is informed]
        return sorted(accuracy(actual_s=task.actual_s, predicted_s=task.predicted_s) for task in chosen)

    return Accuracies(of(informed=True), of(informed=False))


@dataclass(frozen=True, slots=True)
class Threshold:
    """Of one minimum locality; one value for each seed."""

    least: float
    turnaround_s: tuple[float, ...]
    local: tuple[float, ...]


def threshold(settings: WorldSettings, policy: Policy, least: float, seeds: int) -> Threshold:
    """A point of figure 2.5: three frameworks with one scheduler, jobs posted two at a time at high load."""
    frameworks = {name: Scheduling(policy, SkipRule(least=least)) for name in ("one", "two", "three")}
    paired = replace(settings, gap_s=HIGH_GAP_S, posted_at_once=2)
    outcomes = _outcomes(paired, Setup(Model.LEASE, frameworks), seeds)
    return Threshold(least, tuple(o.turnaround_s for o in outcomes), tuple(o.local_share for o in outcomes))


def _outcomes(settings: WorldSettings, setup: Setup, seeds: int) -> list[Outcome]:
    return [run_rounds(settings, setup, seed, ROUNDS) for seed in range(seeds)]
