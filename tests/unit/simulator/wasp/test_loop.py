"""Tests: the loop carries a decision out when its time has come."""

from __future__ import annotations

from dataclasses import replace

from planner.adapt.model import Settings
from simulator.nako.scenes import SOURCE, stepped
from simulator.wasp.fluid import Flow, carry
from simulator.wasp.loop import Loop

PLAY = stepped(0, SOURCE, shadow=False)


def looked(loop: Loop, rate: float) -> list[Flow]:
    """Two looks at flows whose sources give out so many times their rows."""
    flows = [Flow(one.graph, one.load) for one in PLAY.queries]
    links = PLAY.world.links(PLAY.links, 0.0)
    for _ in range(2):
        for _ in range(60):
            for flow, query in zip(flows, PLAY.queries, strict=True):
                flow.work({site: each * rate for site, each in query.rates.items()}, loop.paused)
            carry(flows, links)
        loop.look(flows, links, PLAY.world.slots)
    return flows


def test_what_moves_stands_still_until_it_is_there() -> None:
    loop = Loop(SOURCE, shadow=False)
    flows = looked(loop, 1.25)
    assert len(loop.slow) == 6
    assert {act.query for act in loop.acts} <= loop.slow.keys()
    moved = {change.group: change for act in loop.acts for change in act.option.changes}
    assert loop.paused == frozenset(moved)
    for flow in flows:
        flow.at_s += max(act.option.adapt_s for act in loop.acts)
    loop.finish(flows)
    assert loop.paused == frozenset()
    for group, change in moved.items():
        (sites,) = ([n.site for n in one.graph.tasks(group)] for one in flows if one.graph.query == group[0])
        assert sorted(sites) == sorted(site for site, number in change.after.items() for _ in range(number))


def test_what_shadows_does_not_stand_still() -> None:
    loop = Loop(SOURCE)
    looked(loop, 1.25)
    assert loop.acts
    assert loop.paused == frozenset()


def test_what_keeps_up_is_left_alone() -> None:
    loop = Loop(replace(Settings(), interval_s=30.0))
    looked(loop, 1.0)
    assert (loop.acts, loop.slow, len(loop.rounds)) == ([], {}, 1)
