"""The product's own master and agents in simulated worlds: a sample of schedules, and those that found something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from socket import socket
from typing import get_args

import pytest

from tests import seeds
from tests.seeds import several
from tests.simulation.bugs import BUGS, Bug, edited
from tests.simulation.faults import Cut, Fault, Kill, KillAtPoint, Silence
from tests.simulation.found import FOUND
from tests.simulation.guard import LeakError, closed
from tests.simulation.moving import moving, moving_instants, recombined, rejoined
from tests.simulation.plan import MASTER, Feature, Plan, drawn, drawn_of
from tests.simulation.report import bugs_section, readable, record
from tests.simulation.shrink import fewest, shrunk
from tests.simulation.worker import ROOT, played
from tests.simulation.workload import (
    ALL_GROUPS,
    ARRIVING,
    BESIDE,
    DRAWN,
    PAIRED,
    SCALED,
    SESSIONS,
    STEPS,
    TOTALLED,
    Query,
)

FIRST_SEED = 1 if seeds.GIVEN is None else Random(seeds.GIVEN).randrange(10**9)
"""`make test` has the same schedules each time, `make long` others, and more."""
SCHEDULES = several(100, 400)
SCHEDULES_OF_STEPS = several(8, 40)
SCHEDULES_OF_INSTANTS = several(8, 40)
SCHEDULES_OF_MOVES = several(20, 60)
SCHEDULES_OF_SWAPS = several(10, 30)
SCHEDULES_OF_JOINS = several(6, 12)
_OF_INSTANTS = (SESSIONS, PAIRED, TOTALLED, BESIDE)
"""Their results come out at instants, not with windows."""

pytestmark = pytest.mark.timeout(1800)


def _seeds(schedules: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + schedules)


@pytest.mark.seeded
def test_a_sample_of_schedules_passes() -> None:
    outcomes = list(played([drawn(seed) for seed in _seeds(SCHEDULES)]))
    failed = [readable(outcome) for outcome in outcomes if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)
    assert sum(outcome.faults for outcome in outcomes) > 3 * SCHEDULES


def test_what_was_found_stays_mended() -> None:
    failed = [readable(outcome) for outcome in played(list(FOUND.values())) if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)


def test_what_needs_all_groups_is_right_where_nothing_stays_in_memory() -> None:
    """Plans run as the placer decides and over a site between, without faults and with kills of each site."""
    kills = (Kill(20.0, "us", 1.0), Kill(26.0, "eu", 0.5), Kill(33.0, "asia", 0.5))
    plans = [
        Plan(seed, queries=(name,), rows=120, tight=True, combine=bool(tree), tree=tree, faults=faults)
        for name in ALL_GROUPS
        for tree in ("", "asia > eu")
        for seed, faults in enumerate([(), kills])
    ]
    failed = [readable(outcome) for outcome in played(plans) if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)


@pytest.mark.seeded
def test_cumulative_windows_and_units_of_time_are_right_under_drawn_faults() -> None:
    plans = [replace(drawn(seed), queries=tuple(STEPS)) for seed in _seeds(SCHEDULES_OF_STEPS)]
    failed = [readable(outcome) for outcome in played(plans) if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)


@pytest.mark.seeded
def test_windows_over_arrivals_lose_and_double_nothing_under_drawn_faults() -> None:
    plans = [replace(drawn(seed), queries=tuple(ARRIVING)) for seed in _seeds(SCHEDULES_OF_STEPS)]
    failed = [readable(outcome) for outcome in played(plans) if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)


@pytest.mark.seeded
@pytest.mark.parametrize("queries", _OF_INSTANTS, ids=["sessions", "pairs", "totals", "beside"])
def test_results_at_instants_are_right_under_drawn_faults(queries: Mapping[str, Query]) -> None:
    """A query of these, or several that share what they can, in the place of those that a seed draws."""
    plans = [drawn_of(seed, sorted(queries)) for seed in _seeds(SCHEDULES_OF_INSTANTS)]
    failed = [readable(outcome) for outcome in played(plans) if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)


@pytest.mark.seeded
@pytest.mark.parametrize("queries", _OF_INSTANTS, ids=["sessions", "pairs", "totals", "beside"])
def test_merges_with_results_at_instants_that_move_lose_and_double_nothing(queries: Mapping[str, Query]) -> None:
    plans = [moving_instants(seed, sorted(queries)) for seed in _seeds(SCHEDULES_OF_INSTANTS)]
    outcomes = list(played(plans))
    failed = [readable(outcome) for outcome in outcomes if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)
    assert sum(outcome.takeovers for outcome in outcomes) > SCHEDULES_OF_INSTANTS


@pytest.mark.seeded
def test_tasks_that_move_all_the_time_lose_and_double_nothing() -> None:
    outcomes = list(played([moving(seed) for seed in _seeds(SCHEDULES_OF_MOVES)]))
    failed = [readable(outcome) for outcome in outcomes if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)
    assert sum(outcome.takeovers for outcome in outcomes) > SCHEDULES_OF_MOVES


@pytest.mark.seeded
def test_sites_that_combine_in_other_ways_all_the_time_lose_and_double_nothing() -> None:
    outcomes = list(played([recombined(seed) for seed in _seeds(SCHEDULES_OF_SWAPS)]))
    failed = [readable(outcome) for outcome in outcomes if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)
    assert sum(outcome.takeovers for outcome in outcomes) > SCHEDULES_OF_SWAPS


@pytest.mark.seeded
def test_a_query_that_shares_and_does_not_all_the_time_loses_and_doubles_nothing() -> None:
    outcomes = list(played([rejoined(seed) for seed in _seeds(SCHEDULES_OF_JOINS)]))
    failed = [readable(outcome) for outcome in outcomes if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)
    assert sum(outcome.takeovers for outcome in outcomes) > SCHEDULES_OF_JOINS


def test_seeds_draw_every_kind_of_trouble() -> None:
    plans = [drawn(seed) for seed in range(300)]
    kinds = {type(fault).__name__ for plan in plans for fault in plan.faults}
    assert kinds == {kind.__name__ for kind in get_args(Fault)}
    assert {plan.rest_s for plan in plans} == {0.02, 0.2}
    assert any(plan.skews_s for plan in plans)
    assert {name for plan in plans for name in plan.queries} == {*DRAWN, *SCALED}
    assert any(plan.there and plan.together and plan.combine for plan in plans)
    assert {plan.tree.count(">") for plan in plans} == {0, 1, 2}
    assert any(plan.tree and plan.tight and plan.parts == 1 for plan in plans)
    assert len(Feature) < len({str(sorted({type(f).__name__ for f in plan.faults})) for plan in plans})


def test_a_failing_plan_is_made_as_small_as_it_can_be() -> None:
    needed = (Kill(9.0, "us", 1.0), Cut(12.0, "us", MASTER))
    others = [Silence(float(at), "eu", "us", 1.0) for at in range(20)]
    plan = Plan(1, queries=("rows", "windows"), rows=240, rest_s=0.2, faults=(*others, needed[0], *others, needed[1]))

    def fails(candidate: Plan) -> bool:
        return set(needed) <= set(candidate.faults) and "windows" in candidate.queries and candidate.rows >= 60

    small = shrunk(plan, fails)
    assert small == Plan(1, queries=("windows",), rows=60, faults=needed)


def test_nothing_is_left_out_that_is_needed() -> None:
    assert fewest(range(100), lambda some: {3, 70, 71} <= set(some)) == (3, 70, 71)
    assert fewest(range(5), lambda some: True) == ()
    assert fewest(range(3), lambda some: len(some) == 3) == (0, 1, 2)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bugs_can_still_be_put_back(bug: Bug) -> None:
    for edit in bug.edits:
        assert edited((ROOT / edit.path).read_text(), edit)


def test_the_table_of_bugs_grows_run_by_run_of_the_same_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for code, row in (
        ("1", ("a", "7", "7", "wrong")),
        ("1", ("b", "not in 9", "", "")),
        ("2", ("c", "3", "3", "wrong")),
    ):
        record(page, bugs_section(code, "- facts", [row], page))
        text = page.read_text()
        assert f"| {' | '.join(row)} |" in text
        assert ("| a |" in text) == (code == "1")
        if row[0] == "b":
            assert "**1 of 2 are found.**" in text


def test_points_are_those_of_the_product() -> None:
    found = {fault.point for seed in range(300) for fault in drawn(seed).faults if isinstance(fault, KillAtPoint)}
    assert {"epoch-renamed", "checkpoint-saved", "query-stored", "move-stored"} <= found


def test_a_world_cannot_reach_the_machine() -> None:
    with closed():
        with pytest.raises(LeakError):
            Path("made-by-a-world").write_text("")
        with pytest.raises(LeakError):
            socket()
    assert Path(__file__).read_text()
