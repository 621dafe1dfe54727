"""Refusals that several decisions share, each with its reason in words."""

from __future__ import annotations

from datetime import timedelta

from planner.leases.model import LeaseRef, Refusal, Refused, Slot, SlotRecord
from planner.leases.policy import LeasePolicy
from planner.leases.table import LeaseTable


def unknown_slot(table: LeaseTable, slot: Slot) -> Refused:
    known = table.slots_of(slot.site)
    if known:
        text = f"there is no slot {slot}: site {slot.site} has {known[0]} to {known[-1]}"
    else:
        text = f"there is no slot {slot}: site {slot.site} has no slots, or none yet"
    return Refused(slot, Refusal.UNKNOWN_SLOT, text)


def duration_refusal(policy: LeasePolicy, slot: Slot, duration: timedelta) -> Refused | None:
    """None: the duration is one that can be granted."""
    if duration <= timedelta(0):
        text = f"a lease for {duration.total_seconds():g} s is none; ask for more than 0 s"
        return Refused(slot, Refusal.DURATION_NOT_POSITIVE, text)
    if duration > policy.longest:
        longest_s = policy.longest.total_seconds()
        text = f"{duration.total_seconds():g} s is too long: {longest_s:g} s at most; renew the lease instead"
        return Refused(slot, Refusal.DURATION_TOO_LONG, text)
    return None


def not_its_lease(table: LeaseTable, record: SlotRecord | None, ref: LeaseRef, framework: str) -> Refused | None:
    """None: the framework holds the slot under that number now."""
    slot = ref.slot
    if record is None:
        return unknown_slot(table, slot)
    if ref.fencing > table.fencing or ref.fencing <= 0:
        text = f"no grant has had the number {ref.fencing} yet; the last one was {table.fencing}"
        return Refused(slot, Refusal.UNKNOWN_FENCING, text)
    lease = record.lease
    if lease is None or lease.fencing != ref.fencing:
        held = f"{lease.holder} holds the slot under {lease.fencing}" if lease else f"the slot is {record.state.value}"
        return Refused(slot, Refusal.STALE_FENCING, f"the lease {slot}#{ref.fencing} is over; {held}")
    if lease.holder != framework:
        return Refused(slot, Refusal.FOREIGN_LEASE, f"the lease {lease.id} is {lease.holder}'s, not {framework}'s")
    return None
