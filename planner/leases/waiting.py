"""Waiting lists, and what the passing of time brings.

A ticket is a wish for one slot, any of those whose waiting lists it is in. A slot that becomes free, early or at the
end of its grace, is offered to the first ticket of its list for `LeasePolicy.offer`; nobody but that ticket's framework
is granted it then. A ticket that lets an offer lapse leaves that list; one whose offer is taken leaves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from planner.leases.draft import Draft, first_of
from planner.leases.model import Decision, Queued, Refusal, Refused, Slot, Waiter
from planner.leases.refusals import unknown_slot
from planner.leases.table import LeaseTable

WaitOutcome = Queued | Refused


def wait_for(table: LeaseTable, waiter: Waiter, slots: Sequence[Slot], *, now: datetime) -> Decision[WaitOutcome]:
    """Put the ticket at the end of each slot's waiting list; where it is in one already, it keeps its place.

    Raises:
        UnknownFrameworkError
    """
    table.frameworks.get(waiter.framework)
    draft = Draft.begun(table, now)
    return draft.decision(tuple(_queued(draft, waiter, slot) for slot in slots))


def leave(table: LeaseTable, ticket: str, *, now: datetime) -> Decision[None]:
    """Take the ticket out of every waiting list; what was offered to it is offered to the next.

    One that is in no list changes nothing.
    """
    draft = Draft.begun(table, now)
    draft.drop_ticket(ticket)
    return draft.decision(())


def expire(table: LeaseTable, *, now: datetime) -> Decision[None]:
    """What is over by now: leases go into their grace, graces and offers end."""
    return Draft.begun(table, now).decision(())


def _queued(draft: Draft, waiter: Waiter, slot: Slot) -> WaitOutcome:
    record = draft.get(slot)
    if record is None:
        return unknown_slot(draft.table, slot)
    owner = draft.table.tickets.owner(waiter.ticket)
    if owner is not None and owner != waiter.framework:
        text = f"the ticket {waiter.ticket!r} is {owner}'s; tickets are unique"
        return Refused(slot, Refusal.TICKET_TAKEN, text)
    if not first_of(record.waiters, waiter.ticket):
        record = replace(record, waiters=(*record.waiters, waiter))
        draft.put(record)
    record = draft.offer(record)
    return Queued(record, first_of(record.waiters, waiter.ticket))
