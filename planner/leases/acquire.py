"""Acquiring slots, optimistically: whoever comes first has it; the others hear who that is and until when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from planner.leases.draft import Draft
from planner.leases.model import Busy, Decision, Granted, Refusal, Refused, SlotRecord, SlotState, Wish
from planner.leases.policy import fair_cap
from planner.leases.refusals import duration_refusal, unknown_slot
from planner.leases.table import LeaseTable

AcquireOutcome = Granted | Busy | Refused


def acquire(
    table: LeaseTable, framework: str, wishes: Sequence[Wish], *, now: datetime, atomic: bool = False
) -> Decision[AcquireOutcome]:
    """Lease those of the slots that are free, in the order of the request; with `atomic`, all of them or none.

    A free slot that is offered to a waiter is granted to that waiter's framework only, and its ticket is used up.

    Raises:
        UnknownFrameworkError
    """
    quota = table.frameworks.get(framework).quota
    draft = Draft.begun(table, now)
    limit = _limit(draft, framework, quota)
    outcomes = tuple(_one(draft, framework, wish, limit) for wish in wishes)
    if atomic and not all(isinstance(outcome, Granted) for outcome in outcomes):
        # Nothing of the first draft is kept but that time passed.
        return Draft.begun(table, now).decision(tuple(_not_all(outcome) for outcome in outcomes))
    return draft.decision(outcomes)


@dataclass(frozen=True, slots=True)
class _Limit:
    """The most slots that the framework may hold."""

    slots: int | None
    reason: Refusal = Refusal.QUOTA
    text: str = ""


def _limit(draft: Draft, framework: str, quota: int | None) -> _Limit:
    if draft.table.policy.fair:
        shared = draft.shared()
        cap = fair_cap(framework, draft.demands(), shared)
        if quota is None or cap < quota:
            return _Limit(cap, Refusal.FAIR_CAP, f"the fair share of {framework} is {cap} of {shared} slots now")
    return _Limit(quota, Refusal.QUOTA, f"the quota of {framework} is {quota} slots")


def _one(draft: Draft, framework: str, wish: Wish, limit: _Limit) -> AcquireOutcome:
    record = draft.get(wish.slot)
    if record is None:
        return unknown_slot(draft.table, wish.slot)
    refused = duration_refusal(draft.table.policy, wish.slot, wish.duration)
    if refused is not None:
        return refused
    if not record.reachable:
        text = f"site {wish.slot.site} is not heard; its slots are granted again when it is"
        return Refused(wish.slot, Refusal.SITE_UNREACHABLE, text)
    if record.draining:
        text = f"site {wish.slot.site} is draining: its slots are not granted until it is undrained"
        return Refused(wish.slot, Refusal.SITE_DRAINING, text)
    if not _is_free_for(record, framework):
        return Busy(record)
    held = draft.held(framework)
    if limit.slots is not None and held >= limit.slots:
        return Refused(wish.slot, limit.reason, f"{limit.text}, and it holds {held}")
    return Granted(draft.grant(record, framework, wish.duration))


def _is_free_for(record: SlotRecord, framework: str) -> bool:
    if record.state is SlotState.OFFERED and record.offer is not None:
        return record.offer.waiter.framework == framework
    return record.state is SlotState.FREE


def _not_all(outcome: AcquireOutcome) -> AcquireOutcome:
    if not isinstance(outcome, Granted):
        return outcome
    text = "it was free, but not all slots of the request were, and all or nothing was asked for"
    return Refused(outcome.lease.slot, Refusal.ATOMIC, text)
