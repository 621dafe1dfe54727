"""Rounds of decisions: what is done, what is left alone, and why."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.adapt.decide import Round, decide
from planner.adapt.diagnose import Cause
from planner.adapt.memory import Memory
from planner.adapt.model import Links, Phase, Role
from planner.adapt.options import Action
from planner.adapt.situation import Decision, Situation, Verdict
from planner.values.links import Pair
from planner.values.trees import Tree
from tests.unit.planner.adapt.scenes import ROW_BYTES, SETTINGS, Scene, later, mesh, together

SITES = ("a", "b", "hub", "far")
SLOTS = {"hub": 1, "far": 2}


def of(situation: Situation, memory: Memory | None = None) -> Round:
    return decide(situation, memory or Memory(), SETTINGS)


def only(situation: Situation, memory: Memory | None = None) -> Decision:
    decisions = of(situation, memory).decisions
    assert len(decisions) == 1, [d.reason for d in decisions]
    return decisions[0]


SLOW = Scene(links_carry={("a", "hub"): 500.0}, each_s=1e-5)
"""Half of what the site a sends to the hub comes through."""
BUSY = Scene(each_s=0.0005, behind={0: 40000})


def test_a_query_that_keeps_up_is_left_alone() -> None:
    found = only(Scene(each_s=1e-5).situation(mesh(SITES), SLOTS))
    assert (found.verdict, found.chosen) == (Verdict.HEALTHY, None)


def test_a_merge_moves_away_from_a_slow_link() -> None:
    found = only(SLOW.situation(mesh(SITES), SLOTS))
    assert (found.verdict, found.cause) == (Verdict.ACT, Cause.LINK)
    assert found.chosen is not None
    assert found.chosen.action is Action.REASSIGN
    assert found.chosen.text == "m1 hub -> far"
    assert found.finding is not None
    assert "rows" in found.finding.seen
    assert found.expected == "1000 rows/s pass, in the place of 500"


def test_the_same_picture_gives_the_same_answer() -> None:
    situation = SLOW.situation(mesh(SITES), SLOTS)
    assert of(situation) == of(situation)


def test_moving_too_much_state_splits_it() -> None:
    """60 s at half of the link for all of the state; a half of it is there in half of the time."""
    scene = replace(SLOW, state_bytes=28_000_000)
    found = only(scene.situation(mesh(SITES), SLOTS | {"b": 2}))
    assert found.chosen is not None
    assert found.chosen.action is Action.SCALE_OUT
    assert [one.option.action for one in found.considered] == [Action.REASSIGN, Action.SCALE_OUT]
    assert "faster" in found.considered[0].against


@pytest.mark.parametrize(("late_s", "state_bytes", "late"), [(10.0, 28_000_000, True), (10.0, 1_000_000, False)])
def test_what_is_there_sooner_without_its_state_moves_without_it(late_s: float, state_bytes: int, late: bool) -> None:
    scene = replace(SLOW, state_bytes=state_bytes, late_s=late_s)
    found = only(scene.situation(mesh(SITES), SLOTS | {"b": 2}))
    assert found.chosen is not None
    assert (found.chosen.action, found.chosen.without_state) == (Action.REASSIGN, late)
    assert found.chosen.adapt_s <= SETTINGS.prepare_s + late_s
    assert ("without its state" in found.chosen.note) == late


def test_nothing_takes_longer_than_the_limit() -> None:
    scene = replace(SLOW, state_bytes=28_000_000_000)
    found = only(scene.situation(mesh(SITES), SLOTS))
    assert (found.verdict, found.chosen) == (Verdict.NONE, None)
    assert found.reason.endswith("its state cannot be sent to far within 300 s")


def test_where_nothing_fits_there_is_no_action() -> None:
    links = mesh(SITES, 60_000.0)
    found = only(SLOW.situation(links, SLOTS))
    assert found.verdict is Verdict.NONE
    assert "no placement" in found.reason


def test_a_busy_merge_gets_as_many_tasks_as_ds2_says() -> None:
    """2,000 rows/s at 0.5 ms each, at most 85 % of the time: two tasks in the site."""
    found = only(BUSY.situation(mesh(SITES), {"hub": 3}))
    assert found.chosen is not None
    assert (found.chosen.action, found.chosen.changes[0].after) == (Action.SCALE_UP, {"hub": 2})


def test_without_slots_in_the_site_it_is_scaled_out() -> None:
    found = only(BUSY.situation(mesh(SITES), {"hub": 0, "far": 1}))
    assert found.chosen is not None
    assert (found.chosen.action, found.chosen.changes[0].after) == (Action.SCALE_OUT, {"hub": 1, "far": 1})


def test_what_cannot_be_scaled_is_said() -> None:
    found = only(replace(BUSY, most=1).situation(mesh(SITES), {"hub": 3}))
    assert found.verdict is Verdict.NONE
    assert "merge_parallelism" in found.reason
    hot = Scene(merges=("hub",) * 4, shares=(0.7, 0.1, 0.1, 0.1), each_s=0.0007, behind={0: 30000})
    found = only(hot.situation(mesh(SITES), {"hub": 3}))
    assert (found.verdict, found.cause) == (Verdict.NONE, Cause.SKEW)


def test_a_link_between_what_cannot_move() -> None:
    scene = replace(SLOW, role=Role.SINK)
    graph = scene.graph
    fixed = replace(
        graph, nodes=tuple(replace(n, role=Role.SOURCE) if n.id == scene.merge() else n for n in graph.nodes)
    )
    found = only(replace(scene.situation(mesh(SITES), SLOTS), graphs=(fixed,)))
    assert (found.verdict, found.cause) == (Verdict.NONE, Cause.LINK)
    assert "stay with their data" in found.reason


def test_a_query_with_a_part_that_is_not_measured_is_not_judged() -> None:
    scene = SLOW.changed(SLOW.source("b"), phase=Phase.PAUSED)
    found = only(scene.situation(mesh(SITES), SLOTS))
    assert (found.verdict, found.cause) == (Verdict.UNJUDGED, Cause.PAUSED)


def test_an_action_is_not_repeated_before_its_effect_is_seen_nor_blindly() -> None:
    """The cause stays as it is: a second try after the first, then longer and longer silence."""
    situation, memory = SLOW.situation(mesh(SITES), SLOTS), Memory()
    acts = []
    for at_s in range(0, 3600, 20):
        found = decide(later(situation, at_s), memory, SETTINGS)
        memory = found.memory
        acts += [at_s for one in found.decisions if one.verdict is Verdict.ACT]
    gaps = [b - a for a, b in pairwise(acts)]
    assert gaps[0] <= 60
    assert all(gap >= SETTINGS.quiet_s for gap in gaps[1:])
    assert gaps[2] >= 2 * gaps[1] - 60
    assert len(acts) <= 5


def test_what_failed_is_forgotten_once_it_is_healthy() -> None:
    memory = Memory()
    ill, well = SLOW.situation(mesh(SITES), SLOTS), Scene(each_s=1e-5).situation(mesh(SITES), SLOTS)
    for at_s in range(0, 80, 20):
        memory = decide(later(ill, at_s), memory, SETTINGS).memory
    assert memory.failed
    for at_s in range(80, 300, 20):
        memory = decide(later(well, at_s), memory, SETTINGS).memory
    assert not memory.failed


def test_a_handover_is_left_alone() -> None:
    situation = replace(SLOW.situation(mesh(SITES), SLOTS), moving=frozenset({("q", "m1")}))
    found = only(situation)
    assert (found.verdict, found.reason) == (Verdict.NONE, "it, or one beside it, is in a handover")


def test_a_low_figure_of_the_last_minutes_counts() -> None:
    """A link that had little five minutes ago is not planned with, though it has much now."""
    situation = SLOW.situation(mesh(SITES), {"far": 1, "b": 1, "hub": 1})
    poor = replace(situation, links=mesh(SITES, a_far=1000.0))
    memory = of(poor).memory
    memory = replace(memory, awaited={})
    found = only(later(situation, 300), memory)
    assert found.chosen is not None
    assert "far" not in found.chosen.changes[0].after


def test_a_task_less_after_ten_minutes() -> None:
    scene = Scene(merges=("hub", "hub"), each_s=1e-5)
    situation, memory = scene.situation(mesh(SITES), {"hub": 1}), Memory()
    acts = []
    for at_s in range(0, 900, 20):
        found = decide(later(situation, at_s), memory, SETTINGS)
        memory = found.memory
        acts += [(at_s, one.chosen.text) for one in found.decisions if one.chosen is not None]
    assert acts[0] == (600, "m1 hub x2 -> hub")


def test_partials_meet_on_the_way_where_only_one_of_them_fits() -> None:
    """The merge has no state to split, home is behind a thin link, and its two near sources may meet before it."""
    scene = Scene(
        sources={"a": 1000.0, "b": 1000.0, "c": 1000.0},
        merges=("home",),
        home="home",
        links_carry={("a", "home"): 500.0},
        each_s=1e-5,
        most=1,
        selectivity=0.4,
        late_s=20.0,
    )
    links = mesh(
        ("a", "b", "c", "home"), a_home=50_000.0, b_a=0.0, c_a=0.0, b_c=0.0, a_c=0.0, c_b=0.0, b_home=310_000.0
    )
    found = only(scene.situation(links, {"home": 0, "b": 1}))
    assert found.chosen is not None
    assert found.chosen.action is Action.REPLAN
    assert found.chosen.note == "a and b combined on the way"
    assert found.chosen.tree == Tree({"a": "b"})
    # The windows that are open have to close before another merge takes over.
    assert found.chosen.adapt_s == SETTINGS.prepare_s + 20.0


@given(st.integers(1, 4), st.integers(1, 8))
def test_no_more_slots_and_shares_are_given_than_there_are(free: int, queries: int) -> None:
    """A herd: all queries lose the same link at once."""
    scenes = [replace(SLOW, query=f"q{n}") for n in range(queries)]
    links = mesh(SITES, 450_000.0)
    situation = together(scenes, links, {"far": free})
    found = of(situation)
    chosen = [one.chosen for one in found.decisions if one.chosen is not None]
    assert sum(c.after.get("far", 0) for option in chosen for c in option.changes) <= free
    used = sum(option.flows.get(("a", "far"), 0.0) for option in chosen)
    assert used < SETTINGS.link_share * 450_000.0
    assert {one.query for one in found.decisions} == {scene.query for scene in scenes}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whenever_a_placement_fits_one_is_found(data: st.DataObject) -> None:
    """Against all placements of up to three tasks more."""
    sites = ("a", "b", "c", "hub")
    rate = st.sampled_from([40_000.0, 90_000.0, 130_000.0, 300_000.0, 1e6])
    capacity: dict[Pair, float] = {(x, y): data.draw(rate) for x in sites for y in sites if x != y}
    capacity["a", "hub"] = 50_000.0
    links = Links(capacity, dict.fromkeys(capacity, 0.04))
    slots = {site: data.draw(st.integers(0, 2)) for site in sites}
    scene = replace(SLOW, state_bytes=1000, combined=True, most=data.draw(st.sampled_from([1, 64])))
    found = only(scene.situation(links, slots))
    chosen = found.chosen
    if chosen is not None and chosen.action is not Action.REPLAN:
        after = chosen.changes[0].after
        own = {"hub": 1}
        assert all(number <= slots.get(site, 0) + own.get(site, 0) for site, number in after.items())
    if chosen is None:
        assert not any(_fits(scene, links, slots, tasks) for tasks in range(1, 5 if scene.most > 1 else 2))


def _fits(scene: Scene, links: Links, slots: dict[str, int], tasks: int) -> bool:
    sites = sorted(slots)
    free = {site: slots[site] + (site == "hub") for site in sites}
    need = {site: rate * ROW_BYTES * 1.5 for site, rate in scene.sources.items()}
    out = sum(need.values()) * scene.selectivity
    for numbers in product(*(range(free[site] + 1) for site in sites)):
        if sum(numbers) != tasks:
            continue
        uses: dict[Pair, float] = {}
        for site, number in zip(sites, numbers, strict=True):
            for pair, size in [*(((s, site), r) for s, r in need.items()), ((site, "hub"), out)]:
                if pair[0] != pair[1] and number:
                    uses[pair] = uses.get(pair, 0.0) + size * number / tasks
        if all(use < SETTINGS.link_share * links.capacity[pair] for pair, use in uses.items()):
            return True
    return False


def test_no_merge_goes_where_no_link_leads() -> None:
    """The site would take most away from the cut link, and what little comes from b could never get there."""
    scene = replace(SLOW, sources={"a": 1000.0, "b": 100.0})
    links = mesh(SITES, 1e6, b_a=0.0, a_hub=50_000.0)
    found = only(scene.situation(links, {"hub": 1, "a": 1}))
    assert found.chosen is None
