"""Notifies the holders of tickets of what becomes of them, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from master.base.notify import Notifier
from planner.leases import Change, SlotRecord


@dataclass(frozen=True, slots=True)
class TicketEvent:
    """An event of one slot that the ticket waits, or waited, for."""

    slot: SlotRecord
    """The slot as it is now; as it was, if its site has it no longer."""
    offered: bool
    """True: it is offered to the ticket; False: the ticket is no longer in its waiting list."""


@dataclass(slots=True)
class TicketEvents:
    """Events that the holder has not taken yet."""

    pending: deque[TicketEvent] = field(default_factory=deque)
    changes: Notifier = field(default_factory=Notifier)

    def add(self, event: TicketEvent) -> None:
        self.pending.append(event)
        self.changes.notify()


class Tickets:
    """Tickets whose holders listen; events of other tickets are dropped."""

    def __init__(self) -> None:
        self._open: dict[str, TicketEvents] = {}

    def open(self, ticket: str) -> TicketEvents:
        return self._open.setdefault(ticket, TicketEvents())

    def close(self, ticket: str) -> None:
        self._open.pop(ticket, None)

    def publish(self, changes: Iterable[Change]) -> None:
        if not self._open:
            return
        for before, after in changes:
            old, new = (before.waiters if before else ()), (after.waiters if after else ())
            record = after or before
            if old is not new and record is not None:
                for waiter in (w for w in old if w not in new):
                    self._tell(waiter.ticket, TicketEvent(record, offered=False))
            if after is not None and after.offer is not None and (before is None or before.offer != after.offer):
                self._tell(after.offer.waiter.ticket, TicketEvent(after, offered=True))

    def _tell(self, ticket: str, event: TicketEvent) -> None:
        events = self._open.get(ticket)
        if events is not None:
            events.add(event)
