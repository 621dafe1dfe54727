"""A decision in the making: the table as it was, and what the decision makes of it so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from planner.leases.lifecycle import SlotEvent, next_slot_state
from planner.leases.model import Change, Decision, Lease, Offer, Slot, SlotRecord, SlotState, Waiter
from planner.leases.table import LeaseTable

OutcomeT = TypeVar("OutcomeT")

_NONE: Counter[str | None] = Counter()


class Draft:
    """Reads through to the table; writes stay here until the decision is applied."""

    def __init__(self, table: LeaseTable, now: datetime) -> None:
        """Nothing has happened yet, not even what is over by now; see `begun`."""
        self.table = table
        self.now = now
        self._fencing = table.fencing
        self._records: dict[Slot, SlotRecord | None] = {}
        self._granted: dict[str, int] = {}

    @classmethod
    def begun(cls, table: LeaseTable, now: datetime) -> Draft:
        """What is over by now is over."""
        draft = cls(table, now)
        for slot in table.deadlines.due(now):
            draft.let_pass(slot)
        return draft

    def get(self, slot: Slot) -> SlotRecord | None:
        return self._records[slot] if slot in self._records else self.table.get(slot)

    def held(self, framework: str) -> int:
        return self.table.held(framework) + self._granted.get(framework, 0)

    def demands(self) -> Mapping[str, int]:
        """How many slots each framework holds or waits for, as far as its quota goes; those that want none left out."""
        # Most often nothing has happened since the table was as it is.
        gone = Counter(map(self.table.tickets.owner, self._dropped_tickets())) if self._records else _NONE
        demands = {}
        for name in self.table.wanting() | self._granted.keys():
            held = self.held(name)
            wanted, quota = held + self.table.tickets.waiting(name) - gone[name], self.table.frameworks.get(name).quota
            demands[name] = wanted if quota is None else max(held, min(wanted, quota))
        return demands

    def shared(self) -> int:
        """How many slots there are to share."""
        if not self._records:
            return self.table.shared
        more = sum(after is not None and after.shared for after in self._records.values())
        less = sum(before is not None and before.shared for before in map(self.table.get, self._records))
        return self.table.shared + more - less

    def decision(self, outcomes: tuple[OutcomeT, ...]) -> Decision[OutcomeT]:
        changes = []
        for slot, after in self._records.items():
            before = self.table.get(slot)
            if before is not after and _differ(before, after):
                changes.append(Change(before, after))
        return Decision(outcomes, tuple(changes), self._fencing)

    def put(self, record: SlotRecord) -> None:
        self._count(self.get(record.slot), record)
        self._records[record.slot] = record

    def remove(self, slot: Slot) -> None:
        """The slot exists no longer: its lease is over, and who waits for it waits no more."""
        self._count(self.get(slot), None)
        self._records[slot] = None

    def grant(self, record: SlotRecord, framework: str, duration: timedelta) -> Lease:
        """A free slot, or one that is offered to the framework, becomes its."""
        self._fencing += 1
        lease = Lease(
            slot=record.slot,
            holder=framework,
            fencing=self._fencing,
            granted_at=self.now,
            expires_at=self.now + duration,
            grace=self.table.policy.grace,
        )
        state = next_slot_state(record.slot, record.state, SlotEvent.GRANTED)
        offer = record.offer
        # Not by `replace`, which takes as long as all the rest of a grant.
        self.put(SlotRecord(record.slot, state, lease, None, record.waiters, record.reachable, record.draining))
        if offer is not None:
            self.drop_ticket(offer.waiter.ticket)
        return lease

    def renew(self, record: SlotRecord, lease: Lease, duration: timedelta) -> Lease:
        """The lease lasts so long from now on."""
        renewed = replace(lease, expires_at=self.now + duration)
        state = next_slot_state(record.slot, record.state, SlotEvent.RENEWED)
        self.put(replace(record, state=state, lease=renewed))
        return renewed

    def vacate(self, record: SlotRecord) -> SlotRecord:
        """Nobody holds the slot any more, and it is not offered to whom it was: the next waiter's turn."""
        if record.waiters and record.grantable:
            event, offer = SlotEvent.OFFERED, Offer(record.waiters[0], self.now + self.table.policy.offer)
        else:
            event, offer = SlotEvent.VACATED, None
        state = next_slot_state(record.slot, record.state, event)
        record = replace(record, state=state, lease=None, offer=offer)
        self.put(record)
        return record

    def offer(self, record: SlotRecord) -> SlotRecord:
        """A free slot goes to the first of its waiters, if there is one and it can be granted."""
        if record.state is not SlotState.FREE or not record.waiters or not record.grantable:
            return record
        return self.vacate(record)

    def drop_ticket(self, ticket: str) -> None:
        """Out of every waiting list; a slot that was offered to it is offered to the next."""
        for slot in self.table.tickets.slots(ticket):
            record = self.get(slot)
            if record is not None:
                self.drop_waiter(record, ticket)

    def drop_waiter(self, record: SlotRecord, ticket: str) -> SlotRecord:
        """Out of one waiting list."""
        waiters = tuple(waiter for waiter in record.waiters if waiter.ticket != ticket)
        was_offered = record.offer is not None and record.offer.waiter.ticket == ticket
        record = replace(record, waiters=waiters)
        if was_offered:
            return self.vacate(record)
        self.put(record)
        return record

    def let_pass(self, slot: Slot) -> None:
        """Everything that is over at the slot by now, one after the other."""
        record = self.get(slot)
        while record is not None and (deadline := record.deadline) is not None and deadline <= self.now:
            if record.state is SlotState.LEASED:
                state = next_slot_state(slot, record.state, SlotEvent.EXPIRED)
                record = replace(record, state=state)
                self.put(record)
            elif record.offer is not None:
                # It had its turn here; it waits on in the other lists.
                record = self.drop_waiter(record, record.offer.waiter.ticket)
            else:
                record = self.vacate(record)

    def _dropped_tickets(self) -> Iterator[str]:
        """Tickets that are in no waiting list any more."""
        touched = {waiter.ticket for slot in self._records for waiter in _waiters(self.table.get(slot))}
        for ticket in touched:
            if not any(first_of(_waiters(self.get(slot)), ticket) for slot in self.table.tickets.slots(ticket)):
                yield ticket

    def _count(self, before: SlotRecord | None, after: SlotRecord | None) -> None:
        old, new = before.holder if before else None, after.holder if after else None
        if old != new:
            for name, number in ((old, -1), (new, 1)):
                if name is not None:
                    self._granted[name] = self._granted.get(name, 0) + number


def _differ(before: SlotRecord | None, after: SlotRecord | None) -> bool:
    """The states first: whole records take longer to compare."""
    return before is None or after is None or before.state is not after.state or before != after


def _waiters(record: SlotRecord | None) -> tuple[Waiter, ...]:
    return record.waiters if record is not None else ()


def first_of(waiters: tuple[Waiter, ...], ticket: str) -> int:
    """The ticket's place in a waiting list, counted from 1; 0: it is not there."""
    return next((place for place, waiter in enumerate(waiters, start=1) if waiter.ticket == ticket), 0)
