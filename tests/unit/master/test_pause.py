"""Queries that stand still, go on, and are left behind; over the same world as the other moves of queries."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contract.tasks import TaskState
from master.base.errors import QueryNotPausedError, QueryOverError
from master.leases.streaming import STREAMING
from master.records.model import QueryBehind, QueryState
from planner.graph.ids import TaskId
from tests.unit.master.build import report, status
from tests.unit.master.world import CONFIG, World


@pytest.fixture
def world() -> World:
    return World()


def test_a_paused_query_keeps_its_tasks_but_not_its_slots(world: World) -> None:
    query = world.run()
    assert world.holders("eu").count(STREAMING) == 2
    assert world.jobs.pause(query).state is QueryState.PAUSED
    assert world.paused_at("us") == world.paused_at("eu") == [True, True]
    assert STREAMING not in world.holders("eu")
    assert world.jobs.pause(query).state is QueryState.PAUSED
    assert len(world.queries.history(query)) == 3
    # Whatever is reported, and however long it takes.
    world.report("eu", ("clicks", TaskState.PAUSED), ("merge", TaskState.PAUSED))
    world.wait(CONFIG.ended_retention)
    world.restart()
    assert world.state(query) is QueryState.PAUSED
    assert world.paused_at("us") == world.paused_at("eu") == [True, True]
    assert world.views.of(world.queries.get(query)).reason == "paused by request"


def test_a_resumed_query_runs_again_when_all_its_tasks_do(world: World) -> None:
    query = world.run()
    started_at = world.queries.get(query).started_at
    world.jobs.pause(query)
    world.clock.advance(timedelta(minutes=5))
    assert world.jobs.resume(query).state is QueryState.RESUMING
    assert world.jobs.resume(query).state is QueryState.RESUMING
    assert world.paused_at("us") == world.paused_at("eu") == [False, False]
    world.report("us", ("pages", TaskState.ENDED), ("clicks", TaskState.RUNNING))
    assert world.state(query) is QueryState.RESUMING
    world.report("eu", ("clicks", TaskState.RUNNING), ("merge", TaskState.RUNNING))
    record = world.queries.get(query)
    assert (record.state, record.reason, record.started_at) == (QueryState.RUNNING, "", started_at)


def test_a_resumed_query_without_slots_keeps_its_tasks_paused(world: World) -> None:
    query = world.run()
    world.jobs.pause(query)
    world.acquire("spark", *world.leases.table.slots_of("eu"))
    world.jobs.resume(query)
    assert world.state(query) is QueryState.RESUMING
    assert world.paused_at("eu") == [True, True]
    assert "no slot at eu" in world.views.of(world.queries.get(query)).reason
    world.release("spark", *world.leases.table.slots_of("eu"))
    world.wait(timedelta(seconds=1))
    assert world.paused_at("eu") == [False, False]


def test_a_paused_query_can_be_cancelled(world: World) -> None:
    query = world.run()
    world.jobs.pause(query)
    assert world.jobs.cancel(query).state is QueryState.CANCELLING
    assert world.tasks_at("us") == world.tasks_at("eu") == []
    for site in ("us", "eu", "hub"):
        world.report(site)
    assert world.state(query) is QueryState.CANCELLED
    for move in (world.jobs.pause, world.jobs.resume):
        with pytest.raises(QueryOverError):
            move(query)


def test_only_a_paused_query_is_resumed(world: World) -> None:
    query = world.submit()
    with pytest.raises(QueryNotPausedError):
        world.jobs.resume(query)
    # It may be paused before all of it runs, and while it is being resumed.
    assert world.jobs.pause(query).state is QueryState.PAUSED
    world.jobs.resume(query)
    assert world.jobs.pause(query).state is QueryState.PAUSED
    assert world.jobs.cancel(query).state is QueryState.CANCELLING
    with pytest.raises(QueryOverError):
        world.jobs.pause(query)


def test_a_query_that_is_left_behind_fails_and_says_what_to_do(world: World) -> None:
    query = world.run()
    world.jobs.pause(query)
    left = QueryBehind(query, 700, ("eu",), left=True)
    world.jobs.report(report("us", status(TaskId(query, "clicks"), TaskState.RUNNING, behind=(left,))))
    record = world.queries.get(query)
    assert record.state is QueryState.FAILED
    assert record.reason.startswith(
        f"left behind by 700 bytes of {query}.clicks.p0, which wait for it at eu, more than"
    )
    assert "--kept-behind-bytes" in record.reason
    assert world.tasks_at("us") == []
