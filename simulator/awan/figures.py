"""The runs behind each figure of the evaluation of Awan (section 2.5), and what they show.

Every figure compares ways on the same worlds, round by round; a round is a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.batch import Policy, SkipRule, accuracy
from simulator.awan.framework import Scheduling
from simulator.awan.models import Model
from simulator.awan.run import Outcome, run
from simulator.awan.world import World, WorldSettings
from simulator.statistics import Mean, mean

LOW_GAP_S, HIGH_GAP_S = 100.0, 50.0
LEASE = "lease"
"""The framework whose scheduler is aware of leases; with offers or direct access, it has none to be aware of."""
COMPUTE_NODES = (30, 40, 50, 60)
THRESHOLDS = (0.0, 0.25, 0.5, 0.75, 1.0)


def mixed(*, knows_all: bool = False) -> Mapping[str, Scheduling]:
    """Three frameworks, each with a scheduler of its own."""
    policies = {LEASE: Policy.LEASE, "first-come": Policy.FIRST_COME, "random": Policy.RANDOM}
    return {name: Scheduling(policy, knows_all=knows_all) for name, policy in policies.items()}


@dataclass(frozen=True, slots=True)
class Shares:
    """Of one way to share slots, at one load."""

    gap_s: float
    model: Model
    turnaround_s: Mean
    """Of all jobs."""
    local: Mean
    """Share of all tasks."""
    lease_turnaround_s: Mean
    """Of the jobs of the lease-aware framework."""
    lease_local: Mean


def sharing(
    settings: WorldSettings, rounds: int, gaps_s: Sequence[float] = (LOW_GAP_S, HIGH_GAP_S)
) -> Iterator[Shares]:
    """Figure 2.3: the three models at low and high load."""
    for gap_s in gaps_s:
        for model in Model:
            outcomes = [
                run(World(replace(settings, gap_s=gap_s), seed), model, mixed(), seed) for seed in range(rounds)
            ]
            yield Shares(
                gap_s,
                model,
                mean([o.turnaround_s for o in outcomes]),
                mean([o.local_share for o in outcomes]),
                mean([o.of(LEASE).turnaround_s for o in outcomes]),
                mean([o.of(LEASE).local_share for o in outcomes]),
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


def foresight(settings: WorldSettings, rounds: int) -> Iterator[Localities]:
    """Figure 2.4a: how close estimates come to knowing the future."""
    for nodes in COMPUTE_NODES:
        worlds = [
            World(replace(settings, gap_s=HIGH_GAP_S, compute_nodes=nodes, storage_nodes=60), seed)
            for seed in range(rounds)
        ]
        ways = {
            knows: [run(w, Model.LEASE, mixed(knows_all=knows), seed) for seed, w in enumerate(worlds)]
            for knows in (False, True)
        }
        local = {knows: mean([o.of(LEASE).local_share for o in outcomes]) for knows, outcomes in ways.items()}
        yield Localities(nodes, local[False], local[True], mean([w.reachable_locality() for w in worlds]))


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Of the estimates of the lease-aware framework, in order."""

    informed: Sequence[float]
    first: Sequence[float]
    """Of tasks whose like had not ended yet anywhere: the default was asked for."""


def accuracies(settings: WorldSettings, rounds: int) -> Accuracies:
    """Figure 2.4b, at high load."""
    worlds = [World(replace(settings, gap_s=HIGH_GAP_S), seed) for seed in range(rounds)]
    outcomes = [run(world, Model.LEASE, mixed(), seed) for seed, world in enumerate(worlds)]
    tasks = [task for outcome in outcomes for task in outcome.of(LEASE).tasks]
    default_s = mixed()[LEASE].estimates.unknown_s

    def of(*, first: bool) -> list[float]:
        chosen = [task for task in tasks if (task.predicted_s == default_s) is first]
        return sorted(accuracy(actual_s=task.actual_s, predicted_s=task.predicted_s) for task in chosen)

    return Accuracies(of(first=False), of(first=True))


@dataclass(frozen=True, slots=True)
class Threshold:
    """Of one minimum locality."""

    least: float
    turnaround_s: Mean
    local: Mean


def thresholds(settings: WorldSettings, rounds: int) -> Iterator[Threshold]:
    """Figure 2.5: three lease-aware frameworks, jobs posted two at a time at high load."""
    for least in THRESHOLDS:
        frameworks = {name: Scheduling(Policy.LEASE, SkipRule(least=least)) for name in ("one", "two", "three")}
        outcomes = [
            run(World(replace(settings, gap_s=HIGH_GAP_S, posted_at_once=2), seed), Model.LEASE, frameworks, seed)
            for seed in range(rounds)
        ]
        yield Threshold(least, *_means(outcomes))


def _means(outcomes: Sequence[Outcome]) -> tuple[Mean, Mean]:
    return mean([o.turnaround_s for o in outcomes]), mean([o.local_share for o in outcomes])
