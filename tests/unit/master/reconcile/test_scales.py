"""A merge gets another number of parts: step by step, as sites report, over restarts of the master, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.handover import HandoverReport
from contract.tasks import ReadFrom, TaskState
from master.api.convert.handover import move_to_proto
from master.base.errors import HandoverRefusedError
from master.queries.sharing import deployed_of
from master.records.specs import HandOver, TakeOver
from planner.graph.plan import Destination, Merge, PhysicalPlan, Stage, StageInput
from planner.handover.model import Step
from planner.values.errors import UnknownSiteError
from planner.values.stages import StageKind
from selat.v1 import handover_pb2
from tests.unit.master.build import PLAN, report, status
from tests.unit.master.reconcile.changing import Changing

WINDOW = Merge("window_start", timedelta(seconds=10), "SELECT * FROM input", by_bins=True)
IN_PARTS = PhysicalPlan(
    stages=(
        Stage("s1", StageKind.SOURCE, ("us", "eu"), "SELECT 1", relation="clicks"),
        Stage("m1", StageKind.MERGE, (), "SELECT 2", inputs=(StageInput("s1", "input"),), merge=WINDOW, parts=2),
        Stage("f1", StageKind.FINAL, (), "SELECT 3", inputs=(StageInput("m1", "input"),), merge=WINDOW),
    ),
    result_stage="f1",
    destination=Destination("hub"),
    columns=PLAN.columns,
)
S = 1_000_000


class Scaling(Changing):
    """A query whose merge runs in two parts, at us and eu, behind which the FINAL is at eu."""

    def __init__(self) -> None:
        sites = dict(zip((*IN_PARTS.stages[1].vertices, *IN_PARTS.stages[2].vertices), ("us", "eu", "eu"), strict=True))
        super().__init__(replace(IN_PARTS, sites=sites), "f1")

    def scale(self, number: int, *sites: str) -> None:
        self.jobs.handovers.scale(self.query, "m1", number, sites, "asked for")

    def to_seeding(self, *sites: str) -> None:
        """To three parts, which have all windows that end after 20, 30 and 25 s."""
        self.scale(3, *sites)
        self.hear()
        for number, after_s in enumerate((20, 30, 25)):
            self.said[self.place("m1", number, 1)] = HandoverReport(whole_after_us=after_s * S - 1)
        self.hear()

    def to_cut(self) -> None:
        self.to_seeding()
        self.from_seeding_to_cut(40 * S)

    def to_end(self) -> None:
        self.to_seeding()
        self.finish()

    def finish(self) -> None:
        """From SEEDING on."""
        self.from_seeding_to_cut(40 * S)
        self.from_cut_to_end()


@pytest.fixture
def world() -> Scaling:
    return Scaling()


def test_producers_keep_their_epochs_before_new_parts_begin(world: Scaling) -> None:
    world.scale(3, "hub")
    assert world.step() is Step.REGISTERED
    specs = world.specs()
    assert {specs[world.place("s1", n)].consumers for n in (0, 1)} == {("eu", "hub", "us")}
    # The new parts are nobody's pace.
    readers = {r.reader for q in specs[world.place("s1")].readers for r in q.readers}
    assert readers == {str(world.place("m1", n)) for n in (0, 1)}
    assert not any(name.generation for name in specs)
    world.hear("us")
    assert world.step() is Step.REGISTERED


def test_new_parts_begin_in_the_middle_of_their_inputs(world: Scaling) -> None:
    world.scale(3, "hub", "us")
    world.hear()
    assert world.step() is Step.STARTED
    specs, sites = world.specs(), world.homes()
    parts = [world.place("m1", number, 1) for number in range(3)]
    assert [sites[part] for part in parts] == ["hub", "us", "hub"]
    assert [(i.first_bin, i.bins) for part in parts for i in specs[part].inputs[:1]] == [(0, 21), (21, 21), (42, 22)]
    late = {(item.read_from, item.event_delay) for part in parts for item in specs[part].inputs}
    assert late == {(ReadFrom.OLDEST, timedelta(seconds=5))}
    assert {specs[part].consumers for part in parts} == {("eu",)}
    final = specs[world.place("f1", 0, 1)]
    assert final.take_over == TakeOver(world.place("f1"), "eu", seeded=False)
    assert [item.channel for item in final.inputs] == parts
    assert [item.channel for item in specs[world.place("f1")].inputs] == [world.place("m1", n) for n in (0, 1)]
    assert specs[world.place("f1")].hand_over is None


def test_the_old_final_ends_when_it_has_emitted_what_a_new_part_misses(world: Scaling) -> None:
    world.scale(3)
    world.hear()
    world.said[world.place("m1", 0, 1)] = HandoverReport(whole_after_us=20 * S - 1)
    world.hear()
    assert world.step() is Step.STARTED
    for number in (1, 2):
        world.said[world.place("m1", number, 1)] = HandoverReport(whole_after_us=30 * S - 1)
    world.said[world.place("f1", 0, 1)] = HandoverReport(restored=True, caught_up=True)
    world.watermarks[world.place("f1")] = 40 * S - 1
    world.hear()
    assert world.step() is Step.SEEDING
    # What they say later does not count.
    world.said[world.place("m1", 0, 1)] = HandoverReport(whole_after_us=300 * S)
    world.restart()
    world.hear()
    assert world.step() is Step.SEEDING
    successor = world.place("f1", 0, 1)
    assert world.specs()[world.place("f1")].hand_over == HandOver(successor, "eu", None)
    world.watermarks[world.place("f1")] = 40 * S
    world.hear()
    assert world.step() is Step.CUT
    assert world.specs()[world.place("f1")].hand_over == HandOver(successor, "eu", None, cut=True)


def test_afterwards_the_query_has_the_new_parts(world: Scaling) -> None:
    world.to_end()
    assert world.step() is None
    for again in (False, True):
        if again:
            world.restart()
            world.jobs.tick()
        record, specs = world.queries.get(world.query), world.specs()
        assert record.plan.stage("m1").parts == 3
        tasks = [world.place("m1", number, 1) for number in range(3)]
        assert sorted(name for name in specs if name.stage != "s1") == sorted((*tasks, world.place("f1", 0, 1)))
        assert [item.channel for item in specs[world.place("f1", 0, 1)].inputs] == tasks
        assert {item.read_from for task in tasks for item in specs[task].inputs} == {ReadFrom.OWN}
        assert specs[world.place("f1", 0, 1)].take_over is None
        results = world.board.current("hub").assignment.results[0]
        assert [(i.channel.generation, i.from_epoch) for i in results.inputs] == [(0, 0), (1, 9)]
        assert set(record.progress.tasks) == {
            one.id for one in deployed_of(record) if one.id.stage in ("s1", "m1", "f1")
        }
    move = move_to_proto(world.lineages.get(world.place("f1")))
    assert move is not None
    assert (move.step, move.scaled_stage, list(move.part_sites)) == (
        handover_pb2.MOVE_STEP_MOVED,
        "m1",
        ["us", "eu", "us"],
    )


def test_parts_change_again_under_other_generations(world: Scaling) -> None:
    world.to_end()
    world.scale(1, "hub")
    world.hear()
    assert world.place("m1", 0, 2) in world.specs()
    assert world.place("f1", 0, 2) in world.specs()
    assert [(i.first_bin, i.bins) for i in world.specs()[world.place("m1", 0, 2)].inputs] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("step", [Step.REGISTERED, Step.STARTED, Step.SEEDING, Step.CUT])
def test_what_is_called_off_leaves_the_parts_as_they_were(world: Scaling, step: Step) -> None:
    before = world.specs()
    match step:
        case Step.REGISTERED:
            world.scale(3)
        case Step.STARTED:
            world.scale(3)
            world.hear()
        case Step.SEEDING:
            world.to_seeding()
        case _:
            world.to_cut()
    assert world.step() is step
    world.jobs.handovers.call_off(world.place("f1"), "called off")
    for _ in range(3):
        world.hear()
    assert world.step() is None
    assert world.specs() == before
    assert world.queries.get(world.query).plan.stage("m1").parts == 2
    # The same generation is not used again.
    world.scale(3)
    world.hear()
    assert world.place("m1", 0, 2) in world.specs()


@pytest.mark.parametrize("failed", [True, False])
def test_a_new_part_that_cannot_run_ends_it(world: Scaling, failed: bool) -> None:
    world.scale(3)
    world.hear()
    name = world.place("m1", 1, 1)
    if failed:
        world.states[name] = TaskState.FAILED
        world.hear()
    else:
        one = replace(status(name, site="eu"), missed_inputs=(world.place("s1"),))
        world.jobs.report(report("eu", one, assignment_version=world.board.version("eu")))
    world.hear()
    world.hear()
    last = world.lineages.get(world.place("f1")).last
    assert last is not None
    assert (last.moved, str(name) in last.reason) == (False, True)


def test_neighbours_do_not_move_meanwhile(world: Scaling) -> None:
    world.scale(3)
    for place in (world.place("m1", 0), world.place("f1")):
        with pytest.raises(HandoverRefusedError):
            world.jobs.handovers.begin(place, "hub", "asked for")
    with pytest.raises(HandoverRefusedError, match="is moving"):
        world.scale(4)


@pytest.mark.parametrize(
    ("stage", "number", "sites", "told"),
    [
        ("m2", 3, (), "no stage 'm2'"),
        ("s1", 3, (), "s1 is a source stage"),
        ("m1", 65, (), "cannot have 65 parts"),
        ("m1", 1 << 31, ("hub",), "cannot have 2147483648 parts"),
        ("m1", 2, (), "has 2 parts at these sites already"),
        ("m1", 0, (), "cannot have 0 parts"),
    ],
)
def test_what_cannot_be_is_refused(world: Scaling, stage: str, number: int, sites: tuple[str, ...], told: str) -> None:
    with pytest.raises(HandoverRefusedError, match=told):
        world.jobs.handovers.scale(world.query, stage, number, sites, "asked for")


def test_a_merge_that_was_planned_as_one_task_keeps_it(world: Scaling) -> None:
    query = world.run()
    with pytest.raises(HandoverRefusedError, match="do not go to a FINAL task") as refused:
        world.jobs.handovers.scale(query, "merge", 2, (), "asked for")
    assert "SET merge_parallelism" in refused.value.hint


def test_a_query_that_is_over_has_no_parts(world: Scaling) -> None:
    world.jobs.cancel(world.query)
    with pytest.raises(HandoverRefusedError, match="runs no merge of its own for m1"):
        world.scale(3)


def test_sites_that_take_nothing_are_named(world: Scaling) -> None:
    world.jobs.set_draining("hub", True)
    with pytest.raises(HandoverRefusedError, match="take no new tasks: hub"):
        world.scale(3, "hub")
    with pytest.raises(UnknownSiteError):
        world.scale(3, "mars")


def test_slots_are_counted_for_the_new_tasks(world: Scaling) -> None:
    world.scale(3, "hub")
    world.hear()
    assert len(world.leases.table.of_site("hub")) == 2


class WithoutState(Scaling):
    """The first part of the merge moves from us to hub, and sends no state."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs.handovers.begin(self.place("m1"), "hub", "asked for", without_state=True)
        self.successor = self.place("m1", 0, 1)

    def step(self) -> Step | None:
        handover = self.lineages.get(self.place("m1")).handover
        return None if handover is None else handover.step


