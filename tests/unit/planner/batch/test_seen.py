from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from planner.batch import SlotView, slot_view
from planner.batch.seen import SOON
from planner.leases import (
    Framework,
    Granted,
    LeasePolicy,
    LeaseRef,
    LeaseTable,
    SiteSlots,
    Slot,
    SlotRecord,
    Waiter,
    Wish,
    acquire,
    expire,
    release,
    set_site,
    wait_for,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SLOT = Slot("eu", 0)
NAMES = ("a", "b", "c")
TEN = timedelta(seconds=10)


class Slots:
    """One slot of three frameworks, by the decisions of the lease manager."""

    def __init__(self) -> None:
        self.table = LeaseTable(LeasePolicy(grace=timedelta(seconds=20), offer=timedelta(seconds=2)))
        for name in NAMES:
            self.table.frameworks.put(Framework(name, T0))
        self.table.apply(set_site(self.table, SLOT.site, SiteSlots(1), now=T0))

    @property
    def record(self) -> SlotRecord:
        found = self.table.get(SLOT)
        assert found is not None
        return found

    def take(self, framework: str, now: datetime = T0) -> bool:
        """Whether it was granted, for ten seconds."""
        decision = acquire(self.table, framework, [Wish(SLOT, TEN)], now=now)
        self.table.apply(decision)
        return isinstance(decision.outcomes[0], Granted)

    def give_back(self, now: datetime = T0) -> None:
        assert self.record.lease is not None
        ref = LeaseRef(SLOT, self.record.lease.fencing)
        self.table.apply(release(self.table, self.record.lease.holder, [ref], now=now))

    def wait(self, framework: str, ticket: str, now: datetime = T0) -> None:
        self.table.apply(wait_for(self.table, Waiter(ticket, framework), [SLOT], now=now))

    def pass_time(self, now: datetime) -> None:
        self.table.apply(expire(self.table, now=now))


def test_a_free_slot_is_free_now() -> None:
    assert slot_view(Slots().record, "a", T0) == SlotView(SLOT, T0)


def test_a_held_slot_is_free_when_its_lease_ends() -> None:
    slots = Slots()
    slots.take("b")
    assert slot_view(slots.record, "a", T0) == SlotView(SLOT, T0 + TEN)
    assert slot_view(slots.record, "b", T0) == SlotView(SLOT, T0 + TEN)


def test_nobody_says_when_an_endless_holder_s_slot_is_free() -> None:
    slots = Slots()
    slots.take("b")
    slots.wait("c", "c1")
    assert slot_view(slots.record, "a", T0, endless={"b"}) == SlotView(SLOT, None, ahead=1)


def test_a_slot_in_its_grace_is_free_soon_but_not_now() -> None:
    slots = Slots()
    slots.take("b")
    now = T0 + TEN + timedelta(seconds=3)
    slots.pass_time(now)
    assert slot_view(slots.record, "a", now) == SlotView(SLOT, now + SOON)


def test_a_slot_on_offer_is_free_for_whom_it_is_offered_to_only() -> None:
    slots = Slots()
    slots.take("a")
    slots.wait("b", "b1")
    slots.wait("c", "c1")
    slots.give_back()
    assert slot_view(slots.record, "b", T0) == SlotView(SLOT, T0)
    assert slot_view(slots.record, "a", T0) == SlotView(SLOT, T0 + timedelta(seconds=2), ahead=2)
    assert slot_view(slots.record, "c", T0) == SlotView(SLOT, T0 + timedelta(seconds=2), ahead=1)


def test_only_others_before_its_first_ticket_are_ahead() -> None:
    slots = Slots()
    slots.take("b")
    for ticket, framework in (("c1", "c"), ("a1", "a"), ("b1", "b"), ("a2", "a")):
        slots.wait(framework, ticket)
    ahead = {name: slot_view(slots.record, name, T0).ahead for name in NAMES}
    assert ahead == {"a": 1, "b": 2, "c": 0}


@given(st.lists(st.tuples(st.sampled_from(("take", "wait", "pass")), st.sampled_from(NAMES)), max_size=12))
def test_what_is_shown_as_free_is_granted_and_nothing_else(steps: list[tuple[str, str]]) -> None:
    slots, now = Slots(), T0
    for number, (step, name) in enumerate(steps):
        if step == "take":
            slots.take(name, now)
        elif step == "wait":
            slots.wait(name, f"{name}{number}", now)
        else:
            now += timedelta(seconds=7)
            slots.pass_time(now)
    views = {name: slot_view(slots.record, name, now) for name in NAMES}
    shown = {name for name, view in views.items() if view.free_at is not None and view.free_at <= now}
    assert all(views[name].ahead == 0 for name in shown)
    granted = {name for name in NAMES if isinstance(_asked(slots, name, now), Granted)}
    assert shown == granted


def _asked(slots: Slots, name: str, now: datetime) -> object:
    """What it would be answered; nothing is changed."""
    return acquire(slots.table, name, [Wish(SLOT, TEN)], now=now).outcomes[0]
