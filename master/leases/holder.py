"""A framework inside the master: its present leases, and its requests, which are decided at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from master.leases.manager import LeaseManager
from planner.leases import (
    Change,
    Lease,
    LeaseRef,
    Renewal,
    Slot,
    Waiter,
    Wish,
    acquire,
    leave,
    release,
    renew,
    wait_for,
)
from planner.leases.acquire import AcquireOutcome


class LeaseHolder:
    """Requests slots for a framework of the master. Every request may raise StoreError; then nothing was changed."""

    def __init__(self, leases: LeaseManager, framework: str, comment: str) -> None:
        self._leases = leases
        self._framework = framework
        self._held: dict[Slot, Lease] = {}
        leases.introduce(framework, comment)
        self._note(Change(None, record) for record in leases.table.unordered())
        leases.listen(self._note)

    @property
    def held(self) -> Mapping[Slot, Lease]:
        """The framework's leases, by slot."""
        return self._held

    def acquire(self, wishes: Sequence[Wish]) -> tuple[AcquireOutcome, ...]:
        """The outcome of each wish; a refused one does not stop the others."""
        if not wishes:
            return ()
        return self._leases.ask_now(lambda table, now: acquire(table, self._framework, wishes, now=now))

    def renew(self, renewals: Sequence[Renewal]) -> None:
        """Renew leases; those that have ended meanwhile stay as they are."""
        if renewals:
            self._leases.ask_now(lambda table, now: renew(table, self._framework, renewals, now=now))

    def release(self, leases: Iterable[Lease]) -> None:
        """Release the slots."""
        refs = [LeaseRef(lease.slot, lease.fencing) for lease in leases]
        if refs:
            self._leases.ask_now(lambda table, now: release(table, self._framework, refs, now=now))

    def wait_for(self, ticket: str, slots: Sequence[Slot]) -> None:
        """Join the waiting list of each of the slots; where the ticket is in it already, it keeps its place."""
        waiter = Waiter(ticket, self._framework)
        self._leases.ask_now(lambda table, now: wait_for(table, waiter, slots, now=now))

    def leave(self, ticket: str) -> None:
        """Leave all waiting lists."""
        if self._leases.table.tickets.slots(ticket):
            self._leases.ask_now(lambda table, now: leave(table, ticket, now=now))

    def _note(self, changes: Iterable[Change]) -> None:
        for before, after in changes:
            if before is not None and before.holder == self._framework:
                self._held.pop(before.slot, None)
            if after is not None and after.lease is not None and after.holder == self._framework:
                self._held[after.slot] = after.lease
