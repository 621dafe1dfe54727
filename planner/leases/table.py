"""The table of slots: frozen records, and indices over them that only the table changes.

It is mutable, so that the cost of a decision depends on the slots that it names and not on all slots. Decisions only
read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from datetime import datetime
from typing import Any

from planner.leases.deadlines import Deadlines
from planner.leases.frameworks import Frameworks
from planner.leases.model import Decision, Slot, SlotRecord
from planner.leases.policy import LeasePolicy
from planner.leases.tickets import Tickets


class LeaseTable:
    """All slots: who holds them, who waits for them, and when something of them ends."""

    def __init__(self, policy: LeasePolicy | None = None, *, fencing: int = 0) -> None:
        """Without slots or frameworks; `fencing` is the last number that was ever given."""
        self.policy = policy or LeasePolicy()
        self._fencing = fencing
        self._records: dict[Slot, SlotRecord] = {}
        self._sites: dict[str, set[Slot]] = {}
        self._held: Counter[str] = Counter()
        self._shared = 0
        self.frameworks = Frameworks()
        self.tickets = Tickets()
        self.deadlines = Deadlines(self._records)
        self._changes = 0

    @property
    def version(self) -> int:
        """Return how often anything has changed that decisions depend on, except for time."""
        return self._changes + self.frameworks.changes

    @property
    def fencing(self) -> int:
        """The last number given."""
        return self._fencing

    @property
    def shared(self) -> int:
        """The number of slots to share: those that are held, and those of sites that are alive."""
        return self._shared

    def __len__(self) -> int:
        return len(self._records)

    def get(self, slot: Slot) -> SlotRecord | None:
        return self._records.get(slot)

    def records(self) -> tuple[SlotRecord, ...]:
        """Every slot, ordered by site and index."""
        return tuple(self._records[slot] for slot in sorted(self._records))

    def unordered(self) -> tuple[SlotRecord, ...]:
        """Every slot, without the cost of sorting."""
        return tuple(self._records.values())

    def of_site(self, site: str) -> tuple[SlotRecord, ...]:
        """The slots of a site, ordered by index."""
        return tuple(self._records[slot] for slot in self.slots_of(site))

    def slots(self) -> tuple[Slot, ...]:
        """In order."""
        return tuple(sorted(self._records))

    def slots_of(self, site: str) -> tuple[Slot, ...]:
        """In order."""
        return tuple(sorted(self._sites.get(site, ())))

    def sites(self) -> tuple[str, ...]:
        return tuple(sorted(self._sites))

    def held(self, framework: str) -> int:
        """How many slots it holds, those in grace included."""
        return self._held[framework]

    def wanting(self) -> Set[str]:
        """Frameworks that hold or wait for a slot."""
        return self._held.keys() | self.tickets.frameworks()

    def apply(self, decision: Decision[Any]) -> None:
        """Make the decision true. It must have been made on the table as it is now."""
        self._fencing = decision.fencing
        for change in decision.changes:
            self._change(change.before, change.after)

    def undo(self, decision: Decision[Any]) -> None:
        """Take back what `apply` did, before anything else was applied; numbers given are not given again."""
        for change in reversed(decision.changes):
            self._change(change.after, change.before)

    def load(self, records: Iterable[SlotRecord]) -> None:
        """Add records as they are, as from a store; the last number given becomes at least the largest among them."""
        for record in records:
            self._change(self._records.get(record.slot), record)
            if record.lease is not None:
                self._fencing = max(self._fencing, record.lease.fencing)

    def _change(self, before: SlotRecord | None, after: SlotRecord | None) -> None:
        slot = (after or before).slot  # type: ignore[union-attr]  # a change is of some slot
        self._changes += 1
        if after is None:
            del self._records[slot]
        else:
            self._records[slot] = after
        if before is None or after is None:
            self._count_slot(slot, gone=after is None)
        self._shared += _is_shared(after) - _is_shared(before)
        self._count_holders(before, after)
        old, new = before.waiters if before else (), after.waiters if after else ()
        if old != new:
            self.tickets.change(slot, old, new)
        deadline = _deadline(after)
        if deadline is not None and deadline != _deadline(before):
            self.deadlines.add(deadline, slot)

    def _count_slot(self, slot: Slot, *, gone: bool) -> None:
        if not gone:
            self._sites.setdefault(slot.site, set()).add(slot)
            return
        self._sites[slot.site].discard(slot)
        if not self._sites[slot.site]:
            del self._sites[slot.site]

    def _count_holders(self, before: SlotRecord | None, after: SlotRecord | None) -> None:
        old = before.lease.holder if before is not None and before.lease is not None else None
        new = after.lease.holder if after is not None and after.lease is not None else None
        if old == new:
            return
        if old is not None:
            self._held[old] -= 1
            if not self._held[old]:
                del self._held[old]
        if new is not None:
            self._held[new] += 1


def _deadline(record: SlotRecord | None) -> datetime | None:
    return record.deadline if record is not None else None


def _is_shared(record: SlotRecord | None) -> bool:
    return record is not None and record.shared
