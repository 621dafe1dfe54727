"""Each decision by example: outcomes, reasons, and who is told next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.leases import (
    Busy,
    Framework,
    Granted,
    LeaseRef,
    LeaseTable,
    Queued,
    Refusal,
    Refused,
    Renewal,
    SiteSlots,
    Slot,
    SlotState,
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
from planner.values.errors import InvalidDefinitionError, UnknownFrameworkError
from tests.unit.planner.leases.build import POLICY, START, at, done, s, table_of, take

US = [Slot("us", index) for index in range(4)]


def test_the_second_hears_who_was_first_and_until_when() -> None:
    table = table_of()
    (first,) = take(table, "batch", 0)
    (second,) = take(table, "other", 0, now=at(1))
    assert isinstance(first, Granted)
    assert isinstance(second, Busy)
    assert second.record.lease == first.lease
    assert (second.record.holder, second.record.free_by) == ("batch", at(30))
    assert first.lease.id == "us/0#1"


def test_what_is_free_is_granted_and_the_rest_answered_one_by_one() -> None:
    table = table_of()
    take(table, "batch", 1)
    first, second, third = take(table, "other", 0, 1, 7)
    assert isinstance(first, Granted)
    assert isinstance(second, Busy)
    assert isinstance(third, Refused)
    assert third.reason is Refusal.UNKNOWN_SLOT


def test_a_slot_twice_in_one_request_is_granted_once() -> None:
    first, second = take(table_of(), "batch", 0, 0)
    assert isinstance(first, Granted)
    assert isinstance(second, Busy)


def test_all_or_nothing() -> None:
    table = table_of()
    take(table, "batch", 1)
    first, second = done(table, acquire(table, "other", [Wish(US[0], s(5)), Wish(US[1], s(5))], now=START, atomic=True))
    assert isinstance(first, Refused)
    assert first.reason is Refusal.ATOMIC
    assert isinstance(second, Busy)
    assert table.held("other") == 0
    # The number was not used up, as nothing was granted.
    assert table.fencing == 1


@pytest.mark.parametrize(
    ("for_s", "reason"),
    [(0, Refusal.DURATION_NOT_POSITIVE), (-3, Refusal.DURATION_NOT_POSITIVE), (101, Refusal.DURATION_TOO_LONG)],
)
def test_an_unreasonable_duration_is_refused(for_s: float, reason: Refusal) -> None:
    (outcome,) = take(table_of(), "batch", 0, for_s=for_s)
    assert isinstance(outcome, Refused)
    assert outcome.reason is reason


def test_quota_and_fair_cap_say_how_many() -> None:
    table = table_of(4)
    table.frameworks.put(Framework("batch", START, quota=1))
    _, refused = take(table, "batch", 0, 1)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.text) == (Refusal.QUOTA, "the quota of batch is 1 slots, and it holds 1")
    fair = table_of(4, replace(POLICY, fair=True))
    take(fair, "other", 0)
    done(fair, wait_for(fair, Waiter("t", "other"), US[:1], now=START))
    *granted, refused = take(fair, "batch", 1, 2, 3)
    assert all(isinstance(outcome, Granted) for outcome in granted)
    assert isinstance(refused, Refused)
    assert refused.reason is Refusal.FAIR_CAP


def test_an_unknown_framework_gets_nothing() -> None:
    with pytest.raises(UnknownFrameworkError):
        take(table_of(), "nobody", 0)


@pytest.mark.parametrize("framework", [Framework("", START), Framework("batch", START, quota=-1)])
def test_a_framework_needs_a_name_and_a_quota_that_can_be(framework: Framework) -> None:
    with pytest.raises(InvalidDefinitionError):
        LeaseTable().frameworks.put(framework)


def test_expiry_then_grace_then_free() -> None:
    table = table_of()
    take(table, "batch", 0, for_s=10)
    states = []
    for seconds in (9.9, 10, 29.9, 30):
        done(table, expire(table, now=at(seconds)))
        record = table.get(US[0])
        assert record is not None
        states.append((record.state, record.holder))
    assert states == [
        (SlotState.LEASED, "batch"),
        (SlotState.GRACE, "batch"),
        (SlotState.GRACE, "batch"),
        (SlotState.FREE, None),
    ]


def test_a_lease_can_be_renewed_in_its_grace_and_not_later() -> None:
    table = table_of()
    take(table, "batch", 0, for_s=10)
    (outcome,) = done(table, renew(table, "batch", [Renewal(US[0], 1, s(50))], now=at(25)))
    record = table.get(US[0])
    assert record is not None
    assert (record.state, record.free_by) == (SlotState.LEASED, at(95))
    assert not isinstance(outcome, Refused)
    (late,) = done(table, renew(table, "batch", [Renewal(US[0], 1, s(50))], now=at(95)))
    assert isinstance(late, Refused)
    assert late.reason is Refusal.STALE_FENCING


def test_leases_of_others_old_ones_and_ones_that_never_were() -> None:
    table = table_of()
    take(table, "batch", 0)
    done(table, release(table, "batch", [LeaseRef(US[0], 1)], now=START))
    take(table, "batch", 0)
    refs = {"batch": 1, "other": 2}
    stale, foreign = (
        done(table, release(table, name, [LeaseRef(US[0], number)], now=START))[0] for name, number in refs.items()
    )
    (never,) = done(table, release(table, "batch", [LeaseRef(US[0], 9)], now=START))
    (unknown,) = done(table, renew(table, "batch", [Renewal(Slot("mars", 0), 2, s(1))], now=START))
    reasons = [outcome.reason for outcome in (stale, foreign, never, unknown) if isinstance(outcome, Refused)]
    assert reasons == [
        Refusal.STALE_FENCING,
        Refusal.FOREIGN_LEASE,
        Refusal.UNKNOWN_FENCING,
        Refusal.UNKNOWN_SLOT,
    ]
    assert table.held("batch") == 1


def test_an_early_release_is_offered_to_the_first_waiter_and_kept_for_it() -> None:
    table = table_of()
    take(table, "batch", 0)
    for place, name in enumerate(("other", "streaming"), start=1):
        (queued,) = done(table, wait_for(table, Waiter(f"t-{name}", name), US[:1], now=START))
        assert isinstance(queued, Queued)
        assert queued.position == place
    done(table, release(table, "batch", [LeaseRef(US[0], 1)], now=at(1)))
    (early,) = take(table, "streaming", 0, now=at(1))
    assert isinstance(early, Busy)
    assert early.record.offer is not None
    assert early.record.offer.waiter == ("t-other", "other")
    (taken,) = take(table, "other", 0, now=at(1))
    assert isinstance(taken, Granted)
    record = table.get(US[0])
    assert record is not None
    assert [waiter.framework for waiter in record.waiters] == ["streaming"]


def test_an_offer_that_lapses_goes_to_the_next_and_then_to_all() -> None:
    table = table_of()
    for name in ("other", "streaming"):
        done(table, wait_for(table, Waiter(name, name), US[:1], now=START))
    record = table.get(US[0])
    assert record is not None
    assert record.offer is not None
    assert (record.offer.waiter.ticket, record.offer.until) == ("other", at(2))
    (mine,) = take(table, "streaming", 0, now=at(2))
    assert isinstance(mine, Granted)
    done(table, release(table, "streaming", [LeaseRef(US[0], mine.lease.fencing)], now=at(3)))
    record = table.get(US[0])
    assert record is not None
    assert (record.state, record.waiters) == (SlotState.FREE, ())


def test_a_ticket_in_several_lists_wants_one_slot() -> None:
    table = table_of()
    take(table, "batch", 0, 1)
    done(table, wait_for(table, Waiter("t", "other"), US[:2], now=START))
    assert table.tickets.waiting("other") == 1
    done(table, release(table, "batch", [LeaseRef(US[0], 1)], now=START))
    take(table, "other", 0)
    assert table.tickets.waiting("other") == 0
    assert table.tickets.slots("t") == ()


def test_whoever_leaves_hands_its_offer_on() -> None:
    table = table_of()
    for ticket in ("t1", "t2"):
        done(table, wait_for(table, Waiter(ticket, "other"), US[:1], now=START))
    done(table, leave(table, "t1", now=at(1)))
    record = table.get(US[0])
    assert record is not None
    assert record.offer is not None
    assert record.offer.waiter.ticket == "t2"


def test_a_ticket_belongs_to_one_framework() -> None:
    table = table_of()
    take(table, "batch", 0)
    done(table, wait_for(table, Waiter("t", "other"), US[:1], now=START))
    (outcome,) = done(table, wait_for(table, Waiter("t", "streaming"), US[:1], now=START))
    assert isinstance(outcome, Refused)
    assert outcome.reason is Refusal.TICKET_TAKEN


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        (SiteSlots(2, reachable=False), Refusal.SITE_UNREACHABLE),
        (SiteSlots(2, draining=True), Refusal.SITE_DRAINING),
        (SiteSlots(2, reachable=False, draining=True), Refusal.SITE_UNREACHABLE),
    ],
)
def test_a_site_that_is_not_heard_or_drains_keeps_its_leases_and_grants_nothing(
    slots: SiteSlots, reason: Refusal
) -> None:
    table = table_of(2)
    take(table, "batch", 0)
    done(table, wait_for(table, Waiter("t", "other"), US[1:2], now=START))
    done(table, set_site(table, "us", slots, now=at(1)))
    (refused,) = take(table, "other", 1, now=at(1))
    assert isinstance(refused, Refused)
    assert refused.reason is reason
    (renewed,) = done(table, renew(table, "batch", [Renewal(US[0], 1, s(60))], now=at(2)))
    assert not isinstance(renewed, Refused)
    done(table, set_site(table, "us", SiteSlots(2), now=at(3)))
    record = table.get(US[1])
    assert record is not None
    assert record.state is SlotState.OFFERED


def test_slots_that_a_site_has_no_longer_are_gone() -> None:
    table = table_of(3)
    take(table, "batch", 0, 2)
    decision = set_site(table, "us", SiteSlots(1), now=START)
    done(table, decision)
    assert [change.after for change in decision.changes] == [None, None]
    assert (len(table), table.held("batch")) == (1, 1)
