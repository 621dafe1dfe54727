"""How a slot looks to the scheduler of one framework."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from planner.batch.model import SlotView
from planner.leases import SlotRecord, Waiter

SOON = timedelta(seconds=1)
"""When a slot is taken to be free whose lease has expired: its holder ends or renews it at any time."""


def slot_view(record: SlotRecord, framework: str, now: datetime, *, endless: Collection[str] = ()) -> SlotView:
    """By when the framework can have the slot, and how many others are before it.

    Only what would be granted now is shown as free. A slot on offer to another framework, or in its holder's grace,
    would be refused: a scheduler that looks at free slots only would place a task there at every turn, and never start
    it. One on offer to another is taken, or passed on, by the end of the offer; that other one is still first in line.

    Who stands in line behind the framework's own first ticket is not before it. Its own tickets never are: its
    scheduler plans all of its tasks together.

    Args:
        record: what is shared of the slot, with its site heard.
        framework: who looks.
        now: not before any of the record's instants that have passed.
        endless: frameworks that renew their leases for as long as they can; nobody says when their slots will be free.
    """
    if record.offer is not None:
        if record.offer.waiter.framework == framework:
            return SlotView(record.slot, now)
        return SlotView(record.slot, max(now + SOON, record.offer.until), _ahead(record.waiters, framework))
    if record.lease is None:
        return SlotView(record.slot, now)
    free_at = None if record.lease.holder in endless else max(now + SOON, record.lease.expires_at)
    return SlotView(record.slot, free_at, _ahead(record.waiters, framework))


def _ahead(waiters: tuple[Waiter, ...], framework: str) -> int:
    """Others before the framework's first ticket; all of them when it has none."""
    own = (place for place, waiter in enumerate(waiters) if waiter.framework == framework)
    return next(own, len(waiters))
