"""Turns of a scheduler: who is skipped, what is never done, for any jobs and slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.batch import (
    Assigned,
    Job,
    Placement,
    Policy,
    Rule,
    Shard,
    SkipRule,
    Skips,
    SlotView,
    Task,
    Turn,
    Waits,
    decide,
    placing,
    placing_by_job,
)
from planner.leases import Slot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SITES = ("us", "eu", "ap")
FREE = [SlotView(Slot("eu", 0), NOW)]


def run_time(task: Task, site: str) -> float:
    return 10.0 if task.shards[0].site == site else 60.0


def near(task: Task, site: str) -> bool:
    return task.shards[0].site == site


def job(name: str, *sites: str, skips: Skips | None = None, started: bool = False) -> Job:
    tasks = tuple(Task(f"{name}/{n}", name, "m", (Shard(site, 100),)) for n, site in enumerate(sites))
    return Job(name, tasks, skips or Skips(), started)


def turn(jobs: list[Job], slots: list[SlotView], rule: Rule, policy: Policy = Policy.FIRST_COME) -> Turn:
    return decide(jobs, slots, placing(policy, run_time, NOW, Random(1)), rule, NOW)


def side_by_side(policies: dict[str, Policy]) -> Callable[[Sequence[Task], Sequence[SlotView]], list[Placement]]:
    return placing_by_job(policies, lambda policy: placing(policy, run_time, NOW, Random(1)))


HALF = Rule(SkipRule(least=0.5, longest=timedelta(seconds=10)), near)

jobs = st.lists(
    st.tuples(st.lists(st.sampled_from(SITES), min_size=1, max_size=4), st.booleans(), st.integers(0, 20)), max_size=4
).map(
    lambda found: [
        job(f"j{n}", *sites, started=started, skips=Skips(NOW - timedelta(seconds=s), 1) if s else None)
        for n, (sites, started, s) in enumerate(found)
    ]
)
slots = st.lists(
    st.tuples(st.sampled_from(SITES), st.none() | st.integers(-5, 100), st.integers(0, 2)), max_size=6
).map(
    lambda found: [
        SlotView(Slot(site, n), None if s is None else NOW + timedelta(seconds=s), ahead)
        for n, (site, s, ahead) in enumerate(found)
    ]
)


@given(
    jobs=jobs,
    slots=slots,
    policies=st.lists(st.sampled_from(Policy), min_size=4, max_size=4),
    least=st.sampled_from([0.0, 0.5, 1.0]),
    only_starts=st.booleans(),
)
def test_nothing_is_placed_twice_and_nothing_of_what_is_skipped(
    jobs: list[Job], slots: list[SlotView], policies: list[Policy], least: float, only_starts: bool
) -> None:
    place = side_by_side({job.name: policy for job, policy in zip(jobs, policies, strict=False)})
    found = decide(jobs, slots, place, Rule(SkipRule(least=least), near, only_starts=only_starts), NOW)
    names = [p.task.name for p in found.placements]
    assert len(names) == len(set(names))
    used = [p.slot for p in found.placements]
    assert len(used) == len(set(used))
    assert not {p.task.job for p in found.placements} & set(found.skipped)
    assert not {j.name for j in jobs if j.started} & set(found.skipped)
    free = {view.slot for view in slots if view.free_at is not None and view.free_at <= NOW}
    assert all(p.slot in free for p in found.placements if isinstance(p, Assigned))
    if least == 0:
        assert found.skipped == ()


def test_a_job_that_would_run_far_from_its_input_lets_others_go_first() -> None:
    found = turn([job("far", "us"), job("near", "eu")], FREE, HALF)
    assert found.skipped == ("far",)
    assert [p.task.job for p in found.placements] == ["near"]


@pytest.mark.parametrize("waited_s", [9, 10])
def test_a_job_is_skipped_for_so_long_at_most(waited_s: int) -> None:
    skips = Skips(NOW - timedelta(seconds=waited_s), 3)
    found = turn([job("far", "us", skips=skips)], FREE, HALF)
    assert found.skipped == (() if waited_s == 10 else ("far",))


def test_a_job_of_more_tasks_than_slots_is_measured_by_the_slots() -> None:
    many = job("many", *["eu"] * 9)
    assert turn([many], FREE, HALF).skipped == ("many",)
    assert turn([many], FREE, Rule(HALF.skips, near, at_once=1)).skipped == ()


def test_a_job_that_cannot_start_anyway_may_wait_in_line() -> None:
    busy = [SlotView(Slot("us", 0), NOW + timedelta(seconds=5))]
    waiting = [job("waiting", "us")]
    assert turn(waiting, busy, HALF, Policy.LEASE).skipped == ("waiting",)
    found = turn(waiting, busy, Rule(HALF.skips, near, only_starts=True), Policy.LEASE)
    assert [(p.task.name, p.slot) for p in found.placements] == [("waiting/0", Slot("us", 0))]


def test_jobs_of_different_policies_share_the_slots_of_one_turn() -> None:
    """The one that is aware of leases waits for the busy slot near its input; the other takes the free one far away."""
    busy = SlotView(Slot("us", 0), NOW + timedelta(seconds=20))
    policies = {"waits": Policy.LEASE, "takes": Policy.FIRST_COME}
    for names in (("waits", "takes"), ("takes", "waits")):
        jobs = [job(name, "us") for name in names]
        found = decide(jobs, [busy, *FREE], side_by_side(policies), Rule(SkipRule(least=0.0), near), NOW).placements
        assert {p.task.job: (type(p), p.slot) for p in found} == {
            "waits": (Waits, busy.slot),
            "takes": (Assigned, FREE[0].slot),
        }


def test_of_different_policies_the_one_that_came_first_chooses_first() -> None:
    policies = {"first": Policy.RANDOM, "second": Policy.FIRST_COME}
    for names in (("first", "second"), ("second", "first")):
        jobs = [job(name, "us") for name in names]
        found = decide(jobs, FREE, side_by_side(policies), Rule(SkipRule(least=0.0), near), NOW)
        assert [p.task.job for p in found.placements] == [names[0]]


def test_a_job_may_have_a_least_locality_of_its_own() -> None:
    anywhere, local = replace(job("far", "us"), locality_min=0.0), replace(job("far", "us"), locality_min=1.0)
    assert turn([anywhere], FREE, HALF).skipped == ()
    assert turn([local], FREE, Rule(SkipRule(least=0.0), near)).skipped == ("far",)


def test_tasks_in_line_for_slots_near_their_input_may_count_as_local() -> None:
    slots = [
        SlotView(Slot("eu", 0), NOW),
        SlotView(Slot("us", 0), NOW + timedelta(seconds=5)),
        SlotView(Slot("us", 1), NOW + timedelta(seconds=5)),
    ]
    mostly_waiting = [job("j", "eu", "us", "us")]
    assert turn(mostly_waiting, slots, HALF, Policy.LEASE).skipped == ("j",)
    found = turn(mostly_waiting, slots, Rule(HALF.skips, near, lines_count=True), Policy.LEASE)
    assert [(p.task.name, p.slot.site, type(p)) for p in found.placements] == [
        ("j/0", "eu", Assigned),
        ("j/1", "us", Waits),
        ("j/2", "us", Waits),
    ]
