"""The state of the batch manager during one turn."""

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
    """The number of its split; None: the REDUCE."""
    task: Task


@dataclass(slots=True)
class Turn:
    """One turn: what is known at its start, and what is decided in it."""

    now: datetime
    links: Links
    slots: list[SlotView]
    alive: frozenset[str]
    options: Mapping[str, BatchOptions]
    """By query."""
    lines: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    """The waiting lists to be in, by ticket."""
    waits: dict[str, list[Wait]] = field(default_factory=dict)
    """By query."""
    changed: bool = False

    def policy(self, query: str) -> Policy:
        """The scheduler that places the query's tasks."""
        return self.options[query].scheduler

    def use(self, slot: Slot) -> None:
        """The slot cannot be used any more in this turn."""
        self.slots = [view for view in self.slots if view.slot != slot]

    def wait(self, query: str, wait: Wait) -> None:
        """Report to users that a task of the query, or the whole query, waits."""
        self.waits.setdefault(query, []).append(wait)
