"""A query gives up a task of its own and shares another's again, step by step, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract.handover import HandoverReport
from contract.tasks import TaskState
from master.api.convert.handover import move_to_proto
from master.base.errors import HandoverRefusedError
from master.queries.sharing import deployment_of
from master.records.specs import ChannelInput, HandOver, TakeOver
from planner.graph.ids import TaskId
from planner.handover.model import Step
from planner.sharing.deployment import Deployment
from planner.values.stages import StageKind
from tests.unit.master.reconcile.test_forks import Forking


class Rejoining(Forking):
    """The second query has a merge of its own at us, and is to share that of the first again."""

    def __init__(self) -> None:
        super().__init__()
        self.to_end()
        self.said.clear()
        self.states.clear()
        self.hear()
        self.own_place = self.own._replace(generation=0)
        self.remade = self.own._replace(generation=2)

    def ask(self, site: str = "") -> None:
        self.jobs.handovers.join(self.queries.get(self.second), "merge", site, "asked for")

    def joining_step(self) -> Step | None:
        handover = self.lineages.get(self.own_place).handover
        return None if handover is None else handover.step

    def deployment(self) -> Deployment:
        found = deployment_of(self.queries.get(self.second))
        assert found is not None
        return found

    def meets(self) -> None:
        """The new task has the shared channel from epoch 40 on."""
        self.ask()
        self.hear()
        self.said[self.remade] = HandoverReport(first_epochs={str(self.heir): 40}, restored=True, caught_up=True)
        self.hear()
        self.hear()

    def ends(self) -> None:
        self.meets()
        self.said[self.own] = HandoverReport(cut=True, last_epoch=20)
        self.states[self.own] = TaskState.ENDED
        self.said[self.remade] = replace(self.said[self.remade], taken_over=True)
        self.hear()

    def drains(self) -> None:
        self.ends()
        self.said[self.own] = replace(self.said[self.own], drained=True)
        self.hear()


@pytest.fixture
def world() -> Rejoining:
    return Rejoining()


def test_the_shared_channel_is_kept_first_for_the_new_task_and_the_one_that_meets_it(world: Rejoining) -> None:
    before = world.specs()
    world.ask()
    assert world.joining_step() is Step.REGISTERED
    assert world.deployment().held == (world.place,)
    specs, at = world.specs(), world.queries.snapshots.held.site(world.place)
    assert at == "eu"
    assert set(specs[world.heir].consumers) == {"hub", "us"}
    # Nothing more is kept of what the merges read.
    for name in world.queries.snapshots.held.task(world.place).inputs:
        assert specs[name].consumers == before[name].consumers


def test_the_new_task_makes_its_epochs_of_those_of_the_shared_one(world: Rejoining) -> None:
    world.ask()
    world.hear()
    assert world.joining_step() is Step.STARTED
    spec = world.specs()[world.remade]
    assert (spec.kind, spec.query_id) == (StageKind.DERIVE, world.second)
    assert [item.channel for item in spec.inputs] == [world.heir]
    assert spec.take_over == TakeOver(world.own, "us", seeded=False, renumbers=True)
    # The results are read at hub, where all results of the shared task are as well.
    assert world.site_of(world.remade) == "hub"
    assert world.results_of(world.second) == [world.place, world.own, world.remade]


def test_the_own_task_ends_where_the_channels_meet(world: Rejoining) -> None:
    world.meets()
    assert world.joining_step() is Step.CUT
    shared = ChannelInput(world.heir, "eu", from_epoch=40)
    assert world.specs()[world.own].hand_over == HandOver(world.remade, "hub", None, cut=True, join=shared)


def test_it_is_over_when_all_is_read(world: Rejoining) -> None:
    world.drains()
    assert world.joining_step() is None
    lineage, deployment, specs = world.lineages.get(world.own_place), world.deployment(), world.specs()
    assert (lineage.task, lineage.from_epoch, lineage.origin) == (world.remade, 21, world.place)
    assert (deployment.used, deployment.held) == ((world.place,), ())
    assert world.own not in specs
    assert (specs[world.remade].kind, specs[world.remade].take_over) == (StageKind.DERIVE, None)
    assert specs[world.remade].consumers == ("hub",)
    assert world.queries.snapshots.held.users(world.place) == {world.first, world.second}
    assert world.results_of(world.second) == [world.place, world.own, world.remade]
    told = world.queries.history(world.second)[-1].reason
    assert told == f"merge.p0 is shared with {world.place} again after 0.0 s: asked for"


@pytest.mark.parametrize("steps", ["ask", "meets", "ends", "drains"])
def test_a_master_that_restarts_goes_on_at_the_same_step(world: Rejoining, steps: str) -> None:
    getattr(world, steps)()
    step, specs, results = world.joining_step(), world.specs(), world.results_of(world.second)
    world.restart()
    assert (world.joining_step(), world.specs(), world.results_of(world.second)) == (step, specs, results)


def test_called_off_everything_is_as_before(world: Rejoining) -> None:
    before = world.specs()
    world.ask("eu")
    world.hear()
    assert world.site_of(world.remade) == "eu"
    world.jobs.handovers.call_off(world.own_place, "called off")
    assert world.joining_step() is Step.BACK
    assert world.remade not in world.specs()
    world.hear()
    assert world.specs() == before
    last = world.lineages.get(world.own_place).last
    assert last is not None
    assert (world.joining_step(), last.moved, world.deployment().held) == (None, False, ())
    world.ask("us")
    world.hear()
    assert world.remade._replace(generation=3) in world.specs()


@pytest.mark.parametrize("steps", ["ask", "meets", "ends", "drains"])
def test_the_shared_task_stays_when_its_own_query_is_over(world: Rejoining, steps: str) -> None:
    getattr(world, steps)()
    world.jobs.cancel(world.first)
    assert world.heir in world.specs()
    world.jobs.cancel(world.second)
    assert not {world.heir, world.own, world.remade} & world.specs().keys()


def test_rolled_back_the_shared_task_goes_with_its_query(world: Rejoining) -> None:
    world.ask()
    world.jobs.cancel(world.first)
    world.jobs.handovers.call_off(world.own_place, "called off")
    world.hear()
    world.hear()
    assert world.heir not in world.specs()
    assert world.own in world.specs()


def test_a_task_that_is_about_to_be_shared_does_not_move(world: Rejoining) -> None:
    world.ask()
    with pytest.raises(HandoverRefusedError, match="next to it, is moving"):
        world.jobs.handovers.begin(world.place, "hub", "")
    with pytest.raises(HandoverRefusedError, match="is moving"):
        world.ask()


def test_what_was_made_of_it_moves_with_numbers_of_its_own(world: Rejoining) -> None:
    world.drains()
    world.jobs.handovers.begin(world.own_place, "eu", "asked for")
    world.hear()
    spec = world.specs()[world.own._replace(generation=3)]
    assert spec.take_over == TakeOver(world.remade, "hub", seeded=False, renumbers=True)


def test_what_is_shown_says_with_what_it_is_shared(world: Rejoining) -> None:
    world.ask()
    move = move_to_proto(world.lineages.get(world.own_place))
    assert move is not None
    assert (move.stage, move.shared_with, move.alone) == ("merge.p0", str(world.place), False)


def test_who_cannot_share_again(world: Rejoining) -> None:
    join = world.jobs.handovers.join
    with pytest.raises(HandoverRefusedError, match="was not split from a task of another query"):
        join(world.queries.get(world.first), "merge", "", "")
    with pytest.raises(HandoverRefusedError, match="has no task of its own for stage 'm9'"):
        join(world.queries.get(world.second), "m9", "", "")
    world.jobs.cancel(world.first)
    world.hear()
    with pytest.raises(HandoverRefusedError, match="does not run any more"):
        world.ask()


def test_what_is_shared_already_cannot_be_shared_again(world: Rejoining) -> None:
    world.drains()
    with pytest.raises(HandoverRefusedError, match="which is shared"):
        world.ask()
    assert TaskId.parse(str(world.remade)) == world.remade
