"""What users are shown of a batch query's tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from master.records.model import BatchQuery
from planner.batch import Policy, TaskPhase
from planner.leases import Slot


@dataclass(frozen=True, slots=True)
class Wait:
    """What a task, or the whole query, waits for."""

    task: str
    slot: Slot | None = None
    until: datetime | None = None
    """When it is expected to start; None: not known."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BatchView:
    """The numbers of MAPs by state, and the state of the REDUCE."""

    scheduler: Policy
    waiting: int
    running: int
    done: int
    local: int
    """Placed tasks that run, or ran, near their input."""
    size_bytes: int
    """Of all splits."""
    done_bytes: int
    """Of the splits whose MAP has ended."""
    waits: tuple[Wait, ...]

    @property
    def tasks(self) -> int:
        return self.waiting + self.running + self.done


def batch_view(record: BatchQuery, policy: Policy, waits: Sequence[Wait]) -> BatchView:
    """The view of a batch query; the policy is that of queries that chose none."""
    state, plan = record.batch, record.plan
    tasks = (*state.maps, state.reduce)
    done = [
        split.size_bytes for split, task in zip(plan.splits, state.maps, strict=True) if task.phase is TaskPhase.DONE
    ]
    return BatchView(
        scheduler=plan.options.scheduler if plan.options is not None else policy,
        waiting=sum(task.phase is TaskPhase.WAITING for task in tasks),
        running=sum(task.phase is TaskPhase.RUNNING for task in tasks),
        done=sum(task.phase is TaskPhase.DONE for task in tasks),
        local=sum(task.local for task in tasks),
        size_bytes=sum(split.size_bytes for split in plan.splits),
        done_bytes=sum(done),
        waits=tuple(waits),
    )
