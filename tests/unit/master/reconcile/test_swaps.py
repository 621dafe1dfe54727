"""Tasks that combine give way to others: step by step, as sites report, over restarts of the master, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.handover import HandoverReport
from contract.tasks import ReadFrom, TaskState
from master.api.convert.handover import move_to_proto
from master.base.errors import HandoverRefusedError
from master.queries.progress import totals
from master.queries.sharing import deployed_of
from master.records.specs import HandOver, TakeOver
from planner.graph.ids import VertexId
from planner.graph.plan import Destination, Merge, PhysicalPlan, Stage, StageInput
from planner.handover.model import Step
from planner.values.stages import StageKind
from tests.unit.master.build import PLAN
from tests.unit.master.reconcile.changing import Changing

WINDOW = Merge("window_start", timedelta(seconds=10), "SELECT * FROM input")
SOURCE = Stage("s1", StageKind.SOURCE, ("us", "eu"), "SELECT 1", relation="clicks")
S = 1_000_000


def plan(*combines: Stage, reads: str = "s1", merge_at: str = "eu") -> PhysicalPlan:
    """A query whose merge reads that stage."""
    merge = Stage("m1", StageKind.MERGE, (), "SELECT 2", inputs=(StageInput(reads, "input"),), merge=WINDOW)
    return PhysicalPlan(
        stages=(SOURCE, *combines, merge),
        result_stage="m1",
        destination=Destination("hub"),
        columns=PLAN.columns,
        sites={VertexId("m1", 0): merge_at},
    )


def combine(name: str, sites: tuple[str, ...], *, source: bool = True, others: tuple[str, ...] = ()) -> Stage:
    own = (StageInput("s1", "input", same_site=True),) if source else ()
    inputs = (*own, *(StageInput(other, "input") for other in others))
    return Stage(name, StageKind.COMBINE, sites, f"SELECT '{name}'", inputs=inputs, merge=WINDOW)


WRITTEN = plan()
FLAT = plan(combine("c1", ("us", "eu")), reads="c1")
OVER_HUB = plan(combine("c1", ("us", "eu")), combine("c2", ("hub",), source=False, others=("c1",)), reads="c2")


class Swapping(Changing):
    """A query whose merge is at eu."""

    def __init__(self, running: PhysicalPlan = WRITTEN) -> None:
        super().__init__(running, "m1")

    def swap(self, wanted: PhysicalPlan) -> None:
        self.jobs.handovers.swap(self.queries.get(self.query), wanted, "asked for")

    def to_seeding(self, wanted: PhysicalPlan) -> None:
        self.swap(wanted)
        self.hear()
        for number, after_s in enumerate((20, 30)):
            self.said[self.place("c1", number, 1)] = HandoverReport(whole_after_us=after_s * S - 1)
        self.hear()

    def to_end(self, wanted: PhysicalPlan) -> None:
        self.to_seeding(wanted)
        self.from_seeding_to_cut(40 * S)
        self.from_cut_to_end()


@pytest.fixture
def world() -> Swapping:
    return Swapping()


def test_sources_keep_their_epochs_before_the_new_tasks_begin(world: Swapping) -> None:
    world.swap(replace(OVER_HUB, sites={VertexId("m1", 0): "us"}))
    assert world.step() is Step.REGISTERED
    specs = world.specs()
    assert specs[world.place("s1", 0)].consumers == ("eu", "us")
    assert specs[world.place("s1", 1)].consumers == ("eu", "us")
    # The new tasks are nobody's pace.
    readers = {r.reader for q in specs[world.place("s1")].readers for r in q.readers}
    assert readers == {str(world.place("m1"))}
    assert not any(name.generation for name in specs)
    world.hear("us")
    assert world.step() is Step.REGISTERED


def test_the_new_tasks_begin_in_the_middle_of_the_sources(world: Swapping) -> None:
    world.swap(replace(OVER_HUB, sites={VertexId("m1", 0): "us"}))
    world.hear()
    assert world.step() is Step.STARTED
    specs, sites = world.specs(), world.homes()
    leaves, between = [world.place("c1", number, 1) for number in (0, 1)], world.place("c2", 0, 1)
    successor = world.place("m1", 0, 1)
    assert [sites[name] for name in (*leaves, between, successor)] == ["us", "eu", "hub", "us"]
    assert {(i.read_from, i.event_delay) for n in leaves for i in specs[n].inputs} == {
        (ReadFrom.OLDEST, timedelta(seconds=5))
    }
    assert [i.channel for n in leaves for i in specs[n].inputs] == [world.place("s1", n) for n in (0, 1)]
    assert {specs[name].consumers for name in leaves} == {("hub",)}
    assert {name for name, spec in specs.items() if spec.beside} == {*leaves, between}
    assert [(i.channel, i.site, i.read_from) for i in specs[between].inputs] == [
        (leaf, site, ReadFrom.OWN) for leaf, site in zip(leaves, ("us", "eu"), strict=True)
    ]
    assert specs[between].consumers == ("us",)
    assert specs[successor].take_over == TakeOver(world.place("m1"), "eu", seeded=False)
    assert [i.channel for i in specs[successor].inputs] == [between]
    assert [i.channel for i in specs[world.place("m1")].inputs] == [world.place("s1", n) for n in (0, 1)]


def test_the_old_merge_ends_when_it_has_emitted_what_a_new_task_leaves_out(world: Swapping) -> None:
    world.swap(OVER_HUB)
    world.hear()
    world.said[world.place("c1", 0, 1)] = HandoverReport(whole_after_us=20 * S - 1)
    world.hear()
    # One that reads no source has nothing to say.
    assert world.step() is Step.STARTED
    world.said[world.place("c1", 1, 1)] = HandoverReport(whole_after_us=30 * S - 1)
    world.said[world.place("m1", 0, 1)] = HandoverReport(restored=True, caught_up=True)
    world.watermarks[world.place("m1")] = 30 * S - 2
    world.hear()
    assert world.step() is Step.SEEDING
    world.said[world.place("c1", 0, 1)] = HandoverReport(whole_after_us=300 * S)
    world.restart()
    world.hear()
    assert world.step() is Step.SEEDING
    assert world.specs()[world.place("m1")].hand_over == HandOver(world.place("m1", 0, 1), "eu", None)
    world.watermarks[world.place("m1")] = 30 * S - 1
    world.hear()
    assert world.step() is Step.CUT
    assert world.specs()[world.place("m1")].hand_over == HandOver(world.place("m1", 0, 1), "eu", None, cut=True)


def test_the_query_runs_the_new_plan_afterwards(world: Swapping) -> None:
    world.to_end(FLAT)
    assert world.step() is None
    record = world.queries.get(world.query)
    assert [stage.id for stage in record.plan.stages] == ["s1", "c1", "m1"]
    assert world.homes().keys() == {
        world.place("s1", 0),
        world.place("s1", 1),
        world.place("c1", 0, 1),
        world.place("c1", 1, 1),
        world.place("m1", 0, 1),
    }
    assert [i.channel for i in world.specs()[world.place("m1", 0, 1)].inputs] == [
        world.place("c1", number, 1) for number in (0, 1)
    ]
    assert world.specs()[world.place("s1", 0)].consumers == ("us",)
    assert not any(spec.beside for spec in world.specs().values())
    assert {one.id.stage for one in deployed_of(record)} == {"s1", "c1", "m1", "results"}
    told = move_to_proto(world.lineages.get(world.place("m1")))
    assert told is not None
    assert told.combined_by == "c1 at us, eu"
    assert "combines by c1 at us, eu after 0.0 s: asked for" in [c.reason for c in world.queries.history(world.query)]
    world.restart()
    assert [stage.id for stage in world.queries.get(world.query).plan.stages] == ["s1", "c1", "m1"]


def test_a_tree_gives_way_to_another_under_new_generations() -> None:
    world = Swapping(FLAT)
    world.to_end(OVER_HUB)
    world.said.clear()
    assert world.place("c2", 0, 1) in world.homes()
    world.swap(FLAT)
    world.hear()
    assert {name for name in world.homes() if name.generation == 2} == {
        world.place("c1", 0, 2),
        world.place("c1", 1, 2),
        world.place("m1", 0, 2),
    }


def test_rows_that_were_late_before_stay_counted() -> None:
    world = Swapping(FLAT)
    world.late = {world.place("c1", 0): 3, world.place("c1", 1): 4, world.place("m1"): 5}
    world.hear()
    assert totals(world.queries.get(world.query)).rows_late == 12
    # The merge's successor goes on from its count; the new COMBINEs begin with none.
    world.late |= {world.place("m1", 0, 1): 5, world.place("c1", 0, 1): 0}
    world.to_end(OVER_HUB)
    assert totals(world.queries.get(world.query)).rows_late == 12
    world.late[world.place("c1", 0, 1)] = 1
    world.hear()
    assert totals(world.queries.get(world.query)).rows_late == 13


def test_it_is_rolled_back_when_a_new_task_fails_or_began_too_late(world: Swapping) -> None:
    world.swap(FLAT)
    world.hear()
    world.states[world.place("c1", 1, 1)] = TaskState.FAILED
    world.hear()
    assert world.step() is Step.BACK
    world.hear()
    assert world.step() is None
    assert not any(name.generation for name in world.homes())
    assert "m1.p0 goes on with what combines as it was" in world.queries.history(world.query)[-1].reason


def test_it_can_be_called_off(world: Swapping) -> None:
    world.to_seeding(FLAT)
    world.jobs.handovers.call_off(world.place("m1"), "called off")
    world.hear()
    world.hear()
    assert world.step() is None
    told = move_to_proto(world.lineages.get(world.place("m1")))
    assert told is not None
    assert (told.combined_by, told.reason) == ("c1 at us, eu", "called off")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (WRITTEN, "has no merge, or several"),
        (plan(combine("c1", ("us", "eu")), reads="s1"), "has no merge, or several"),
        (replace(FLAT, stages=(replace(SOURCE, sql="SELECT 7"), *FLAT.stages[1:])), "planned in another way today"),
        (
            replace(FLAT, stages=(*FLAT.stages[:2], replace(FLAT.stages[2], parts=2))),
            "m1 runs in 2 parts",
        ),
    ],
)
def test_other_plans_are_refused(world: Swapping, wanted: PhysicalPlan, why: str) -> None:
    with pytest.raises(HandoverRefusedError, match=why):
        world.swap(wanted)


def test_what_runs_already_is_refused() -> None:
    world = Swapping(FLAT)
    with pytest.raises(HandoverRefusedError, match="combines so already"):
        world.swap(FLAT)
    # At another site it is not the same.
    world.swap(replace(FLAT, sites={VertexId("m1", 0): "us"}))
    with pytest.raises(HandoverRefusedError, match=r"m1\.p0 is moving"):
        world.swap(OVER_HUB)


def test_a_site_that_takes_no_tasks_is_refused(world: Swapping) -> None:
    world.jobs.set_draining("hub", True)
    with pytest.raises(HandoverRefusedError, match="sites take no new tasks: hub"):
        world.swap(OVER_HUB)
