"""One turn of a scheduler: which of the jobs that wait may start, and where their tasks go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from planner.batch.locality import SkipRule, Skips, locality, may_start
from planner.batch.model import Assigned, Placement, SlotView, Task
from planner.batch.placing import Randomness, RunTime, first_come, lease_aware, local, random_slots
from planner.graph.batchoptions import Policy


@dataclass(frozen=True, slots=True)
class Job:
    """Tasks that have not started, and what became of the job so far."""

    name: str
    tasks: tuple[Task, ...]
    skips: Skips = field(default_factory=Skips)
    started: bool = False
    """Some of its tasks have started: it is not skipped any more."""
    locality_min: float | None = None
    """Its own; None: the rule's."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What to do now."""

    placements: tuple[Placement, ...] = ()
    skipped: tuple[str, ...] = ()
    """Jobs that are skipped this time, by name."""


Place = Callable[[Sequence[Task], Sequence[SlotView]], list[Placement]]
IsLocal = Callable[[Task, str], bool]
"""Whether a task on a slot of a site is near its input."""


def placing(policy: Policy, run_time: RunTime, now: datetime, rng: Randomness) -> Place:
    """The policy's way to place tasks now."""

    def place(tasks: Sequence[Task], slots: Sequence[SlotView]) -> list[Placement]:
        if policy is Policy.LEASE:
            return lease_aware(tasks, slots, run_time, now)
        if policy is Policy.FIRST_COME:
            return first_come(tasks, slots, run_time, now)
        if policy is Policy.LOCAL:
            return local(tasks, slots, run_time, now)
        return random_slots(tasks, slots, run_time, now, rng)

    return place


def placing_by_job(policies: Mapping[str, Policy], place_by: Callable[[Policy], Place]) -> Place:
    """Tasks of jobs of different policies: those of one policy are placed together, on what those before leave.

    The policy whose first task comes first has the first choice. A slot that one waits for is not given to another.

    Args:
        policies: by job.
        place_by: the way of each policy, as `placing` makes it.
    """

    def place(tasks: Sequence[Task], slots: Sequence[SlotView]) -> list[Placement]:
        groups: dict[Policy, list[Task]] = {}
        for task in tasks:
            groups.setdefault(policies[task.job], []).append(task)
        left, found = list(slots), list[Placement]()
        for policy, group in groups.items():
            placed = place_by(policy)(group, left)
            taken = {placement.slot for placement in placed}
            left = [view for view in left if view.slot not in taken]
            found += placed
        return found

    return place


@dataclass(frozen=True, slots=True)
class Rule:
    """Which jobs may start."""

    skips: SkipRule
    is_local: IsLocal
    at_once: int | None = None
    """More of a job's tasks cannot start together: its locality is a share of so many. None: of all of them."""
    only_starts: bool = False
    """A job none of whose tasks would start now is not skipped: it may wait in line like others."""
    lines_count: bool = False
    """A task that waits in line for a slot near its input counts like one that starts on it."""


def decide(jobs: Sequence[Job], slots: Sequence[SlotView], place: Place, rule: Rule, now: datetime) -> Turn:
    """Placements of the tasks whose jobs may start; the other jobs are skipped once more.

    Jobs are looked at in their order, each beside those before it that may start.
    """
    if all(_least(job, rule) <= 0 for job in jobs):
        return Turn(tuple(place([task for job in jobs for task in job.tasks], slots)))
    tasks: list[Task] = []
    placements: list[Placement] = []
    skipped: list[str] = []
    for job in jobs:
        found = place([*tasks, *job.tasks], slots)
        skips = replace(rule.skips, least=_least(job, rule))
        if job.started or _is_idle(job, found, rule) or may_start(_level(job, found, rule), job.skips, skips, now):
            tasks, placements = [*tasks, *job.tasks], found
        else:
            skipped.append(job.name)
    return Turn(tuple(placements), tuple(skipped))


def _least(job: Job, rule: Rule) -> float:
    return rule.skips.least if job.locality_min is None else job.locality_min


def _is_idle(job: Job, placements: Sequence[Placement], rule: Rule) -> bool:
    return rule.only_starts and not any(isinstance(p, Assigned) and p.task.job == job.name for p in placements)


def _level(job: Job, placements: Sequence[Placement], rule: Rule) -> float:
    """Locality with which the job would start."""
    starting = {p.task.name: p.slot.site for p in placements if rule.lines_count or isinstance(p, Assigned)}
    local = [task.name in starting and rule.is_local(task, starting[task.name]) for task in job.tasks]
    return locality(sorted(local, reverse=True)[: rule.at_once])
