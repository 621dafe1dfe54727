"""Merges as the planner marks them, on a real Spark: nothing they have stored is in memory, and windows close in
ranges."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import Enum
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from machine.faults import watched
from planner.planning.drafts import with_texts
from planner.rules.ranges import with_ranges
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind
from site_agent.base.faults import FaultPoint
from site_agent.engine import ArrowScan, EpochRequest
from site_agent.engine.spark import SparkEngine
from site_agent.state.memory import StateMemory
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.over_ranges import OverRanges
from site_agent.tasks.spec import RangeSpec, ViewSpec
from site_agent.tasks.views import Rows
from tests.integration.test_window_join import (
    EPOCHS,
    ON,
    TIMESTAMP,
    WINDOW_US,
    Hub,
    Input,
    running_hub,
    spec_of,
    typed,
    until_an_epoch_is_done,
)
from tests.seeds import random_of

pytestmark = pytest.mark.spark

LIMITS = TaskLimits(checkpoint_bytes=0, rows_at_once=20, compact_rows=10, runs_alike=2)
ROWS_OF_AN_EPOCH = 200
KEYS = 60
WINDOW = "window(ts, '1 second')"
GROUPS = f"SELECT {WINDOW}.start AS s, k, count(*) AS n, sum(v) AS total, min(v) AS least FROM a GROUP BY {WINDOW}, k"
GROUPS_WANTED = f"""
    SELECT make_timestamp(epoch_us(ts) // {WINDOW_US} * {WINDOW_US}) AS s, k, count(*) AS n, sum(v)::BIGINT AS total,
      min(v) AS least FROM a GROUP BY ALL"""
JOINED = f"SELECT window(a.ts, '1 second').start AS s, a.k AS k, v, w FROM a JOIN b ON {ON}"
JOINED_WANTED = f"""
    SELECT make_timestamp(epoch_us(a.ts) // {WINDOW_US} * {WINDOW_US}) AS s, a.k AS k, v, w FROM a JOIN b
      ON a.k = b.k AND epoch_us(a.ts) // {WINDOW_US} = epoch_us(b.ts) // {WINDOW_US}"""


TOP = f"{GROUPS} QUALIFY row_number() OVER (PARTITION BY window ORDER BY count(*) DESC, k) <= 3"
TOP_WANTED = f"""
    FROM ({GROUPS_WANTED}) QUALIFY row_number() OVER (PARTITION BY s ORDER BY n DESC, k NULLS FIRST) <= 3"""
LAYER = f"SELECT s, max(n) AS most, count(*) AS keys FROM ({GROUPS}) GROUP BY s"
LAYER_WANTED = f"SELECT s, max(n) AS most, count(*) AS keys FROM ({GROUPS_WANTED}) GROUP BY s"
OTHERS = f"SELECT {WINDOW}.start AS s, k, count(w) AS m FROM b GROUP BY {WINDOW}, k"
OTHERS_WANTED = f"""
    SELECT make_timestamp(epoch_us(ts) // {WINDOW_US} * {WINDOW_US}) AS s, k, count(w) AS m FROM b GROUP BY ALL"""
PAIRS = "SELECT x.s AS s, x.k AS k, n, m FROM ({}) x LEFT JOIN ({}) y ON x.s = y.s AND x.k = y.k"


def input_of(seed: int) -> Input:
    """Epochs of both streams; the rows of epoch n have times from n half windows on."""
    rng = random_of(seed)

    def column(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([rng.choice(values) for _ in range(ROWS_OF_AN_EPOCH)], kind)

    def rows(epoch: int, kind: pa.DataType) -> dict[str, pa.Array]:
        times = [epoch * WINDOW_US // 2 + rng.randrange(2 * WINDOW_US) for _ in range(ROWS_OF_AN_EPOCH)]
        return {"ts": pa.array(times, TIMESTAMP), "k": column([None, *range(KEYS)], kind)}

    return Input(
        [pa.table({**rows(e, pa.int32()), "v": column([None, 1, 2, 3], pa.int32())}) for e in range(EPOCHS)],
        [pa.table({**rows(e, pa.int64()), "w": column(["", "x", "xx"], pa.string())}) for e in range(EPOCHS)],
    )


def wanted(sql: str, given: Input) -> list[dict[str, object]]:
    """What DuckDB makes of all rows."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for name, tables in (("a", given.a), ("b", given.b)):
            db.register(name, pa.concat_tables(tables))
        found = db.sql(sql).to_arrow_table()
    assert found is not None
    place = found.schema.get_field_index("s")
    return as_rows(found.set_column(place, "s", found.column("s").cast(pa.timestamp("us")).cast(TIMESTAMP)))


class Passages:
    """The points that were passed; nobody dies."""

    def __init__(self) -> None:
        self.points: set[Enum] = set()

    def passed(self, point: Enum) -> bool:
        self.points.add(point)
        return False


def as_rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=repr)


def starved(hub: Hub) -> Hub:
    """Its merge keeps in memory only what no checkpoint has stored."""
    return replace(hub, context=replace(hub.context, limits=LIMITS, memory=StateMemory(1)))


@pytest.mark.seeded
@pytest.mark.parametrize(
    ("sql", "right"),
    [
        (GROUPS, GROUPS_WANTED),
        (JOINED, JOINED_WANTED),
        (TOP, TOP_WANTED),
        (LAYER, LAYER_WANTED),
        (PAIRS.format(GROUPS, OTHERS), PAIRS.format(GROUPS_WANTED, OTHERS_WANTED)),
    ],
    ids=["groups", "join", "top k", "layer", "joined groups"],
)
async def test_windows_that_are_read_from_disk_range_by_range_are_those_of_duckdb(
    tmp_path: Path, spark_engine: SparkEngine, sql: str, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is stopped after each epoch, and made again."""
    ranges: list[Rows] = []

    async def add(self: OverRanges, closed: Rows) -> None:
        ranges.append(closed)
        await taken(self, closed)

    taken = OverRanges.add
    monkeypatch.setattr(OverRanges, "add", add)
    given = input_of(5)
    draft = with_texts(with_ranges(typed(spark_engine, sql)))
    merge = draft.stage("m1").merge
    assert merge is not None
    assert merge.by_bins or merge.ranges
    spec = spec_of(draft)
    assert spec.window is not None
    window = replace(
        spec.window,
        by_bins=True,
        views=spec.window.views or (ViewSpec(INPUT_VIEW, merge.combine_sql),),
        ranges=tuple(RangeSpec(found.view, found.sql) for found in merge.ranges),
        over_ranges_sql=merge.over_ranges_sql,
    )
    spec = replace(spec, window=window)
    sources = [stage for stage in draft.stages if stage.kind is StageKind.SOURCE]
    passages = Passages()
    with watched(passages):
        for epoch in range(EPOCHS + 1):
            async with running_hub(tmp_path, spark_engine, spec) as hub:
                hub = starved(hub)
                for stage in sources:
                    channel = hub.opened(stage.id)
                    if epoch == EPOCHS:
                        channel.finish()
                        continue
                    rows = (given.a if stage.relation == "a" else given.b)[epoch]
                    made = spark_engine.run(EpochRequest(f"q.{stage.id}", stage.sql, ArrowScan(rows), "us")).table
                    channel.publish(epoch, made, watermark_us=epoch * WINDOW_US // 2)
                running = asyncio.create_task(hub.merge().run())
                if epoch == EPOCHS:
                    await asyncio.wait_for(running, 120)
                    assert hub.rows() == wanted(right, given)
                    break
                await until_an_epoch_is_done(hub, running)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    in_steps = {FaultPoint.CLOSING_STORED, FaultPoint.RANGE_PUBLISHED} <= passages.points
    assert in_steps is merge.by_bins
    assert (len(ranges) > 1) is bool(merge.ranges)
