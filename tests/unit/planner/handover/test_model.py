"""Places, and the tasks that follow one another in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from planner.graph.ids import TaskId
from planner.handover.model import Earlier, Fork, Lineage, Step, place_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLACE = TaskId("q-0001-aaaaaa", "m1")


def test_a_place_that_never_moved_has_its_first_task() -> None:
    assert (Lineage(PLACE).task, Lineage(PLACE).successor) == (PLACE, None)


def test_a_move_and_another_one() -> None:
    first = Lineage(PLACE).asked("eu", "us", NOW).moved(7, NOW)
    assert (str(first.task), first.from_epoch, first.earlier) == (f"{PLACE}.g1", 7, (Earlier(0, "eu", 0),))
    assert first.last is not None
    assert first.last.moved
    second = first.asked("us", "eu", NOW).moved(12, NOW)
    assert (str(second.task), second.from_epoch) == (f"{PLACE}.g2", 12)
    assert second.earlier == (Earlier(0, "eu", 0), Earlier(1, "us", 7))


def test_no_generation_is_used_twice() -> None:
    back = Lineage(PLACE).asked("eu", "us", NOW).rolled_back(NOW)
    assert (back.task, back.handover) == (PLACE, None)
    again = back.asked("eu", "us", NOW)
    assert str(again.successor) == f"{PLACE}.g2"


def test_a_fork_has_two_successors_and_its_place_remembers_where_it_comes_from() -> None:
    other = TaskId("q-0002-bbbbbb", "m1")
    moved = Lineage(PLACE).asked("eu", "us", NOW).moved(7, NOW)
    fork = Fork("q-0002-bbbbbb", other._replace(generation=moved.next_generation), "asia")
    forked = moved.forked("us", fork, NOW)
    assert dict(forked.successors) == {PLACE._replace(generation=2): "us", fork.task: "asia"}
    assert (fork.place, forked.next_generation) == (other, 3)
    branch = forked.branch(12)
    assert (branch.place, branch.task, branch.from_epoch, branch.origin) == (other, fork.task, 12, PLACE)
    assert branch.earlier == (Earlier(0, "eu", 0, PLACE), Earlier(1, "us", 7, PLACE))
    later = branch.asked("asia", "us", NOW).moved(20, NOW)
    assert later.earlier == (*branch.earlier, Earlier(2, "asia", 12))
    assert later.origin == PLACE
    assert forked.moved(12, NOW).origin == PLACE
    assert forked.rolled_back(NOW).next_generation == 3


def test_the_reason_of_a_rollback_is_kept() -> None:
    asked = Lineage(PLACE).asked("eu", "us", NOW, "asked for")
    assert asked.handover is not None
    back = asked.with_handover(asked.handover.at(Step.BACK, NOW, reason="called off"))
    last = back.rolled_back(NOW + timedelta(seconds=3)).last
    assert last is not None
    assert (last.moved, last.reason, last.ended_at - last.asked_at) == (False, "called off", timedelta(seconds=3))


def test_inputs_are_kept_for_whoever_needs_them() -> None:
    handover = Lineage(PLACE).asked("eu", "us", NOW).handover
    assert handover is not None
    reading = {step: handover.at(step, NOW).reading for step in Step}
    both = ("eu", "us")
    assert reading == {
        Step.REGISTERED: both,
        Step.STARTED: both,
        Step.SEEDING: both,
        Step.CUT: both,
        Step.WITHDRAWN: both,
        Step.TAKEN: ("us",),
        Step.BACK: ("eu",),
    }


def test_the_place_of_a_task() -> None:
    assert place_of(PLACE._replace(generation=3)) == PLACE
    assert place_of(PLACE) is PLACE
