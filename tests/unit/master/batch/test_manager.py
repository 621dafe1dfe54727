"""Batch queries at the job manager: slots, places, ends and restarts, with a clock that stands still."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.tasks import TaskState
from master.base.errors import InvalidRequestError
from master.batch.links import Links
from master.batch.slots import BATCH
from master.config.values import BatchConfig, MasterConfig
from master.records.model import BatchQuery, QueryState, ResultStatus, TaskStatus
from master.records.specs import TaskSpec
from planner.batch import BatchOptions, Policy, SkipRule, TaskPhase
from planner.graph.ids import TaskId
from planner.graph.plan import BatchPlan, Split
from planner.leases import Slot
from planner.place.batch import place_batch
from planner.values.splits import FilePart
from planner.values.stages import StageKind
from planner.wan.estimate import LinkRecord, fold_bandwidth
from planner.wan.samples import BandwidthSample, Method
from tests.unit.master.build import START, TOPOLOGY, report
from tests.unit.master.world import World
from tests.unit.planner.build import catalog_of, draft_of

TABLES = catalog_of(
    """
    CREATE TABLE texts (line STRING) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE topics (page STRING, topic STRING) WITH ('connector' = 'other') AT eu;
    """
)
COUNT = "SELECT line, count(*) AS n FROM texts GROUP BY line"
JOIN = "SELECT topic, count(*) AS n FROM texts JOIN topics ON line = page GROUP BY topic"
ALIVE = frozenset(TOPOLOGY.sites)
US = [Slot("us", 0), Slot("us", 1)]
EU = [Slot("eu", 0), Slot("eu", 1)]
HUB = [Slot("hub", 0), Slot("hub", 1)]


def plan_of(sql: str = COUNT, *sites: str, options: BatchOptions | None = None) -> BatchPlan:
    """A split of 100 bytes at each of these sites."""
    parts = [Split(site, (FilePart("/data/x", number, 100),), 100) for number, site in enumerate(sites)]
    return place_batch(draft_of(sql, TABLES), TOPOLOGY, parts, alive=ALIVE, options=options)


class BatchWorld(World):
    def __init__(self, **batch: object) -> None:
        self.batch_config = replace(BatchConfig(skips=SkipRule(least=0.0)), **batch)  # type: ignore[arg-type]
        super().__init__()
        for relation in TABLES.relations.values():
            self.catalog.create(relation)

    def restart(self) -> None:
        self.config = MasterConfig(batch=self.batch_config)
        super().restart()

    def start(self, *sites: str, sql: str = COUNT) -> str:
        self.tick()
        return self.jobs.submit(plan_of(sql, *sites), sql=sql).id

    def specs(self, site: str) -> list[TaskSpec]:
        return list(self.board.current(site).assignment.tasks)

    def end(self, site: str, state: TaskState = TaskState.ENDED, **counts: int) -> None:
        """All tasks that the site has are reported in that state."""
        statuses = [
            TaskStatus(t.task_id, t.query_id, t.stage_id, site, state, **counts)  # type: ignore[arg-type]
            for t in self.specs(site)
        ]
        self.jobs.report(report(site, *statuses, assignment_version=self.board.version(site)))

    def query(self, query: str) -> BatchQuery:
        record = self.queries.get(query)
        assert isinstance(record, BatchQuery)
        return record

    def phases(self, query: str) -> list[TaskPhase]:
        state = self.query(query).batch
        return [task.phase for task in (*state.maps, state.reduce)]

    def batch_slots_held(self) -> list[str]:
        return sorted(str(slot) for slot in self.batch_slots.held)


def test_each_split_is_a_task_where_it_is_and_leaves_its_slot_at_once() -> None:
    world = BatchWorld()
    query = world.start("us", "eu", "eu")
    assert [(t.kind, t.task_id) for t in world.specs("us")] == [(StageKind.TABLE, TaskId(query, "map", 0))]
    (first, second) = world.specs("eu")
    assert first.split == Split("eu", (FilePart("/data/x", 1, 100),), 100)
    assert second.task_id == TaskId(query, "map", 2)
    assert world.batch_slots_held() == ["eu/0", "eu/1", "us/0"]
    assert first.consumers == ("eu", "hub", "us")

    world.end("us")
    assert world.batch_slots_held() == ["eu/0", "eu/1"]
    assert world.phases(query) == [TaskPhase.DONE, TaskPhase.RUNNING, TaskPhase.RUNNING, TaskPhase.WAITING]
    assert [t.task_id for t in world.specs("us")] == [TaskId(query, "map", 0)]
    assert world.state(query) is QueryState.RUNNING


def test_the_last_task_runs_where_the_fewest_bytes_have_to_be_sent_and_the_query_finishes() -> None:
    world = BatchWorld()
    query = world.start("us", "eu")
    world.end("us", bytes_out=10)
    assert not world.board.current("hub").assignment.results
    world.end("eu", bytes_out=90)
    (last,) = (t for t in world.specs("eu") if t.kind is StageKind.REDUCE)
    assert last.task_id == TaskId(query, "reduce")
    assert [(i.channel, i.site, i.view) for i in last.inputs] == [
        (TaskId(query, "map", 0), "us", "input"),
        (TaskId(query, "map", 1), "eu", "input"),
    ]
    (result,) = world.board.current("hub").assignment.results
    assert [(i.channel, i.site) for i in result.inputs] == [(TaskId(query, "reduce"), "eu")]
    assert result.limit is None
    world.end("eu", rows_in=7)
    world.jobs.report(report("hub", results=(ResultStatus(query, rows=3, complete=True),)))
    assert world.state(query) is QueryState.FINISHED
    assert world.batch_slots_held() == []
    assert world.specs("us") == world.specs("eu") == []


def test_branches_of_a_union_are_maps_of_their_own_and_views_of_one_reduce() -> None:
    world = BatchWorld()
    query = world.start(
        "us", sql="SELECT line, count(*) AS n FROM texts GROUP BY line UNION ALL SELECT topic, 1 FROM topics"
    )
    (first,), (second,) = world.specs("us"), world.specs("eu")
    assert [(t.stage_id, t.task_id) for t in (first, second)] == [
        ("map", TaskId(query, "map", 0)),
        ("map2", TaskId(query, "map", 1)),
    ]
    assert (first.relation is not None, second.relation is not None) == (True, True)
    assert "topic" in second.sql
    assert [status.stage_id for status in world.queries.get(query).progress.tasks.values()] == ["map", "map2"]
    world.end("us", bytes_out=10)
    world.end("eu", bytes_out=90)
    (last,) = (t for t in world.specs("eu") if t.stage_id == "reduce")
    assert [(i.channel, i.view) for i in last.inputs] == [
        (TaskId(query, "map", 0), "input"),
        (TaskId(query, "map", 1), "input2"),
    ]


def test_a_split_is_read_where_it_is_for_a_task_elsewhere() -> None:
    world = BatchWorld(policy=Policy.FIRST_COME)
    world.acquire("nightly", *US, *EU)
    query = world.start("us")
    (reading,) = world.specs("us")
    (mapping,) = world.specs("hub")
    assert (reading.kind, reading.task_id, reading.sql) == (
        StageKind.TABLE,
        TaskId(query, "read", 0),
        "SELECT line FROM input",
    )
    assert reading.consumers == ("hub",)
    assert (mapping.kind, mapping.task_id, mapping.split) == (StageKind.REDUCE, TaskId(query, "map", 0), None)
    assert [(i.channel, i.site, i.view) for i in mapping.inputs] == [(TaskId(query, "read", 0), "us", "input")]
    assert world.batch_slots_held() == ["hub/0"]
    world.end("us", rows_in=5)
    assert world.views.of(world.queries.get(query)).totals.rows_in == 5


def start_big(world: BatchWorld) -> str:
    """A split of 250 MB at us: over 2.5 MB/s that takes longer than the minute for which all slots there are taken."""
    world.tick()
    world.acquire("nightly", *US)
    big = plan_of(COUNT, "us")
    split = replace(big.splits[0], size_bytes=250_000_000)
    return world.jobs.submit(replace(big, splits=(split,)), sql=COUNT).id


def test_a_wait_ends_when_the_link_has_become_fast_enough() -> None:
    world = BatchWorld()
    query = start_big(world)
    assert world.phases(query)[0] is TaskPhase.WAITING
    fast = BandwidthSample(world.clock.now(), Method.IPERF3, 250e6)
    world.links["us", "hub"] = fold_bandwidth(LinkRecord(), fast)
    world.tick()
    assert world.phases(query)[0] is TaskPhase.RUNNING
    assert world.batch_slots_held() == ["hub/0"]
    assert not any(record.waiters for record in world.leases.table.records())


def test_what_is_sent_of_a_split_is_learned_and_not_taken_for_work() -> None:
    world = BatchWorld(policy=Policy.FIRST_COME)
    world.tick()
    world.acquire("nightly", *EU)
    first = start_big(world)
    world.end("us", bytes_out=10_000_000)
    world.clock.advance(timedelta(seconds=6))
    world.end("hub")
    assert world.phases(first)[0] is TaskPhase.DONE
    second = world.query(world.jobs.submit(world.query(first).plan, sql=COUNT).id).batch
    # 10 MB of the 250 went over 2.5 MB/s, so 2 of the 6 s were work; 2 s are slack.
    assert (second.maps[0].site, second.maps[0].predicted_s) == ("hub", 8.0)


def test_splits_on_one_link_share_it() -> None:
    world = BatchWorld(policy=Policy.FIRST_COME)
    world.tick()
    world.acquire("nightly", *US, *EU)
    plan = plan_of(COUNT, "us", "us")
    splits = tuple(replace(split, size_bytes=25_000_000) for split in plan.splits)
    query = world.jobs.submit(replace(plan, splits=splits), sql=COUNT).id
    assert world.phases(query)[:2] == [TaskPhase.RUNNING, TaskPhase.WAITING]
    world.tick()
    assert world.phases(query)[:2] == [TaskPhase.RUNNING, TaskPhase.RUNNING]
    turn = Links(lambda _source, _target: 2.5e6, [world.query(query)])
    assert (turn.joined("us", "hub"), turn.joining("us", "hub"), turn.joining("eu", "hub")) == (
        1.25e6,
        2.5e6 / 3,
        2.5e6,
    )


def test_a_lease_aware_query_waits_for_a_busy_slot_near_its_data() -> None:
    world = BatchWorld()
    query = start_big(world)
    assert world.batch_slots_held() == []
    view = world.views.of(world.queries.get(query)).batch
    assert view is not None
    (wait,) = view.waits
    assert (str(wait.slot), wait.until) == ("us/0", START + timedelta(minutes=1))
    assert "us/0 is nightly's until 2026-01-01 00:01:20 at the latest" in wait.reason
    world.release("nightly", US[0])
    world.tick()
    world.tick()
    assert world.batch_slots_held() == ["us/0"]
    assert world.specs("us")[0].task_id == TaskId(query, "map", 0)


@pytest.mark.parametrize("policy", Policy)
def test_slots_of_others_are_waited_for_until_one_is_free(policy: Policy) -> None:
    world = BatchWorld(policy=policy)
    world.tick()
    world.acquire("nightly", *US, *EU, *HUB)
    query = world.start("us")
    world.tick()
    assert world.phases(query) == [TaskPhase.WAITING, TaskPhase.WAITING]
    view = world.views.of(world.queries.get(query)).batch
    assert view is not None
    assert "us/0 is nightly's until" in view.waits[0].reason
    world.release("nightly", US[1])
    world.release("nightly", US[0])
    world.tick()
    world.tick()
    assert world.phases(query)[0] is TaskPhase.RUNNING


def test_a_restarted_master_knows_what_it_gave_out() -> None:
    world = BatchWorld()
    query = world.start("us", "eu")
    world.end("us")
    before = {site: world.specs(site) for site in ALIVE}
    versions = {site: world.board.version(site) for site in ALIVE}
    held = world.batch_slots_held()
    world.restart()
    for site in sorted(ALIVE):
        world.registry.report(report(site))
    world.tick()
    assert {site: world.specs(site) for site in ALIVE} == before
    assert {site: world.board.version(site) for site in ALIVE} == versions
    assert world.batch_slots_held() == held
    assert world.phases(query) == [TaskPhase.DONE, TaskPhase.RUNNING, TaskPhase.WAITING]
    world.end("eu")
    assert world.phases(query)[-1] is TaskPhase.RUNNING


def test_a_slot_that_was_leased_for_a_task_that_is_not_stored_is_given_back() -> None:
    world = BatchWorld()
    world.tick()
    world.batch_slots.take([(US[0], timedelta(minutes=1))])
    assert world.batch_slots_held() == ["us/0"]
    world.tick()
    assert world.batch_slots_held() == []


def test_leases_are_renewed_while_tasks_run() -> None:
    world = BatchWorld()
    query = world.start("us")
    for _ in range(50):
        world.wait(timedelta(seconds=5))
    assert world.batch_slots_held() == ["us/0"]
    assert world.phases(query)[0] is TaskPhase.RUNNING


def test_a_failed_task_fails_the_query_and_frees_its_slots() -> None:
    world = BatchWorld()
    query = world.start("us", "eu")
    task = TaskStatus(TaskId(query, "map", 0), query, "map", "us", TaskState.FAILED, reason="no such file")
    world.jobs.report(report("us", task))
    assert world.state(query) is QueryState.FAILED
    assert "no such file" in world.queries.get(query).reason
    world.tick()
    assert world.batch_slots_held() == []
    assert world.specs("eu") == []


def test_cancelled_queries_leave_nothing_behind() -> None:
    world = BatchWorld()
    query = world.start("us", "eu")
    world.jobs.cancel(query)
    world.wait(timedelta(seconds=1))
    assert world.state(query) is QueryState.CANCELLED
    assert world.batch_slots_held() == []
    assert world.specs("us") == []


def test_splits_at_a_silent_site_wait_for_it() -> None:
    world = BatchWorld()
    world.tick()
    world.wait(timedelta(seconds=60), "us")
    query = world.start("us", "eu")
    assert world.phases(query)[:2] == [TaskPhase.WAITING, TaskPhase.RUNNING]
    view = world.views.of(world.queries.get(query)).batch
    assert view is not None
    assert view.waits[0].reason == "site us, which has splits of the table, is unreachable"
    world.wait(timedelta(seconds=1))
    assert world.phases(query)[0] is TaskPhase.RUNNING


def test_joined_tables_are_read_once_and_need_no_slot() -> None:
    world = BatchWorld()
    query = world.start("us", sql=JOIN)
    (copy,) = world.specs("eu")
    assert (copy.task_id, copy.kind) == (TaskId(query, "t1"), StageKind.TABLE)
    (mapped,) = world.specs("us")
    assert [(i.channel, i.site, i.view) for i in mapped.inputs] == [(TaskId(query, "t1"), "eu", "t1")]
    assert world.batch_slots_held() == ["us/0"]


def test_a_query_with_few_local_tasks_is_skipped_for_a_while() -> None:
    rule = SkipRule(least=0.5, longest=timedelta(seconds=10))
    world = BatchWorld(policy=Policy.FIRST_COME, skips=rule, near_bytes_per_s=1e9)
    world.tick()
    world.acquire("nightly", *US)
    query = world.start("us")
    view = world.views.of(world.queries.get(query)).batch
    assert view is not None
    assert "few of its tasks would run near their input" in view.waits[0].reason
    assert world.phases(query)[0] is TaskPhase.WAITING
    world.wait(timedelta(seconds=11))
    assert world.phases(query)[0] is TaskPhase.RUNNING


def test_queries_of_different_schedulers_run_side_by_side() -> None:
    """All slots at us are taken for a minute: the one waits for them, and the other goes elsewhere in the same turn."""
    world = BatchWorld()
    world.tick()
    world.acquire("nightly", *US)
    found: dict[Policy, str] = {}
    for policy in (Policy.LEASE, Policy.FIRST_COME, Policy.RANDOM):
        plan = plan_of(COUNT, "us", options=BatchOptions(policy, locality_min=0.0))
        split = replace(plan.splits[0], size_bytes=250_000_000)
        plan = replace(plan, splits=(split,))
        found[policy] = world.jobs.submit(plan, sql=COUNT).id
    world.tick()
    phases = {policy: world.phases(query)[0] for policy, query in found.items()}
    assert phases == {
        Policy.LEASE: TaskPhase.WAITING,
        Policy.FIRST_COME: TaskPhase.RUNNING,
        Policy.RANDOM: TaskPhase.RUNNING,
    }
    views = {policy: world.views.of(world.queries.get(query)).batch for policy, query in found.items()}
    assert [view.scheduler for view in views.values() if view is not None] == list(found)
    waiting = views[Policy.LEASE]
    assert waiting is not None
    assert waiting.waits[0].slot in US
    world.restart()
    again = world.views.of(world.queries.get(found[Policy.RANDOM])).batch
    assert again is not None
    assert again.scheduler is Policy.RANDOM


def test_nobody_else_can_call_itself_batch() -> None:
    world = BatchWorld()
    with pytest.raises(InvalidRequestError, match="is Selat's own"):
        world.leases.register(BATCH)


def test_splits_at_a_draining_site_are_read_there_and_mapped_elsewhere() -> None:
    world = BatchWorld()
    world.tick()
    world.jobs.set_draining("eu", True)
    query = world.jobs.submit(plan_of(COUNT, "eu", "us"), sql=COUNT).id
    assert all(not slot.startswith("eu/") for slot in world.batch_slots_held())
    assert [t.task_id for t in world.specs("eu")] == [TaskId(query, "read", 0)]
    for site in ("eu", "us", "hub"):
        world.end(site, bytes_out=10)
    assert not any(t.kind is StageKind.REDUCE for t in world.specs("eu"))
    assert any(t.stage_id == "reduce" for site in ("us", "hub") for t in world.specs(site))


def test_tasks_wait_while_every_site_is_draining() -> None:
    world = BatchWorld()
    world.tick()
    for site in ("us", "eu", "hub"):
        world.jobs.set_draining(site, True)
    query = world.jobs.submit(plan_of(COUNT, "eu"), sql=COUNT).id
    assert world.phases(query) == [TaskPhase.WAITING, TaskPhase.WAITING]
    assert world.batch.view(world.query(query)).waits
    world.jobs.set_draining("hub", False)
    assert world.phases(query)[0] is TaskPhase.RUNNING