def test_a_task_that_moves_without_state_begins_in_the_middle_of_its_inputs() -> None:
    world = WithoutState()
    world.hear()
    specs = world.specs()
    new = specs[world.successor]
    assert new.take_over == TakeOver(world.place("m1"), "us", seeded=False, late=True)
    assert {(i.read_from, i.event_delay) for i in new.inputs} == {(ReadFrom.OLDEST, timedelta(seconds=5))}
    assert [(i.channel, i.first_bin, i.bins) for i in new.inputs] == [
        (i.channel, i.first_bin, i.bins) for i in specs[world.place("m1")].inputs
    ]
    move = move_to_proto(world.lineages.get(world.place("m1")))
    assert move is not None
    assert move.without_state


def test_the_old_task_ends_when_it_has_emitted_what_the_new_one_lacks() -> None:
    world = WithoutState()
    world.hear()
    # It holds its inputs, which is not enough.
    epochs = {str(item.channel): 3 for item in world.specs()[world.successor].inputs}
    world.said[world.successor] = HandoverReport(first_epochs=epochs, restored=True, caught_up=True)
    world.hear()
    assert world.step() is Step.STARTED
    world.said[world.successor] = replace(world.said[world.successor], whole_after_us=30 * S - 1)
    world.watermarks[world.place("m1")] = 30 * S - 2
    world.hear()
    assert world.step() is Step.SEEDING
    assert world.specs()[world.place("m1")].hand_over == HandOver(world.successor, "hub", None)
    world.said[world.successor] = replace(world.said[world.successor], whole_after_us=300 * S)
    world.restart()
    world.hear()
    assert world.step() is Step.SEEDING
    world.watermarks[world.place("m1")] = 30 * S
    world.hear()
    assert world.step() is Step.CUT
    assert world.specs()[world.place("m1")].hand_over == HandOver(world.successor, "hub", None, cut=True)


def test_a_task_that_begins_too_late_is_called_back() -> None:
    world = WithoutState()
    world.hear()
    site = world.homes()[world.successor]
    missed = (world.place("s1"),)
    world.jobs.report(
        report(
            site,
            *(
                replace(status(name, TaskState.RUNNING, site=site), missed_inputs=missed)
                for name, where in world.homes().items()
                if where == site
            ),
            assignment_version=world.board.version(site),
        )
    )
    assert world.step() is Step.BACK
    world.hear()
    last = world.lineages.get(world.place("m1")).last
    assert last is not None
    assert "began too late" in last.reason


def test_a_final_moves_with_its_state_only(world: Scaling) -> None:
    with pytest.raises(HandoverRefusedError, match="because it is a final task"):
        world.jobs.handovers.begin(world.place("f1"), "hub", "asked for", without_state=True)
