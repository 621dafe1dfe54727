"""One query goes on with a task of its own in the place of one that it shares, step by step, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from contract.handover import HandoverReport
from contract.tasks import TaskState
from master.api.convert.handover import move_to_proto, query_of
from master.base.errors import HandoverRefusedError
from master.queries.sharing import deployment_of
from master.records.specs import HandOver, TakeOver, TaskSpec
from planner.graph.ids import TaskId
from planner.handover.model import Fork, Step
from planner.sharing.deployment import Change, sites_of, taken_back
from selat.v1 import handover_pb2
from tests.unit.master.build import PLAN, report, status
from tests.unit.master.sharing import shared
from tests.unit.master.world import World

SITES = ("us", "eu", "hub")


class Forking(World):
    """Two queries that are the same; the second one gets a merge of its own at us."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[TaskId, HandoverReport] = {}
        self.states: dict[TaskId, TaskState] = {}
        self.first, self.second = self.share(), self.share()
        self.place = TaskId(self.first, "merge")
        self.heir = self.place._replace(generation=1)
        self.own = TaskId(self.second, "merge", generation=1)
        self.hear()

    def share(self) -> str:
        return self.jobs.submit(PLAN, sql="SELECT ...", deploy=partial(shared, self.queries, PLAN)).id

    def begin(self, site: str = "us") -> None:
        self.jobs.handovers.fork(self.queries.get(self.second), "merge", site, "asked for")

    def step(self) -> Step | None:
        handover = self.lineages.get(self.place).handover
        return None if handover is None else handover.step

    def hear(self) -> None:
        """Heartbeats of all sites, with what their tasks say."""
        for site in SITES:
            tasks = [
                replace(
                    status(spec.task_id, self.states.get(spec.task_id, TaskState.RUNNING)),
                    site=site,
                    watermark_us=100,
                    handover=self.said.get(spec.task_id),
                )
                for spec in self.board.current(site).assignment.tasks
            ]
            self.jobs.report(report(site, *tasks, assignment_version=self.board.version(site)))

    def specs(self) -> Mapping[TaskId, TaskSpec]:
        return {spec.task_id: spec for site in SITES for spec in self.board.current(site).assignment.tasks}

    def site_of(self, task: TaskId) -> str:
        return next(s for s in SITES if task in {spec.task_id for spec in self.board.current(s).assignment.tasks})

    def results_of(self, query: str) -> list[TaskId]:
        results = self.board.current("hub").assignment.results
        return [item.channel for spec in results if spec.query_id == query for item in spec.inputs]

    def to_seeding(self) -> None:
        self.begin()
        self.hear()
        for task, whole_us in ((self.heir, 60), (self.own, 90)):
            self.said[task] = HandoverReport(restored=True, caught_up=True, whole_after_us=whole_us)

    def to_cut(self) -> None:
        self.to_seeding()
        self.hear()
        self.hear()

    def to_taken(self) -> None:
        self.to_cut()
        self.said[self.place] = HandoverReport(cut=True, last_epoch=8)
        self.states[self.place] = TaskState.ENDED
        for task in (self.heir, self.own):
            self.said[task] = replace(self.said[task], taken_over=True)
        self.hear()

    def to_end(self) -> None:
        self.to_taken()
        self.said[self.place] = replace(self.said[self.place], drained=True)
        self.hear()


@pytest.fixture
def world() -> Forking:
    return Forking()


def test_both_queries_share_the_merge(world: Forking) -> None:
    deployment = deployment_of(world.queries.get(world.second))
    assert deployment is not None
    assert deployment.used == (world.place,)


def test_inputs_are_kept_for_both_of_the_new_tasks_first(world: Forking) -> None:
    world.begin()
    assert world.step() is Step.REGISTERED
    specs, running = world.specs(), world.queries.snapshots.held
    assert not {world.heir, world.own} & specs.keys()
    for name in running.task(world.place).inputs:
        assert set(specs[name].consumers) == {running.site(world.place), "us"}


def test_two_tasks_begin_in_the_middle_beside_the_shared_one(world: Forking) -> None:
    world.begin()
    world.hear()
    specs, at = world.specs(), world.queries.snapshots.held.site(world.place)
    assert world.step() is Step.STARTED
    late = TakeOver(world.place, at, seeded=False, late=True)
    assert (specs[world.heir].take_over, specs[world.own].take_over) == (late, late)
    assert specs[world.heir].inputs == specs[world.own].inputs
    assert (world.site_of(world.heir), world.site_of(world.own)) == (at, "us")
    assert set(specs[world.place].consumers) == {"hub", at, "us"}
    assert (specs[world.heir].query_id, specs[world.own].query_id) == (world.first, world.second)
    assert world.results_of(world.first) == [world.place, world.heir]
    assert world.results_of(world.second) == [world.place, world.own]


def test_the_shared_task_ends_once_it_is_past_what_both_miss(world: Forking) -> None:
    world.to_seeding()
    world.hear()
    handover = world.lineages.get(world.place).handover
    assert handover is not None
    assert (handover.step, handover.whole_after_us) == (Step.CUT, 90)
    world.hear()
    fork = Fork(world.second, world.own, "us")
    at = world.queries.snapshots.held.site(world.place)
    assert world.specs()[world.place].hand_over == HandOver(world.heir, at, None, cut=True, fork=fork)


