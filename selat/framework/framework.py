"""A framework of one's own: takes slots, keeps them, gives them back, waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeVar

from selat import leases
from selat.errors import TimedOut, Unavailable
from selat.framework.occupancy import Occupancy
from selat.leases import Busy, Granted, Lease, Refused, Released, Slot, SlotChanges, SlotInfo
from selat.transport.retry import Reconnect
from selat.transport.session import Call, Following, Session
from selat.v1 import lease_pb2 as pb
from selat.v1 import site_pb2

M = TypeVar("M")

_MICROSECOND = timedelta(microseconds=1)
_LONGEST_US = 2**63 - 1


class Framework:
    """One registered framework; made by `Client.register_framework`. May be used from several threads.

    Every method raises Unavailable when the master does not answer, and NotFound when it does not know the framework.
    """

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        return self._name

    def acquire(self, wishes: Mapping[Slot, timedelta], *, atomic: bool = False) -> list[Granted | Busy | Refused]:
        """Leases slots for so long; one answer each, in order. With `atomic` all are granted or none.

        An answer that got lost may have been a grant: such a slot is busy with a lease of this framework's own.
        """
        request = pb.AcquireRequest(
            framework=self._name,
            wishes=[
                pb.Wish(slot=leases.slot_message(slot), duration_us=_us(duration)) for slot, duration in wishes.items()
            ],
            atomic=atomic,
        )
        return [leases.acquired(o) for o in self._session.ask(self._session.leases.Acquire, request).outcomes]

    def renew(self, held: Iterable[Lease], duration: timedelta) -> list[Granted | Refused]:
        """Lets leases last so long from now on; one answer each, in order."""
        request = pb.RenewRequest(
            framework=self._name,
            renewals=[
                pb.Renewal(slot=leases.slot_message(lease.slot), fencing=lease.fencing, duration_us=_us(duration))
                for lease in held
            ],
        )
        return [leases.renewed(o) for o in self._session.ask(self._session.leases.Renew, request).outcomes]

    def release(self, held: Iterable[Lease]) -> list[Released | Refused]:
        """Gives slots back; one answer each, in order."""
        refs = [pb.LeaseRef(slot=leases.slot_message(lease.slot), fencing=lease.fencing) for lease in held]
        request = pb.ReleaseRequest(framework=self._name, leases=refs)
        return [leases.released(o) for o in self._session.ask(self._session.leases.Release, request).outcomes]

    def wait_for(
        self, slots: Iterable[Slot], duration: timedelta, *, within: timedelta | None = None
    ) -> Lease | Refused | None:
        """Waits in the slots' waiting lists for the first that is offered, and leases it for so long.

        None: `within` is over. Refused: no slot can be waited for, or what was offered was not granted after all.
        Raises ConnectionLost when the master goes away and stays away.
        """
        wanted = tuple(slots)
        ends = None if within is None else time.monotonic() + within.total_seconds()
        request = pb.WaitForRequest(framework=self._name, slots=[leases.slot_message(slot) for slot in wanted])

        def call() -> Call[pb.WaitForResponse]:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            return self._session.leases.WaitFor(request, timeout=left)

        # An offer that lapsed ends the call in order: it is begun again.
        following = _following(self._session, call, f"slots for {self._name}")
        try:
            for message in following.messages():
                answer = self._answer(message, duration)
                if answer is not None:
                    return answer
        except TimedOut:
            return None
        finally:
            following.close()
        return None

    def occupy(self, lease: Lease) -> Occupancy:
        """Work in a slot: the site's agent admits it, keeps older work out, and says when the lease has expired.

        Raises NotFound when there is no such site, Unavailable when its agent has never been seen.
        """
        request = site_pb2.GetSiteRequest(name=lease.slot.site)
        address = self._session.ask(self._session.sites.GetSite, request).site.address
        if not address:
            raise Unavailable(f"the agent of site {lease.slot.site} has not connected yet")
        return Occupancy(address, lease, self._session.security)

    def _answer(self, message: pb.WaitForResponse, duration: timedelta) -> Lease | Refused | None:
        """None: go on waiting."""
        if message.HasField("queued"):
            refused = [leases.refused(o.refused) for o in message.queued.outcomes if o.HasField("refused")]
            return refused[0] if len(refused) == len(message.queued.outcomes) else None
        if not message.HasField("offered"):
            return None
        (outcome,) = self.acquire({leases.slot(message.offered.slot): duration})
        if isinstance(outcome, Granted):
            return outcome.lease
        return outcome if isinstance(outcome, Refused) else None


class SlotWatch(Iterator[SlotChanges]):
    """All slots, then what changes, until closed; `known` is every slot as far as was told.

    If the master goes away, it tries again, and raises ConnectionLost when it stays away.
    """

    def __init__(self, session: Session) -> None:
        self.known: dict[Slot, SlotInfo] = {}
        self._following: Following[pb.WatchSlotsResponse] = _following(
            session, lambda: session.leases.Watch(pb.WatchSlotsRequest()), "slots"
        )
        self._messages = self._following.messages()

    def __next__(self) -> SlotChanges:
        message = next(self._messages)
        if message.snapshot_begins:
            return self._snapshot(message)
        changes = SlotChanges(tuple(map(leases.slot_info, message.slots)), tuple(map(leases.slot, message.gone)))
        self.known |= {info.slot: info for info in changes.slots}
        for slot in changes.gone:
            self.known.pop(slot, None)
        return changes

    def close(self) -> None:
        """Ends the watching, from any thread."""
        self._following.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _snapshot(self, message: pb.WatchSlotsResponse) -> SlotChanges:
        """The messages of a whole snapshot; after a lost connection it is read again from the start."""
        known: dict[Slot, SlotInfo] = {}
        while True:
            if message.snapshot_begins:
                known.clear()
            known |= {info.slot: info for info in map(leases.slot_info, message.slots)}
            for slot in map(leases.slot, message.gone):
                known.pop(slot, None)
            if message.snapshot_ends:
                break
            message = next(self._messages)
        self.known = {slot: known[slot] for slot in sorted(known)}
        return SlotChanges(tuple(self.known.values()), snapshot=True)


def _us(duration: timedelta) -> int:
    """What is too long for a message is too long for a lease, too."""
    return max(-_LONGEST_US, min(duration // _MICROSECOND, _LONGEST_US))


def _following(session: Session, call: Callable[[], Call[M]], what: str) -> Following[M]:
    """The messages of a call that stays open until it is closed."""
    retry = Reconnect(session.waits.reconnect, what=what)
    return Following(call, lambda: False, address=session.address, retry=retry)
