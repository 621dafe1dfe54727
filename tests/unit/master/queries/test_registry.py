"""The registry of queries: what runs, of which version, and where its tasks are."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.base.errors import IllegalTransitionError, StaleChangeError
from master.queries.registry import QueryRegistry
from master.queries.sharing import running_of
from master.records.lifecycle import QueryEvent
from master.records.model import QueryRecord
from master.store.sqlite import SqliteStore
from planner.graph.ids import TaskId, VertexId
from planner.sharing.deployment import Change, placed_alone
from planner.sharing.running import Running
from tests.fakes import CountingHex, VirtualClock
from tests.seeds import several
from tests.unit.master.build import PLAN
from tests.unit.master.sharing import shared


@pytest.fixture
def store() -> SqliteStore:
    return SqliteStore.in_memory()


@pytest.fixture
def queries(store: SqliteStore) -> QueryRegistry:
    store.cluster("c")
    return QueryRegistry(store, clock=VirtualClock(), random_hex=CountingHex())


def accept(queries: QueryRegistry) -> QueryRecord:
    return queries.accept(PLAN, sql="SELECT ...")


def test_an_accepted_plan_does_not_say_where_its_tasks_are_but_the_placement_does(
    store: SqliteStore, queries: QueryRegistry
) -> None:
    record = accept(queries)
    assert record.plan == replace(PLAN, sites={})
    assert queries.snapshots.placement == store.placement() == placed_alone(PLAN, record.id)
    assert queries.snapshots.placement[TaskId(record.id, "merge")] == "eu"
    assert queries.snapshots.plan_of(record).sites[VertexId("merge")] == "eu"


def test_what_was_decided_on_an_earlier_version_is_refused(queries: QueryRegistry) -> None:
    first = accept(queries)
    stale = queries.snapshots.live.version
    accept(queries)
    assert queries.snapshots.live.version == queries.snapshots.version > stale
    change = Change(stale, PLAN, None, placed_alone(PLAN, first.id), "moved")
    with pytest.raises(StaleChangeError):
        queries.redeploy(first.id, change)
    with pytest.raises(StaleChangeError):
        queries.accept(
            PLAN, sql="SELECT ...", deploy=lambda query: replace(change, placement=placed_alone(PLAN, query))
        )
    assert len(queries.all()) == 2
    queries.redeploy(first.id, replace(change, version=queries.snapshots.version))
    assert queries.history(first.id)[-1].reason == "moved"


def test_the_version_grows_over_restarts(store: SqliteStore, queries: QueryRegistry) -> None:
    accept(queries)
    again = QueryRegistry(store, clock=VirtualClock(), random_hex=CountingHex())
    assert again.snapshots.version == queries.snapshots.version
    assert again.snapshots.placement == queries.snapshots.placement
    assert again.snapshots.live == queries.snapshots.live


def test_where_tasks_were_is_forgotten_with_the_last_query_that_names_them(
    store: SqliteStore, queries: QueryRegistry
) -> None:
    first, second = accept(queries), accept(queries)
    queries.move(first.id, QueryEvent.TASK_FAILED, "no such file")
    queries.purge([first.id])
    assert queries.snapshots.placement == store.placement() == placed_alone(PLAN, second.id)


def test_what_was_handed_out_does_not_change_with_what_is_measured_or_changed(queries: QueryRegistry) -> None:
    record = accept(queries)
    before, clicks = queries.snapshots.live, TaskId(record.id, "clicks")
    rate = before.output_bytes_per_s(clicks)
    measured = before.measured({clicks: rate + 1000.0})
    assert before.output_bytes_per_s(clicks) == rate
    assert measured.output_bytes_per_s(clicks) == rate + 1000.0
    accept(queries)
    assert before.queries == {record.id}


EVENTS = {
    "over": QueryEvent.TASK_FAILED,
    "pause": QueryEvent.PAUSE_REQUESTED,
    "resume": QueryEvent.RESUME_REQUESTED,
}
PLANS = (PLAN, replace(PLAN, stages=(*PLAN.stages[:2], replace(PLAN.stage("merge"), sql="SELECT topic FROM input"))))


@settings(max_examples=several(20, 60))
@given(steps=st.lists(st.tuples(st.sampled_from(["accept", "over", "pause", "resume", "purge"]), st.integers(0, 7))))
def test_what_runs_is_the_same_made_step_by_step_or_at_once(steps: list[tuple[str, int]]) -> None:
    store = SqliteStore.in_memory()
    store.cluster("c")
    queries = QueryRegistry(store, clock=VirtualClock(), random_hex=CountingHex())
    for step, number in steps:
        act(queries, step, number)
        snapshots = queries.snapshots
        before = [(running, fields_of(running)) for running in (snapshots.live, snapshots.held)]
        for running, among in ((snapshots.live, "live"), (snapshots.held, "held")):
            ids = {record.id for record in queries.all() if getattr(record.state, among)}
            anew = running_of(queries.all(), snapshots.placement, ids, version=snapshots.version)
            assert fields_of(running) == fields_of(anew)
        act(queries, "accept", number)
        assert [fields_of(running) for running, _ in before] == [known for _, known in before]


def act(queries: QueryRegistry, step: str, number: int) -> None:
    """One step of a query's life, where it is possible."""
    records = queries.all()
    if step == "accept":
        queries.accept(PLAN, sql="", deploy=partial(shared, queries, PLANS[number % 2]))
    elif step == "purge":
        needed = {one.id.query for one in queries.snapshots.held.deployed}
        queries.purge([record.id for record in records if record.state.over and record.id not in needed])
    elif records:
        record = records[number % len(records)]
        with suppress(IllegalTransitionError):
            queries.move(record.id, EVENTS[step])


def fields_of(running: Running) -> dict[str, Any]:
    """All that is in it, without the order of what has none."""
    found = {item.name: copy.deepcopy(getattr(running, item.name)) for item in fields(Running)}
    return found | {"_traffic": {pair: round(rate, 6) for pair, rate in found["_traffic"].items()}}
