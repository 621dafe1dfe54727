"""Values of the lease manager: slots, leases, waiters, and what each part of a request is answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

OutcomeT = TypeVar("OutcomeT")


class Slot(NamedTuple):
    """One CPU and 1 GB at a site. Written `site/index`."""

    site: str
    index: int  # type: ignore[assignment]  # nobody needs tuple.index of it

    def __str__(self) -> str:
        return f"{self.site}/{self.index}"


class SlotState(Enum):
    """docs/leases.md draws the moves."""

    FREE = "free"
    """Nobody holds it and nobody waits for it."""
    OFFERED = "offered"
    """Free, and kept for the first of its waiters for a short while."""
    LEASED = "leased"
    GRACE = "grace"
    """Its lease has expired; the holder may still renew, or end its task."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A manager of jobs that takes slots: the streaming job manager, or any other that speaks the lease service."""

    name: str
    registered_at: datetime
    quota: int | None = None
    """The most slots it may hold at a time; None: no quota."""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one framework to one slot until an instant."""

    slot: Slot
    holder: str
    fencing: int
    """Number of the grant. Each grant has a larger one than all before it, on any slot: who sees two for one slot knows
    which of them is over."""
    granted_at: datetime
    expires_at: datetime
    grace: timedelta
    """How long after the expiry the holder may still renew, or end its task."""

    @property
    def id(self) -> str:
        """As in `eu/3#17`."""
        return f"{self.slot}#{self.fencing}"

    @property
    def grace_ends_at(self) -> datetime:
        """From then on the slot is not the holder's, whatever runs there."""
        return self.expires_at + self.grace


class Waiter(NamedTuple):
    """One wish for one slot, any of those whose waiting lists it is in."""

    ticket: str
    """Unique; chosen by whoever waits."""
    framework: str


class Offer(NamedTuple):
    """A free slot kept for its first waiter."""

    waiter: Waiter
    until: datetime


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """All that is shared of a slot."""

    slot: Slot
    state: SlotState = SlotState.FREE
    lease: Lease | None = None
    """In LEASED and GRACE."""
    offer: Offer | None = None
    """In OFFERED; its waiter is the first of `waiters`."""
    waiters: tuple[Waiter, ...] = ()
    """First come, first served."""
    reachable: bool = True
    """True when its site is heard."""
    draining: bool = False
    """True when its site gets no new work."""

    @property
    def holder(self) -> str | None:
        return self.lease.holder if self.lease else None

    @property
    def shared(self) -> bool:
        """Whether it is one of the slots that there are to share."""
        return self.grantable or self.lease is not None

    @property
    def grantable(self) -> bool:
        """A slot that is not can be neither granted nor offered; its lease goes on, and can be renewed."""
        return self.reachable and not self.draining

    @property
    def free_by(self) -> datetime | None:
        """When it will be free at the latest unless its lease is renewed; None: it is free."""
        if self.lease is not None:
            return self.lease.grace_ends_at
        return self.offer.until if self.offer is not None else None

    @property
    def deadline(self) -> datetime | None:
        """When time by itself changes the record; None: it does not."""
        if self.state is SlotState.LEASED and self.lease is not None:
            return self.lease.expires_at
        return self.free_by


class Wish(NamedTuple):
    """A slot, and for how long."""

    slot: Slot
    duration: timedelta


class LeaseRef(NamedTuple):
    """A lease as its holder names it."""

    slot: Slot
    fencing: int


class Renewal(NamedTuple):
    """A lease, and how long it is to last from now on."""

    slot: Slot
    fencing: int
    duration: timedelta


class Refusal(Enum):
    """Why a part of a request is refused; docs/leases.md says what helps."""

    UNKNOWN_SLOT = "unknown_slot"
    DURATION_NOT_POSITIVE = "duration_not_positive"
    DURATION_TOO_LONG = "duration_too_long"
    SITE_UNREACHABLE = "site_unreachable"
    SITE_DRAINING = "site_draining"
    QUOTA = "quota"
    FAIR_CAP = "fair_cap"
    ATOMIC = "atomic"
    """All or nothing was asked for, and another part of the request was not granted."""
    FOREIGN_LEASE = "foreign_lease"
    STALE_FENCING = "stale_fencing"
    """The lease of that number is over."""
    UNKNOWN_FENCING = "unknown_fencing"
    """No grant of that slot had that number yet."""
    TICKET_TAKEN = "ticket_taken"


@dataclass(frozen=True, slots=True)
class Granted:
    lease: Lease


@dataclass(frozen=True, slots=True)
class Renewed:
    lease: Lease


@dataclass(frozen=True, slots=True)
class Released:
    slot: Slot


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else was faster: a normal answer, with what is known of the slot now."""

    record: SlotRecord


@dataclass(frozen=True, slots=True)
class Queued:
    """A place in a waiting list, counted from 1; a slot that was free is offered at once."""

    record: SlotRecord
    position: int


@dataclass(frozen=True, slots=True)
class Refused:
    slot: Slot
    reason: Refusal
    text: str


class Change(NamedTuple):
    """A slot before and after; None where it did not, or does no longer exist."""

    before: SlotRecord | None
    after: SlotRecord | None

    @property
    def slot(self) -> Slot:
        record = self.after or self.before
        assert record is not None, "a change is of some slot"
        return record.slot


@dataclass(frozen=True, slots=True)
class Decision(Generic[OutcomeT]):
    """What a request is answered, and what becomes of the table."""

    outcomes: tuple[OutcomeT, ...]
    """In the order of the request."""
    changes: tuple[Change, ...]
    """At most one per slot."""
    fencing: int
    """The last number given, this decision's grants included."""
