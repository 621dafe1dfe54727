"""Slots come and go with their sites, and a manager that was away takes up where it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from planner.leases.draft import Draft
from planner.leases.model import Decision, Slot, SlotRecord, SlotState
from planner.leases.table import LeaseTable


@dataclass(frozen=True, slots=True)
class SiteSlots:
    """The slots of one site, from index 0 on."""

    count: int
    reachable: bool = True
    """True when the site is heard."""
    draining: bool = False
    """True when the site gets no new work."""


def set_site(table: LeaseTable, site: str, slots: SiteSlots, *, now: datetime) -> Decision[None]:
    """The site's slots are these from now on.

    A site that is not heard, or is draining, keeps its leases and waiting lists; its slots are neither granted nor
    offered. Slots that it has no longer are gone, with their leases.
    """
    draft = Draft.begun(table, now)
    wanted = {Slot(site, index) for index in range(slots.count)}
    for slot in table.slots_of(site):
        if slot not in wanted:
            draft.remove(slot)
    for slot in sorted(wanted):
        record = draft.get(slot)
        if record is None:
            draft.put(SlotRecord(slot, reachable=slots.reachable, draining=slots.draining))
        else:
            _changed(draft, replace(record, reachable=slots.reachable, draining=slots.draining))
    return draft.decision(())


def resume(table: LeaseTable, away: timedelta, *, now: datetime) -> Decision[None]:
    """Time stood still for leases while their manager was away, since nobody could renew: each gets as much more.

    Call it once, before any other decision. `away` may be too long (the last sign of life was not the last moment),
    never too short. It is below 0 when the clock was set back meanwhile.
    """
    draft = _moved(table, away, now)
    for slot in table.slots():
        draft.let_pass(slot)
    return draft.decision(())


def follow_clock(table: LeaseTable, by: timedelta, *, now: datetime) -> Decision[None]:
    """Move every lease and offer by as much as the clock was set, so that none gains or loses time.

    `now` is an instant of the new time.
    """
    return _moved(table, by, now).decision(())


def _moved(table: LeaseTable, by: timedelta, now: datetime) -> Draft:
    """A draft in which every lease and offer ends so much later."""
    draft = Draft(table, now)
    for record in table.records():
        lease, offer = record.lease, record.offer
        if lease is not None:
            lease = replace(lease, expires_at=lease.expires_at + by)
        if offer is not None:
            offer = offer._replace(until=offer.until + by)
        draft.put(replace(record, lease=lease, offer=offer))
    return draft


def _changed(draft: Draft, record: SlotRecord) -> None:
    draft.put(record)
    if record.grantable:
        draft.offer(record)
    elif record.state is SlotState.OFFERED:
        draft.vacate(record)
