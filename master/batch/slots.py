"""The leases and waiting lists of the framework `batch`, and the slots as its scheduler needs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from master.leases.holder import LeaseHolder
from master.leases.manager import LeaseManager
from master.leases.streaming import STREAMING
from planner.batch import SlotView, slot_view
from planner.leases import Granted, Lease, Refused, Renewal, Slot, SlotRecord, Wish

BATCH = "batch"

RENEW_BEFORE = timedelta(seconds=5)
"""A lease is renewed when this much of it is left; until then, its end is the estimated one."""

SHORTEST = timedelta(seconds=10)


class BatchSlots:
    """Takes, renews and releases slots. Every method may raise StoreError; then nothing was changed."""

    def __init__(self, leases: LeaseManager) -> None:
        self._leases = leases
        self._holder = LeaseHolder(leases, BATCH, "tasks of batch queries")
        self._tickets: set[str] = set()

    @property
    def held(self) -> Mapping[Slot, Lease]:
        """The framework's leases, by slot."""
        return self._holder.held

    @property
    def idle(self) -> bool:
        """Whether it neither holds slots nor waits for any."""
        return not self.held and not self._tickets

    def now(self) -> datetime:
        """The present time on the leases' clock."""
        return self._leases.now()

    def view(self, now: datetime) -> list[SlotView]:
        """All slots of sites that are alive and not draining, each with the time at which it becomes free.

        Those that are free, are so from then on. Slots of streaming queries are renewed for as long as those live, so
        nobody says when they will be free.
        """
        records = [record for record in self._leases.table.records() if record.grantable]
        return [slot_view(record, BATCH, now, endless={STREAMING}) for record in records]

    def record(self, slot: Slot) -> SlotRecord | None:
        """The record of a slot; None: no such slot is known."""
        return self._leases.table.get(slot)

    def follow_sites(self) -> None:
        """Learn the slots of sites that have registered since the last tick."""
        self._leases.follow_sites()

    def take(self, wishes: Sequence[tuple[Slot, timedelta]]) -> list[Lease | str]:
        """For each wish, the lease, or why it was not granted."""
        longest = self._leases.table.policy.longest
        asked = [Wish(slot, min(max(duration, SHORTEST), longest)) for slot, duration in wishes]
        return [_answer(outcome) for outcome in self._holder.acquire(asked)]

    def renew(self, left: Mapping[Slot, timedelta]) -> None:
        """Renew those of these leases that end soon, each for as long as its task still needs."""
        now, longest = self._leases.now(), self._leases.table.policy.longest
        self._holder.renew(
            [
                Renewal(lease.slot, lease.fencing, min(max(left[slot], SHORTEST), longest))
                for slot, lease in self.held.items()
                if slot in left and lease.expires_at - now <= min(RENEW_BEFORE, longest / 2)
            ]
        )

    def keep_only(self, slots: Collection[Slot]) -> None:
        """Release all other slots."""
        self._holder.release([lease for slot, lease in self.held.items() if slot not in slots])

    def stand_in_line(self, wanted: Mapping[str, tuple[Slot, ...]]) -> None:
        """Be in the waiting lists of these slots, by ticket, and in no others."""
        for ticket in self._tickets - wanted.keys():
            self._leave(ticket)
        for ticket, slots in wanted.items():
            known = set(self._leases.table.tickets.slots(ticket))
            if known - set(slots):
                self._leave(ticket)
            self._tickets.add(ticket)
            if set(slots) - known:
                self._holder.wait_for(ticket, slots)

    def _leave(self, ticket: str) -> None:
        self._holder.leave(ticket)
        self._tickets.discard(ticket)


def _answer(outcome: object) -> Lease | str:
    if isinstance(outcome, Granted):
        return outcome.lease
    return outcome.text if isinstance(outcome, Refused) else ""
