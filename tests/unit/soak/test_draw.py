"""Plans of rounds are repeatable, and together have every feature."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.dataset import SITES
from tests.soak.draw import BEATS, CONTAINING, FAMILIES, LASTS_S, SCHEDULERS, SHARING, draw
from tests.soak.plan import Batch, Kind, Plan, Step, Visit
from tests.soak.streams import BEAT_ROWS, asleep, pushed

PLANS = 12


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [draw(seed) for seed in range(PLANS)]


def test_a_seed_gives_the_same_plan_again(plans: list[Plan]) -> None:
    assert draw(3) == plans[3]
    assert draw(4) != plans[3]


def test_together_the_plans_cover_every_word(plans: list[Plan]) -> None:
    covered = sum((plan.coverage() for plan in plans), Counter[str]())

    assert covered.keys() >= {
        *(f"sharing={mode}" for mode in SHARING),
        *(f"{kind.value} stream" for kind in Kind),
        *(f"batch {scheduler}" for scheduler in SCHEDULERS),
        *FAMILIES,
        *("late join", "next-window", "pause", "cancel", "sink", "batch sink", "nap", "producer restart"),
    }
    assert {fault.how for plan in plans for fault in plan.faults} == set(LASTS_S)


def test_one_site_of_a_pushed_stream_is_always_awake(plans: list[Plan]) -> None:
    napping = [plan for plan in plans if plan.naps]
    assert napping
    for plan in napping:
        assert any(not any(asleep(plan, site, beat) for beat in range(BEATS)) for site in SITES)
        assert all(nap.beat + nap.beats < BEATS for nap in plan.naps), "a producer wakes after each nap"


def test_nothing_is_pushed_in_a_nap(plans: list[Plan]) -> None:
    plan = next(plan for plan in plans if plan.naps)
    counts = Counter(pushed(plan).column("site").to_pylist())
    beats = {site: sum(not asleep(plan, site, beat) for beat in range(BEATS)) for site in SITES}
    assert {site: counts[site] for site in SITES} == {site: beats[site] * BEAT_ROWS for site in SITES}


def test_contained_queries_run_in_modes_that_look_for_containment(plans: list[Plan]) -> None:
    modes = Counter(v.sharing in CONTAINING for plan in plans for v in plan.visits if v.what == "contained")
    assert modes[True] > modes[False]


def test_steps_are_in_order_of_time_and_each_query_is_submitted_first() -> None:
    query = draw(0).visits[0].query
    visit = Visit(Kind.FILES, "oracle", query, "net", "history", 2.0, pause=(0.0, 3.0), cancel_after_s=1.0)
    plan = Plan(0, (visit,), (Batch(query, "random", 2.5),), ())

    assert plan.steps() == [
        Step(2.0, 0, "submit"),
        Step(2.0, 0, "pause"),
        Step(2.5, 1, "submit"),
        Step(3.0, 0, "cancel"),
        Step(5.0, 0, "resume"),
    ]
