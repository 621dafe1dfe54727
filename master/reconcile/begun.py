"""Tasks that begin without state while a handover is under way, and what their sites say of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from contract.tasks import TaskState
from master.records.model import TaskStatus
from planner.graph.ids import TaskId


class Begun(NamedTuple):
    """One of them."""

    task: TaskId
    site: str
    late: bool = True
    """It begins in the middle of its inputs; false: it reads others of them from their first epoch."""


def unfit(begun: Iterable[tuple[TaskId, TaskStatus | None]]) -> str:
    """Return why one of the tasks will not do; empty: all may."""
    for name, status in begun:
        if status is not None and status.missed_inputs:
            return f"{name} began too late: {', '.join(map(str, status.missed_inputs))} has ended"
        if status is not None and status.state is TaskState.FAILED:
            return f"{name} failed: {status.reason}"
    return ""
