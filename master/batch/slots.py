"""Leases and waiting lists of the framework `batch`, and the slots as its scheduler sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from master.leases.manager import LeaseManager
from master.leases.streaming import STREAMING
from planner.batch import SlotView
from planner.leases import (
    Change,
    Granted,
    Lease,
    LeaseRef,
    Refused,
    Renewal,
    Slot,
    SlotRecord,
    Waiter,
    Wish,
    acquire,
    leave,
    release,
    renew,
    wait_for,
)

BATCH = "batch"

RENEW_BEFORE = timedelta(seconds=5)
"""A lease is renewed when so much of it is left; until then its end is what was estimated."""

SHORTEST = timedelta(seconds=10)

SOON = timedelta(seconds=1)
"""When a slot is taken to be free whose lease has expired, and is in its grace."""


class BatchSlots:
    """Takes, renews and gives back slots. Every method raises StoreError, and nothing was changed then."""

    def __init__(self, leases: LeaseManager) -> None:
        self._leases = leases
        self._held: dict[Slot, Lease] = {}
        self._tickets: set[str] = set()
        leases.introduce(BATCH, "tasks of batch queries")
        self._note(Change(None, record) for record in leases.table.unordered() if record.holder == BATCH)
        leases.listen(self._note)

    @property
    def held(self) -> Mapping[Slot, Lease]:
        """Its leases."""
        return self._held

    @property
    def idle(self) -> bool:
        """It neither holds slots nor waits for any."""
        return not self._held and not self._tickets

    def now(self) -> datetime:
        """The time by which leases go."""
        return self._leases.now()

    def view(self, now: datetime) -> list[SlotView]:
        """All slots of sites that are heard, as they are at that instant; those that are free, are so from then on.

        Slots of streaming queries are renewed for as long as those live, so nobody says when they will be free.
        """
        return [_seen(record, now) for record in self._leases.table.records() if record.reachable]

    def record(self, slot: Slot) -> SlotRecord | None:
        """What is known of a slot."""
        return self._leases.table.get(slot)

    def follow_sites(self) -> None:
        """Know the slots of a site that was heard since the last tick."""
        self._leases.follow_sites()

    def take(self, wishes: Sequence[tuple[Slot, timedelta]]) -> list[Lease | str]:
        """Of each slot the lease; else who was faster, or why it is refused."""
        longest = self._leases.table.policy.longest
        asked = [Wish(slot, min(max(duration, SHORTEST), longest)) for slot, duration in wishes]
        if not asked:
            return []
        outcomes = self._leases.ask_now(lambda table, now: acquire(table, BATCH, asked, now=now))
        return [_answer(outcome) for outcome in outcomes]

    def renew(self, left: Mapping[Slot, timedelta]) -> None:
        """Renew those of these leases that end soon, each for as long as its task still needs."""
        now, longest = self._leases.now(), self._leases.table.policy.longest
        due = [
            Renewal(lease.slot, lease.fencing, min(max(left[slot], SHORTEST), longest))
            for slot, lease in self._held.items()
            if slot in left and lease.expires_at - now <= min(RENEW_BEFORE, longest / 2)
        ]
        if due:
            self._leases.ask_now(lambda table, now: renew(table, BATCH, due, now=now))

    def keep_only(self, slots: Collection[Slot]) -> None:
        """Give back all others."""
        refs = [LeaseRef(slot, lease.fencing) for slot, lease in self._held.items() if slot not in slots]
        if refs:
            self._leases.ask_now(lambda table, now: release(table, BATCH, refs, now=now))

    def stand_in_line(self, wanted: Mapping[str, tuple[Slot, ...]]) -> None:
        """Be in the waiting lists of these slots, by ticket, and in no others."""
        for ticket in self._tickets - wanted.keys():
            self._leave(ticket)
        for ticket, slots in wanted.items():
            known = set(self._leases.table.ticket_slots(ticket))
            if known - set(slots):
                self._leave(ticket)
            self._tickets.add(ticket)
            if set(slots) - known:
                self._wait(Waiter(ticket, BATCH), slots)

    def _leave(self, ticket: str) -> None:
        if self._leases.table.ticket_slots(ticket):
            self._leases.ask_now(lambda table, now: leave(table, ticket, now=now))
        self._tickets.discard(ticket)

    def _wait(self, waiter: Waiter, slots: Sequence[Slot]) -> None:
        self._leases.ask_now(lambda table, now: wait_for(table, waiter, slots, now=now))

    def _note(self, changes: Iterable[Change]) -> None:
        for before, after in changes:
            if before is not None and before.holder == BATCH:
                self._held.pop(before.slot, None)
            if after is not None and after.lease is not None and after.holder == BATCH:
                self._held[after.slot] = after.lease


def _answer(outcome: object) -> Lease | str:
    if isinstance(outcome, Granted):
        return outcome.lease
    return outcome.text if isinstance(outcome, Refused) else ""


def _seen(record: SlotRecord, now: datetime) -> SlotView:
    if record.offer is not None:
        mine = record.offer.waiter.framework == BATCH
        # It goes to another unless that one lets it pass; who comes then waits behind it.
        return SlotView(record.slot, now if mine else record.offer.until, 0 if mine else len(record.waiters))
    if record.lease is None:
        return SlotView(record.slot, now)
    others = sum(waiter.framework != BATCH for waiter in record.waiters)
    if record.lease.holder == STREAMING:
        return SlotView(record.slot, None, others)
    return SlotView(record.slot, max(now + SOON, record.lease.expires_at), others)
