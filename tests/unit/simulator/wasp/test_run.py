"""The loop of adaptation, closed: what it decides is carried out, and helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.adapt.model import Links, Settings
from planner.graph.ids import TaskId
from simulator.wasp.fluid import Flow, Load, query
from simulator.wasp.run import Scene, run
from simulator.wasp.world import CENTRES, EDGES, alike, phases

YSB = Load("ysb", 10e6)
STEP = Scene(YSB, phases(1, 2, each_s=300), alike(phases(1, each_s=300)), 600)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_doubled_rate_is_cured(seed: int) -> None:
    none, adapted = run(replace(STEP, settings=None), seed), run(STEP, seed)
    assert adapted.mean_s(300, 600) < none.mean_s(300, 600) / 5
    assert adapted.ratio > 0.98
    back_s = adapted.back_s(300)
    assert back_s is not None
    assert back_s < 120
    assert adapted == run(STEP, seed)


def test_what_keeps_up_is_left_alone() -> None:
    still = replace(STEP, rates=phases(0.5, each_s=300), seconds=300)
    assert run(still, 0).acts == ()


@pytest.mark.parametrize("period_s", [20, 40])
def test_links_that_oscillate_do_not_make_it_flap(period_s: float) -> None:
    """Half of the time at 0.35 of what they have, for an interval or two: nothing goes back where it just was."""
    swings = alike(phases(*[1.0, 0.35] * 40, each_s=period_s))
    found = run(replace(STEP, rates=phases(1, each_s=300), links=swings, seconds=900), 1)
    moves = [(act.at_s, change) for act in found.acts for change in act.option.changes]
    for at_s, change in moves:
        later = [c for other_s, c in moves if at_s < other_s <= at_s + 2 * Settings().interval_s]
        assert not any(c.group == change.group and c.after == change.before for c in later)


def test_what_waits_goes_to_the_new_tasks() -> None:
    flow = Flow(query(YSB, EDGES, CENTRES[:4], CENTRES[0]), YSB)
    links = Links({(a, b): 1e4 for a in (*EDGES, *CENTRES) for b in (*EDGES, *CENTRES) if a != b}, {})
    for _ in range(20):
        flow.step(dict.fromkeys(EDGES, 1000.0), links, frozenset())
    waiting = sum(c.produced - c.taken for c in flow.channels.values())
    assert waiting > 0
    flow.place(("ysb", "c0"), {"d5": 2, "d6": 1}, 1)
    assert sum(c.produced - c.taken for c in flow.channels.values()) == pytest.approx(waiting)
    assert [n.site for n in flow.graph.tasks(("ysb", "c0"))] == ["d5", "d5", "d6"]
    assert flow.graph.node(TaskId("ysb", "m")).inputs[-3:] == tuple(n.id for n in flow.graph.tasks(("ysb", "c0")))


def test_while_all_slots_are_lost_nothing_passes_and_nothing_moves() -> None:
    """Afterwards what waited passes, without a row being dropped."""
    lost = replace(STEP, rates=phases(0.7, each_s=300), seconds=600, lost_s=(120.0, 180.0))
    found = run(lost, 0)
    assert found.mean_s(150, 180) > 40
    assert not any(120 <= act.at_s < 180 for act in found.acts)
    assert found.dropped == 0
    assert found.ratio > 0.98


def test_a_system_that_drops_has_less_delay_and_loses_rows() -> None:
    none, drops = run(replace(STEP, settings=None), 0), run(replace(STEP, settings=None, drop_after_s=10.0), 0)
    assert none.dropped == 0
    assert 0 < drops.dropped < 0.5
    assert drops.mean_s(300, 600) < none.mean_s(300, 600) / 2
