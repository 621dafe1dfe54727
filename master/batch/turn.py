"""What is known and decided in one turn of the batch manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from master.batch.links import Links
from master.batch.view import Wait
from planner.batch import BatchOptions, Policy, SlotView, Task
from planner.leases import Slot


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task that waits for a slot."""

    query: str
    number: int | None
    """Of the split; None: the REDUCE."""
    task: Task


@dataclass(slots=True)
class Turn:
    """One turn, from what is known at its start to what was decided in it."""

    now: datetime
    links: Links
    slots: list[SlotView]
    alive: frozenset[str]
    options: Mapping[str, BatchOptions]
    """By query."""
    lines: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    """Waiting lists to be in, by ticket."""
    waits: dict[str, list[Wait]] = field(default_factory=dict)
    """By query."""
    changed: bool = False

    def policy(self, query: str) -> Policy:
        """The scheduler that places the query's tasks."""
        return self.options[query].scheduler

    def use(self, slot: Slot) -> None:
        """The slot is not to be had any more in this turn."""
        self.slots = [view for view in self.slots if view.slot != slot]

    def wait(self, query: str, wait: Wait) -> None:
        """Tell users that a task of the query, or all of it, waits."""
        self.waits.setdefault(query, []).append(wait)
