"""The ends of leases, graces and offers: an index over the records of slots."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from datetime import datetime

from planner.leases.model import Slot, SlotRecord

_SPARE = 1024
"""So many outdated deadlines, beside as many as there are slots, before they are cleared out."""


class Deadlines:
    """The deadlines of slots, earliest first. A deadline that its slot no longer has is dropped when it comes up."""

    def __init__(self, records: Mapping[Slot, SlotRecord]) -> None:
        """`records` are the table's own, which change."""
        self._records = records
        self._heap: list[tuple[datetime, Slot]] = []

    def due(self, now: datetime) -> tuple[Slot, ...]:
        """Slots of which a deadline has passed, the earliest deadline first."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return ()
        found: dict[Slot, datetime] = {}
        while heap and heap[0][0] <= now:
            deadline, slot = heapq.heappop(heap)
            if self._of(slot) == deadline:
                found[slot] = deadline
        # They stay due until a decision about them is applied.
        for slot, deadline in found.items():
            heapq.heappush(heap, (deadline, slot))
        return tuple(found)

    def next(self) -> datetime | None:
        """No lease, grace or offer ends before this; None: there is none."""
        heap = self._heap
        while heap and self._of(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def add(self, deadline: datetime, slot: Slot) -> None:
        """A slot has a new deadline."""
        heapq.heappush(self._heap, (deadline, slot))
        if len(self._heap) > 2 * len(self._records) + _SPARE:
            self._heap = [(r.deadline, slot) for slot, r in self._records.items() if r.deadline is not None]
            heapq.heapify(self._heap)

    def _of(self, slot: Slot) -> datetime | None:
        record = self._records.get(slot)
        return record.deadline if record is not None else None