def test_it_is_over_when_both_have_taken_over_and_all_is_read(world: Forking) -> None:
    world.to_cut()
    world.said[world.place] = HandoverReport(cut=True, last_epoch=8)
    world.said[world.own] = replace(world.said[world.own], taken_over=True)
    world.hear()
    assert world.step() is Step.CUT
    world.said[world.heir] = replace(world.said[world.heir], taken_over=True)
    world.hear()
    assert world.step() is Step.TAKEN
    world.said[world.place] = replace(world.said[world.place], drained=True)
    world.hear()
    assert world.step() is None
    own, shared_one = world.lineages.get(world.own._replace(generation=0)), world.lineages.get(world.place)
    assert (own.task, own.from_epoch, own.origin) == (world.own, 9, world.place)
    assert (shared_one.task, shared_one.from_epoch, shared_one.origin) == (world.heir, 9, world.place)
    deployment = deployment_of(world.queries.get(world.second))
    assert deployment is not None
    assert world.place not in deployment.used
    specs = world.specs()
    assert world.place not in specs
    assert (specs[world.heir].consumers, specs[world.own].consumers) == (("hub",), ("hub",))
    assert specs[world.own].take_over is None
    assert world.results_of(world.first) == [world.place, world.heir]
    assert world.results_of(world.second) == [world.place, world.own]
    told = world.queries.history(world.second)[-1].reason
    assert told == "merge.p0 runs for this query alone, at us after 0.0 s: asked for"


@pytest.mark.parametrize("steps", ["begin", "to_seeding", "to_cut", "to_taken", "to_end"])
def test_a_master_that_restarts_goes_on_at_the_same_step(world: Forking, steps: str) -> None:
    getattr(world, steps)()
    step, specs, results = world.step(), world.specs(), [*map(world.results_of, (world.first, world.second))]
    world.restart()
    assert (world.step(), world.specs()) == (step, specs)
    assert [*map(world.results_of, (world.first, world.second))] == results


def test_called_off_everything_is_as_before(world: Forking) -> None:
    before = world.specs()
    world.to_seeding()
    world.jobs.handovers.call_off(world.place, "called off")
    assert (world.step(), world.specs()) == (Step.BACK, before)
    world.hear()
    last = world.lineages.get(world.place).last
    assert last is not None
    assert (world.step(), last.moved) == (None, False)
    # No generation comes again.
    world.begin()
    world.hear()
    assert {world.heir._replace(generation=2), world.own._replace(generation=2)} <= world.specs().keys()


@pytest.mark.parametrize("steps", ["begin", "to_seeding", "to_cut", "to_taken"])
def test_a_query_that_is_over_holds_nothing_up(world: Forking, steps: str) -> None:
    getattr(world, steps)()
    world.jobs.cancel(world.second)
    assert world.own not in world.specs()
    if steps in ("to_cut", "to_taken"):
        world.said[world.place] = HandoverReport(cut=True, last_epoch=8, drained=True)
        world.said[world.heir] = replace(world.said[world.heir], taken_over=True)
    for _ in range(3):
        world.hear()
    last = world.lineages.get(world.place).last
    assert last is not None
    assert (world.step(), last.moved) == (None, steps in ("to_cut", "to_taken"))
    assert world.own not in world.specs()


def test_a_query_that_shares_the_task_no_more_keeps_what_it_runs_instead(world: Forking) -> None:
    world.to_taken()
    record = world.queries.get(world.second)
    running, shared_one = world.queries.snapshots.live, deployment_of(record)
    assert shared_one is not None
    own = taken_back(shared_one, record.id, {world.place}, why="its first rows are gone")
    world.queries.redeploy(record.id, Change(running.version, PLAN, own, sites_of(own, running.placement)))
    world.said[world.place] = replace(world.said[world.place], drained=True)
    world.hear()
    assert world.step() is None
    assert deployment_of(world.queries.get(record.id)) == own
    assert world.own._replace(generation=0) in world.specs()


def test_the_owner_of_the_shared_task_may_be_over(world: Forking) -> None:
    world.to_seeding()
    world.jobs.cancel(world.first)
    world.hear()
    world.hear()
    assert world.step() is Step.CUT
    world.said[world.place] = HandoverReport(cut=True, last_epoch=8, drained=True)
    for task in (world.heir, world.own):
        world.said[task] = replace(world.said[task], taken_over=True)
    world.hear()
    assert world.step() is None
    world.hear()
    specs = world.specs()
    assert world.own in specs
    assert world.heir not in specs


def test_what_is_shown_is_a_move_of_the_query_that_gets_its_own(world: Forking) -> None:
    world.begin()
    lineage = world.lineages.get(world.place)
    move = move_to_proto(lineage)
    assert move is not None
    assert (query_of(lineage), move.query_id, move.alone) == (world.second, world.second, True)
    assert (move.stage, move.to_site, move.step) == ("merge.p0", "us", handover_pb2.MOVE_STEP_REGISTERED)


def test_who_cannot_have_a_task_of_its_own(world: Forking) -> None:
    fork = world.jobs.handovers.fork
    with pytest.raises(HandoverRefusedError, match="shares no task of another query for 'merge'"):
        fork(world.queries.get(world.first), "merge", "us", "")
    with pytest.raises(HandoverRefusedError, match="shares no task of another query for 'm9'"):
        fork(world.queries.get(world.second), "m9", "us", "")
    with pytest.raises(HandoverRefusedError, match="stays with its data"):
        fork(world.queries.get(world.second), "clicks.p0", "us", "")
    world.begin()
    with pytest.raises(HandoverRefusedError, match="on its way"):
        world.begin()
