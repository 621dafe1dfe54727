"""A framework: jobs that wait, a scheduler that places their tasks, and the tasks that run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from planner.batch import (
    Assigned,
    EstimateSettings,
    Job,
    Placement,
    Policy,
    Rule,
    RunTime,
    Shard,
    SkipRule,
    Skips,
    SlotView,
    Task,
    TaskHistory,
    decide,
    is_local,
    lease_estimate_s,
    placing,
    run_time_s,
)
from planner.leases import Lease
from simulator.awan.models import Manager
from simulator.awan.world import LOCAL_BYTES_PER_S, PostedJob, World
from simulator.clock import Clock, Event, seconds
from simulator.network import Network

THINK_S = (0.1, 0.3)
"""Bounds of the uniform time from a change to a framework's answer: any of those told at once may be the fastest."""
SHORTEST_RENEWAL_S = 5.0


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A task that has ended."""

    task: Task
    framework: str
    node: str
    local: bool
    predicted_s: float
    """By the estimate at its start."""
    informed: bool
    """Like tasks had ended by then."""
    start_s: float
    end_s: float

    @property
    def actual_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(slots=True)
class Waiting:
    """A job with tasks that have not started."""

    posted: PostedJob
    tasks: list[Task]
    skips: Skips = field(default_factory=Skips)
    started: bool = False


@dataclass(slots=True)
class Running:
    task: Task
    lease: Lease
    predicted_s: float
    informed: bool
    start_s: float
    arrived_s: float = 0.0
    shards_left: int = 0
    expiry: Event | None = None


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How a framework decides."""

    policy: Policy
    rule: SkipRule = field(default_factory=lambda: SkipRule(least=0.0))
    estimates: EstimateSettings = field(default_factory=EstimateSettings)
    knows_all: bool = False
    """Its estimates are what will be; no real scheduler has them."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all frameworks of a run share."""

    clock: Clock
    world: World
    network: Network
    manager: Manager
    ended: Callable[[TaskRun], None]
    """Called with every task that ends."""
    think_s: tuple[float, float] = THINK_S
    """The range of the time from a change to a framework's answer."""


