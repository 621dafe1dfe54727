"""Converts slots, leases and answers about them to messages, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

from contract.times import to_us
from master.base.errors import InvalidRequestError
from master.leases.feed import FeedPart
from master.leases.tickets import TicketEvent
from planner.leases import (
    Busy,
    Framework,
    Granted,
    Lease,
    LeaseRef,
    LeaseTable,
    Queued,
    Refusal,
    Refused,
    Released,
    Renewal,
    Renewed,
    Slot,
    SlotRecord,
    SlotState,
    Wish,
)
from planner.leases.acquire import AcquireOutcome
from planner.leases.holding import ReleaseOutcome, RenewOutcome
from planner.leases.waiting import WaitOutcome
from selat.v1 import lease_pb2 as pb

A = TypeVar("A")
B = TypeVar("B")

PARTS_LIMIT = 10_000
"""The most slots in one request."""

_STATES = {
    SlotState.FREE: pb.SLOT_STATE_FREE,
    SlotState.OFFERED: pb.SLOT_STATE_OFFERED,
    SlotState.LEASED: pb.SLOT_STATE_LEASED,
    SlotState.GRACE: pb.SLOT_STATE_GRACE,
}
_REASONS = {reason: pb.RefusalReason.Value(f"REFUSAL_REASON_{reason.name}") for reason in Refusal}


def slot_to_proto(slot: Slot) -> pb.Slot:
    return pb.Slot(site=slot.site, index=slot.index)


def slot_from_proto(message: pb.Slot) -> Slot:
    return Slot(message.site, message.index)


def lease_to_proto(lease: Lease) -> pb.Lease:
    return pb.Lease(
        slot=slot_to_proto(lease.slot),
        holder=lease.holder,
        fencing=lease.fencing,
        granted_at_us=to_us(lease.granted_at),
        expires_at_us=to_us(lease.expires_at),
        grace_ends_at_us=to_us(lease.grace_ends_at),
    )


def record_to_proto(record: SlotRecord) -> pb.SlotStatus:
    offer = record.offer
    return pb.SlotStatus(
        slot=slot_to_proto(record.slot),
        state=_STATES[record.state],
        lease=lease_to_proto(record.lease) if record.lease is not None else None,
        waiters=len(record.waiters),
        offered_to=offer.waiter.framework if offer is not None else "",
        offered_until_us=to_us(offer.until) if offer is not None else 0,
        reachable=record.reachable,
        draining=record.draining,
    )


def part_to_proto(part: FeedPart) -> pb.WatchSlotsResponse:
    return pb.WatchSlotsResponse(
        snapshot_begins=part.begins,
        snapshot_ends=part.ends,
        slots=map(record_to_proto, part.records),
        gone=map(slot_to_proto, part.gone),
        version=part.version,
        fencing=part.fencing,
    )


def wishes_from_proto(wishes: Sequence[pb.Wish]) -> tuple[Wish, ...]:
    """Raises InvalidRequestError."""
    return _some(wishes, lambda w: Wish(slot_from_proto(w.slot), timedelta(microseconds=w.duration_us)))


def renewals_from_proto(renewals: Sequence[pb.Renewal]) -> tuple[Renewal, ...]:
    """Raises InvalidRequestError."""
    return _some(renewals, lambda r: Renewal(slot_from_proto(r.slot), r.fencing, timedelta(microseconds=r.duration_us)))


def refs_from_proto(refs: Sequence[pb.LeaseRef]) -> tuple[LeaseRef, ...]:
    """Raises InvalidRequestError."""
    return _some(refs, lambda r: LeaseRef(slot_from_proto(r.slot), r.fencing))


def slots_from_proto(slots: Sequence[pb.Slot]) -> tuple[Slot, ...]:
    """Raises InvalidRequestError."""
    return _some(slots, slot_from_proto)


def acquired_to_proto(outcomes: Iterable[AcquireOutcome]) -> pb.AcquireResponse:
    return pb.AcquireResponse(outcomes=map(_acquired, outcomes))


def renewed_to_proto(outcomes: Iterable[RenewOutcome]) -> pb.RenewResponse:
    return pb.RenewResponse(outcomes=map(_renewed, outcomes))


def released_to_proto(outcomes: Iterable[ReleaseOutcome]) -> pb.ReleaseResponse:
    return pb.ReleaseResponse(outcomes=map(_released, outcomes))


def waiting_to_proto(step: tuple[WaitOutcome, ...] | TicketEvent) -> pb.WaitForResponse:
    """One message of a WaitFor call."""
    if not isinstance(step, TicketEvent):
        return pb.WaitForResponse(queued=pb.QueueOutcomes(outcomes=map(_queued, step)))
    status = record_to_proto(step.slot)
    return pb.WaitForResponse(offered=status) if step.offered else pb.WaitForResponse(left=status)


def framework_to_proto(framework: Framework, table: LeaseTable) -> pb.Framework:
    return pb.Framework(
        name=framework.name,
        quota=framework.quota,
        comment=framework.comment,
        registered_at_us=to_us(framework.registered_at),
        held=table.held(framework.name),
        waiting=table.tickets.waiting(framework.name),
    )


def _acquired(outcome: AcquireOutcome) -> pb.AcquireOutcome:
    match outcome:
        case Granted(lease):
            return pb.AcquireOutcome(granted=lease_to_proto(lease))
        case Busy(record):
            return pb.AcquireOutcome(busy=record_to_proto(record))
        case Refused():
            return pb.AcquireOutcome(refused=_refused(outcome))


def _renewed(outcome: RenewOutcome) -> pb.RenewOutcome:
    if isinstance(outcome, Renewed):
        return pb.RenewOutcome(renewed=lease_to_proto(outcome.lease))
    return pb.RenewOutcome(refused=_refused(outcome))


def _released(outcome: ReleaseOutcome) -> pb.ReleaseOutcome:
    if isinstance(outcome, Released):
        return pb.ReleaseOutcome(released=slot_to_proto(outcome.slot))
    return pb.ReleaseOutcome(refused=_refused(outcome))


def _queued(outcome: WaitOutcome) -> pb.QueueOutcome:
    if isinstance(outcome, Queued):
        place = pb.QueuePlace(position=outcome.position, slot=record_to_proto(outcome.record))
        return pb.QueueOutcome(place=place)
    return pb.QueueOutcome(refused=_refused(outcome))


def _refused(refused: Refused) -> pb.Refusal:
    return pb.Refusal(slot=slot_to_proto(refused.slot), reason=_REASONS[refused.reason], text=refused.text)


def _some(parts: Sequence[A], read: Callable[[A], B]) -> tuple[B, ...]:
    if not 0 < len(parts) <= PARTS_LIMIT:
        raise InvalidRequestError(f"the request names {len(parts)} slots", hint=f"name 1 to {PARTS_LIMIT}")
    return tuple(map(read, parts))
