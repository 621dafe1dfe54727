"""Queries, sites and assignments in step, over a store that outlives the master; all on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from contract.tasks import TaskState
from master.base.errors import (
    QueryNameTakenError,
    QueryOverError,
    QueryPurgedError,
    RelationInUseError,
    StoreFullError,
    UnknownQueryError,
)
from master.leases.streaming import STREAMING
from master.records.model import AssignmentMark, ChannelUse, QueryState, ResultStatus, SiteState
from master.store.sqlite import SqliteStore
from planner.graph.ids import TaskId
from planner.graph.plan import RelationStats
from planner.leases import Slot
from planner.relations.catalog import Binding
from tests.unit.master.build import CLICKS, START, report, site_record, status, task_at
from tests.unit.master.world import CONFIG, World


@pytest.fixture
def world() -> World:
    return World()


def test_ids_count_up_and_end_in_random_digits(world: World) -> None:
    assert [world.submit(), world.submit()] == ["q-0001-000001", "q-0002-000002"]


def test_a_submitted_query_is_stored_and_given_out_at_once(world: World) -> None:
    query = world.submit()
    assert [q.id for q in world.store.queries()] == [query]
    assert world.tasks_at("us") == ["pages", "clicks"]
    assert world.tasks_at("eu") == ["clicks", "merge"]
    assert world.board.current("hub").assignment.results[0].query_id == query


def test_from_deploying_to_finished(world: World) -> None:
    query = world.submit()
    assert world.state(query) is QueryState.DEPLOYING
    world.report("us", ("pages", TaskState.ENDED), ("clicks", TaskState.RUNNING))
    assert world.state(query) is QueryState.DEPLOYING
    world.clock.advance(timedelta(seconds=1))
    world.report("eu", ("clicks", TaskState.RUNNING), ("merge", TaskState.RUNNING))
    assert world.state(query) is QueryState.RUNNING
    world.report("us", ("pages", TaskState.ENDED), ("clicks", TaskState.ENDED))
    world.report("hub", results=(ResultStatus(query, rows=3, complete=True),))
    assert world.state(query) is QueryState.RUNNING
    world.clock.advance(timedelta(seconds=1))
    world.report("eu", ("clicks", TaskState.ENDED), ("merge", TaskState.ENDED))
    record = world.queries.get(query)
    assert record.state is QueryState.FINISHED
    assert (record.started_at, record.ended_at) == (START + timedelta(seconds=1), START + timedelta(seconds=2))
    assert world.tasks_at("us") == world.tasks_at("eu") == []
    assert [c.target for c in world.queries.history(query)] == [
        QueryState.DEPLOYING,
        QueryState.RUNNING,
        QueryState.FINISHED,
    ]


def test_a_missing_last_report_only_delays_the_end(world: World) -> None:
    query = world.run()
    world.report("hub", results=(ResultStatus(query, rows=3, complete=True),))
    world.jobs.tick()
    assert world.state(query) is QueryState.RUNNING
    world.clock.advance(CONFIG.final_report_wait)
    world.jobs.tick()
    assert world.state(query) is QueryState.FINISHED


def test_a_failed_task_fails_the_query_and_takes_its_tasks_away(world: World) -> None:
    query = world.run()
    world.jobs.report(
        report("us", status(task_at(query, "clicks", "us"), TaskState.FAILED, reason="no such directory"))
    )
    assert world.state(query) is QueryState.FAILED
    assert world.queries.get(query).reason == f"task {query}.clicks.p0 failed: no such directory"
    assert world.tasks_at("us") == world.tasks_at("eu") == []


def test_cancel_waits_for_the_sites_that_are_reached(world: World) -> None:
    query = world.run()
    before = {site: world.board.version(site) for site in ("us", "eu", "hub")}
    assert world.jobs.cancel(query).state is QueryState.CANCELLING
    assert world.tasks_at("us") == world.tasks_at("eu") == []
    world.report("us", assignment_version=before["us"])
    world.report("eu")
    world.report("hub")
    assert world.state(query) is QueryState.CANCELLING
    world.report("us")
    assert world.state(query) is QueryState.CANCELLED


def test_cancel_does_not_wait_for_an_unreachable_site(world: World) -> None:
    query = world.run()
    world.wait(CONFIG.heartbeat_timeout, "eu")
    assert world.sites.get("eu").state is SiteState.UNREACHABLE
    assert world.state(query) is QueryState.RUNNING
    world.jobs.cancel(query)
    for site in ("us", "hub"):
        world.report(site)
    assert world.state(query) is QueryState.CANCELLED


def test_a_site_that_falls_silent_while_cancelling_lets_go_in_the_end(world: World) -> None:
    query = world.run()
    world.jobs.cancel(query)
    world.wait(CONFIG.heartbeat_timeout / 2, "eu")
    assert world.state(query) is QueryState.CANCELLING
    world.wait(CONFIG.heartbeat_timeout / 2, "eu")
    assert world.state(query) is QueryState.CANCELLED


def test_cancelling_twice_is_once_and_what_is_over_cannot_be_cancelled(world: World) -> None:
    query = world.run()
    world.jobs.cancel(query)
    assert world.jobs.cancel(query).state is QueryState.CANCELLING
    assert len(world.queries.history(query)) == 3
    other = world.run()
    world.jobs.report(report("us", status(TaskId(other, "clicks"), TaskState.FAILED)))
    with pytest.raises(QueryOverError):
        world.jobs.cancel(other)


def test_a_restart_in_mid_cancel_completes_it(world: World) -> None:
    query = world.run()
    world.jobs.cancel(query)
    world.restart()
    for site in ("us", "eu"):
        world.report(site)
    assert world.state(query) is QueryState.CANCELLING
    world.report("hub")
    assert world.state(query) is QueryState.CANCELLED


def test_a_restart_gives_the_same_assignments_and_versions(world: World) -> None:
    query = world.run()
    before = {site: world.board.current(site) for site in ("us", "eu", "hub")}
    world.restart()
    assert {site: world.board.current(site) for site in before} == before
    assert world.state(query) is QueryState.RUNNING


def test_a_restart_counts_nothing_twice(world: World) -> None:
    query = world.run()
    channel = task_at(query, "clicks", "us")

    def beat(incarnation: str, rows: int, size: int) -> None:
        world.jobs.report(report("us", status(channel, rows_in=rows)))
        use = ChannelUse(channel, query, "us", size)
        world.jobs.report(report("eu", incarnation=incarnation, channels=(use,)))

    beat("a", 10, 100)
    world.jobs.flush()
    world.restart()
    beat("a", 30, 250)
    world.jobs.register(site_record("eu", "b"))
    beat("b", 35, 40)
    view = world.views.of(world.queries.get(query))
    assert view.totals.rows_in == 35
    assert [(link.from_site, link.to_site, link.bytes) for link in view.links] == [("us", "eu", 290)]


def test_totals_are_stored_now_and_then(world: World) -> None:
    query = world.run()
    world.jobs.report(report("us", status(task_at(query, "clicks", "us"), rows_in=5)))
    world.clock.advance(CONFIG.progress_interval)
    world.jobs.tick()
    assert world.store.queries()[0].progress.tasks[task_at(query, "clicks", "us")].rows_in == 5


def test_a_lost_heartbeat_moves_and_ends_nothing(world: World) -> None:
    query = world.run()
    before = {site: world.board.current(site) for site in ("us", "eu", "hub")}
    world.wait(CONFIG.heartbeat_timeout, "eu")
    view = world.views.of(world.queries.get(query))
    assert view.record.state is QueryState.RUNNING
    assert view.reason == "site eu is unreachable"
    assert {site: world.board.current(site) for site in before} == before
    world.report("eu")
    assert world.views.of(world.queries.get(query)).reason == ""


def test_results_leave_the_gateway_when_their_retention_is_over(world: World) -> None:
    query = world.run()
    world.jobs.cancel(query)
    for site in ("us", "eu", "hub"):
        world.report(site)
    world.clock.advance(CONFIG.results_retention - timedelta(seconds=1))
    world.jobs.tick()
    assert world.board.current("hub").assignment.results != ()
    world.clock.advance(timedelta(seconds=1))
    world.jobs.tick()
    assert world.board.current("hub").assignment.results == ()


def test_names_are_unique_among_live_queries_only(world: World) -> None:
    query = world.submit("top")
    with pytest.raises(QueryNameTakenError):
        world.submit("top")
    world.jobs.report(report("us", status(task_at(query, "clicks", "us"), TaskState.FAILED)))
    assert world.submit("top") != query


def test_what_a_live_query_reads_cannot_be_dropped(world: World) -> None:
    query = world.run()
    with pytest.raises(RelationInUseError) as caught:
        world.catalog.drop("PAGES")
    assert caught.value.ids == {"relation": "pages", "query": query}
    world.jobs.cancel(query)
    for site in ("us", "eu", "hub"):
        world.report(site)
    assert world.catalog.drop("PAGES")


def test_an_altered_binding_reaches_the_tasks_that_run(world: World) -> None:
    world.run()
    versions = {site: world.board.version(site) for site in ("us", "eu")}
    world.jobs.alter_binding("clicks", {"rows_per_second": "500"}, site="us")
    assert world.board.version("us") > versions["us"]
    assert world.board.version("eu") == versions["eu"]
    source = world.board.current("us").assignment.tasks[1]
    assert source.relation is not None
    assert source.relation.bindings[0].options["rows_per_second"] == "500"


def test_rates_are_measured_where_tasks_read(world: World) -> None:
    query = world.run()
    world.jobs.report(report("us", status(task_at(query, "clicks", "us"), rows_in_per_s=120.0)))
    world.jobs.report(report("us", status(task_at(query, "clicks", "us"), rows_in_per_s=0.0)))
    world.jobs.report(report("eu", status(task_at(query, "merge", "eu"), rows_in_per_s=7.0)))
    assert world.rates.snapshot().rates == {("clicks", "us"): RelationStats(120.0, measured=True)}


def test_a_pushed_stream_reaches_its_site_when_it_is_created_and_leaves_it_when_it_is_dropped(world: World) -> None:
    pushed = replace(CLICKS, name="orders", bindings=(Binding("us", {"connector": "push"}),))
    before = world.board.version("us"), world.board.version("eu")
    world.jobs.create_relation(pushed)
    (given,) = world.board.current("us").assignment.streams
    assert given.name == "orders"
    assert (world.board.version("us") > before[0], world.board.version("eu")) == (True, before[1])

    world.restart()
    assert world.board.current("us").assignment.streams == (given,)
    world.jobs.alter_binding("orders", {"retention": "1 hour"}, site="us")
    assert world.board.current("us").assignment.streams[0].bindings[0].options["retention"] == "1 hour"
    assert world.jobs.drop_relation("orders")
    assert world.board.current("us").assignment.streams == ()


class FullStore(SqliteStore):
    """Stores no versions of assignments while `full`."""

    full = False

    def put_assignment_marks(self, marks: Iterable[AssignmentMark]) -> None:
        if self.full:
            raise StoreFullError("full")
        super().put_assignment_marks(marks)


def full_world() -> tuple[World, FullStore]:
    world = World(FullStore.in_memory())
    assert isinstance(world.store, FullStore)
    return world, world.store


def test_a_query_that_is_stored_is_given_out_as_soon_as_versions_can_be() -> None:
    world, store = full_world()
    store.full = True
    query = world.submit()
    world.jobs.tick()
    assert world.state(query) is QueryState.DEPLOYING
    assert not world.board.current("us").assignment.tasks

    store.full = False
    world.jobs.tick()
    assert {t.query_id for t in world.board.current("us").assignment.tasks} == {query}


def test_a_cancelled_query_is_not_over_before_its_tasks_are_taken_away() -> None:
    world, store = full_world()
    query = world.submit()
    for site in ("us", "eu", "hub"):
        world.report(site)
    store.full = True
    world.jobs.cancel(query)
    for site in ("us", "eu", "hub"):
        world.report(site)
    assert world.state(query) is QueryState.CANCELLING

    store.full = False
    world.jobs.tick()
    for site in ("us", "eu", "hub"):
        world.report(site)
    assert world.state(query) is QueryState.CANCELLED


def finished(world: World) -> str:
    """A query that is over now."""
    query = world.submit()
    world.jobs.cancel(query)
    for site in ("us", "eu", "hub"):
        world.report(site)
    assert world.state(query) is QueryState.CANCELLED
    return query


def test_an_ended_query_is_purged_when_it_is_old_with_its_events_and_results(world: World) -> None:
    query, running = finished(world), world.submit()
    world.wait(CONFIG.ended_retention - timedelta(seconds=1))
    assert world.state(query) is QueryState.CANCELLED
    world.wait(timedelta(seconds=1))

    assert [q.id for q in world.store.queries()] == [running]
    assert world.queries.history(query) == ()
    assert [r.query_id for r in world.board.current("hub").assignment.results] == [running]
    world.restart()
    assert [q.id for q in world.queries.all()] == [running]
    for reference in (query, "q-0001"):
        with pytest.raises(QueryPurgedError, match="no longer known"):
            world.queries.find(reference)
    with pytest.raises(UnknownQueryError):
        world.queries.find("q-0003")


def test_only_so_many_ended_queries_are_kept(world: World) -> None:
    world.config = replace(CONFIG, ended_count=2)
    world.restart()
    running = world.submit()
    ended = []
    for _ in range(4):
        ended.append(finished(world))
        world.wait(timedelta(seconds=1))
    assert [q.id for q in world.queries.all()] == [running, *ended[2:]]
    # What was purged is not kept at its gateway either, though its results are young.
    assert len(world.board.current("hub").assignment.results) == 3


def test_a_new_query_does_not_get_the_number_of_a_purged_one(world: World) -> None:
    finished(world)
    world.wait(CONFIG.ended_retention)
    world.restart()
    assert world.submit().startswith("q-0002-")


EU = (Slot("eu", 0), Slot("eu", 1))


def test_a_query_holds_a_slot_for_each_task_as_far_as_there_are_slots(world: World) -> None:
    world.tick()
    query = world.submit()
    assert (world.holders("us"), world.holders("eu"), world.holders("hub")) == (
        [STREAMING] * 2,
        [STREAMING] * 2,
        [None] * 2,
    )
    world.jobs.cancel(query)
    world.tick()
    assert world.holders("us") == [None] * 2


def test_slots_are_kept_for_as_long_as_the_query_lives(world: World) -> None:
    world.tick()
    world.submit()
    numbers = [lease.fencing for lease in world.store.leases().leases]
    for _ in range(10):
        world.wait(timedelta(seconds=8))
    assert [lease.fencing for lease in world.store.leases().leases] == numbers
    world.clock.advance(timedelta(days=1))
    world.restart()
    assert [lease.fencing for lease in world.store.leases().leases] == numbers


def test_a_query_that_gets_no_slot_says_which_and_until_when_and_starts_when_one_comes(world: World) -> None:
    world.tick()
    world.acquire("nightly", *EU)
    query = world.submit()
    world.tick()
    assert world.state(query) is QueryState.DEPLOYING
    assert world.paused_at("us") == world.paused_at("eu") == [True, True]
    reason = world.views.of(world.queries.get(query)).reason
    assert reason.startswith("no slot at eu: eu/0 is nightly's until 2026-01-01 00:01:20 at the latest")

    world.restart()
    assert world.paused_at("us") == [True, True]
    world.release("nightly", EU[1])
    world.tick()
    assert world.tasks_at("eu") == ["clicks", "merge"]
    assert world.paused_at("eu") == [False, False]
    assert world.views.of(world.queries.get(query)).reason == ""
    assert world.holders("eu") == ["nightly", STREAMING]


def test_tasks_that_began_are_not_ended_when_a_site_comes_back_without_slots(world: World) -> None:
    """Ended tasks would lose what they have read; begun anew, they would number other rows alike."""
    world.tick()
    world.acquire("nightly", *EU)
    world.wait(CONFIG.heartbeat_timeout, "eu")
    assert world.sites.alive() == {"us", "hub"}
    query = world.submit()
    world.report("us", ("pages", TaskState.ENDED), ("clicks", TaskState.RUNNING))
    assert world.paused_at("us") == [False, False]

    world.report("eu")
    world.tick()
    assert world.state(query) is QueryState.DEPLOYING
    assert world.paused_at("us") == world.paused_at("eu") == [True, True]
    world.restart()
    assert world.tasks_at("us") == ["pages", "clicks"]
    world.release("nightly", *EU)
    world.wait(timedelta(seconds=1))
    assert world.paused_at("us") == world.paused_at("eu") == [False, False]


def test_a_query_that_waits_for_a_slot_can_be_cancelled(world: World) -> None:
    world.tick()
    world.acquire("nightly", *EU)
    query = world.submit()
    world.jobs.cancel(query)
    for site in ("us", "eu", "hub"):
        world.report(site)
    world.tick()
    assert world.state(query) is QueryState.CANCELLED
    assert world.leases.table.tickets.waiting(STREAMING) == 0


def test_slots_beside_the_first_are_yielded_to_whoever_waits(world: World) -> None:
    world.tick()
    query = world.run()
    world.leases.register("nightly")
    world.wait_in_line("nightly", "t1", *EU)
    world.wait_in_line("nightly", "t2", *EU)
    world.tick()
    world.acquire("nightly", *(slot for slot in EU if is_offered(world, slot)))
    world.tick()
    assert sorted(map(str, world.holders("eu"))) == ["nightly", STREAMING]
    assert world.state(query) is QueryState.RUNNING
    assert world.tasks_at("eu") == ["clicks", "merge"]


def is_offered(world: World, slot: Slot) -> bool:
    record = world.leases.table.get(slot)
    return record is not None and record.offer is not None


def test_a_query_that_runs_stays_where_it_is_although_its_site_lost_its_slots(world: World) -> None:
    world.tick()
    query = world.run()
    world.leases.set_quota(STREAMING, 0)
    for lease in world.store.leases().leases:
        world.release(STREAMING, lease.slot)
    world.tick()
    assert world.holders("eu") == [None, None]
    assert world.tasks_at("eu") == ["clicks", "merge"]
    assert world.state(query) is QueryState.RUNNING


def test_a_quota_that_leaves_no_slot_is_told(world: World) -> None:
    world.tick()
    world.leases.set_quota(STREAMING, 0)
    query = world.submit()
    assert "the quota of streaming is 0 slots" in world.views.of(world.queries.get(query)).reason
    world.tick()
    # Nothing is offered to it that it would be refused: others can have it.
    world.acquire("nightly", EU[0])
    world.leases.set_quota(STREAMING, None)
    world.tick()
    assert world.tasks_at("eu") == ["clicks", "merge"]
