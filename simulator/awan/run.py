"""One run: frameworks in a world, and what came of every task and job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.batch import TaskHistory
from simulator.awan.framework import THINK_S, Scheduling, SimulatedFramework, Surroundings, TaskRun
from simulator.awan.models import Manager, Model
from simulator.awan.world import World, WorldSettings
from simulator.clock import Clock
from simulator.network import Link, Network


@dataclass(frozen=True, slots=True)
class JobRun:
    name: str
    framework: str
    turnaround_s: float
    """From its posting to the end of its last task."""


@dataclass(frozen=True, slots=True)
class Outcome:
    tasks: tuple[TaskRun, ...]
    jobs: tuple[JobRun, ...]

    def of(self, framework: str) -> Outcome:
        """The part of one framework."""
        return Outcome(
            tuple(task for task in self.tasks if task.framework == framework),
            tuple(job for job in self.jobs if job.framework == framework),
        )

    @property
    def local_share(self) -> float:
        return sum(task.local for task in self.tasks) / len(self.tasks)

    @property
    def turnaround_s(self) -> float:
        """Mean over the jobs."""
        return sum(job.turnaround_s for job in self.jobs) / len(self.jobs)


@dataclass(frozen=True, slots=True)
class Setup:
    """What runs on a world."""

    model: Model
    frameworks: Mapping[str, Scheduling]
    refresh_s: float = 0.0
    """With direct access: how old a framework's copy of the state gets; 0: it is told of every change at once."""
    think_s: tuple[float, float] = THINK_S
    """The range of the time from a change to a framework's answer; where all take the same time, the framework that is
    named first wins every race."""


def run_rounds(settings: WorldSettings, setup: Setup, seed: int, rounds: int, *, anew: bool = False) -> Outcome:
    """Rounds one after the other on the same nodes, each from free slots on; frameworks keep their history.

    Args:
        anew: they begin each round without a history.
    """
    histories = _histories(setup)
    outcomes = []
    for number in range(rounds):
        world = World(settings, seed, number)
        outcomes.append(run(world, setup, seed * rounds + number, _histories(setup) if anew else histories))
    return Outcome(tuple(t for o in outcomes for t in o.tasks), tuple(j for o in outcomes for j in o.jobs))


def _histories(setup: Setup) -> dict[str, TaskHistory]:
    return {name: TaskHistory(scheduling.estimates.records) for name, scheduling in setup.frameworks.items()}


def run(world: World, setup: Setup, seed: int, histories: Mapping[str, TaskHistory] | None = None) -> Outcome:
    """All jobs of the world, posted to the frameworks in turn, from the first one to the last one's end.

    Jobs that are posted at once go to one framework: they meet in its queue.
    """
    clock = Clock()

    def capacity(link: Link) -> float:
        return world.bandwidth_at(*link, clock.now_s)

    network = Network(clock, capacity)
    nodes = dict.fromkeys(world.compute, world.settings.slots_each)
    manager = Manager(clock, setup.model, nodes, tuple(setup.frameworks), refresh_s=setup.refresh_s)
    ended: list[TaskRun] = []
    total = sum(len(job.tasks) for job in world.jobs)
    around = Surroundings(clock, world, network, manager, ended.append, setup.think_s)
    known = histories or _histories(setup)
    running = [SimulatedFramework(name, how, around, known[name], seed) for name, how in setup.frameworks.items()]
    # Which framework gets the first job changes from run to run, so that none always comes first.
    at_once = world.settings.posted_at_once
    owners = {job.name: running[(number // at_once + seed) % len(running)] for number, job in enumerate(world.jobs)}
    for job in world.jobs:
        clock.at(job.at_s, lambda job=job: owners[job.name].post(job))  # type: ignore[misc]  # bound now, not later

    def weather() -> None:
        network.changed()
        if len(ended) < total:
            clock.after(world.settings.weather_s, weather)

    clock.after(world.settings.weather_s, weather)
    clock.run()
    assert len(ended) == total, f"{total - len(ended)} of {total} tasks never ended"
    return Outcome(tuple(ended), _jobs(world, owners, ended))


def _jobs(world: World, owners: Mapping[str, SimulatedFramework], ended: Sequence[TaskRun]) -> tuple[JobRun, ...]:
    last_s: dict[str, float] = {}
    for task in ended:
        last_s[task.task.job] = max(last_s.get(task.task.job, 0.0), task.end_s)
    return tuple(JobRun(job.name, owners[job.name].name, last_s[job.name] - job.at_s) for job in world.jobs)
