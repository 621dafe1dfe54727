"""Slots shared by lease: what a client sees of them, and what its requests are answered. See docs/leases.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from selat.convert.times import to_datetime
from selat.errors import Detail, InvalidArgument
from selat.v1 import lease_pb2 as pb

_INDEX_DIGITS = 9


class Slot(NamedTuple):
    """One CPU and 1 GB at a site. Written `site/index`."""

    site: str
    index: int  # type: ignore[assignment]  # nobody needs tuple.index of it

    def __str__(self) -> str:
        return f"{self.site}/{self.index}"

    @classmethod
    def parse(cls, text: str) -> Slot:
        """Raises InvalidArgument when the text is not `site/index`."""
        site, _, index = text.rpartition("/")
        if not site or not (index.isascii() and index.isdecimal()) or len(index) > _INDEX_DIGITS:
            raise InvalidArgument(f"{text!r} names no slot", detail=Detail(hint="write SITE/INDEX, as in eu/0"))
        return cls(site, int(index))


class SlotState(Enum):
    """Where a slot is in its life."""

    FREE = "free"
    OFFERED = "offered"
    """Free, and kept for the first of its waiters for a short while."""
    LEASED = "leased"
    GRACE = "grace"
    """Its lease has expired; the holder may still renew it, or end its task."""
    UNKNOWN = "unknown"
    """A state that this version of the client does not know."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One framework's right to one slot until an instant."""

    slot: Slot
    holder: str
    fencing: int
    """Larger than that of every grant before, on any slot."""
    granted_at: datetime
    expires_at: datetime
    grace_ends_at: datetime
    """From then on the slot is not the holder's."""


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A slot as the master knows it."""

    slot: Slot
    state: SlotState
    lease: Lease | None
    waiters: int
    """How many wait for it."""
    offered_to: str
    """In OFFERED: the framework that can take it."""
    offered_until: datetime | None
    reachable: bool
    """Whether its site is heard; if not, it is neither granted nor offered, and its lease goes on."""
    draining: bool = False
    """True when its site gets no new work: as if it was not heard, but leases can be renewed."""

    @property
    def holder(self) -> str:
        """Empty when nobody holds it."""
        return self.lease.holder if self.lease else ""

    @property
    def free_by(self) -> datetime | None:
        """When it will be free at the latest, unless its lease is renewed; None: it is free."""
        return self.lease.grace_ends_at if self.lease else self.offered_until


@dataclass(frozen=True, slots=True)
class SlotChanges:
    """What a watch tells at once."""

    slots: tuple[SlotInfo, ...]
    """As they are now."""
    gone: tuple[Slot, ...] = ()
    snapshot: bool = False
    """These are all slots; those that are not here are gone."""


@dataclass(frozen=True, slots=True)
class FrameworkInfo:
    """A manager of jobs that takes slots by lease."""

    name: str
    quota: int | None
    """The most slots it may hold; None: no quota."""
    held: int
    waiting: int
    comment: str
    registered_at: datetime | None


@dataclass(frozen=True, slots=True)
class Granted:
    """The slot is this framework's; or the lease was renewed."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else was faster."""

    info: SlotInfo


@dataclass(frozen=True, slots=True)
class Released:
    """The slot was given back."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class Refused:
    """`reason` is one of those that docs/leases.md lists, `text` the same in words."""

    slot: Slot
    reason: str
    text: str


def slot(message: pb.Slot) -> Slot:
    return Slot(message.site, message.index)


def slot_message(value: Slot) -> pb.Slot:
    return pb.Slot(site=value.site, index=value.index)


def lease(message: pb.Lease) -> Lease:
    return Lease(
        slot=slot(message.slot),
        holder=message.holder,
        fencing=message.fencing,
        granted_at=to_datetime(message.granted_at_us),
        expires_at=to_datetime(message.expires_at_us),
        grace_ends_at=to_datetime(message.grace_ends_at_us),
    )


def slot_info(message: pb.SlotStatus) -> SlotInfo:
    return SlotInfo(
        slot=slot(message.slot),
        state=_STATES.get(message.state, SlotState.UNKNOWN),
        lease=lease(message.lease) if message.HasField("lease") else None,
        waiters=message.waiters,
        offered_to=message.offered_to,
        offered_until=to_datetime(message.offered_until_us) if message.offered_until_us else None,
        reachable=message.reachable,
        draining=message.draining,
    )


def framework_info(message: pb.Framework) -> FrameworkInfo:
    return FrameworkInfo(
        name=message.name,
        quota=message.quota if message.HasField("quota") else None,
        held=message.held,
        waiting=message.waiting,
        comment=message.comment,
        registered_at=to_datetime(message.registered_at_us) if message.registered_at_us else None,
    )


def acquired(message: pb.AcquireOutcome) -> Granted | Busy | Refused:
    match message.WhichOneof("outcome"):
        case "granted":
            return Granted(lease(message.granted))
        case "busy":
            return Busy(slot_info(message.busy))
        case _:
            return refused(message.refused)


def renewed(message: pb.RenewOutcome) -> Granted | Refused:
    return Granted(lease(message.renewed)) if message.HasField("renewed") else refused(message.refused)


def released(message: pb.ReleaseOutcome) -> Released | Refused:
    return Released(slot(message.released)) if message.HasField("released") else refused(message.refused)


def refused(message: pb.Refusal) -> Refused:
    names = pb.RefusalReason.keys() if message.reason in pb.RefusalReason.values() else ()
    name = pb.RefusalReason.Name(message.reason) if names else "REFUSAL_REASON_UNKNOWN"
    return Refused(slot(message.slot), name.removeprefix("REFUSAL_REASON_").lower(), message.text)


_STATES = {
    pb.SLOT_STATE_FREE: SlotState.FREE,
    pb.SLOT_STATE_OFFERED: SlotState.OFFERED,
    pb.SLOT_STATE_LEASED: SlotState.LEASED,
    pb.SLOT_STATE_GRACE: SlotState.GRACE,
}
