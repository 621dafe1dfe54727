"""Causes by what is measured: the right one, at its place, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.adapt.diagnose import Cause, Finding, diagnose
from planner.adapt.model import Phase, Role
from planner.adapt.rates import Condition, expected_in, rates
from tests.unit.planner.adapt.scenes import SETTINGS, Scene


def causes(scene: Scene, *, free_slots: bool = True) -> list[Finding]:
    found = rates(scene.graph, *scene.seen(), SETTINGS)
    return list(diagnose(scene.graph, found, expected_in(scene.graph, found), SETTINGS, free_slots=free_slots))


def named(scene: Scene) -> list[tuple[Cause, str]]:
    return [(one.cause, str(one.task)) for one in causes(scene)]


busy = st.floats(0.00045, 0.0005)
"""Seconds of work for each of 2,000 rows/s: nine tenths of the time, or all of it."""
rates_of = st.floats(300, 5000)


@given(rates_of, rates_of)
def test_a_query_that_keeps_up(a: float, b: float) -> None:
    assert causes(Scene(sources={"a": a, "b": b}, each_s=1e-5)) == []


@given(rates_of, st.floats(0.3, 0.85), st.sampled_from(["a", "b"]))
def test_a_link_that_carries_too_little(rate: float, part: float, site: str) -> None:
    scene = Scene(sources={"a": rate, "b": rate}, each_s=1e-5, links_carry={(site, "hub"): part * rate})
    found = causes(scene)
    assert [(one.cause, one.site, one.to_site) for one in found] == [(Cause.LINK, site, "hub")]
    assert found[0].deficit == pytest.approx(1 - part, abs=0.02)


@given(st.floats(17000, 90000))
def test_a_merge_that_works_all_the_time(behind: float) -> None:
    scene = Scene(each_s=0.00049, behind={0: behind})
    assert named(scene) == [(Cause.COMPUTE, "q.m1.p0")]
    assert [one.cause for one in causes(scene, free_slots=False)] == [Cause.SLOTS]


def test_a_hot_key() -> None:
    """One part is offered most of the rows; the others have time left."""
    scene = Scene(merges=("hub",) * 4, shares=(0.7, 0.1, 0.1, 0.1), each_s=0.0007, behind={0: 30000})
    assert named(scene) == [(Cause.SKEW, "q.m1.p0")]


@pytest.mark.parametrize("busiest_bin", [0.05, 0.4, 0.9])
def test_a_bin_with_most_of_the_rows_is_told_from_want_of_tasks(busiest_bin: float) -> None:
    """The merge needs a little more than a core; a bin with 90 % of the rows is more than a task is to take."""
    scene = Scene(each_s=0.0007, behind={0: 30000})
    (found,) = causes(scene.changed(scene.merge(), busiest_bin=busiest_bin))
    assert found.cause is (Cause.SKEW if busiest_bin == 0.9 else Cause.COMPUTE)
    assert ("90% of its rows are in one bin" in found.seen) is (busiest_bin == 0.9)


def test_of_parts_with_known_bins_only_a_bin_is_skew() -> None:
    """A part that is offered more than its siblings has several bins to give away."""
    scene = Scene(merges=("hub",) * 4, shares=(0.7, 0.1, 0.1, 0.1), each_s=0.0007, behind={0: 30000})
    assert named(scene.changed(scene.merge(), busiest_bin=0.1)) == [(Cause.COMPUTE, "q.m1.p0")]


def test_a_slow_disk_a_starved_site_and_a_queue_without_a_name() -> None:
    scene = Scene(behind={0: 30000})
    assert named(scene.changed(scene.merge(), disk_s=SETTINGS.interval_s * 0.4)) == [(Cause.DISK, "q.m1.p0")]
    assert named(scene.changed(scene.merge(), slot_s=SETTINGS.interval_s * 0.3)) == [(Cause.STARVED, "q.m1.p0")]
    assert named(scene) == [(Cause.UNKNOWN, "q.m1.p0")]


def test_a_victim_is_not_named() -> None:
    """It waits until its readers have room: whoever makes it wait is slow."""
    scene = Scene(behind={0: 30000}, each_s=0.00049)
    assert named(scene.changed(scene.merge(), room_s=SETTINGS.interval_s * 0.5)) == []


def test_a_source_at_which_nothing_arrives() -> None:
    scene = Scene(sources={"a": 1000.0, "b": 0.0})
    assert named(scene) == [(Cause.SOURCE, "q.s1.p1")]


def test_a_sink_that_takes_too_little() -> None:
    scene = Scene(role=Role.SINK, combined=False)
    first, last = scene.seen()
    edge = (scene.merge(), scene.results)
    slow = replace(last.channels[edge], taken=last.channels[edge].taken - 5000)
    last = replace(last, channels={**last.channels, edge: slow})
    found = rates(scene.graph, first, last, SETTINGS)
    told = diagnose(scene.graph, found, expected_in(scene.graph, found), SETTINGS)
    assert [(one.cause, one.task) for one in told] == [(Cause.SINK, scene.results)]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"phase": Phase.PAUSED}, Cause.PAUSED),
        ({"ago_s": 60.0}, Cause.STALE),
        ({"running_s": 5.0}, Cause.RESTARTED),
        ({"useful_s": None}, Cause.MISSING),
        ({"phase": Phase.STARTING}, Cause.RESTARTED),
    ],
)
def test_what_is_not_measured_is_not_judged(change: dict[str, object], cause: Cause) -> None:
    scene = Scene(behind={0: 30000}, each_s=0.00049)
    assert named(scene.changed(scene.merge(), **change)) == [(cause, "q.m1.p0")]  # type: ignore[arg-type]


def test_expected_rates_follow_what_arrives_not_what_passes() -> None:
    """A source that is held up takes half of what arrives: what it is behind by grows."""
    scene = Scene(sources={"a": 500.0, "b": 1000.0})
    scene = scene.changed(scene.source("a"), lag_rows=int(500 * SETTINGS.interval_s))
    found = rates(scene.graph, *scene.seen(), SETTINGS)
    assert found.tasks[scene.source("a")].arrived_per_s == pytest.approx(1000, rel=0.01)
    assert expected_in(scene.graph, found)[scene.merge()] == pytest.approx(2000, rel=0.01)


def test_a_source_that_catches_up() -> None:
    scene = Scene()
    task = scene.source("a")
    first, last = (one.tasks[task] for one in scene.seen())
    behind = replace(first, counters=replace(first.counters, lag_rows=8000))
    found = rates(scene.graph, *replace(scene, tasks={task: (behind, last)}).seen(), SETTINGS)
    assert found.tasks[task].condition is Condition.CATCHING_UP
    assert found.tasks[task].arrived_per_s == pytest.approx(600, rel=0.01)
