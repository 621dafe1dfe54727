"""Slots shared by lease: every framework sees every slot, busy ones included, and takes slots by request.

    LeaseTable + request + now --acquire, renew, release, wait_for, leave, expire--> Decision --apply--> LeaseTable

A decision reads the table and changes nothing; it holds the outcome of each part of the request, and the slots as they
become. Whoever keeps the table makes the decision durable, then applies it (`LeaseTable.apply`), or drops it.

model      slots, leases, waiters, what a request is answered
lifecycle  states of a slot and the one table of moves
policy     longest lease, grace, fair cap, quota
table      the indexed table; the only thing here that changes
draft      a decision in the making, and what the passing of time does
acquire, holding, waiting, sites   the decisions

`now` is an argument everywhere and must not go back between two decisions, unless `follow_clock` says by how much.
Every decision first lets time pass: a lease that is over by `now` is over, whether or not `expire` was called.
"""

from planner.leases.acquire import acquire
from planner.leases.holding import release, renew
from planner.leases.model import (
    Busy,
    Change,
    Decision,
    Framework,
    Granted,
    Lease,
    LeaseRef,
    Offer,
    Queued,
    Refusal,
    Refused,
    Released,
    Renewal,
    Renewed,
    Slot,
    SlotRecord,
    SlotState,
    Waiter,
    Wish,
)
from planner.leases.policy import LeasePolicy, fair_cap
from planner.leases.sites import SiteSlots, follow_clock, resume, set_site
from planner.leases.table import LeaseTable
from planner.leases.waiting import expire, leave, wait_for

__all__ = [
    "Busy",
    "Change",
    "Decision",
    "Framework",
    "Granted",
    "Lease",
    "LeasePolicy",
    "LeaseRef",
    "LeaseTable",
    "Offer",
    "Queued",
    "Refusal",
    "Refused",
    "Released",
    "Renewal",
    "Renewed",
    "SiteSlots",
    "Slot",
    "SlotRecord",
    "SlotState",
    "Waiter",
    "Wish",
    "acquire",
    "expire",
    "fair_cap",
    "follow_clock",
    "leave",
    "release",
    "renew",
    "resume",
    "set_site",
    "wait_for",
]
