"""A MERGE with a view per stream on a real Spark, stopped and built again over its checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from machine.clock import SystemClock
from planner.graph.plan import DraftPlan, Stage
from planner.planning import Planning, planned_with
from planner.values.names import BIN_COLUMN
from planner.values.stages import StageKind
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.engine import ArrowScan, EpochRequest, Field
from site_agent.engine.spark import SparkEngine
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks import spec as specs
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.progress import Progress
from tests.integration.test_split_aggregates import analyzed
from tests.seeds import random_of
from tests.unit.planner.build import catalog_of, select_of

pytestmark = pytest.mark.spark

CATALOG = catalog_of(
    """
    CREATE STREAM a (ts TIMESTAMP, k INT, v INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us;
    CREATE STREAM b (ts TIMESTAMP, k BIGINT, w STRING, WATERMARK FOR ts) WITH ('connector' = 'other') AT us;
    CREATE TABLE t (k BIGINT, name STRING) WITH ('connector' = 'other') AT us;
    """
)
WINDOW_US = 1_000_000
ROWS_OF_AN_EPOCH = 30
EPOCHS = 5
TIMESTAMP = pa.timestamp("us", tz="UTC")
TABLE = pa.table({"k": pa.array([0, 1, 2, 2], pa.int64()), "name": ["zero", "one", "two", "deux"]})

ON = "a.k = b.k AND window(a.ts, '1 second') = window(b.ts, '1 second')"
PLAIN = f"SELECT window(a.ts, '1 second').start AS s, a.k AS k, v, w FROM a JOIN b ON {ON} AND v > length(w)"
GROUPED = (
    f"SELECT window.start AS s, t.name AS name, count(*) AS n, count(w) AS m, max(v) AS top FROM a LEFT JOIN b ON {ON} "
    "LEFT JOIN t ON t.k = b.k GROUP BY window(a.ts, '1 second'), t.name HAVING count(*) > 1"
)


@dataclass(frozen=True, slots=True)
class Input:
    """Epochs of both streams; the rows of epoch n have times from n windows on."""

    a: list[pa.Table]
    b: list[pa.Table]


def input_of(seed: int) -> Input:
    rng = random_of(seed)

    def times(epoch: int) -> pa.Array:
        spread = 2 * WINDOW_US
        return pa.array([epoch * WINDOW_US // 2 + rng.randrange(spread) for _ in range(ROWS_OF_AN_EPOCH)], TIMESTAMP)

    def numbers(most: int, kind: pa.DataType) -> pa.Array:
        return pa.array([rng.choice([None, *range(most)]) for _ in range(ROWS_OF_AN_EPOCH)], kind)

    return Input(
        [pa.table({"ts": times(e), "k": numbers(5, pa.int32()), "v": numbers(4, pa.int32())}) for e in range(EPOCHS)],
        [
            pa.table(
                {"ts": times(e), "k": numbers(6, pa.int64()), "w": [rng.choice(["", "x", "xx"]) for _ in range(30)]}
            )
            for e in range(EPOCHS)
        ],
    )


def typed(engine: SparkEngine, sql: str) -> DraftPlan:
    return planned_with(Planning.of(select_of(sql), CATALOG), lambda analysis: analyzed(engine, analysis))


def spec_of(draft: DraftPlan) -> specs.TaskSpec:
    merge = draft.stage("m1")
    assert merge.merge is not None
    inputs = tuple(
        specs.InputSpec(
            f"q.{i.stage}.us", "hub", i.view, tuple(Field(c.name, c.type) for c in draft.stage(i.stage).columns)
        )
        for i in merge.inputs
    )
    views = tuple(specs.ViewSpec(v.view, v.combine_sql, v.required) for v in merge.merge.views)
    window = specs.WindowSpec(merge.merge.window_column, WINDOW_US, WINDOW_US, views)
    return specs.TaskSpec("q.m1.hub", "q", "m1", StageKind.MERGE, merge.sql, timedelta(0), inputs=inputs, window=window)


@dataclass(frozen=True, slots=True)
class Hub:
    store: ChannelStore
    context: TaskContext

    def merge(self) -> MergeTask:
        assert self.context.spec.window is not None
        return MergeTask(self.context, self.context.spec.window)

    def opened(self, stage: str) -> ChannelLog:
        return self.store.open(f"q.{stage}.us")

    def rows(self) -> list[dict[str, object]]:
        log = self.context.log
        tables = [log.epochs.read(epoch) for epoch in range(log.next_epoch)]
        return sorted((row for t in tables if t is not None for row in t.to_pylist()), key=repr)


@asynccontextmanager
async def running_hub(root: Path, engine: SparkEngine, spec: specs.TaskSpec) -> AsyncIterator[Hub]:
    store = ChannelStore(root / "channels")
    router = Router("hub", store, connect)
    log = store.open(spec.task_id)
    for channel in (log.id, *(i.channel for i in spec.inputs)):
        store.open(channel).set_consumers(["hub"])
    executor = ThreadPoolExecutor(1)
    context = TaskContext(
        site="hub",
        spec=spec,
        engine=engine,
        log=log,
        router=router,
        directory=root / "task",
        dead_letters=root / "dead-letters",
        executor=executor,
        clock=SystemClock(),
        limits=TaskLimits(checkpoint_bytes=0),
        progress=Progress(0.0),
    )
    try:
        yield Hub(store, context)
    finally:
        await router.close()
        executor.shutdown()
        engine.drop_task(spec.task_id)


def sent(engine: SparkEngine, stage: Stage, rows: pa.Table) -> pa.Table:
    """What a SOURCE task sends of an epoch."""
    made = engine.run(EpochRequest(f"q.{stage.id}", stage.sql, ArrowScan(rows), "us")).table
    return made.drop_columns([BIN_COLUMN]) if BIN_COLUMN in made.column_names else made


def whole(engine: SparkEngine, sql: str, given: Input) -> list[dict[str, object]]:
    """The same by one Spark job over all rows."""
    a, b = (
        f"(SELECT *, window(ts, '1 second') AS win FROM {view}) AS {n}" for n, view in (("a", "input"), ("b", "bs"))
    )
    text = sql.replace(" FROM a ", f" FROM {a} ").replace("JOIN b ", f"JOIN {b} ")
    text = text.replace("window(a.ts, '1 second')", "a.win").replace("window(b.ts, '1 second')", "b.win")
    text = text.replace("window.start", "a.win.start")
    views = {"bs": ArrowScan(pa.concat_tables(given.b)), "t": ArrowScan(TABLE)}
    made = engine.run(EpochRequest("whole", text, ArrowScan(pa.concat_tables(given.a)), "us", views=views))
    return sorted(made.table.to_pylist(), key=repr)


async def until_an_epoch_is_done(hub: Hub, running: asyncio.Task[None]) -> None:
    async with asyncio.timeout(60):
        while hub.context.progress.epochs == 0:
            if running.done():
                running.result()
            await asyncio.sleep(0.01)


@pytest.mark.seeded
@pytest.mark.parametrize("sql", [PLAIN, GROUPED], ids=["rows", "aggregate"])
async def test_a_join_that_is_stopped_again_and_again_gives_every_window_once(
    tmp_path: Path, spark_engine: SparkEngine, sql: str
) -> None:
    given, draft = input_of(3), typed(spark_engine, sql)
    spec = spec_of(draft)
    sources = [stage for stage in draft.stages if stage.kind is StageKind.SOURCE]
    for epoch in range(EPOCHS + 1):
        async with running_hub(tmp_path, spark_engine, spec) as hub:
            if epoch == 0 and len(draft.stages) == 4:
                copy = hub.opened("t2")
                copy.publish(0, sent(spark_engine, draft.stage("t2"), TABLE), watermark_us=None)
                copy.finish()
            for stage, rows in zip(sources, (given.a, given.b), strict=True):
                log = hub.opened(stage.id)
                if epoch == EPOCHS:
                    log.finish()
                else:
                    watermark_us = (epoch + 1) * WINDOW_US // 2
                    log.publish(epoch, sent(spark_engine, stage, rows[epoch]), watermark_us=watermark_us)
            running = asyncio.create_task(hub.merge().run())
            if epoch == EPOCHS:
                await asyncio.wait_for(running, 60)
                assert hub.rows() == whole(spark_engine, sql, given)
                totals = hub.context.progress.totals
                assert (totals.rows_in, totals.rows_late) == (2 * EPOCHS * ROWS_OF_AN_EPOCH, 0)
                return
            # Sometimes behind a checkpoint of both views, sometimes in the middle of an epoch.
            if epoch % 3:
                await until_an_epoch_is_done(hub, running)
            else:
                await asyncio.sleep(0.05)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
