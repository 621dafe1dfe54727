"""Rows per fused operator of an epoch, by Spark's own counters."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from site_agent.engine import Admission, ArrowScan, EpochRequest, OperatorRows
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "ts": pa.array([datetime(2026, 1, 1, 0, 0, i % 60, tzinfo=UTC) for i in range(100)], pa.timestamp("us", "UTC")),
        "k": [i % 10 for i in range(100)],
    }
)
NAMES = pa.table({"k": pa.array([0, 1, 2]), "name": ["zero", "one", "two"]})


def test_filter_join_and_aggregate_in_the_order_rows_pass_them(spark_engine: SparkEngine) -> None:
    spark_engine.put_table("t", "t1", NAMES)
    sql = "SELECT name, count(*) AS n FROM input JOIN t1 ON input.k = t1.k WHERE input.k < 5 GROUP BY name"
    result = spark_engine.run(EpochRequest("t", sql, ArrowScan(ROWS), "us", Admission("ts", None), ("t1",)))

    assert result.table.num_rows == 3
    assert result.operators == (OperatorRows("Filter", 50), OperatorRows("Join", 30), OperatorRows("Aggregate", 3))
    spark_engine.drop_task("t")


def test_late_rows_do_not_pass_the_first_filter(spark_engine: SparkEngine) -> None:
    newest_us = int(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC).timestamp() * 1_000_000)
    request = EpochRequest("t", "SELECT k FROM input", ArrowScan(ROWS), "us", Admission("ts", newest_us))
    result = spark_engine.run(request)

    assert result.operators == (OperatorRows("Filter", result.rows_read - result.rows_late),)
    assert result.rows_late > 0
    spark_engine.drop_task("t")


def test_what_spark_proves_to_be_empty_has_no_operators(spark_engine: SparkEngine) -> None:
    result = spark_engine.run(EpochRequest("t", "SELECT k FROM input WHERE false", ArrowScan(ROWS), "us"))

    assert (result.table.num_rows, result.rows_read, result.operators) == (0, 100, ())
    spark_engine.drop_task("t")
