from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from planner.batch import (
    Assigned,
    Placement,
    RunTime,
    Shard,
    SlotView,
    Task,
    Waits,
    first_come,
    lease_aware,
    local,
    random_slots,
)
from planner.leases import Slot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Times = dict[tuple[str, str], float]


def task(name: str, site: str = "x") -> Task:
    return Task(name, "j", "m", (Shard(site, 1),))


def view(site: str, free_s: float | None = 0.0, ahead: int = 0, index: int = 0) -> SlotView:
    return SlotView(Slot(site, index), None if free_s is None else NOW + timedelta(seconds=free_s), ahead)


def run_time(times: Times, default_s: float = 50.0) -> RunTime:
    return lambda task, site: times.get((task.name, site), default_s)


def told(placements: list[Placement]) -> list[str]:
    return [f"{p.task.name} {'at' if isinstance(p, Assigned) else 'waits for'} {p.slot}" for p in placements]


def test_a_busy_slot_near_the_input_is_waited_for_when_that_is_faster() -> None:
    times = run_time({("t", "near"): 40.0, ("t", "far"): 120.0})
    slots = [view("near", 30.0), view("far")]
    (placed,) = lease_aware([task("t")], slots, times, NOW)
    assert placed == Waits(task("t"), Slot("near", 0), NOW + timedelta(seconds=30))
    assert told(first_come([task("t")], slots, times, NOW)) == ["t at far/0"]


def test_a_free_slot_far_away_is_taken_when_waiting_is_longer() -> None:
    times = run_time({("t", "near"): 40.0, ("t", "far"): 120.0})
    (placed,) = lease_aware([task("t")], [view("near", 90.0), view("far")], times, NOW)
    assert placed == Assigned(task("t"), Slot("far", 0), timedelta(seconds=120))


def test_a_slot_that_many_wait_for_is_left_to_them() -> None:
    times = run_time({("t", "near"): 40.0, ("t", "far"): 120.0})
    assert told(lease_aware([task("t")], [view("near", 10.0, ahead=1), view("far")], times, NOW)) == [
        "t waits for near/0"
    ]
    assert told(lease_aware([task("t")], [view("near", 10.0, ahead=2), view("far")], times, NOW)) == ["t at far/0"]


def test_a_slot_of_which_nobody_says_when_it_is_free_is_not_waited_for() -> None:
    times = run_time({("t", "near"): 1.0})
    assert told(lease_aware([task("t")], [view("near", None), view("far")], times, NOW)) == ["t at far/0"]
    assert lease_aware([task("t")], [view("near", None)], times, NOW) == []


def test_a_task_that_would_follow_another_one_is_left_out_for_now() -> None:
    times = run_time({("a", "near"): 10.0, ("b", "near"): 10.0, ("a", "far"): 90.0, ("b", "far"): 90.0})
    assert told(lease_aware([task("a"), task("b")], [view("near"), view("far")], times, NOW)) == ["a at near/0"]
    assert told(first_come([task("a"), task("b")], [view("near"), view("far")], times, NOW)) == [
        "a at near/0",
        "b at far/0",
    ]


def test_a_local_task_waits_for_its_site_however_long_that_takes() -> None:
    times = run_time({("t", "near"): 40.0, ("t", "far"): 1.0, ("u", "far"): 20.0})
    tasks = [task("t", "near"), task("u", "far")]
    assert told(local(tasks, [view("near", 900.0), view("far")], times, NOW)) == ["t waits for near/0", "u at far/0"]


def test_a_local_task_runs_elsewhere_where_its_site_will_have_no_slot() -> None:
    times = run_time({("t", "far"): 1.0, ("u", "far"): 20.0})
    tasks = [task("t", "near"), task("u", "far")]
    slots = [view("near", None), view("far"), view("far", 30.0, index=1)]
    assert told(local(tasks, slots, times, NOW)) == ["u at far/0", "t waits for far/1"]


def test_without_slots_or_tasks_nothing_is_placed() -> None:
    for place in (lease_aware, first_come, local):
        assert place([], [view("a")], run_time({}), NOW) == []
        assert place([task("t")], [], run_time({}), NOW) == []


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Task], list[SlotView], Times]:
    tasks = [task(f"t{n}") for n in range(draw(st.integers(0, 5)))]
    sites = [f"s{n}" for n in range(draw(st.integers(0, 4)))]
    free_s = st.none() | st.just(0.0) | st.floats(1, 60)
    slots = [view(site, draw(free_s), draw(st.integers(0, 2))) for site in sites]
    times = {(t.name, site): draw(st.floats(1, 60)) for t in tasks for site in sites}
    return tasks, slots, times


@given(cases())
def test_always_the_task_next_that_ends_first(case: tuple[list[Task], list[SlotView], Times]) -> None:
    """The lazy queue against looking at every task and slot at every step."""
    tasks, slots, times = case
    free_s = {
        v.slot: (v.free_at - NOW).total_seconds()
        + v.ahead * sum(times[t.name, v.slot.site] for t in tasks) / max(1, len(tasks))
        for v in slots
        if v.free_at is not None
    }
    left = {t.name for t in tasks}
    wanted: dict[Slot, str] = {}
    while left and free_s:
        ends = sorted((at_s + times[name, slot.site], name, slot) for name in left for slot, at_s in free_s.items())
        # Which of two that end at one instant comes first is nobody's business.
        assume(len(ends) < 2 or ends[1][0] - ends[0][0] > 1e-3)
        end_s, name, slot = ends[0]
        wanted.setdefault(slot, name)
        left.discard(name)
        free_s[slot] = end_s

    found = lease_aware(tasks, slots, run_time(times), NOW)
    assert {p.slot: p.task.name for p in found} == wanted
    now = {v.slot for v in slots if v.free_at is not None and v.free_at <= NOW and not v.ahead}
    assert {p.slot for p in found if isinstance(p, Assigned)} == now & wanted.keys()


@given(cases(), st.integers(0, 9))
def test_only_free_slots_are_taken_and_each_once(case: tuple[list[Task], list[SlotView], Times], seed: int) -> None:
    tasks, slots, times = case
    free = {v.slot for v in slots if v.free_at is not None and v.free_at <= NOW}
    for placed in (
        first_come(tasks, slots, run_time(times), NOW),
        random_slots(tasks, slots, run_time(times), NOW, Random(seed)),
    ):
        assert len(placed) == min(len(tasks), len(free))
        assert {p.slot for p in placed} <= free
        assert len({p.slot for p in placed}) == len(placed) == len({p.task.name for p in placed})
