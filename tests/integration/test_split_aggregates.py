"""Aggregates split in partials, combined and merged on a real Spark give what Spark gives over all rows at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from planner.graph.plan import Analysis, DraftPlan, Merge
from planner.planning import Planning, planned_with
from planner.relations.catalog import Column
from planner.values.names import BIN_COLUMN, INPUT_VIEW
from planner.values.stages import StageKind
from site_agent.channels.manifest import END_OF_TIME_US
from site_agent.engine import ArrowScan, EpochRequest, Field
from site_agent.engine.spark import SparkEngine
from site_agent.tasks.spec import ViewSpec, WindowSpec
from site_agent.tasks.windows import OpenWindows
from tests.unit.planner.build import catalog_of, select_of

pytestmark = pytest.mark.spark

CATALOG = catalog_of(
    """CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, d DOUBLE, m DECIMAL(10,2), WATERMARK FOR ts)
    WITH ('connector' = 'other') AT us AT eu AT ap"""
)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("v", pa.int32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
    ]
)
START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS_PER_SITE = 1500


def rows_of(site: int) -> pa.Table:
    """Values that overlap between sites; the key `none` has only NULLs, `one` a single row."""
    rows = [_row(site * ROWS_PER_SITE * 2 // 3 + n) for n in range(ROWS_PER_SITE)]
    rows += [{"ts": START, "k": "none", "v": None, "d": None, "m": None}]
    if site == 0:
        rows.append({"ts": START, "k": "one", "v": 5, "d": 1.5, "m": Decimal("2.50")})
    return pa.Table.from_pylist(rows, SCHEMA)


def _row(number: int) -> dict[str, object]:
    return {
        "ts": START + timedelta(milliseconds=number * 7 % 20_000),
        "k": "ab"[number % 2],
        "v": number,
        "d": 1e6 + number % 101 / 4,
        "m": Decimal(number % 57) / 4,
    }


SITES: Mapping[str, pa.Table] = {site: rows_of(number) for number, site in enumerate(("us", "eu", "ap"))}
WHOLE = pa.concat_tables(SITES.values())


def analyzed(engine: SparkEngine, analysis: Analysis) -> tuple[Column, ...]:
    views = {name: [Field(c.name, c.type) for c in columns] for name, columns in analysis.views.items()}
    return tuple(Column(field.name, field.type) for field in engine.analyze(views, analysis.statement))


def typed_draft(engine: SparkEngine, sql: str) -> DraftPlan:
    """As the master does it: Spark says the types of the query and of each stage."""
    return planned_with(Planning.of(select_of(sql), CATALOG), lambda analysis: analyzed(engine, analysis))


def run(engine: SparkEngine, sql: str, rows: pa.Table, site: str = "us") -> pa.Table:
    return engine.run(EpochRequest("q.split", sql, ArrowScan(rows), site)).table


def run_split(engine: SparkEngine, sql: str) -> pa.Table:
    """Two epochs at each site; the partials of two sites are combined, those of the third come as they are."""
    draft = typed_draft(engine, sql)
    merge = next(stage for stage in draft.stages if stage.kind is StageKind.MERGE)
    assert merge.merge is not None
    partials = []
    for site, rows in SITES.items():
        half = rows.num_rows // 2
        for epoch in (rows.slice(0, half), rows.slice(half)):
            made = run(engine, draft.stage("s1").sql, epoch, site)
            partials.append(made.drop_columns([BIN_COLUMN]) if BIN_COLUMN in made.column_names else made)
    held = run(engine, merge.merge.combine_sql, pa.concat_tables(partials[:4], promote_options="permissive"))
    windows = OpenWindows(window_of(merge.merge))
    windows.add([pa.concat_tables([held, *partials[4:]], promote_options="permissive")])
    closed = windows.closing(END_OF_TIME_US)
    assert closed is not None
    return run(engine, merge.sql, closed)


def window_of(merge: Merge) -> WindowSpec:
    """As the master tells an agent."""
    length_us, slide_us = (period // timedelta(microseconds=1) for period in (merge.window, merge.period))
    return WindowSpec(merge.window_column, length_us, slide_us, (ViewSpec(INPUT_VIEW),), merge.panes)


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=lambda row: repr(row[:2]))


def assert_like_spark(engine: SparkEngine, items: str, window: str, same: Callable[[Any, Any], bool]) -> None:
    sql = f"SELECT window.start AS w, k, {items} FROM s GROUP BY {window}, k"
    split, whole = run_split(engine, sql), run(engine, sql.replace("FROM s", "FROM input"), WHOLE)
    assert [str(f.type) for f in split.schema] == [str(f.type) for f in whole.schema]
    found, wanted = sorted_rows(split), sorted_rows(whole)
    assert len(found) == len(wanted) > 0
    for row, right in zip(found, wanted, strict=True):
        assert row[:2] == right[:2]
        assert all(map(same, row[2:], right[2:])), (row, right)


def close(a: Any, b: Any) -> bool:
    return math.isclose(a, b, rel_tol=1e-7) if isinstance(a, float) and isinstance(b, float) else bool(a == b)


@pytest.mark.parametrize("window", ["window(ts, '10 seconds')", "window(ts, '10 seconds', '5 seconds')"])
def test_exact_aggregates(spark_engine: SparkEngine, window: str) -> None:
    items = (
        "stddev(d) AS a, variance(m) AS b, var_pop(v) AS c, stddev_pop(d) FILTER (WHERE v > 100) AS d1, "
        "count(DISTINCT d) AS e, count(DISTINCT m, k) AS f, sum(DISTINCT m) AS g, avg(DISTINCT m) AS h, "
        "avg(DISTINCT d) AS i, sum(DISTINCT if(v % 2 = 0, '1', '1.0')) AS x, "
        "sum(DISTINCT v) FILTER (WHERE v % 3 = 0) AS j, avg(m) AS l, count(*) AS n"
    )
    assert_like_spark(spark_engine, items, window, close)


def test_aggregates_that_are_an_entry_of_the_table_and_nothing_else(spark_engine: SparkEngine) -> None:
    items = (
        "count_if(v % 3 = 0) AS a, bool_and(v > 100) AS b, bool_or(d > 1000024.5) AS c, "
        "max_by(m, v) AS e, min_by(d, v) FILTER (WHERE m > 2) AS f, max_by(k, m + v) AS g, "
        "corr(v, d) AS h, corr(v, m) FILTER (WHERE v % 2 = 0) AS i, corr(d, if(m > 3, v, NULL)) AS j"
    )
    assert_like_spark(spark_engine, items, "window(ts, '10 seconds')", close)


def test_approximate_counts(spark_engine: SparkEngine) -> None:
    items = (
        "approx_count_distinct(v) AS a, approx_count_distinct(d, 0.01) AS b, approx_count_distinct(k) AS c, "
        "approx_count_distinct(m) FILTER (WHERE v < 0) AS d"
    )
    exact = (
        "count(DISTINCT v) AS a, count(DISTINCT d) AS b, count(DISTINCT k) AS c, "
        "count(DISTINCT m) FILTER (WHERE v < 0) AS d"
    )
    sql = "SELECT k AS key, {} FROM s GROUP BY window(ts, '1 minute'), k"
    found = sorted_rows(run_split(spark_engine, sql.format(items)))
    wanted = sorted_rows(run(spark_engine, sql.format(exact).replace("FROM s", "FROM input"), WHOLE))
    assert [row[0] for row in found] == [row[0] for row in wanted] == ["a", "b", "none", "one"]
    for row, right in zip(found, wanted, strict=True):
        for a, b in zip(row[1:], right[1:], strict=True):
            assert a == pytest.approx(b, rel=0.08), (row, right)


def test_approximate_percentiles(spark_engine: SparkEngine) -> None:
    items = (
        "percentile_approx(v, 0.5) AS a, approx_percentile(v, array(0.1, 0.95), 1000) AS b, "
        "percentile_approx(m, 1.0) AS c, percentile_approx(d, 0.5) FILTER (WHERE v < 0) AS d"
    )
    sql = f"SELECT k, {items} FROM s GROUP BY window(ts, '1 minute'), k"
    draft = typed_draft(spark_engine, sql)
    assert [c.type for c in draft.columns[1:]] == ["INT", "ARRAY<INT>", "DECIMAL(10,2)", "DOUBLE"]
    found = {row["k"]: row for row in run_split(spark_engine, sql).to_pylist()}
    assert found["none"] == {"k": "none", "a": None, "b": None, "c": None, "d": None}
    assert found["one"] == {"k": "one", "a": 5, "b": [5, 5], "c": Decimal("2.50"), "d": None}
    for key in "ab":
        values = sorted(r["v"] for r in WHOLE.to_pylist() if r["k"] == key)
        for rank, value in ((0.5, found[key]["a"]), (0.1, found[key]["b"][0]), (0.95, found[key]["b"][1])):
            below = sum(v < value for v in values) / len(values)
            assert below == pytest.approx(rank, abs=0.02), (key, rank, value)
        assert found[key]["c"] == max(r["m"] for r in WHOLE.to_pylist() if r["k"] == key)
