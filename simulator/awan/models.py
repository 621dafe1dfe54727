"""Three ways to share slots: what a framework sees of them, and how it gets them.

All three keep who holds what in the lease manager's own table.

lease    every framework sees every slot with its expiry and waiting list, acquires optimistically, and can wait
direct   every framework sees which slots are free and takes them optimistically; nobody says until when (Omega). It
         is told of every change at once, or it works on a copy of the state that it refreshes now and then
offer    free slots are offered to one framework at a time, to the one with the fewest first (Mesos)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any

from planner.batch import SlotView, slot_view
from planner.leases import (
    Busy,
    Change,
    Decision,
    Framework,
    Granted,
    Lease,
    LeasePolicy,
    LeaseRef,
    LeaseTable,
    Renewal,
    Renewed,
    SiteSlots,
    Slot,
    Waiter,
    Wish,
    acquire,
    expire,
    leave,
    release,
    renew,
    set_site,
    wait_for,
)
from simulator.clock import START, Clock, Event, seconds

OPEN_END = timedelta(days=1)
"""A lease of a model that knows no leases."""


class Model(Enum):
    LEASE = "lease"
    OFFER = "offer"
    DIRECT = "direct"


class Manager:
    """The shared slots, in virtual time."""

    def __init__(
        self,
        clock: Clock,
        model: Model,
        nodes: Mapping[str, int],
        frameworks: Sequence[str],
        *,
        refresh_s: float = 0.0,
    ) -> None:
        """`nodes`: how many slots each has. `refresh_s`: of copies, for direct access; 0: none is kept."""
        self._clock = clock
        self._model = model
        self._refresh_s = refresh_s if model is Model.DIRECT else 0.0
        self._table = LeaseTable(LeasePolicy(longest=OPEN_END))
        for name in frameworks:
            self._table.frameworks.put(Framework(name, START))
        for node, slots in nodes.items():
            self._table.apply(set_site(self._table, node, SiteSlots(slots), now=START))
        self._listeners: dict[str, Callable[[], None]] = {}
        self._copies = {name: self._free() for name in frameworks}
        """With copies: slots that each framework takes to be free."""
        self._refreshing: set[str] = set()
        self._timer: Event | None = None
        self._asking: dict[str, None] = {}
        """With offers: frameworks that want slots, and whose turn has not come."""
        self._offered_to: str | None = None

    def listen(self, framework: str, changed: Callable[[], None]) -> None:
        """Have it called whenever the framework sees that slots have changed."""
        self._listeners[framework] = changed

    def view(self, framework: str) -> list[SlotView]:
        """The slots as this framework sees them now."""
        records = self._table.records()
        if self._model is Model.LEASE:
            return [slot_view(record, framework, self._clock.now) for record in records]
        if self._model is Model.OFFER and self._offered_to != framework:
            return []
        free = self._copies[framework] if self._refresh_s else self._free()
        return [SlotView(record.slot, self._clock.now if record.slot in free else None) for record in records]

    def may_decide(self, framework: str) -> bool:
        """Whether it is the framework's turn; if not, it is told by a change when it is."""
        if self._model is not Model.OFFER or self._offered_to == framework:
            return True
        self._asking[framework] = None
        if self._offered_to is None:
            self._choose()
        return self._offered_to == framework

    def decided(self, framework: str) -> None:
        """The framework has answered what it was offered."""
        if self._offered_to == framework:
            self._offered_to = None
            self._choose()
            self._tell()
        if self._refresh_s:
            # Whoever has committed, or failed to, has seen the state as it is.
            self._copies[framework] = self._free()

    def acquire(self, framework: str, slot: Slot, duration: timedelta) -> Lease | None:
        """None: somebody else was faster."""
        wish = Wish(slot, duration if self._model is Model.LEASE else OPEN_END)
        (outcome,) = self._apply(acquire(self._table, framework, [wish], now=self._clock.now))
        assert isinstance(outcome, Granted | Busy), outcome
        return outcome.lease if isinstance(outcome, Granted) else None

    def renew(self, framework: str, lease: Lease, duration: timedelta) -> Lease:
        (outcome,) = self._apply(
            renew(self._table, framework, [Renewal(lease.slot, lease.fencing, duration)], now=self._clock.now)
        )
        assert isinstance(outcome, Renewed), outcome
        return outcome.lease

    def release(self, framework: str, lease: Lease) -> None:
        ref = LeaseRef(lease.slot, lease.fencing)
        if self._refresh_s:
            self._copies[framework] |= {lease.slot}
        self._apply(release(self._table, framework, [ref], now=self._clock.now))
        if self._refresh_s:
            self._listeners[framework]()

    def wait_for(self, framework: str, ticket: str, slot: Slot) -> None:
        self._apply(wait_for(self._table, Waiter(ticket, framework), [slot], now=self._clock.now))

    def leave_others(self, ticket: str, slot: Slot) -> None:
        """Wait for this slot at most; a place in its list is kept."""
        if set(self._table.tickets.slots(ticket)) - {slot}:
            self._apply(leave(self._table, ticket, now=self._clock.now))

    def leave(self, ticket: str) -> None:
        if self._table.tickets.slots(ticket):
            self._apply(leave(self._table, ticket, now=self._clock.now))

    def _apply(self, decision: Decision[Any]) -> tuple[Any, ...]:
        self._table.apply(decision)
        if decision.changes:
            self._watch_time()
            if self._offered_to is None:
                self._choose()
            if any(_matters(change) for change in decision.changes):
                self._tell()
        return decision.outcomes

    def _tell(self) -> None:
        for turn, (framework, changed) in enumerate(self._listeners.items()):
            if not self._refresh_s:
                changed()
            elif framework not in self._refreshing:
                self._refreshing.add(framework)
                self._clock.at(self._next_refresh_s(turn), partial(self._refresh, framework))

    def _next_refresh_s(self, turn: int) -> float:
        """The frameworks refresh one after the other, evenly apart."""
        first_s = self._refresh_s * turn / len(self._listeners)
        return first_s + self._refresh_s * (math.floor((self._clock.now_s - first_s) / self._refresh_s) + 1)

    def _refresh(self, framework: str) -> None:
        self._refreshing.discard(framework)
        self._copies[framework] = self._free()
        self._listeners[framework]()

    def _free(self) -> frozenset[Slot]:
        return frozenset(record.slot for record in self._table.unordered() if record.holder is None)

    def _watch_time(self) -> None:
        """Leases expire and offers lapse by themselves."""
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._table.deadlines.next()
        self._timer = None if deadline is None else self._clock.at(seconds(deadline), self._expire)

    def _expire(self) -> None:
        self._timer = None
        decision = expire(self._table, now=self._clock.now)
        self._apply(decision)
        if not decision.changes:
            self._watch_time()

    def _choose(self) -> None:
        """Whose turn it is with offers: of those that ask, who holds the fewest slots; nobody's while none is free."""
        if self._asking and any(record.holder is None for record in self._table.records()):
            self._offered_to = min(self._asking, key=self._table.held)
            del self._asking[self._offered_to]


def _matters(change: Change) -> bool:
    """Whether a framework may decide otherwise now: a longer or shorter waiting list alone is no reason to."""
    before, after = change.before, change.after
    return before is None or after is None or (before.state, before.lease) != (after.state, after.lease)
