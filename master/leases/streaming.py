"""The streaming job manager as a framework: it runs tasks at a site in slots that it leases there.

At each site it wants a slot for every task, and shares those it has among its tasks when there are fewer. One slot it
never gives up as long as it has a task there; the others it yields to whoever waits for them. Where it holds none and
all are taken, it waits in line, and so do the queries that need the site.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from master.leases.holder import LeaseHolder
from master.leases.manager import LeaseManager
from planner.leases import Lease, Refused, Renewal, Slot, SlotRecord, Wish

STREAMING = "streaming"

LEASE = timedelta(seconds=60)
"""The length of a lease, unless the policy's longest lease is shorter; renewed when half of it has passed."""


class StreamingSlots:
    """Holds slots for tasks, and says which sites lack slots for them."""

    def __init__(self, leases: LeaseManager) -> None:
        self._leases = leases
        self._duration = min(LEASE, leases.table.policy.longest)
        self._holder = LeaseHolder(leases, STREAMING, "tasks of streaming queries")
        self._refused: dict[str, str] = {}
        self._in_line: set[str] = set()
        self._followed: tuple[Mapping[str, int], int] | None = None
        """For which tasks, and at which version of the table, nothing was left to be done."""

    def held(self, site: str) -> tuple[Lease, ...]:
        """Its leases at the site, oldest first."""
        held = self._holder.held
        return tuple(sorted((held[x] for x in self._slots(site) if x in held), key=lambda lease: lease.fencing))

    def follow(self, tasks: Mapping[str, int]) -> None:
        """Take, renew and release slots to match the number of tasks at each site. Called repeatedly.

        Raises:
            StoreError: nothing was changed at the site at which it happened, nor at later ones.
        """
        # A site may have registered since the last tick: its tasks must not start before their slots are leased.
        self._leases.follow_sites()
        state = dict(tasks), self._leases.table.version
        if state == self._followed and not self._due(self._holder.held.values()):
            return
        needed = {site for site, count in tasks.items() if count}
        for site in sorted(needed | {slot.site for slot in self._holder.held} | self._in_line):
            self._follow_site(site, tasks.get(site, 0))
        self._followed = state

    def blocked(self, sites: Iterable[str]) -> Mapping[str, str]:
        """The sites among these at which it holds no slot and can get none now, each with the reason.

        A site that is not heard is none of them: its tasks start when it is heard, on the slots that it has then.
        """
        return {site: reason for site in sorted(sites) if (reason := self._obstacle(site))}

    def _follow_site(self, site: str, tasks: int) -> None:
        held = sorted(self.held(site), key=self._is_waited_for)
        waited_for = sum(map(self._is_waited_for, held))
        keep = min(tasks, max(1, len(held) - waited_for))
        self._holder.release(held[keep:])
        self._renew(held[:keep])
        self._take(site, tasks - len(held[:keep]))
        # Where a quota or the fair cap is in the way, an offer would only be withheld from others.
        self._stand_in_line(site, wanted=tasks > 0 and not self.held(site) and site not in self._refused)

    def _stand_in_line(self, site: str, *, wanted: bool) -> None:
        ticket = f"{STREAMING}@{site}"
        if wanted:
            self._holder.wait_for(ticket, self._slots(site))
            self._in_line.add(site)
        elif site in self._in_line:
            self._holder.leave(ticket)
            self._in_line.discard(site)

    def _is_waited_for(self, lease: Lease) -> bool:
        record = self._leases.table.get(lease.slot)
        return record is not None and any(waiter.framework != STREAMING for waiter in record.waiters)

    def _renew(self, leases: Sequence[Lease]) -> None:
        self._holder.renew([Renewal(x.slot, x.fencing, self._duration) for x in self._due(leases)])

    def _due(self, leases: Iterable[Lease]) -> list[Lease]:
        """Return the leases to be renewed now."""
        before = self._leases.now() + self._duration / 2
        return [lease for lease in leases if lease.expires_at <= before]

    def _take(self, site: str, count: int) -> None:
        """Take slots that are free, or offered to it."""
        self._refused.pop(site, None)
        if count <= 0:
            return
        free = [r.slot for r in self._records(site) if r.reachable and _is_free(r)][:count]
        outcomes = self._holder.acquire([Wish(slot, self._duration) for slot in free])
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        if refused:
            self._refused[site] = refused[0].text

    def _obstacle(self, site: str) -> str:
        records = self._records(site)
        if self.held(site) or not any(record.reachable for record in records):
            return ""
        if site in self._refused:
            return f"no slot at {site}: {self._refused[site]}"
        if any(map(_is_free, records)):
            return ""
        return f"no slot at {site}: " + ", ".join(map(_busy, records))

    def _records(self, site: str) -> tuple[SlotRecord, ...]:
        found = map(self._leases.table.get, self._slots(site))
        return tuple(record for record in found if record is not None)

    def _slots(self, site: str) -> tuple[Slot, ...]:
        return self._leases.table.slots_of(site)


def _is_free(record: SlotRecord) -> bool:
    """Whether the streaming job manager can take the slot."""
    if record.offer is not None:
        return record.offer.waiter.framework == STREAMING
    return record.lease is None


def _busy(record: SlotRecord) -> str:
    until = f"{record.free_by:%Y-%m-%d %H:%M:%S}" if record.free_by else "?"
    who = record.holder or (record.offer.waiter.framework if record.offer else "nobody")
    return f"{record.slot} is {who}'s until {until} at the latest, unless it is renewed"
