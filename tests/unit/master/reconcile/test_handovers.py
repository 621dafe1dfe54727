"""A task moves: step by step, as sites report, over restarts of the master, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from contract.handover import HandoverReport
from contract.tasks import TaskState
from master.api.convert.handover import move_to_proto
from master.base.errors import HandoverRefusedError
from master.reconcile.generations import Generations
from master.reconcile.places import place_in
from master.records.model import QueryState
from master.records.specs import HandOver, TakeOver, TaskSpec
from planner.graph.ids import TaskId
from planner.handover.model import Step
from planner.values.errors import UnknownSiteError
from planner.values.stages import StageKind
from selat.v1 import handover_pb2
from tests.unit.master.build import report, status, task_at
from tests.unit.master.world import CONFIG, World

SITES = ("us", "eu", "hub")


class Moving(World):
    """A query that runs, whose merge moves from eu to hub."""

    def __init__(self) -> None:
        super().__init__()
        self.query = self.run()
        self.place = task_at(self.query, "merge", "eu")
        self.successor = self.place._replace(generation=1)
        self.said: dict[TaskId, HandoverReport] = {}
        self.states: dict[TaskId, TaskState] = {}

    def begin(self, site: str = "hub") -> None:
        self.jobs.handovers.begin(self.place, site, "asked for")

    def step(self) -> Step | None:
        handover = self.lineages.get(self.place).handover
        return None if handover is None else handover.step

    def hear(self, *sites: str) -> None:
        """Heartbeats of these sites, or all, with what their tasks say."""
        for site in sites or SITES:
            tasks = [
                replace(
                    status(spec.task_id, self.states.get(spec.task_id, TaskState.RUNNING)),
                    site=site,
                    handover=self.said.get(spec.task_id),
                )
                for spec in self.board.current(site).assignment.tasks
            ]
            self.jobs.report(report(site, *tasks, assignment_version=self.board.version(site)))

    def specs(self) -> Mapping[TaskId, TaskSpec]:
        return {spec.task_id: spec for site in SITES for spec in self.board.current(site).assignment.tasks}

    def to_started(self) -> None:
        self.begin()
        self.hear()

    def to_seeding(self) -> None:
        self.to_started()
        self.said[self.successor] = HandoverReport(first_epochs={str(name): 3 for name in self.inputs})
        self.hear()

    def to_cut(self) -> None:
        self.to_seeding()
        self.from_seeding_to_cut()

    def from_seeding_to_cut(self) -> None:
        self.said[self.place] = HandoverReport(seeded=True)
        self.said[self.successor] = replace(self.said[self.successor], restored=True, caught_up=True)
        self.hear()

    @property
    def inputs(self) -> tuple[TaskId, ...]:
        return self.queries.snapshots.held.task(self.place).inputs


@pytest.fixture
def world() -> Moving:
    return Moving()


def test_producers_keep_their_epochs_before_anything_else(world: Moving) -> None:
    world.begin()
    specs = world.specs()
    assert world.step() is Step.REGISTERED
    assert world.successor not in specs
    assert {specs[name].consumers for name in world.inputs} == {("eu", "hub")}
    # The successor is nobody's pace.
    for name in world.inputs:
        assert [r.reader for q in specs[name].readers for r in q.readers] == [str(world.place)]


def test_the_successor_starts_when_all_producers_keep_what_it_needs(world: Moving) -> None:
    world.begin()
    world.hear("us")
    assert world.step() is Step.REGISTERED
    world.hear("eu")
    assert world.step() is Step.STARTED
    specs = world.specs()
    successor = specs[world.successor]
    assert successor.take_over == TakeOver(world.place, "eu")
    assert (successor.inputs, successor.consumers) == (specs[world.place].inputs, ("hub",))
    assert specs[world.place].consumers == ("hub",)
    assert specs[world.place].hand_over is None
    results = world.board.current("hub").assignment.results[0]
    assert [item.channel for item in results.inputs] == [world.place, world.successor]


def test_a_whole_move(world: Moving) -> None:
    world.to_seeding()
    assert world.step() is Step.SEEDING
    epochs = {str(name): 3 for name in world.inputs}
    assert world.specs()[world.place].hand_over == HandOver(world.successor, "hub", epochs)
    world.from_seeding_to_cut()
    assert world.specs()[world.place].hand_over == HandOver(world.successor, "hub", epochs, cut=True)
    world.said[world.place] = HandoverReport(seeded=True, cut=True, last_epoch=8)
    world.states[world.place] = TaskState.ENDED
    world.hear()
    assert (world.step(), world.state(world.query)) == (Step.CUT, QueryState.RUNNING)
    world.said[world.successor] = replace(world.said[world.successor], taken_over=True)
    world.hear()
    assert world.step() is Step.TAKEN
    specs = world.specs()
    assert {specs[name].consumers for name in world.inputs} == {("hub",)}
    # It must not go on by mistake.
    assert specs[world.place].hand_over == HandOver(world.successor, "hub", None, cut=True)
    assert world.queries.get(world.query).progress.tasks[world.place].site == "eu"
    world.hear("hub")
    assert world.queries.get(world.query).progress.tasks[world.place].site == "hub"
    world.said[world.place] = replace(world.said[world.place], drained=True)
    world.hear()
    assert world.step() is None
    lineage = world.lineages.get(world.place)
    assert (lineage.task, lineage.from_epoch) == (world.successor, 9)
    assert world.queries.snapshots.placement[world.place] == "hub"
    specs = world.specs()
    assert world.place not in specs
    assert specs[world.successor].take_over is None
    results = world.board.current("hub").assignment.results[0]
    assert [(i.channel, i.site, i.from_epoch) for i in results.inputs] == [
        (world.place, "eu", 0),
        (world.successor, "hub", 9),
    ]


def test_the_next_move_is_the_next_generations(world: Moving) -> None:
    world.to_cut()
    world.said[world.place] = HandoverReport(cut=True, last_epoch=8, drained=True)
    world.said[world.successor] = replace(world.said[world.successor], taken_over=True)
    world.hear()
    world.hear()
    assert world.step() is None
    world.begin("eu")
    world.hear()
    assert world.place._replace(generation=2) in world.specs()
    assert world.specs()[world.place._replace(generation=2)].take_over == TakeOver(world.successor, "hub")


@pytest.mark.parametrize("steps", range(5))
def test_a_master_that_restarts_goes_on_at_the_same_step(world: Moving, steps: int) -> None:
    (lambda: None, world.begin, world.to_started, world.to_seeding, world.to_cut)[steps]()
    step, specs = world.step(), world.specs()
    world.restart()
    assert world.step() is step
    assert world.specs() == specs


@pytest.mark.parametrize("step", ["REGISTERED", "STARTED", "SEEDING"])
def test_before_the_cut_everything_goes_back(world: Moving, step: str) -> None:
    before = world.specs()
    {"REGISTERED": world.begin, "STARTED": world.to_started, "SEEDING": world.to_seeding}[step]()
    assert world.step() is Step[step]
    world.jobs.handovers.call_off(world.place, "called off")
    assert world.step() is Step.BACK
    assert world.specs() == before
    assert [item.channel for item in world.board.current("hub").assignment.results[0].inputs] == [world.place]
    world.hear()
    last = world.lineages.get(world.place).last
    assert last is not None
    assert (world.step(), last.moved, last.reason) == (None, False, "called off")


def test_after_the_cut_the_old_task_decides(world: Moving) -> None:
    world.to_cut()
    world.jobs.handovers.call_off(world.place, "called off")
    assert world.step() is Step.WITHDRAWN
    order = world.specs()[world.place].hand_over
    assert order is not None
    assert not order.cut
    world.said[world.place] = HandoverReport(cut=True, last_epoch=8)
    world.hear("eu")
    assert world.step() is Step.CUT
    world.said[world.successor] = replace(world.said[world.successor], taken_over=True)
    world.hear("hub")
    assert world.step() is Step.TAKEN


def test_a_withdrawn_order_in_force_rolls_back(world: Moving) -> None:
    world.to_cut()
    world.jobs.handovers.call_off(world.place, "called off")
    world.hear("eu")
    assert world.step() is Step.BACK


def test_a_step_that_takes_too_long_is_rolled_back(world: Moving) -> None:
    world.begin()
    for _ in range(5):
        world.clock.advance(CONFIG.handover_patience / 4)
        world.tick()
    assert world.step() is Step.BACK
    world.hear()
    last = world.lineages.get(world.place).last
    assert last is not None
    assert "not all producers of its inputs were heard of" in last.reason


def test_a_query_that_is_over_takes_its_handover_with_it(world: Moving) -> None:
    world.to_cut()
    world.jobs.cancel(world.query)
    assert world.specs() == {}
    world.hear()
    world.clock.advance(timedelta(hours=1))
    world.tick()
    assert not world.jobs.handovers.under_way
    move = move_to_proto(world.lineages.get(world.place), runs=False)
    assert move is not None
    assert move.step == handover_pb2.MOVE_STEP_ENDED
    # The copies of results stay as they were: nobody knows which of the two tasks has the last ones.
    results = world.board.current("hub").assignment.results[0]
    assert [item.channel for item in results.inputs] == [world.place, world.successor]


def test_a_paused_query_keeps_both_tasks(world: Moving) -> None:
    world.to_seeding()
    world.jobs.pause(world.query)
    assert {spec.paused for spec in world.specs().values()} == {True}
    assert world.successor in world.specs()


def test_where_a_task_cannot_go(world: Moving) -> None:
    with pytest.raises(HandoverRefusedError, match="at eu already"):
        world.begin("eu")
    with pytest.raises(UnknownSiteError):
        world.begin("mars")
    world.jobs.set_draining("hub", True)
    with pytest.raises(HandoverRefusedError, match="takes no new tasks"):
        world.begin("hub")
    source = task_at(world.query, "clicks", "us")
    with pytest.raises(HandoverRefusedError, match="stays with its data"):
        world.jobs.handovers.begin(source, "eu", "")


def test_names_of_tasks(world: Moving) -> None:
    record, running = world.queries.get(world.query), world.queries.snapshots.held
    assert place_in(record, "merge", running) == place_in(record, "merge.p0", running) == world.place
    with pytest.raises(HandoverRefusedError, match="has several tasks"):
        place_in(record, "clicks", running)
    with pytest.raises(HandoverRefusedError, match="no task of its own for stage 'm9'"):
        place_in(record, "m9", running)


def test_a_task_that_is_derived_gets_no_state(world: Moving) -> None:
    world.to_seeding()
    generations = Generations(world.lineages.all, world.queries.snapshots.held)
    derived = TaskSpec(world.place, world.query, "merge", StageKind.DERIVE, "")
    (_, old), (site, new) = generations.tasks(derived, "eu")
    assert old.hand_over == HandOver(world.successor, "hub")
    # Another task began the channel, for the place is that of a merge.
    assert (site, new.take_over) == ("hub", TakeOver(world.place, "eu", seeded=False, renumbers=True))


def test_stages_and_tasks_are_found_by_name(world: Moving) -> None:
    record, running = world.queries.get(world.query), world.queries.snapshots.held
    for name in ("merge", "merge.p0"):
        assert place_in(record, name, running) == world.place
