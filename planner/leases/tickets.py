"""The tickets in waiting lists: an index over the records of slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Set

from planner.leases.model import Slot, Waiter


class Tickets:
    """The waiting lists that each ticket is in, and the framework that waits with it."""

    def __init__(self) -> None:
        self._slots: dict[str, set[Slot]] = {}
        self._owners: dict[str, str] = {}
        self._waiting: Counter[str] = Counter()

    def slots(self, ticket: str) -> tuple[Slot, ...]:
        """The slots whose waiting lists the ticket is in, in order."""
        return tuple(sorted(self._slots.get(ticket, ())))

    def owner(self, ticket: str) -> str | None:
        """The framework that waits with it; None: it is in no waiting list."""
        return self._owners.get(ticket)

    def waiting(self, framework: str) -> int:
        """How many slots a framework waits for: one for each ticket, in however many waiting lists it is."""
        return self._waiting[framework]

    def frameworks(self) -> Set[str]:
        """The frameworks that wait for a slot."""
        return self._waiting.keys()

    def change(self, slot: Slot, old: Collection[Waiter], new: Collection[Waiter]) -> None:
        """Take over a change of a slot's waiting list."""
        for waiter in (w for w in old if w not in new):
            slots = self._slots[waiter.ticket]
            slots.discard(slot)
            if not slots:
                del self._slots[waiter.ticket], self._owners[waiter.ticket]
                self._waiting[waiter.framework] -= 1
                if not self._waiting[waiter.framework]:
                    del self._waiting[waiter.framework]
        for waiter in (w for w in new if w not in old):
            if waiter.ticket not in self._slots:
                self._waiting[waiter.framework] += 1
                self._owners[waiter.ticket] = waiter.framework
            self._slots.setdefault(waiter.ticket, set()).add(slot)
