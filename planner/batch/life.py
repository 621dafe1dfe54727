"""Life of a batch task: it waits for a slot, runs in it, and has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from planner.values.errors import IllegalTaskMoveError


class TaskPhase(Enum):
    WAITING = "waiting"
    """It has no slot."""
    RUNNING = "running"
    """It was given out, to the site of its slot; there it stays."""
    DONE = "done"
    """Its output is complete, and its slot given back."""


class TaskEvent(Enum):
    GRANTED = "granted"
    """A slot was leased for it."""
    ENDED = "ended"
    """Its site has reported that its output is complete."""


TASK_MOVES: Mapping[tuple[TaskPhase, TaskEvent], TaskPhase] = MappingProxyType(
    {
        (TaskPhase.WAITING, TaskEvent.GRANTED): TaskPhase.RUNNING,
        (TaskPhase.RUNNING, TaskEvent.ENDED): TaskPhase.DONE,
    }
)


def next_phase(task: str, phase: TaskPhase, event: TaskEvent) -> TaskPhase:
    """Where the event leads.

    Raises:
        IllegalTaskMoveError: the phase knows no move for it: a defect of ours.
    """
    target = TASK_MOVES.get((phase, event))
    if target is None:
        raise IllegalTaskMoveError(
            f"task {task} is {phase.value}: no move for {event.value}", ids={"task": task, "phase": phase.value}
        )
    return target


def reduce_site(outputs: Mapping[str, float], sites: Iterable[str], target: str) -> str:
    """The site to which the fewest bytes have to be sent for one task to read all of them.

    Args:
        outputs: bytes by the site where they are.
        sites: those that can run it; at least one.
        target: where its results are wanted; it wins ties, then the first by name.
    """
    return min(sites, key=lambda site: (-outputs.get(site, 0.0), site != target, site))
