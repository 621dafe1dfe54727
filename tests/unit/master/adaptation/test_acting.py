"""Decisions about the number of a merge's parts, where sites combine, and tasks of a query's own are carried out."""

from __future__ import annotations

from datetime import timedelta

from contract.handover import HandoverReport
from master.adaptation.acting import Acting
from master.records.model import QueryRecord
from planner.adapt.model import Graph, Links, Seen
from planner.adapt.options import Action, Change, Option
from planner.adapt.situation import Considered, Decision, Verdict
from planner.graph.plan import PhysicalPlan
from planner.handover.model import Step
from planner.values.trees import Tree
from tests.unit.master.build import START
from tests.unit.master.reconcile.test_forks import Forking
from tests.unit.master.reconcile.test_scales import Scaling
from tests.unit.master.reconcile.test_swaps import OVER_HUB, Swapping
from tests.unit.master.world import World


async def unasked(record: QueryRecord, tree: Tree | None) -> PhysicalPlan:
    raise AssertionError(record.id)


def acting_of(world: World) -> Acting:
    return Acting(world.jobs.handovers, world.lineages, world.queries, unasked)


async def act(acting: Acting, world: Scaling, after: dict[str, int]) -> str:
    option = Option(Action.SCALE_OUT, (Change((world.query, "m1"), {"us": 1, "eu": 1}, after),), 0.0, 0.0)
    decision = Decision(world.query, START, Verdict.ACT, "", considered=(Considered(option),))
    return await acting.act(decision, Graph(world.query, ()), Seen(START), Links({}, {}))


async def test_a_merge_gets_the_parts_that_were_decided_on() -> None:
    world = Scaling()
    acting = acting_of(world)
    assert await act(acting, world, {"us": 1, "eu": 1, "hub": 1}) == ""
    assert acting.moving == {(world.query, "m1"), (world.query, "f1")}
    world.hear()
    sites = world.homes()
    assert [sites[world.place("m1", number, 1)] for number in range(3)] == ["eu", "hub", "us"]
    assert acting.became((world.query, "m1")) == "m1 is started on its way to 3 parts"


async def test_what_became_of_it_is_told() -> None:
    world = Scaling()
    acting = acting_of(world)
    await act(acting, world, {"us": 2, "eu": 1})
    world.hear()
    world.clock.advance(timedelta(seconds=4))
    world.jobs.handovers.call_off(world.place("f1"), "called off")
    world.hear()
    world.hear()
    assert world.step() is None
    assert acting.became((world.query, "m1")) == "m1 was rolled back after 4 s: called off"
    assert acting.became((world.query, "m1")) == ""


async def test_why_a_merge_keeps_its_parts_is_told() -> None:
    world = Scaling()
    acting = acting_of(world)
    world.jobs.set_draining("hub", True)
    assert "m1 keeps its parts: sites take no new tasks: hub" in await act(acting, world, {"hub": 3})
    assert acting.moving == frozenset()


async def test_parts_that_are_in_place_are_told() -> None:
    world = Scaling()
    acting = acting_of(world)
    await act(acting, world, {"us": 2, "eu": 1})
    world.hear()
    for number in range(3):
        world.said[world.place("m1", number, 1)] = HandoverReport(whole_after_us=1)
    world.hear()
    assert world.step() is Step.SEEDING
    world.finish()
    assert acting.became((world.query, "m1")) == "m1 goes on in 3 parts, after 0 s"


async def test_sites_combine_over_the_site_that_was_decided_on() -> None:
    world = Swapping()
    asked: list[Tree | None] = []

    async def recombine(record: QueryRecord, tree: Tree | None) -> PhysicalPlan:
        asked.append(tree)
        return OVER_HUB

    acting = Acting(world.jobs.handovers, world.lineages, world.queries, recombine)
    changes = (Change((world.query, "m1+"), {}, {"hub": 1}), Change((world.query, "m1"), {"eu": 1}, {"us": 1}))
    tree = Tree({"us": "hub", "eu": "hub"})
    option = Option(Action.REPLAN, changes, 0.0, 0.0, note="us and eu combined on the way", tree=tree)
    decision = Decision(world.query, START, Verdict.ACT, "", considered=(Considered(option),))
    assert await acting.act(decision, Graph(world.query, ()), Seen(START), Links({}, {})) == ""
    assert asked == [tree]
    world.hear()
    # The merge goes where the decision wants it, not where the plan would have it.
    assert world.homes()[world.place("m1", 0, 1)] == "us"
    assert acting.became((world.query, "m1")) == "what combines is started: c1 at us, eu; c2 at hub"
    refused = await acting.act(decision, Graph(world.query, ()), Seen(START), Links({}, {}))
    assert refused == "sites combine as before: " + str(world.place("m1")) + " is moving"


async def test_a_query_gets_a_task_of_its_own_that_was_decided_on() -> None:
    world = Forking()
    acting = acting_of(world)
    group, shared = (world.second, "merge"), (world.first, "merge")
    option = Option(Action.SPLIT, (Change(group, {}, {"us": 1}),), 0.0, 0.0, shared=shared)
    decision = Decision(world.second, START, Verdict.ACT, "", considered=(Considered(option),))
    assert await acting.act(decision, Graph(world.second, ()), Seen(START), Links({}, {})) == ""
    assert acting.moving == {group, shared}
    refused = await acting.act(decision, Graph(world.second, ()), Seen(START), Links({}, {}))
    assert refused.startswith("merge stays shared: ")
    world.hear()
    assert acting.became(group) == "a task of its own is started at us"
    await acting.act(decision, Graph(world.second, ()), Seen(START), Links({}, {}))
    world.jobs.handovers.call_off(world.place, "called off")
    world.hear()
    world.hear()
    assert (await acting.act(decision, Graph(world.second, ()), Seen(START), Links({}, {}))) == ""
    world.jobs.handovers.call_off(world.place, "called off")
    world.hear()
    assert acting.became(group) == "it got no task of its own at us after 0 s: called off"
