"""Admits work to slots by the fencing numbers of leases, and notifies workers when their lease changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from site_agent.base.durable import write_atomically
from site_agent.base.errors import NotHolderError, SiteAgentError, StaleFencingError, UnknownSlotError

FENCES_FILE = "slots.json"


@dataclass(frozen=True, slots=True)
class SlotLease:
    """A lease, as the master reports it."""

    index: int
    holder: str
    fencing: int
    expires_at_us: int
    grace_ends_at_us: int
    expired: bool = False
    """It is in its grace period."""


class WorkState(Enum):
    """The state of the work in a slot."""

    ADMITTED = "admitted"
    EXPIRED = "expired"
    """The lease has expired: the work should checkpoint."""
    OVER = "over"
    """The slot belongs to the work no more."""


@dataclass(frozen=True, slots=True)
class WorkEvent:
    """What a worker is notified of."""

    state: WorkState
    lease: SlotLease | None = None
    """None: the master has not reported it yet, or does not any more."""
    reason: str = ""
    """Why the work is OVER."""


@dataclass(eq=False, slots=True)
class Work:
    """One worker in one slot, until `SlotGuard.leave`."""

    index: int
    fencing: int
    state: WorkState = WorkState.ADMITTED
    events: asyncio.Queue[WorkEvent] = field(default_factory=asyncio.Queue)


class SlotGuard:
    """Guards the slots of one site. Belongs to one event loop."""

    def __init__(self, site: str, slots: int, directory: Path) -> None:
        """Raises SiteAgentError when the file of numbers is damaged."""
        self._site = site
        self._slots = slots
        self._path = directory / FENCES_FILE
        self._fences = _read(self._path)
        self._leases: dict[int, SlotLease] = {}
        self._told = 0
        self._work: set[Work] = set()

    def admit(self, site: str, index: int, fencing: int, *, holder: str | None = None) -> Work:
        """Admit work under that fencing number; older work in the slot is over. Durable on return.

        A number that the master has not told of yet is newer than what it has told. With `holder`, only the work of
        that framework is admitted, once the master has told whose the number is.

        Raises:
            UnknownSlotError: another site is meant, or it has no such slot.
            StaleFencingError: a newer grant is known, or the lease is over.
            NotHolderError: the lease is another framework's.
        """
        if site != self._site or not 0 <= index < self._slots:
            raise UnknownSlotError(
                f"there is no slot {site}/{index} here: this is site {self._site} with {self._slots} slots",
                hint="look at the master's list: selat lease list",
                ids={"slot": f"{site}/{index}"},
            )
        reason = self._stale(index, fencing) or ("" if fencing > 0 else "numbers begin at 1")
        if reason:
            raise StaleFencingError(
                f"the lease {site}/{index}#{fencing} is over: {reason}",
                hint="acquire the slot anew",
                ids={"slot": f"{site}/{index}", "fencing": str(fencing)},
            )
        self._check_holder(index, fencing, holder)
        if fencing > self._fences.get(index, 0):
            fences = {**self._fences, index: fencing}
            write_atomically(self._path, json.dumps({str(slot): number for slot, number in fences.items()}).encode())
            self._fences = fences
        self._settle(index)
        work = Work(index, fencing)
        work.events.put_nowait(WorkEvent(WorkState.ADMITTED))
        self._work.add(work)
        self._settle(index)
        return work

    def _check_holder(self, index: int, fencing: int, holder: str | None) -> None:
        lease = self._leases.get(index)
        if holder is not None and lease is not None and lease.fencing == fencing and lease.holder != holder:
            raise NotHolderError(
                f"the lease {self._site}/{index}#{fencing} is that of {lease.holder}, not of {holder}",
                hint="acquire the slot in your own name",
                ids={"slot": f"{self._site}/{index}", "fencing": str(fencing)},
            )

    def leave(self, work: Work) -> None:
        """The worker has ended."""
        self._work.discard(work)

    def observe(self, leases: Mapping[int, SlotLease | None], *, told: int) -> None:
        """Update these slots; a lease with a number up to `told` that the master does not report any more is over."""
        for index, lease in leases.items():
            if lease is None:
                self._leases.pop(index, None)
            else:
                self._leases[index] = lease
        self._told = max(self._told, told)
        for index in {work.index for work in self._work}:
            self._settle(index)

    def observe_all(self, leases: Iterable[SlotLease], *, told: int) -> None:
        """Update all slots: those that are not named are free."""
        named: dict[int, SlotLease | None] = {lease.index: lease for lease in leases}
        self.observe({**dict.fromkeys(self._leases), **named}, told=told)

    def _settle(self, index: int) -> None:
        """Notify the work in a slot of what it does not know yet."""
        lease = self._leases.get(index)
        for work in [work for work in self._work if work.index == index]:
            reason = self._stale(index, work.fencing)
            known = lease if lease is not None and lease.fencing == work.fencing else None
            if reason:
                self._move(work, WorkEvent(WorkState.OVER, reason=reason))
                self._work.discard(work)
            elif known is not None:
                self._move(work, WorkEvent(WorkState.EXPIRED if known.expired else WorkState.ADMITTED, known))

    def _move(self, work: Work, event: WorkEvent) -> None:
        if work.state is not event.state:
            work.state = event.state
            work.events.put_nowait(event)

    def _stale(self, index: int, fencing: int) -> str:
        """Why a number is stale; empty when it is not, as far as the agent knows."""
        fence, lease = self._fences.get(index, 0), self._leases.get(index)
        if lease is not None and lease.fencing > fencing:
            return f"{lease.holder} holds the slot under {lease.fencing}"
        if fence > fencing:
            return f"work under {fence} has begun in the slot"
        if fencing <= self._told and (lease is None or lease.fencing != fencing):
            return "it was released, or its grace is over"
        return ""


def _read(path: Path) -> dict[int, int]:
    if not path.exists():
        return {}
    try:
        return {int(slot): int(number) for slot, number in json.loads(path.read_bytes()).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise SiteAgentError(
            f"{path} is damaged: {error}", hint="remove it when no work is left in the site's slots"
        ) from error
