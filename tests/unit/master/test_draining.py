"""A draining site at the job manager: what runs goes on, nothing begins, and what is left is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from master.leases.streaming import STREAMING
from master.reconcile.sitework import SiteWorkView
from master.records.model import QueryState
from planner.leases import Granted, Slot, Wish, acquire
from planner.place.draining import WorkKind
from tests.unit.master.build import task_at
from tests.unit.master.world import World


@pytest.fixture
def world() -> World:
    return World()


def test_a_draining_site_keeps_what_runs_there_and_grants_no_slots(world: World) -> None:
    query = world.run()
    world.jobs.set_draining("eu", True)
    for _ in range(10):
        world.wait(timedelta(seconds=9))
    assert world.state(query) is QueryState.RUNNING
    assert world.tasks_at("eu") == ["clicks", "merge"]
    held = [record.slot for record in world.leases.table.of_site("eu") if record.holder == STREAMING]
    assert held
    world.leases.register("etl")
    wishes = [Wish(Slot("eu", index), timedelta(seconds=9)) for index in (0, 1)]
    outcomes = world.leases.ask_now(lambda table, now: acquire(table, "etl", wishes, now=now))
    assert not any(isinstance(outcome, Granted) for outcome in outcomes)


def test_a_query_accepted_before_the_draining_waits_for_a_slot_there_and_says_so(world: World) -> None:
    world.acquire("etl", Slot("eu", 0), Slot("eu", 1))
    query = world.submit()
    world.jobs.set_draining("eu", True)
    world.wait(timedelta(seconds=120))
    assert all(world.paused_at("us"))
    assert "site eu is draining" in world.views.of(world.queries.get(query)).reason
    world.jobs.set_draining("eu", False)
    world.tick()
    assert world.paused_at("us") == [False, False]


def test_draining_holds_over_a_restart_of_the_master(world: World) -> None:
    query = world.run()
    world.jobs.set_draining("eu", True)
    world.restart()
    world.wait(timedelta(seconds=1))
    assert all(record.draining for record in world.leases.table.of_site("eu"))
    assert not any(record.draining for record in world.leases.table.of_site("us"))
    assert world.state(query) is QueryState.RUNNING


def test_what_is_left_at_a_draining_site_is_told_with_its_reason(world: World) -> None:
    world.acquire("etl", Slot("eu", 1))
    query = world.run()
    view = SiteWorkView(world.board, world.leases, lambda: world.queries.snapshots.held)
    found = {(w.kind, w.task, w.subject, w.movable) for w in view.of(world.sites.get("eu"))}
    assert found == {
        (WorkKind.SOURCE, f"{query}.clicks.p1", "clicks", False),
        (WorkKind.MERGE, f"{query}.merge.p0", "", True),
        (WorkKind.LEASE, "", "eu/1", True),
    }
    assert [w.kind for w in view.of(world.sites.get("hub"))] == [WorkKind.RESULTS]
    ended = {w.task: w.reason for w in view.of(world.sites.get("us")) if w.ended}
    assert list(ended) == [f"{query}.pages.p0"]
    world.jobs.cancel(query)
    assert {w.kind for w in view.of(world.sites.get("eu"))} == {WorkKind.LEASE}


def test_what_can_be_moved_leaves_a_draining_site(world: World) -> None:
    query = world.run()
    merge = task_at(query, "merge", "eu")
    world.wait(timedelta(seconds=3))
    assert not world.jobs.handovers.under_way
    world.jobs.set_draining("eu", True)
    world.wait(timedelta(seconds=3))
    (moving,) = world.jobs.handovers.under_way
    handover = moving.handover
    assert handover is not None
    # The source stays with its data.
    assert (moving.place, handover.from_site, handover.to_site) == (merge, "eu", "hub")
    assert handover.reason == "site eu is draining"


def test_a_move_that_was_rolled_back_is_begun_again_after_a_while(world: World) -> None:
    query = world.run()
    merge = task_at(query, "merge", "eu")
    world.jobs.set_draining("eu", True)
    world.wait(timedelta(seconds=3))
    world.jobs.handovers.call_off(merge, "called off")
    world.wait(timedelta(seconds=3))
    assert not world.jobs.handovers.under_way
    world.wait(timedelta(seconds=30))
    assert not world.jobs.handovers.under_way
    world.wait(timedelta(seconds=60))
    assert [one.place for one in world.jobs.handovers.under_way] == [merge]