class SimulatedFramework:
    """Jobs are posted to it; it has their tasks run."""

    def __init__(
        self, name: str, scheduling: Scheduling, around: Surroundings, history: TaskHistory, seed: int
    ) -> None:
        self.name = name
        self._scheduling = scheduling
        self._clock = around.clock
        self._world = around.world
        self._network = around.network
        self._manager = around.manager
        self._ended = around.ended
        self._rng = Random(f"framework {seed} {name}")
        self._thinking = Random(f"thinking {seed} {name}")
        self._think_s = around.think_s
        self._history = history
        self._jobs: list[Waiting] = []
        self._deciding = False
        self._manager.listen(name, self._wake)

    def post(self, job: PostedJob) -> None:
        """A job comes in."""
        self._jobs.append(Waiting(job, list(job.tasks)))
        self._wake()

    def _wake(self) -> None:
        if self._jobs and not self._deciding:
            self._deciding = True
            self._clock.after(self._thinking.uniform(*self._think_s), self._decide)

    def _decide(self) -> None:
        self._deciding = False
        if not self._jobs or not self._manager.may_decide(self.name):
            return
        slots = self._manager.view(self.name)
        lost = False
        for placement in self._admitted(slots):
            if not isinstance(placement, Assigned):
                self._manager.leave_others(placement.task.name, placement.slot)
                self._manager.wait_for(self.name, placement.task.name, placement.slot)
                continue
            duration_s = self._lease_s(placement.task, placement.slot.site)
            lease = self._manager.acquire(self.name, placement.slot, timedelta(seconds=duration_s))
            if lease is None:
                lost = True
            else:
                self._manager.leave(placement.task.name)
                self._start(placement, lease, duration_s)
        self._manager.decided(self.name)
        if lost:
            self._wake()

    def _admitted(self, slots: Sequence[SlotView]) -> tuple[Placement, ...]:
        """Placements of the tasks whose jobs may start; the other jobs are skipped once more."""
        rule, now = self._scheduling.rule, self._clock.now
        jobs = [Job(job.posted.name, tuple(job.tasks), job.skips, job.started) for job in self._jobs]
        place = placing(self._scheduling.policy, self._run_times(), now, self._rng)
        turn = decide(jobs, slots, place, Rule(rule, self._is_local), now)
        for job in self._jobs:
            if job.posted.name in turn.skipped:
                if job.skips.since is None:
                    self._clock.after(rule.longest.total_seconds(), self._wake)
                job.skips = job.skips.another(now)
        return turn.placements

    def _is_local(self, task: Task, site: str) -> bool:
        return is_local(task, site, self._bandwidth, LOCAL_BYTES_PER_S)

    def _run_times(self) -> RunTime:
        """As estimated now; those of tasks that read the same from the same nodes are the same."""
        if self._scheduling.knows_all:
            return self._real_time
        known_s: dict[tuple[str, tuple[Shard, ...], str], float] = {}

        def run_time(task: Task, node: str) -> float:
            key = (task.model, task.shards, node)
            if key not in known_s:
                known_s[key] = run_time_s(task, node, self._bandwidth, self._history, self._scheduling.estimates)
            return known_s[key]

        return run_time

    def _lease_s(self, task: Task, node: str) -> float:
        if self._scheduling.knows_all:
            return self._real_time(task, node)
        return lease_estimate_s(task, node, self._bandwidth, self._history, self._scheduling.estimates)

    def _real_time(self, task: Task, node: str) -> float:
        now_s = self._clock.now_s
        return self._world.arrival_s(task, node, now_s) - now_s + self._world.compute_time_s(task, node)

    def _bandwidth(self, source: str, target: str) -> float:
        return self._world.bandwidth_at(source, target, self._clock.now_s)

    def _start(self, placement: Assigned, lease: Lease, predicted_s: float) -> None:
        task, node = placement.task, placement.slot.site
        self._forget(task)
        informed = self._scheduling.knows_all or self._history.processing_s(task, node) is not None
        running = Running(task, lease, predicted_s, informed, self._clock.now_s)
        running.shards_left = len(task.shards)
        running.expiry = self._clock.at(seconds(lease.expires_at), lambda: self._expires(running))
        for shard in task.shards:
            path = () if shard.site == node else ((shard.site, node),)
            self._network.send(path, shard.size_bytes, lambda: self._arrived(running))

    def _forget(self, task: Task) -> None:
        """It waits no more."""
        job = next(job for job in self._jobs if job.posted.name == task.job)
        job.started = True
        job.tasks.remove(task)
        if not job.tasks:
            self._jobs.remove(job)

    def _arrived(self, running: Running) -> None:
        running.shards_left -= 1
        if not running.shards_left:
            running.arrived_s = self._clock.now_s
            node = running.lease.slot.site
            self._clock.after(self._world.compute_time_s(running.task, node), lambda: self._end(running))

    def _end(self, running: Running) -> None:
        if running.expiry is not None:
            running.expiry.cancel()
        task, node, now_s = running.task, running.lease.slot.site, self._clock.now_s
        self._history.add(task, node, now_s - running.arrived_s)
        local = all(self._world.is_near(shard.site, node) for shard in task.shards)
        predicted_s, informed = running.predicted_s, running.informed
        self._ended(TaskRun(task, self.name, node, local, predicted_s, informed, running.start_s, now_s))
        self._manager.release(self.name, running.lease)

    def _expires(self, running: Running) -> None:
        """The task is late: its framework says until when, as long as the manager lets it."""
        estimate_s = self._lease_s(running.task, running.lease.slot.site)
        left_s = max(SHORTEST_RENEWAL_S, running.start_s + estimate_s - self._clock.now_s)
        running.lease = self._manager.renew(self.name, running.lease, timedelta(seconds=left_s))
        running.expiry = self._clock.at(seconds(running.lease.expires_at), lambda: self._expires(running))
