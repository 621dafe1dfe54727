"""Old work stays out, whoever is away; what is not known ends nothing."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from selat.v1 import lease_pb2 as pb
from site_agent.base.errors import NotHolderError, SiteAgentError, StaleFencingError, UnknownSlotError
from site_agent.slots.follow import News
from site_agent.slots.guard import FENCES_FILE, SlotGuard, SlotLease, Work, WorkEvent, WorkState


@pytest.fixture
def guard(tmp_path: Path) -> SlotGuard:
    return SlotGuard("us", 2, tmp_path)


def lease(fencing: int, *, index: int = 0, expired: bool = False) -> SlotLease:
    return SlotLease(index, "batch", fencing, 10, 30, expired)


def told(work: Work) -> list[WorkState]:
    """Everything since the last time."""
    return [event.state for event in events(work)]


def events(work: Work) -> list[WorkEvent]:
    return [work.events.get_nowait() for _ in range(work.events.qsize())]


def test_work_is_admitted_before_the_master_has_told_of_its_lease(guard: SlotGuard) -> None:
    guard.observe_all([lease(6)], told=6)
    work = guard.admit("us", 0, 7)
    guard.observe({1: lease(5, index=1)}, told=6)
    assert told(work) == [WorkState.ADMITTED]
    guard.observe({0: lease(7)}, told=7)
    assert told(work) == []


def test_newer_work_ends_older_work_and_keeps_it_out(guard: SlotGuard) -> None:
    old, new = guard.admit("us", 0, 3), guard.admit("us", 0, 4)
    assert told(old) == [WorkState.ADMITTED, WorkState.OVER]
    assert told(new) == [WorkState.ADMITTED]
    with pytest.raises(StaleFencingError, match="work under 4 has begun"):
        guard.admit("us", 0, 3)
    # Another slot has numbers of its own.
    assert told(guard.admit("us", 1, 3)) == [WorkState.ADMITTED]


def test_old_work_stays_out_after_a_restart(guard: SlotGuard, tmp_path: Path) -> None:
    guard.admit("us", 0, 4)
    again = SlotGuard("us", 2, tmp_path)
    with pytest.raises(StaleFencingError):
        again.admit("us", 0, 3)
    assert told(again.admit("us", 0, 4)) == [WorkState.ADMITTED]


def test_expiry_renewal_and_end_are_told_once_each(guard: SlotGuard) -> None:
    guard.observe_all([lease(1)], told=1)
    work = guard.admit("us", 0, 1)
    for state in (lease(1), lease(1, expired=True), lease(1, expired=True), lease(1), lease(1, expired=True), None):
        guard.observe({0: state}, told=1)
    assert told(work) == [
        WorkState.ADMITTED,
        WorkState.EXPIRED,
        WorkState.ADMITTED,
        WorkState.EXPIRED,
        WorkState.OVER,
    ]
    with pytest.raises(StaleFencingError, match="its grace is over"):
        guard.admit("us", 0, 1)


def test_work_that_begins_in_the_grace_hears_so_at_once(guard: SlotGuard) -> None:
    guard.observe_all([lease(1, expired=True)], told=1)
    admitted, expired = events(guard.admit("us", 0, 1))
    assert admitted.state is WorkState.ADMITTED
    assert expired.lease == lease(1, expired=True)


def test_a_lease_that_came_and_went_unseen_is_over_when_its_number_is_told(guard: SlotGuard) -> None:
    work = guard.admit("us", 0, 5)
    guard.observe({0: None}, told=4)
    assert told(work) == [WorkState.ADMITTED]
    guard.observe({0: None}, told=5)
    assert told(work) == [WorkState.OVER]


def test_a_newer_grant_ends_work_although_its_worker_has_not_come(guard: SlotGuard) -> None:
    work = guard.admit("us", 0, 5)
    guard.observe({0: lease(6)}, told=6)
    (_, over) = events(work)
    assert over.reason == "batch holds the slot under 6"


def test_work_that_left_is_told_nothing_more(guard: SlotGuard) -> None:
    work = guard.admit("us", 0, 5)
    guard.leave(work)
    guard.admit("us", 0, 6)
    assert told(work) == [WorkState.ADMITTED]


@pytest.mark.parametrize(("site", "index"), [("eu", 0), ("us", 2), ("", 0)])
def test_a_slot_that_is_not_there(guard: SlotGuard, site: str, index: int) -> None:
    with pytest.raises(UnknownSlotError):
        guard.admit(site, index, 1)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FENCES_FILE).write_text("[1]")
    with pytest.raises(SiteAgentError, match=r"slots\.json is damaged"):
        SlotGuard("us", 2, tmp_path)


@given(st.lists(st.tuples(st.sampled_from(["admit", "tell"]), st.integers(1, 6)), max_size=12))
def test_at_most_one_number_works_in_a_slot_and_it_never_falls(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    guard = SlotGuard("us", 1, tmp_path_factory.mktemp("guard"))
    working: list[Work] = []
    highest = 0
    for step, number in steps:
        try:
            if step == "admit":
                working.append(guard.admit("us", 0, number))
            else:
                guard.observe({0: lease(number)}, told=number)
        except StaleFencingError:
            continue
        working = [work for work in working if WorkState.OVER not in told(work)]
        numbers = {work.fencing for work in working}
        assert len(numbers) <= 1
        assert min(numbers, default=highest) >= highest
        highest = max(numbers, default=highest)


def test_a_snapshot_counts_when_it_is_complete(guard: SlotGuard) -> None:
    work = guard.admit("us", 1, 3)
    news = News(guard)
    slot, other = pb.Slot(site="us", index=0), pb.Slot(site="us", index=1)
    held = pb.SlotStatus(slot=other, state=pb.SLOT_STATE_GRACE, lease=pb.Lease(slot=other, holder="batch", fencing=3))
    news.take(pb.WatchSlotsResponse(snapshot_begins=True, slots=[pb.SlotStatus(slot=slot)], fencing=3))
    assert told(work) == [WorkState.ADMITTED]
    news.take(pb.WatchSlotsResponse(snapshot_ends=True, slots=[held], fencing=3))
    assert told(work) == [WorkState.EXPIRED]
    news.take(pb.WatchSlotsResponse(gone=[other], fencing=3))
    assert told(work) == [WorkState.OVER]


def test_a_slot_is_its_holders(guard: SlotGuard) -> None:
    guard.observe_all([lease(6)], told=6)
    with pytest.raises(NotHolderError, match="the lease us/0#6 is that of batch, not of storm"):
        guard.admit("us", 0, 6, holder="storm")
    assert told(guard.admit("us", 0, 6, holder="batch")) == [WorkState.ADMITTED]
