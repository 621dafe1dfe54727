from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from contract.tasks import TaskState
from planner.values.stages import StageKind
from site_agent.agent.results import reader_of
from site_agent.agent.runtime import SiteRuntime, SiteServices
from site_agent.channels.manifest import Standing
from site_agent.channels.store import ChannelStore
from site_agent.connectors.sources import Source, SourceContext, Split, Table
from site_agent.engine import ArrowScan, Field
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.spec import (
    Assignment,
    InputSpec,
    RelationSpec,
    ResultSpec,
    TaskSpec,
    ViewSpec,
    WindowSpec,
)
from tests.unit.site_agent.fakes import TIMESTAMP, ListSource, TableEngine, VirtualClock

EVENTS = pa.table({"ts": pa.array([1, 12], TIMESTAMP), "v": [1, 2]})
PAGES = pa.table({"page": ["home"]})


class Slow:
    """An SQL function of the engine that returns only when the test lets it."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def __call__(self, table: pa.Table) -> pa.Table:
        self.began.set()
        self.may_end.wait(10)
        return table


class ListConnector:
    name = "list"

    def __init__(self) -> None:
        self.opened: list[ListSource] = []

    def check(self, options: Mapping[str, str]) -> None:
        return None

    def open_source(self, context: SourceContext) -> Source:
        source = ListSource([EVENTS], ends=context.options.get("ends") != "never")
        self.opened.append(source)
        return source

    def open_table(self, context: SourceContext) -> Table:
        return ListTable()


class ListTable:
    def scan(self, split: Split | None = None) -> ArrowScan:
        return ArrowScan(PAGES)

    def splits(self, split_bytes: int) -> Sequence[Split]:
        return (Split(),)


def relation(**options: str) -> RelationSpec:
    return RelationSpec(
        name="events",
        columns=(Field("ts", "TIMESTAMP"),),
        event_time="ts",
        watermark_delay=timedelta(0),
        options={"connector": "list", **options},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def windowed(table: pa.Table) -> pa.Table:
    starts = pa.array([(t // 10) * 10 for t in table.column("ts").cast(pa.int64()).to_pylist()], TIMESTAMP)
    return pa.table({"_window_start": starts, "n": [1] * table.num_rows})


TABLE = TaskSpec("q.t1.us", "q", "t1", StageKind.TABLE, "all", timedelta(0), relation(), consumers=("us",))
SOURCE = TaskSpec(
    "q.s1.us",
    "q",
    "s1",
    StageKind.SOURCE,
    "partial",
    timedelta(0),
    relation(),
    inputs=(InputSpec(TABLE.task_id, "us", "t1", (Field("page", "STRING"),)),),
    consumers=("us",),
)
MERGE = TaskSpec(
    "q.m1.us",
    "q",
    "m1",
    StageKind.MERGE,
    "all",
    timedelta(0),
    inputs=(InputSpec(SOURCE.task_id, "us", "input"),),
    window=WindowSpec("_window_start", 10, 10, (ViewSpec("input", "all"),)),
    consumers=("us",),
)
RESULT = ResultSpec("q", (InputSpec(MERGE.task_id, "us", "input"),))
WHOLE = Assignment("c", 1, (TABLE, SOURCE, MERGE), (RESULT,))


class Site:
    def __init__(self, directory: Path, further: Mapping[str, Callable[[pa.Table], pa.Table]] | None = None) -> None:
        self.connector = ListConnector()
        self.engine = TableEngine({"all": lambda t: t, "partial": windowed, **(further or {})})
        self.store = ChannelStore(directory / "channels")
        self.router = Router("us", self.store, connect)
        self.directory = directory
        self.runtime = SiteRuntime(
            SiteServices(
                site="us",
                directory=directory,
                engine=self.engine,
                store=self.store,
                router=self.router,
                executor=ThreadPoolExecutor(1),
                clock=VirtualClock(),
                connectors={"list": self.connector},
            )
        )

    def state(self, task_id: str) -> TaskState:
        return self.runtime.runners[task_id].status().state

    async def until_complete(self) -> None:
        """Also until the tasks have noticed, which takes a moment longer than their last epoch."""
        while not self.runtime.results.statuses()[0].complete or any(
            self.state(task_id) is not TaskState.ENDED for task_id in self.runtime.runners
        ):
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        await self.runtime.close()
        await self.router.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    yield made
    await made.close()


async def test_a_whole_query_runs_to_its_results(site: Site) -> None:
    await site.runtime.apply(WHOLE)
    await asyncio.wait_for(site.until_complete(), 20)

    (status,) = site.runtime.results.statuses()
    assert (status.query_id, status.rows, status.complete) == ("q", 2, True)
    assert [site.state(t.task_id) for t in WHOLE.tasks] == [TaskState.ENDED] * 3
    copy = site.engine.tables[SOURCE.task_id, "t1"]
    assert isinstance(copy, pa.Table)
    assert copy.equals(PAGES)
    assert site.runtime.version == 1


async def test_results_outlive_the_tasks_and_go_with_their_spec(site: Site) -> None:
    await site.runtime.apply(WHOLE)
    await asyncio.wait_for(site.until_complete(), 20)

    await site.runtime.apply(Assignment("c", 2, (), (RESULT,)))
    assert site.store.ids() == (MERGE.task_id,)
    assert site.runtime.results.statuses()[0].rows == 2
    assert not list((site.directory / "tasks").iterdir())

    await site.runtime.apply(Assignment("c", 3))
    assert site.store.ids() == ()
    assert site.router.subscriptions(reader_of("q")) == {}
    assert site.engine.tables == {}


async def test_applying_the_same_again_changes_nothing(site: Site) -> None:
    await site.runtime.apply(WHOLE)
    await site.runtime.apply(replace(WHOLE, version=2))
    await asyncio.wait_for(site.until_complete(), 20)

    assert len(site.connector.opened) == 1


async def test_changed_options_reach_a_running_source(site: Site) -> None:
    running = replace(SOURCE, inputs=(), relation=relation(ends="never"))
    await site.runtime.apply(Assignment("c", 1, (running,)))
    while site.state(SOURCE.task_id) is not TaskState.RUNNING:
        await asyncio.sleep(0.01)

    changed = replace(running, relation=relation(ends="never", rows_per_second="9"))
    await site.runtime.apply(Assignment("c", 2, (changed,)))

    assert site.connector.opened[0].options["rows_per_second"] == "9"


async def test_a_restarted_site_goes_on_from_its_disk(tmp_path: Path) -> None:
    first = Site(tmp_path)
    await first.runtime.apply(WHOLE)
    await asyncio.wait_for(first.until_complete(), 20)
    await first.close()

    second = Site(tmp_path)
    await second.runtime.apply(WHOLE)
    await asyncio.wait_for(second.until_complete(), 20)

    assert second.runtime.results.statuses()[0].rows == 2
    await second.close()


async def test_an_unknown_connector_is_said_with_those_there_are(site: Site) -> None:
    lost = replace(SOURCE, inputs=(), relation=replace(relation(), options={"connector": "kafka"}))
    await site.runtime.apply(Assignment("c", 1, (lost,)))
    while site.state(SOURCE.task_id) is not TaskState.FAILED:
        await asyncio.sleep(0.01)

    reason = site.runtime.runners[SOURCE.task_id].status().reason
    assert "kafka" in reason
    assert "list" in reason


async def test_a_new_task_does_not_wait_for_the_last_epoch_of_another_query(tmp_path: Path) -> None:
    slow = Slow()
    site = Site(tmp_path, {"slow": slow})
    old = replace(SOURCE, task_id="old.s1.us", query_id="old", sql="slow", inputs=())
    await site.runtime.apply(Assignment("c", 1, (old,)))
    await asyncio.to_thread(slow.began.wait, 10)
    applying = asyncio.create_task(site.runtime.apply(Assignment("c", 2, (TABLE,))))
    while TABLE.task_id not in site.runtime.runners:
        await asyncio.sleep(0)
    assert not applying.done()
    slow.may_end.set()
    await applying
    assert site.runtime.version == 2
    assert set(site.runtime.runners) == {TABLE.task_id}
    await site.close()


async def test_all_readers_are_known_before_any_of_them_reads(tmp_path: Path) -> None:
    """A reader that is not known yet would find that what the others have acknowledged is gone."""
    site = Site(tmp_path)
    applying = asyncio.create_task(site.runtime.apply(WHOLE))
    while not site.runtime.runners:
        await asyncio.sleep(0)
    assert site.router.subscriptions(SOURCE.task_id) == {TABLE.task_id: "us"}
    assert site.router.subscriptions(MERGE.task_id) == {SOURCE.task_id: "us"}
    assert site.router.subscriptions(reader_of("q")) == {MERGE.task_id: "us"}
    await applying
    again = replace(SOURCE, task_id="q.s2.us", stage_id="s2", inputs=(), relation=relation(ends="never"))
    more = replace(MERGE, inputs=(*MERGE.inputs, InputSpec(again.task_id, "us", "input")))
    applying = asyncio.create_task(site.runtime.apply(replace(WHOLE, version=2, tasks=(TABLE, SOURCE, again, more))))
    while again.task_id not in site.runtime.runners:
        await asyncio.sleep(0)
    assert again.task_id in site.router.subscriptions(MERGE.task_id)
    await applying
    await site.close()


async def test_a_task_that_ran_before_a_restart_reads_again_only_what_it_has_not_read(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.runtime.apply(WHOLE)
    await asyncio.wait_for(site.until_complete(), 20)
    await site.router.unsubscribe(SOURCE.task_id, MERGE.task_id)
    await site.close()
    site = Site(tmp_path)
    await site.runtime.apply(WHOLE)
    await asyncio.wait_for(site.until_complete(), 20)
    assert site.router.subscriptions(MERGE.task_id) == {}
    await site.close()


def paused(*tasks: TaskSpec) -> tuple[TaskSpec, ...]:
    return tuple(replace(task, paused=True) for task in tasks)


async def test_paused_tasks_keep_what_they_have_and_go_on_from_there(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.runtime.apply(replace(WHOLE, tasks=(TABLE, SOURCE, *paused(MERGE))))
    while site.state(SOURCE.task_id) is not TaskState.ENDED:
        await asyncio.sleep(0.01)
    assert site.state(MERGE.task_id) is TaskState.PAUSED
    assert site.store.get(SOURCE.task_id).first_epoch == 0
    # Now all of it, and over a restart of the agent.
    await site.runtime.apply(replace(WHOLE, version=2, tasks=paused(TABLE, SOURCE, MERGE)))
    await site.close()
    site = Site(tmp_path)
    await site.runtime.apply(replace(WHOLE, version=2, tasks=paused(TABLE, SOURCE, MERGE)))
    assert {site.state(task.task_id) for task in WHOLE.tasks} == {TaskState.PAUSED}
    assert site.runtime.results.statuses()[0].rows == 0
    await site.runtime.apply(replace(WHOLE, version=3))
    await asyncio.wait_for(site.until_complete(), 20)
    assert site.runtime.results.statuses()[0].rows == 2
    await site.close()


@pytest.mark.parametrize("kind", [StageKind.SOURCE, StageKind.COMBINE])
async def test_a_source_that_is_paused_is_not_idle(tmp_path: Path, kind: StageKind) -> None:
    """Otherwise, when all go on, rows that come to it meanwhile would find that the others have gone ahead."""
    task = SOURCE if kind is StageKind.SOURCE else replace(MERGE, kind=kind)
    for version in (1, 2):
        site = Site(tmp_path)
        log = site.store.open(task.task_id)
        log.publish(log.next_epoch, None, watermark_us=7, idle=True, commit={"offset": {"group": 0}})
        await site.runtime.apply(Assignment("c", version, paused(task)))
        assert site.state(task.task_id) is TaskState.PAUSED
        assert log.standing == Standing(2 * version, 7)
        assert log.epochs.manifest(log.next_epoch - 1).commit == {"offset": {"group": 0}}
        await site.close()


async def test_a_merge_reads_all_that_was_combined_at_its_site_before_it_began(tmp_path: Path) -> None:
    combine = replace(MERGE, task_id="q.c1.us", kind=StageKind.COMBINE)
    merge = replace(MERGE, inputs=(InputSpec(combine.task_id, "us", "input"),))
    site = Site(tmp_path)
    await site.runtime.apply(Assignment("c", 1, (TABLE, SOURCE, combine)))
    async with asyncio.timeout(20):
        while site.state(combine.task_id) is not TaskState.ENDED:
            await asyncio.sleep(0.01)
    await site.runtime.apply(Assignment("c", 2, (TABLE, SOURCE, combine, merge), (RESULT,)))
    await asyncio.wait_for(site.until_complete(), 20)
    assert site.runtime.results.statuses()[0].rows == 2
    await site.close()


async def test_inputs_without_a_site_or_of_another_one_are_their_readers_own(tmp_path: Path) -> None:
    """Those of a batch query: made nowhere yet, and made anew elsewhere than another reader here has them from."""
    site = Site(tmp_path)
    await site.router.subscribe("q.j1", "eu", "other")
    reduce = TaskSpec("q.j2", "q", "j2", StageKind.REDUCE, "", timedelta(0))
    inputs = (InputSpec("q.j0", "", "input"), InputSpec("q.j1", "asia", "input"))
    await site.runtime.apply(Assignment("c", 1, paused(replace(reduce, inputs=inputs))))
    assert site.router.subscriptions(reduce.task_id) == {}
    await site.close()


async def test_a_damaged_channel_of_a_paused_source_keeps_nothing_else_from_running(tmp_path: Path) -> None:
    site = Site(tmp_path)
    log = site.store.open(SOURCE.task_id)
    log.publish(0, None, watermark_us=7, idle=True)
    path = log.directory / f"{0:012d}.epoch"
    path.write_bytes(bytes(path.stat().st_size))
    site = Site(tmp_path)
    await site.runtime.apply(Assignment("c", 1, (*paused(replace(SOURCE, inputs=())), TABLE)))
    assert set(site.runtime.runners) == {SOURCE.task_id, TABLE.task_id}
    await site.close()


async def test_a_channel_is_there_before_its_task_may_begin(tmp_path: Path) -> None:
    """Otherwise its readers would take it for a lost one."""
    slow = Slow()
    site = Site(tmp_path, {"slow": slow})
    old = replace(SOURCE, task_id="old.s1.us", query_id="old", sql="slow", inputs=())
    await site.runtime.apply(Assignment("c", 1, (old,)))
    await asyncio.to_thread(slow.began.wait, 10)
    assert SOURCE.relation is not None
    pushed = replace(SOURCE, relation=replace(SOURCE.relation, options={"connector": "push"}))
    applying = asyncio.create_task(site.runtime.apply(Assignment("c", 2, (pushed,))))
    await asyncio.wait_for(site.store.find(pushed.task_id, within_s=10), 10)
    assert pushed.task_id not in site.runtime.runners
    slow.may_end.set()
    await asyncio.wait({applying})
    await site.close()


async def test_a_source_that_is_paused_in_the_middle_goes_on_from_its_last_epoch(tmp_path: Path) -> None:
    slow = Slow()
    site = Site(tmp_path, {"slow": slow})
    source = replace(SOURCE, sql="slow", inputs=())
    await site.runtime.apply(Assignment("c", 1, (source,)))
    await asyncio.to_thread(slow.began.wait, 10)
    pausing = asyncio.create_task(site.runtime.apply(Assignment("c", 2, paused(source))))
    await asyncio.sleep(0)
    slow.may_end.set()
    await pausing
    assert site.state(source.task_id) is TaskState.PAUSED
    assert site.store.get(source.task_id).next_epoch == 0
    await site.runtime.apply(Assignment("c", 3, (source,)))
    while site.state(source.task_id) is not TaskState.ENDED:
        await asyncio.sleep(0.01)
    log = site.store.get(source.task_id)
    tables = [log.epochs.read(epoch) for epoch in range(log.next_epoch)]
    assert sum(table.num_rows for table in tables if table is not None) == EVENTS.num_rows
    await site.close()
