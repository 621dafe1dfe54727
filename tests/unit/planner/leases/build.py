"""Tables of leases for tests, and a plain recount to compare their indices with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from planner.leases import Decision, Framework, LeasePolicy, LeaseTable, SiteSlots, Slot, Wish, acquire, set_site

OutcomeT = TypeVar("OutcomeT")

START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = LeasePolicy(longest=timedelta(seconds=100), grace=timedelta(seconds=20), offer=timedelta(seconds=2))
FRAMEWORKS = ("batch", "other", "streaming")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def table_of(slots: int = 3, policy: LeasePolicy = POLICY, *, site: str = "us") -> LeaseTable:
    """One site, three frameworks without quota."""
    table = LeaseTable(policy)
    for name in FRAMEWORKS:
        table.frameworks.put(Framework(name, START))
    table.apply(set_site(table, site, SiteSlots(slots), now=START))
    return table


def done(table: LeaseTable, decision: Decision[OutcomeT]) -> tuple[OutcomeT, ...]:
    """Apply it; gives the outcomes."""
    table.apply(decision)
    return decision.outcomes


def take(table: LeaseTable, framework: str, *indices: int, for_s: float = 10, now: datetime = START) -> tuple[Any, ...]:
    """Acquire slots of site `us`."""
    wishes = [Wish(Slot("us", index), s(for_s)) for index in indices]
    return done(table, acquire(table, framework, wishes, now=now))


def recount(table: LeaseTable) -> dict[str, Any]:
    """What the table's indices have to say, counted from its records."""
    records = table.records()
    tickets = sorted({waiter for record in records for waiter in record.waiters})
    return {
        "held": {name: sum(record.holder == name for record in records) for name in FRAMEWORKS},
        "waiting": {name: sum(waiter.framework == name for waiter in tickets) for name in FRAMEWORKS},
        "shared": sum(record.grantable or record.lease is not None for record in records),
        "tickets": {
            waiter.ticket: tuple(record.slot for record in records if waiter in record.waiters) for waiter in tickets
        },
    }


def indices(table: LeaseTable) -> dict[str, Any]:
    """The same as the table has it."""
    tickets = {waiter.ticket for record in table.records() for waiter in record.waiters}
    return {
        "held": {name: table.held(name) for name in FRAMEWORKS},
        "waiting": {name: table.tickets.waiting(name) for name in FRAMEWORKS},
        "shared": table.shared,
        "tickets": {ticket: table.tickets.slots(ticket) for ticket in sorted(tickets)},
    }
