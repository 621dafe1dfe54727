"""What is made of another query's output on a real Spark: the rows and types that were wanted, also over crashes."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contract.tasks import ReadFrom
from machine.clock import SystemClock
from planner.graph.ids import VertexId
from planner.graph.plan import DraftPlan
from planner.planning import Planning, planned_with
from planner.values.names import BIN_COLUMN
from planner.values.stages import StageKind
from site_agent.channels.store import ChannelStore
from site_agent.engine import ArrowScan, EpochRequest
from site_agent.engine.spark import SparkEngine
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.derive import DeriveTask
from site_agent.tasks.progress import Progress
from site_agent.tasks.spec import InputSpec, TaskSpec
from tests.integration.test_split_aggregates import analyzed
from tests.unit.planner.build import select_of
from tests.unit.planner.sharing.build import CATALOG, residual_sql, vertices
from tests.unit.planner.sharing.test_containment import CONTAINED, OF_MERGES

pytestmark = pytest.mark.spark

TIMESTAMP = pa.timestamp("us", tz="UTC")
START_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
Rows = list[tuple[Any, ...]]


def rows_of(seed: int, count: int = 60) -> pa.Table:
    rng = random.Random(seed)
    columns: dict[str, list[Any]] = {
        "k": [rng.choice((None, 0, 1, 2, 3, 4)) for _ in range(count)],
        "w": [rng.choice((None, "a", "b", "A")) for _ in range(count)],
        "v": [rng.choice((None, *range(-3, 10))) for _ in range(count)],
        # Quarters add up exactly in any order.
        "d": [rng.choice((None, float("nan"), *(n / 4 for n in range(-8, 9)))) for _ in range(count)],
    }
    times = [START_US + rng.randrange(90_000_000) for _ in range(count)]
    types = (pa.int32(), pa.string(), pa.int32(), pa.float64())
    arrays = [pa.array(values, type_) for values, type_ in zip(columns.values(), types, strict=True)]
    return pa.table({"ts": pa.array(times, TIMESTAMP), **dict(zip(columns, arrays, strict=True))})


def typed(engine: SparkEngine, sql: str) -> DraftPlan:
    return planned_with(Planning.of(select_of(sql), CATALOG), lambda analysis: analyzed(engine, analysis))


def run(engine: SparkEngine, sql: str, rows: pa.Table) -> pa.Table:
    return engine.run(EpochRequest("q.derive", sql, ArrowScan(rows), "us")).table


def sent(table: pa.Table) -> pa.Table:
    return table.drop_columns([BIN_COLUMN]) if BIN_COLUMN in table.column_names else table


def in_order(table: pa.Table) -> Rows:
    """By columns' names; the order of rows, and of sets, says nothing."""
    names = sorted(table.column_names)
    rows = [tuple(sorted(x, key=repr) if isinstance(x, list) else x for x in row.values()) for row in table.to_pylist()]
    place = {name: index for index, name in enumerate(table.column_names)}
    return sorted((tuple(row[place[name]] for name in names) for row in rows), key=repr)


def assert_equal(found: pa.Table, wanted: pa.Table) -> None:
    assert {f.name: f.type for f in found.schema} == {f.name: f.type for f in wanted.schema}
    # As texts, for NaN is not equal to itself.
    assert repr(in_order(found)) == repr(in_order(wanted))


@pytest.mark.parametrize(("wanted", "offered"), [case[:2] for case in CONTAINED], ids=[case[2] for case in CONTAINED])
def test_of_what_a_source_sends(spark_engine: SparkEngine, wanted: str, offered: str) -> None:
    draft, other = typed(spark_engine, wanted), typed(spark_engine, offered)
    sql = residual_sql(vertices(draft)[VertexId("s1")], vertices(other)[VertexId("s1")])
    assert sql is not None
    rows = rows_of(1)
    found = run(spark_engine, sql, sent(run(spark_engine, other.stage("s1").sql, rows)))
    assert_equal(found, run(spark_engine, draft.stage("s1").sql, rows))


@pytest.mark.parametrize(("wanted", "offered"), [case[:2] for case in OF_MERGES], ids=[case[2] for case in OF_MERGES])
def test_of_what_a_merge_emits(spark_engine: SparkEngine, wanted: str, offered: str) -> None:
    draft, other = typed(spark_engine, wanted), typed(spark_engine, offered)
    sql = residual_sql(vertices(draft)[VertexId("m1")], vertices(other)[VertexId("m1")])
    assert sql is not None
    partials = sent(run(spark_engine, other.stage("s1").sql, rows_of(2)))
    found = run(spark_engine, sql, run(spark_engine, other.stage("m1").sql, partials))
    assert_equal(found, run(spark_engine, draft.stage("m1").sql, partials))


STOPPED = [case for case in CONTAINED if case[2] in ("a coarser window", "groups of rows")]


@pytest.mark.parametrize(("wanted", "offered"), [case[:2] for case in STOPPED], ids=[case[2] for case in STOPPED])
async def test_stopped_again_and_again_it_sends_every_row_once(
    tmp_path: Path, spark_engine: SparkEngine, wanted: str, offered: str
) -> None:
    draft, other = typed(spark_engine, wanted), typed(spark_engine, offered)
    sql = residual_sql(vertices(draft)[VertexId("s1")], vertices(other)[VertexId("s1")])
    assert sql is not None
    epochs = [rows_of(seed, 20) for seed in range(6)]
    source = InputSpec("p.s1.us", "hub", "input", read_from=ReadFrom.FIRST)
    spec = TaskSpec("q.s1-derived-us.hub", "q", "s1", StageKind.DERIVE, sql, timedelta(0), inputs=(source,))
    for number, rows in enumerate([*epochs, None]):
        store = ChannelStore(tmp_path / "channels")
        router = Router("hub", store, connect)
        log, channel = store.open(spec.task_id), store.open(source.channel)
        for each in (log, channel):
            each.set_consumers(["hub"])
        executor = ThreadPoolExecutor(1)
        context = TaskContext(
            site="hub",
            spec=spec,
            engine=spark_engine,
            log=log,
            router=router,
            directory=tmp_path / "task",
            dead_letters=tmp_path / "dead-letters",
            executor=executor,
            clock=SystemClock(),
            limits=TaskLimits(),
            progress=Progress(0.0),
        )
        running = asyncio.create_task(DeriveTask(context).run())
        if rows is None:
            channel.finish()
            await asyncio.wait_for(running, 60)
        else:
            made = sent(run(spark_engine, other.stage("s1").sql, rows))
            channel.publish(number, made, watermark_us=number)
            # Sometimes in the middle of an epoch, sometimes behind it.
            await asyncio.sleep(0.02 * (number % 3))
            if number % 2:
                await asyncio.wait_for(log.state.wait(number), 60)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await router.close()
        executor.shutdown()
    found = [table for epoch in range(log.next_epoch) if (table := log.epochs.read(epoch)) is not None]
    direct = [sent(run(spark_engine, draft.stage("s1").sql, rows)) for rows in epochs]
    assert log.next_epoch == len(epochs)
    merged = [run(spark_engine, draft.stage("m1").sql, pa.concat_tables(tables)) for tables in (found, direct)]
    assert_equal(*merged)
