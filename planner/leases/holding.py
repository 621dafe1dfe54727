"""Renewing and releasing leases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from planner.leases.draft import Draft
from planner.leases.model import Decision, LeaseRef, Refused, Released, Renewal, Renewed
from planner.leases.refusals import duration_refusal, not_its_lease
from planner.leases.table import LeaseTable

RenewOutcome = Renewed | Refused
ReleaseOutcome = Released | Refused


def renew(table: LeaseTable, framework: str, renewals: Sequence[Renewal], *, now: datetime) -> Decision[RenewOutcome]:
    """Let leases last so long from now on, be it shorter than before; also in their grace. They keep their numbers.

    Quota and fair cap limit what is granted, not what is kept: a framework over its share loses nothing by renewing.

    Raises:
        UnknownFrameworkError
    """
    table.frameworks.get(framework)
    draft = Draft.begun(table, now)
    return draft.decision(tuple(_renewed(draft, framework, renewal) for renewal in renewals))


def release(
    table: LeaseTable, framework: str, leases: Sequence[LeaseRef], *, now: datetime
) -> Decision[ReleaseOutcome]:
    """Give slots back, before or after their expiry; each is offered to the first of its waiters at once.

    Raises:
        UnknownFrameworkError
    """
    table.frameworks.get(framework)
    draft = Draft.begun(table, now)
    return draft.decision(tuple(_released(draft, framework, ref) for ref in leases))


def _renewed(draft: Draft, framework: str, renewal: Renewal) -> RenewOutcome:
    record = draft.get(renewal.slot)
    ref = LeaseRef(renewal.slot, renewal.fencing)
    refused = not_its_lease(draft.table, record, ref, framework)
    refused = refused or duration_refusal(draft.table.policy, renewal.slot, renewal.duration)
    if refused is not None or record is None or record.lease is None:
        assert refused is not None, "a slot without a lease is refused"
        return refused
    return Renewed(draft.renew(record, record.lease, renewal.duration))


def _released(draft: Draft, framework: str, ref: LeaseRef) -> ReleaseOutcome:
    record = draft.get(ref.slot)
    refused = not_its_lease(draft.table, record, ref, framework)
    if refused is not None or record is None:
        assert refused is not None, "an unknown slot is refused"
        return refused
    draft.vacate(record)
    return Released(ref.slot)
