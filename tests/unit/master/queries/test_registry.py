"""The registry of queries: what runs, of which version, and where its tasks are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.base.errors import StaleChangeError
from master.queries.registry import QueryRegistry
from master.records.lifecycle import QueryEvent
from master.records.model import QueryRecord
from master.store.sqlite import SqliteStore
from planner.graph.ids import TaskId, VertexId
from planner.sharing.deployment import Change, placed_alone
from tests.fakes import CountingHex, VirtualClock
from tests.unit.master.build import PLAN


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
    rate = before.task(clicks).vertex.output_bytes_per_s
    measured = before.measured({clicks: rate + 1000.0})
    assert before.task(clicks).vertex.output_bytes_per_s == rate
    assert measured.task(clicks).vertex.output_bytes_per_s == rate + 1000.0
    accept(queries)
    assert before.queries == {record.id}
