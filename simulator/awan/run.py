"""One run: frameworks in a world, and what came of every task and job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.awan.framework import Scheduling, SimulatedFramework, Surroundings, TaskRun
from simulator.awan.models import Manager, Model
from simulator.awan.world import World
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


def run(world: World, model: Model, frameworks: Mapping[str, Scheduling], seed: int) -> Outcome:
    """All jobs of the world, posted to the frameworks in turn, from the first one to the last one's end."""
    clock = Clock()

    def capacity(link: Link) -> float:
        return world.bandwidth_at(*link, clock.now_s)

    network = Network(clock, capacity)
    manager = Manager(clock, model, world.compute, world.settings.slots_each, tuple(frameworks))
    ended: list[TaskRun] = []
    total = sum(len(job.tasks) for job in world.jobs)
    around = Surroundings(clock, world, network, manager, ended.append)
    running = [SimulatedFramework(name, scheduling, around, seed) for name, scheduling in frameworks.items()]
    # Which framework gets the first job changes from run to run, so that none always comes first.
    owners = {job.name: running[(number + seed) % len(running)] for number, job in enumerate(world.jobs)}
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
