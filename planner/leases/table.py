"""The table of slots: frozen records, and indices over them that only `apply` changes.

It is mutable so that a decision costs by the slots that it names, not by those that there are. Decisions only read it.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Set
from datetime import datetime
from typing import Any

from planner.leases.model import Decision, Framework, Slot, SlotRecord, Waiter
from planner.leases.policy import LeasePolicy
from planner.values.errors import InvalidDefinitionError, UnknownFrameworkError

_SPARE_DEADLINES = 1024
"""So many outdated deadlines, beside as many as there are slots, before they are cleared out."""


class LeaseTable:
    """All slots, who holds them, who waits for them, and the frameworks that may."""

    def __init__(self, policy: LeasePolicy | None = None, *, fencing: int = 0) -> None:
        """Without slots or frameworks; `fencing` is the last number that was ever given."""
        self.policy = policy or LeasePolicy()
        self._fencing = fencing
        self._records: dict[Slot, SlotRecord] = {}
        self._sites: dict[str, set[Slot]] = {}
        self._frameworks: dict[str, Framework] = {}
        self._held: dict[str, int] = {}
        self._tickets: dict[str, set[Slot]] = {}
        self._ticket_owners: dict[str, str] = {}
        self._waiting: dict[str, int] = {}
        self._shared = 0
        self._deadlines: list[tuple[datetime, Slot]] = []

    @property
    def fencing(self) -> int:
        """The last number given."""
        return self._fencing

    @property
    def shared(self) -> int:
        """How many slots there are to share: those that are held, and those of sites that are heard."""
        return self._shared

    def __len__(self) -> int:
        return len(self._records)

    def get(self, slot: Slot) -> SlotRecord | None:
        return self._records.get(slot)

    def records(self) -> tuple[SlotRecord, ...]:
        """Every slot, ordered by site and index."""
        return tuple(self._records[slot] for slot in sorted(self._records))

    def unordered(self) -> tuple[SlotRecord, ...]:
        """Every slot, quickly."""
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

    def frameworks(self) -> tuple[Framework, ...]:
        """Ordered by name."""
        return tuple(self._frameworks[name] for name in sorted(self._frameworks))

    def framework(self, name: str) -> Framework:
        """Raises UnknownFrameworkError."""
        found = self._frameworks.get(name)
        if found is None:
            raise UnknownFrameworkError(
                f"there is no framework {name!r}", found=name, hint="register it first", ids={"framework": name}
            )
        return found

    def held(self, framework: str) -> int:
        """How many slots it holds, those in grace included."""
        return self._held.get(framework, 0)

    def waiting(self, framework: str) -> int:
        """How many slots it waits for: a ticket is one, in however many waiting lists it is."""
        return self._waiting.get(framework, 0)

    def ticket_slots(self, ticket: str) -> tuple[Slot, ...]:
        """The slots whose waiting lists the ticket is in, in order."""
        return tuple(sorted(self._tickets.get(ticket, ())))

    def ticket_owner(self, ticket: str) -> str | None:
        """The framework that waits with it; None: it is in no waiting list."""
        return self._ticket_owners.get(ticket)

    def wanting(self) -> Set[str]:
        """Frameworks that hold or wait for a slot."""
        return self._held.keys() | self._waiting.keys()

    def due(self, now: datetime) -> tuple[Slot, ...]:
        """Slots at which something is over by now; those over first come first."""
        heap = self._deadlines
        if not heap or heap[0][0] > now:
            return ()
        found: dict[Slot, datetime] = {}
        while heap and heap[0][0] <= now:
            deadline, slot = heapq.heappop(heap)
            if _deadline(self._records.get(slot)) == deadline:
                found[slot] = deadline
        # They stay due until a decision about them is applied.
        for slot, deadline in found.items():
            heapq.heappush(heap, (deadline, slot))
        return tuple(found)

    def next_deadline(self) -> datetime | None:
        """No lease, grace or offer is over before; None: there is none."""
        heap = self._deadlines
        while heap and _deadline(self._records.get(heap[0][1])) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def put_framework(self, framework: Framework) -> None:
        """Add, or replace the one of that name.

        Raises:
            InvalidDefinitionError: the quota is negative, or the name is empty.
        """
        if not framework.name:
            raise InvalidDefinitionError("a framework needs a name", hint="give it one")
        if framework.quota is not None and framework.quota < 0:
            raise InvalidDefinitionError(
                f"the quota of framework {framework.name} is {framework.quota}",
                found=str(framework.quota),
                hint="it is a number of slots, 0 or more",
                ids={"framework": framework.name},
            )
        self._frameworks[framework.name] = framework

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
            self._count_waiters(slot, old, new)
        deadline = _deadline(after)
        if deadline is not None and deadline != _deadline(before):
            self._add_deadline(deadline, slot)

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
            _add(self._held, old, -1)
        if new is not None:
            _add(self._held, new, 1)

    def _count_waiters(self, slot: Slot, old: Collection[Waiter], new: Collection[Waiter]) -> None:
        for waiter in (w for w in old if w not in new):
            slots = self._tickets[waiter.ticket]
            slots.discard(slot)
            if not slots:
                del self._tickets[waiter.ticket], self._ticket_owners[waiter.ticket]
                _add(self._waiting, waiter.framework, -1)
        for waiter in (w for w in new if w not in old):
            if waiter.ticket not in self._tickets:
                _add(self._waiting, waiter.framework, 1)
                self._ticket_owners[waiter.ticket] = waiter.framework
            self._tickets.setdefault(waiter.ticket, set()).add(slot)

    def _add_deadline(self, deadline: datetime, slot: Slot) -> None:
        heapq.heappush(self._deadlines, (deadline, slot))
        if len(self._deadlines) > 2 * len(self._records) + _SPARE_DEADLINES:
            self._deadlines = list(self._live_deadlines())
            heapq.heapify(self._deadlines)

    def _live_deadlines(self) -> Iterator[tuple[datetime, Slot]]:
        for slot, record in self._records.items():
            deadline = _deadline(record)
            if deadline is not None:
                yield deadline, slot


def _deadline(record: SlotRecord | None) -> datetime | None:
    return record.deadline if record is not None else None


def _is_shared(record: SlotRecord | None) -> bool:
    return record is not None and record.shared


def _add(counts: dict[str, int], name: str, number: int) -> None:
    total = counts.get(name, 0) + number
    if total:
        counts[name] = total
    else:
        del counts[name]
