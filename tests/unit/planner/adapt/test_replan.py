"""Plans in which all operators of a query are placed anew."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.adapt.model import Links
from planner.adapt.options import Option, Room
from planner.adapt.rates import expected_in, rates
from planner.adapt.replan import replan
from planner.adapt.traffic import Look
from planner.values.links import Pair
from planner.values.trees import Tree
from tests.unit.planner.adapt.scenes import SETTINGS, Scene, mesh

SITES = ("a", "b", "near", "far", "hub")
SLOTS = {"near": 1, "far": 1}
STATE = 10_000_000


def look_of(scene: Scene) -> Look:
    before, after = scene.seen()
    found = rates(scene.graph, before, after, SETTINGS)
    return Look(scene.graph, found, expected_in(scene.graph, found))


def planned(scene: Scene, seeds: Links, links: Links | None = None) -> Option | None:
    room = Room(SLOTS, links or Links(mesh(SITES).capacity, distances()), seeds, SETTINGS)
    return replan(look_of(scene), room)


def distances() -> dict[Pair, float]:
    """Latencies: `far` is farther than all others."""
    return {(x, y): 0.2 if "far" in (x, y) else 0.02 for x in SITES for y in SITES if x != y}


SCENE = Scene(each_s=1e-5, most=1, state_bytes=STATE, combined=False)


def test_a_site_that_the_state_cannot_be_sent_to_in_time_is_no_place() -> None:
    nearest = planned(SCENE, mesh(SITES))
    assert nearest is not None
    assert nearest.text == "m1 hub -> near"

    found = planned(SCENE, mesh(SITES, hub_near=STATE / 1000.0))
    assert found is not None
    assert found.text == "m1 hub -> far"
    assert planned(SCENE, mesh(SITES, hub_near=STATE / 1000.0, hub_far=0.0)) is None


def test_without_state_every_site_is_a_place() -> None:
    found = planned(replace(SCENE, state_bytes=0), mesh(SITES, hub_near=0.0))
    assert found is not None
    assert found.text == "m1 hub -> near"


def test_other_tasks_that_combine_get_no_state() -> None:
    """Only inputs that meet on the way fit to the one site that has a slot, which no state can be sent to."""
    scene = replace(SCENE, sources={"a": 1000.0, "b": 1000.0, "far": 1000.0}, late_s=20.0, selectivity=0.1)
    links = Links(mesh(SITES, a_near=0.0, far_near=0.0, far_hub=0.0).capacity, distances())
    assert planned(scene, mesh(SITES, 0.0), replace(links, capacity={**links.capacity, ("a", "hub"): 0.0})) is None
    room = Room({"b": 1, "far": 1}, Links(mesh(SITES, a_far=0.0).capacity, distances()), mesh(SITES, 0.0), SETTINGS)
    found = replan(look_of(scene), room)
    assert found is not None
    assert isinstance(found.tree, Tree)
    assert found.adapt_s == SETTINGS.prepare_s + 20.0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_planned_is_done_in_time(data: st.DataObject) -> None:
    """A merge of one task: against all sites."""
    rate = st.sampled_from([0.0, 10_000.0, 100_000.0, 1e6])
    seeds = Links({pair: data.draw(rate) for pair in mesh(SITES).capacity}, distances())
    state = data.draw(st.sampled_from([1_000_000, STATE]))
    found = planned(replace(SCENE, state_bytes=state), seeds)
    most_s = SETTINGS.longest_adapt_s - SETTINGS.prepare_s
    reached = {site for site in SLOTS if seeds.capacity["hub", site] * most_s >= state}
    if found is None:
        assert not reached
    else:
        assert found.changes[0].after.keys() <= reached
        assert found.adapt_s <= SETTINGS.longest_adapt_s
