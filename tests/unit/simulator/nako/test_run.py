"""Rounds of decisions in drawn worlds, beside the best that could be done."""

from __future__ import annotations

from dataclasses import replace

from planner.adapt.model import Settings
from planner.values.adapting import Order
from simulator.nako.report import results_of
from simulator.nako.run import best, played
from simulator.nako.world import CUT, drawn


def test_most_worlds_that_can_be_healed_are_and_about_as_cheaply_as_possible() -> None:
    results = [one for one in results_of(Order.NAKO, range(100)) if one.best is not None]
    assert len(results) >= 15
    assert sum(one.found.healed for one in results) >= 0.85 * len(results)
    assert sum(one.near for one in results) >= 0.75 * len(results)


def test_the_best_has_no_more_moves_than_any_order() -> None:
    for seed in range(30):
        world, settings = drawn(seed), Settings()
        found = best(world, settings)
        for order in Order:
            outcome = played(world, replace(settings, order=order))
            if found is not None and outcome is not None and outcome.healed and order is not Order.NAKO:
                assert found.moves <= outcome.moves + 1


def test_a_world_whose_link_is_wide_enough_needs_nothing() -> None:
    world = drawn(1)
    wide = replace(world, links=replace(world.links, capacity={**world.links.capacity, CUT: 1e9}))
    assert played(wide, Settings()) is None
    outcome = best(wide, Settings())
    assert outcome is not None
    assert (outcome.moves, outcome.cost) == (0, 0.0)
