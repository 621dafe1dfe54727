"""Aggregates split in partials, combined and merged on a real Spark give what Spark gives over all rows at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from planner.functions.aggregates import NULL_OF_NO_ROWS, ZERO_OF_NO_ROWS
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


def types(table: pa.Table) -> list[str]:
    """Return the types of the columns; whether an array may have NULLs is ignored."""
    return [str(field.type).replace(" not null", "") for field in table.schema]


def assert_like_spark(
    engine: SparkEngine, items: str, window: str, same: Callable[[Any, Any], bool], spark: str = ""
) -> None:
    """`spark`: the items for Spark, where what it makes of them depends on the order of rows."""
    sql = f"SELECT window.start AS w, k, {{}} FROM {{}} GROUP BY {window}, k"
    split, whole = run_split(engine, sql.format(items, "s")), run(engine, sql.format(spark or items, "input"), WHOLE)
    assert types(split) == types(whole)
    found, wanted = sorted_rows(split), sorted_rows(whole)
    assert len(found) == len(wanted) > 0
    for row, right in zip(found, wanted, strict=True):
        assert row[:2] == right[:2]
        unlike = [(name, a, b) for name, a, b in zip(split.column_names, row, right, strict=True) if not same(a, b)]
        assert not unlike, (row[:2], unlike)


def close(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-9)
    return bool(a == b)


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


MOMENTS = (
    "skewness(d) AS a, kurtosis(d) AS b, skewness(m) FILTER (WHERE v > 100) AS c, kurtosis(v % 7) AS e, "
    "covar_pop(v, d) AS f, covar_samp(d, m) AS g, regr_count(d, m) AS h, regr_avgx(d, v) AS i, regr_avgy(d, v) AS j, "
    "regr_sxx(m, d) AS o, regr_syy(m, d) AS p, regr_sxy(m, d) AS q, regr_slope(m, d) AS r, regr_intercept(m, d) AS t, "
    "regr_r2(m, d) AS u, skewness(0.1D) AS x1, kurtosis(0.1D) AS x2, corr(0.1D, v) AS x3, regr_r2(0.1D, d) AS x4, "
    "regr_slope(d, 0.1D) AS x5, var_pop(0.1D) AS x6, regr_r2(d, 0.1D) AS x7"
)
VALUES = (
    "bit_and(v) AS a, bit_or(v) AS b, bit_xor(v) AS c, any(v % 2 = 0) AS e, every(v > 3) AS f, some(d > 1e7) AS g, "
    "try_sum(v) AS h, try_avg(v) AS i, try_sum(m) AS j, try_avg(m) AS o, try_sum(d) AS p, "
    "try_sum(9223372036854775807L) AS q, try_sum(if(v % 2 = 0, 9223372036854775807L, -9223372036854775807L)) "
    "FILTER (WHERE v BETWEEN 10 AND 19) AS r, "
    "bitmap_count(bitmap_construct_agg(bitmap_bit_position(v))) AS t, median(d) AS u, median(m) AS u1, "
    "percentile(d, 0.3) AS x1, percentile(v, array(0.0, 0.25, 0.99, 1)) AS x2, "
    "hll_sketch_estimate(hll_sketch_agg(v % 9)) AS x4, theta_sketch_estimate(theta_sketch_agg(v % 9)) AS x5, "
    "kll_sketch_get_n_bigint(kll_sketch_agg_bigint(v)) AS x6, "
    "approx_top_k_estimate(approx_top_k_accumulate(v % 1), 2) AS x7, approx_top_k(v % 1, 3) AS x8, "
    "tuple_sketch_estimate_integer(tuple_sketch_agg_integer(v % 9, 1)) AS x9"
)
ORDERED = {
    "first(v)": "min_by(v, struct(ts, v))",
    "last_value(m)": "max_by(m, struct(ts, m))",
    "any_value(d) FILTER (WHERE v > 300)": "min_by(d, struct(ts, d)) FILTER (WHERE v > 300)",
    "first(if(v % 3 = 0, v, NULL)) IGNORE NULLS": "min_by(v, struct(ts, v)) FILTER (WHERE v % 3 = 0)",
    "last(if(v % 3 = 0, v, NULL), true)": "max_by(v, struct(ts, v)) FILTER (WHERE v % 3 = 0)",
    "max_by(v, m)": "max_by(v, struct(m, v)) FILTER (WHERE m IS NOT NULL)",
    "min_by(v, m)": "min_by(v, struct(m, v)) FILTER (WHERE m IS NOT NULL)",
    "max_by(v, m, 3)": "max_by(v, struct(m, v), 3) FILTER (WHERE m IS NOT NULL)",
    "min_by(v, m, 2) FILTER (WHERE v > 7)": "min_by(v, struct(m, v), 2) FILTER (WHERE m IS NOT NULL AND v > 7)",
    "mode(m)": "mode(m, true)",
    "collect_set(m)": "sort_array(collect_set(m))",
    "collect_list(DISTINCT v % 3)": "sort_array(collect_set(v % 3))",
    "collect_list(v)": "transform(sort_array(collect_list(if(v IS NULL, NULL, struct(ts, v)))), e -> e.v)",
    "array_agg(m) FILTER (WHERE v < 50)": "transform(sort_array(collect_list(struct(ts, m)) FILTER (WHERE v < 50)), "
    "e -> e.m)",
    "listagg(k, ',') FILTER (WHERE v < 50)": "listagg(k, ',') FILTER (WHERE v < 50)",
    "string_agg(DISTINCT k)": "listagg(DISTINCT k)",
    **{
        call: call
        for call in (
            "percentile_cont(0.3) WITHIN GROUP (ORDER BY v)",
            "percentile_cont(0.9) WITHIN GROUP (ORDER BY d DESC) FILTER (WHERE v < 90)",
            "percentile_disc(0.3) WITHIN GROUP (ORDER BY v)",
            "percentile_disc(0.7) WITHIN GROUP (ORDER BY m DESC)",
            "listagg(CAST(v AS STRING), ',') WITHIN GROUP (ORDER BY v DESC) FILTER (WHERE v < 50)",
        )
    },
}


@pytest.mark.parametrize("items", [MOMENTS, VALUES], ids=["moments", "values"])
def test_whatever_spark_computes_of_rows_in_any_order(spark_engine: SparkEngine, items: str) -> None:
    assert_like_spark(spark_engine, items, "window(ts, '10 seconds')", close)


def test_what_depends_on_the_order_of_rows_goes_by_event_time(spark_engine: SparkEngine) -> None:
    names = [f"x{number}" for number in range(len(ORDERED))]
    ours, sparks = (
        ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
        for items in (ORDERED, ORDERED.values())
    )
    assert_like_spark(spark_engine, ours, "window(ts, '10 seconds')", close, sparks)


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


_ARGUMENTS = {
    **dict.fromkeys(("any", "bool_and", "bool_or", "every", "some", "count_if"), "({0} > 1)"),
    **dict.fromkeys(("approx_percentile", "percentile", "percentile_approx"), "({0}, 0.5)"),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), "(0.5) WITHIN GROUP (ORDER BY {0})"),
    **dict.fromkeys(("corr", "covar_pop", "covar_samp", "max_by", "min_by"), "({0}, d)"),
    **dict.fromkeys(("listagg", "string_agg"), "(k)"),
}


def test_what_aggregates_are_of_no_rows(spark_engine: SparkEngine) -> None:
    """A sub-query for a value rests on it: an outer join gives NULL where a key has no rows."""
    names = (*NULL_OF_NO_ROWS, *ZERO_OF_NO_ROWS)
    calls = (
        name + _ARGUMENTS.get(name, "({0}, d)" if name.startswith("regr_") else "({0})").format("v") for name in names
    )
    items = ", ".join(f"{call} AS {name}" for name, call in zip(names, calls, strict=True))
    found = run(spark_engine, f"SELECT {items} FROM {INPUT_VIEW} WHERE v < 0", WHOLE)
    assert found.to_pylist() == [{**dict.fromkeys(NULL_OF_NO_ROWS), **dict.fromkeys(ZERO_OF_NO_ROWS, 0)}]
