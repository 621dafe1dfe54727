"""What is decided about the number of a merge's parts is done."""

from __future__ import annotations

from datetime import timedelta

from contract.handover import HandoverReport
from master.adaptation.acting import Acting
from planner.adapt.model import Graph, Links, Seen
from planner.adapt.options import Action, Change, Option
from planner.adapt.situation import Considered, Decision, Verdict
from planner.handover.model import Step
from tests.unit.master.build import START
from tests.unit.master.reconcile.test_scales import Scaling


def act(acting: Acting, world: Scaling, after: dict[str, int]) -> str:
    option = Option(Action.SCALE_OUT, (Change((world.query, "m1"), {"us": 1, "eu": 1}, after),), 0.0, 0.0)
    decision = Decision(world.query, START, Verdict.ACT, "", considered=(Considered(option),))
    return acting.act(decision, Graph(world.query, ()), Seen(START), Links({}, {}))


def test_a_merge_gets_the_parts_that_were_decided_on() -> None:
    world = Scaling()
    acting = Acting(world.jobs.handovers, world.lineages)
    assert act(acting, world, {"us": 1, "eu": 1, "hub": 1}) == ""
    assert acting.moving == {(world.query, "m1"), (world.query, "f1")}
    world.hear()
    sites = world.homes()
    assert [sites[world.place("m1", number, 1)] for number in range(3)] == ["eu", "hub", "us"]
    assert acting.became((world.query, "m1")) == "m1 is started on its way to 3 parts"


def test_what_became_of_it_is_told() -> None:
    world = Scaling()
    acting = Acting(world.jobs.handovers, world.lineages)
    act(acting, world, {"us": 2, "eu": 1})
    world.hear()
    world.clock.advance(timedelta(seconds=4))
    world.jobs.handovers.call_off(world.place("f1"), "called off")
    world.hear()
    world.hear()
    assert world.step() is None
    assert acting.became((world.query, "m1")) == "m1 was rolled back after 4 s: called off"
    assert acting.became((world.query, "m1")) == ""


def test_why_a_merge_keeps_its_parts_is_told() -> None:
    world = Scaling()
    acting = Acting(world.jobs.handovers, world.lineages)
    world.jobs.set_draining("hub", True)
    assert "m1 keeps its parts: sites take no new tasks: hub" in act(acting, world, {"hub": 3})
    assert acting.moving == frozenset()


def test_parts_that_are_in_place_are_told() -> None:
    world = Scaling()
    acting = Acting(world.jobs.handovers, world.lineages)
    act(acting, world, {"us": 2, "eu": 1})
    world.hear()
    for number in range(3):
        world.said[world.place("m1", number, 1)] = HandoverReport(whole_after_us=1)
    world.hear()
    assert world.step() is Step.SEEDING
    world.finish()
    assert acting.became((world.query, "m1")) == "m1 goes on in 3 parts, after 0 s"
