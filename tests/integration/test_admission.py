"""Rows of a source are let in, or not, and counted on a real Spark."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from site_agent.engine import Admission, RangeScan
from site_agent.engine.scans.frames import SMALL_ROWS
from site_agent.engine.spark import SparkEngine
from tests.integration.test_engine import START, START_US, TIMESTAMP, run

pytestmark = pytest.mark.spark


def times(*seconds: int | None) -> pa.Table:
    instants = [None if s is None else START + timedelta(seconds=s) for s in seconds]
    return pa.table({"ts": pa.array(instants, TIMESTAMP), "v": pa.array(range(len(seconds)))})


def test_late_rows_and_rows_without_a_time_are_counted_and_dropped(spark_engine: SparkEngine) -> None:
    watermark = Admission("ts", START_US + 5_000_000)
    result = run(spark_engine, "SELECT v FROM input", times(4, 5, None, 9, 0), admission=watermark)
    assert sorted(result.table.column("v").to_pylist()) == [1, 3]
    assert (result.rows_read, result.rows_late) == (5, 3)
    assert result.max_event_time_us == START_US + 9_000_000


def test_without_a_watermark_only_rows_without_a_time_are_late(spark_engine: SparkEngine) -> None:
    result = run(spark_engine, "SELECT v FROM input", times(None, 3), admission=Admission("ts", None))
    assert (result.table.num_rows, result.rows_read, result.rows_late) == (1, 2, 1)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v FROM input WHERE v = 1",
        "SELECT count(*) FROM input WHERE ts > TIMESTAMP '2030-01-01'",
        "SELECT 1 FROM input WHERE false",
        "SELECT a.v FROM input a JOIN input b ON a.v = b.v",
        "SELECT v FROM input ORDER BY v",
        "SELECT v FROM input UNION ALL SELECT v FROM input",
        "SELECT input.v FROM input JOIN nothing ON input.v = nothing.v",
    ],
)
def test_rows_are_counted_before_the_querys_own_filters(spark_engine: SparkEngine, sql: str) -> None:
    table = times(1, 2, 3, None)
    spark_engine.put_table("counted", "nothing", pa.table({"v": pa.array([], pa.int64())}))
    result = run(
        spark_engine,
        sql,
        table,
        task="counted",
        admission=Admission("ts", START_US + 2_000_000),
        tables=("nothing",),
    )
    spark_engine.drop_task("counted")
    assert (result.rows_read, result.rows_late) == (4, 2)
    assert result.max_event_time_us == START_US + 3_000_000


def test_rows_of_several_partitions_are_all_counted(spark_engine: SparkEngine) -> None:
    count = 5 * SMALL_ROWS
    scan = RangeScan(0, count, (("ts", f"timestamp_micros({START_US} + id)"), ("v", "id")))
    result = run(
        spark_engine,
        "SELECT v % 7 AS k, count(*) AS n FROM input GROUP BY v % 7",
        scan,
        admission=Admission("ts", START_US + 10),
    )
    assert (result.rows_read, result.rows_late) == (count, 10)
    assert result.max_event_time_us == START_US + count - 1
    assert sum(result.table.column("n").to_pylist()) == count - 10


def test_a_share_of_the_rows_is_the_same_of_rows_in_memory_and_others(spark_engine: SparkEngine) -> None:
    count = 10_000
    instants = [START + timedelta(milliseconds=n) for n in range(count)]
    table = pa.table({"ts": pa.array(instants, TIMESTAMP), "v": pa.array(range(count), pa.int64())})
    scan = RangeScan(0, count, (("ts", f"timestamp_micros({START_US} + 1000 * id)"), ("v", "id")))
    some = Admission("ts", START_US + 1_000_000, share=0.3)
    found = [run(spark_engine, "SELECT v FROM input", rows_, admission=some) for rows_ in (table, scan)]
    kept = [sorted(result.table.column("v").to_pylist()) for result in found]
    assert kept[0] == kept[1]
    assert min(kept[0]) >= 1000
    assert 0.28 * (count - 1000) < len(kept[0]) < 0.32 * (count - 1000)
    for result in found:
        assert (result.rows_read, result.rows_late) == (count, count - len(kept[0]))
        assert result.max_event_time_us == START_US + (count - 1) * 1000
