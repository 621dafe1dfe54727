"""Values of batch scheduling: what there is to run, and the slots it may run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from planner.leases import Slot

Bandwidth = Callable[[str, str], float]
"""Bytes per second that a transfer from one site to another would get; more than 0."""


class Shard(NamedTuple):
    """A part of a table, as a whole at one site."""

    site: str
    size_bytes: int


@dataclass(frozen=True)
class Task:
    """Reads its shards, over the WAN where it must, and computes."""

    name: str
    """Unique."""
    job: str
    model: str
    """Its computing model: tasks of one model over inputs of like size take about as long."""
    shards: tuple[Shard, ...]
    family: str = ""
    """Models whose tasks do the same kind of work: a first guess for a model that has not run yet. Empty: none."""
    sent_share: float = 1.0
    """Bytes that a link carries for each byte of the shards: rows are sent compressed, and only the columns needed."""
    is_read_there: bool = False
    """True if a job at a shard's site reads the shard before it is sent, which takes time."""

    @cached_property
    def size_bytes(self) -> int:
        return sum(shard.size_bytes for shard in self.shards)

    @cached_property
    def magnitude(self) -> int:
        """Of its input: inputs of one magnitude differ by less than a factor of two."""
        return self.size_bytes.bit_length()


class SlotView(NamedTuple):
    """A slot as a scheduler sees it."""

    slot: Slot
    free_at: datetime | None
    """By when it is free; not later than now: it is. None: busy, nobody says for how long."""
    ahead: int = 0
    """Others that wait for it."""


class Assigned(NamedTuple):
    """The task is to start on a slot that is free."""

    task: Task
    slot: Slot
    duration: timedelta
    """How long it needs the slot, by estimate."""


class Waits(NamedTuple):
    """The task is better off waiting for a slot that is busy."""

    task: Task
    slot: Slot
    until: datetime
    """When it would start there."""


Placement = Assigned | Waits
