"""An hour of random dynamics: what was taken back, and what could be healthy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.adapt.model import Settings
from planner.adapt.options import Action, Change, Option
from simulator.wasp.dynamics import Dynamics, Hour, hour, outcome_of, placement_at, taken_back
from simulator.wasp.fluid import Load
from simulator.wasp.loop import Act
from simulator.wasp.world import alike, phases

YSB = Load("YSB", 10e6)
GROUP = ("YSB", "c0")


def act(at_s: float, before: dict[str, int], after: dict[str, int]) -> Act:
    return Act(at_s, Option(Action.REASSIGN, (Change(GROUP, before, after),), 1.0, 0.5))


@pytest.mark.parametrize(("later_s", "undone"), [(40.0, 1), (41.0, 0)])
def test_what_goes_back_within_the_time_is_taken_back(later_s: float, undone: int) -> None:
    acts = [act(0.0, {"a": 1}, {"b": 1}), act(later_s, {"b": 1}, {"a": 1}), act(later_s, {"b": 1}, {"c": 1})]
    assert taken_back(acts, within_s=40.0) == undone


def test_a_placement_exists_while_links_have_room() -> None:
    """A link of an edge carries 7 Mbit/s at least; two sources of 10,000 rows of 75 bytes need 12."""
    rest = Dynamics(alike(phases(1, each_s=300)), phases(1, each_s=300))
    found = placement_at(YSB, 0, rest, Settings())
    assert found is not None
    assert {name for _, name in found} == {"c0", "c1", "c2", "c3"}
    assert placement_at(YSB, 0, replace(rest, links=alike(phases(0.01, each_s=300))), Settings()) is None


def test_an_hour_ends_healthy_and_the_same_seed_is_the_same_hour() -> None:
    found = hour(YSB, 2, Settings())
    assert (found.undone, found.healthy, found.could_be) == (0, True, True)
    assert found == hour(YSB, 2, Settings())
    assert found.acts > 0


def test_hours_add_up() -> None:
    ill = Hour(3, 1, 2.0, healthy=False, could_be=True)
    hours = [ill, replace(ill, could_be=False, undone=0), replace(ill, healthy=True, undone=2)]
    assert outcome_of(hours) == (3, 2, 1)
