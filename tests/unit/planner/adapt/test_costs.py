"""Actions cost what the formula says, and the cheapest goes first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from planner.adapt.assign import Demand
from planner.adapt.costs import Cost, Slots, cost_of, every_s
from planner.adapt.decide import decide
from planner.adapt.memory import Memory
from planner.adapt.model import Links
from planner.adapt.options import Action, Change, Option
from planner.adapt.situation import Situation, Verdict
from planner.values.adapting import Order
from tests.unit.planner.adapt.scenes import SETTINGS, START, Scene, later, mesh, together

GROUP = ("q", "m1")
LINKS = Links({("a", "b"): 100.0, ("a", "c"): 400.0, ("b", "c"): 100.0}, {})
SITES = {"a": Slots(4, 2), "b": Slots(8, 0), "c": Slots(6, 3)}


def cost(before: dict[str, int], after: dict[str, int], demand: Demand, *, adapt_s: float = 0.0) -> Cost:
    option = Option(Action.REASSIGN, (Change(GROUP, before, after),), adapt_s, 0.5)
    return cost_of(option, {GROUP: demand}, SITES, LINKS, every_s=100.0)


def test_a_task_more_costs_as_much_as_slots_are_scarce() -> None:
    found = cost({"a": 1}, {"a": 1, "c": 1}, Demand())
    assert (found.slots, found.resources, found.total) == (2.0, 2.0, 1.0)
    # A task that is given up counts against it; a site without a free slot counts as one with one.
    assert cost({"b": 1}, {"c": 1}, Demand()).slots == 2.0 - 8.0


def test_what_crosses_links_counts_by_how_much_more_it_is() -> None:
    demand = Demand(inputs={"a": 30.0, "b": 10.0}, outputs={"c": 5.0})
    found = cost({"a": 1}, {"c": 1}, demand)
    # 10 crossed before, 40 do now; of what is given out, 5 and nothing.
    assert (found.inputs, found.outputs) == (3.0, -1.0)


def test_where_nothing_crossed_the_share_of_the_links_counts() -> None:
    found = cost({"a": 1}, {"c": 1}, Demand(inputs={"a": 40.0}))
    assert found.inputs == pytest.approx(0.1)
    assert cost({"a": 1}, {"a": 1}, Demand(inputs={"a": 40.0})).inputs == 0.0


def test_time_counts_by_how_often_a_query_is_adapted() -> None:
    found = cost({"a": 1}, {"a": 1}, Demand(), adapt_s=20.0)
    assert (found.overhead, found.total) == (0.2, 0.1)
    assert found.text == "0.100 (slots 0.000, in 0.000, out 0.000, overhead 0.200)"
    times = [START + timedelta(seconds=at_s) for at_s in (0, 50, 200)]
    assert every_s(times, horizon_s=300.0) == 100.0
    assert every_s(times[:1], horizon_s=300.0) == 300.0


def a_cut_link() -> Situation:
    """Three queries share a link that carries what one of them sends, with what is left free of it."""
    common = Scene(links_carry={("a", "hub"): 700.0}, each_s=1e-5)
    scenes = [
        replace(common, query="heavy", state_bytes=40_000_000),
        replace(common, query="light", state_bytes=1_000),
        replace(common, query="late", state_bytes=20_000_000, links_carry={("a", "hub"): 650.0}),
    ]
    return together(scenes, mesh(("a", "b", "hub", "far"), 1_000_000.0), {"far": 3})


@pytest.mark.parametrize(
    ("order", "adapted"),
    [(Order.NAKO, {"late", "light"}), (Order.FIRST, {"heavy", "light"}), (Order.SLO, {"heavy", "late"})],
)
def test_two_of_three_are_adapted_and_heal_the_third(order: Order, adapted: set[str]) -> None:
    found = decide(a_cut_link(), Memory(), replace(SETTINGS, order=order)).decisions
    assert {one.query for one in found if one.verdict is Verdict.ACT} == adapted
    (spared,) = (one for one in found if one.query not in adapted)
    assert "leaves room for it" in spared.reason
    assert all(one.cost is not None for one in found)


@pytest.mark.parametrize("order", list(Order))
def test_what_is_left_alone_is_left_alone_while_the_others_are_on_their_way(order: Order) -> None:
    """A look later nothing has come of it yet: the one that is spared waits as before."""
    situation, own = a_cut_link(), replace(SETTINGS, order=order)
    first = decide(situation, Memory(), own)
    moving = frozenset((one.query, "m1") for one in first.decisions if one.verdict is Verdict.ACT)
    again = decide(replace(later(situation, 20), moving=moving), first.memory, own)
    assert not [one for one in again.decisions if one.verdict is Verdict.ACT]
    (spared,) = (one for one in again.decisions if (one.query, "m1") not in moving)
    assert spared.reason == "what is under way leaves room for it"
    # Once their effect should have been seen, it does not count any more.
    late = decide(later(situation, 200), first.memory, own)
    assert [one for one in late.decisions if one.verdict is Verdict.ACT]


def test_none_is_left_alone_without_pruning() -> None:
    found = decide(a_cut_link(), Memory(), replace(SETTINGS, prune=False)).decisions
    assert {one.query for one in found if one.verdict is Verdict.ACT} == {"late", "light"}
    (heavy,) = (one for one in found if one.query == "heavy")
    # It is looked at, and has no place.
    assert heavy.reason.startswith("there is no placement")


def test_a_round_has_no_more_actions_than_it_may() -> None:
    found = decide(a_cut_link(), Memory(), replace(SETTINGS, most_actions=1)).decisions
    (acted,) = (one for one in found if one.verdict is Verdict.ACT)
    others = [one for one in found if one is not acted]
    assert [one.reason for one in others] == ["no more is done in this round"] * 2
