"""Bins on a real Spark: values that are equal there are in one bin, so a group or a match is never torn apart."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from planner.graph.bins import bin_of
from planner.graph.plan import DraftPlan
from planner.planning import Planning, planned_with
from planner.sql.dialect import exp, parse_template, render
from planner.values.names import BIN_COLUMN
from site_agent.channels.codec import decode_part, encode, group_by_bin
from site_agent.engine.spark import SparkEngine
from tests.integration.test_split_aggregates import CATALOG, START, analyzed, run
from tests.unit.planner.build import select_of

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("v", pa.int32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {
            "ts": START + timedelta(seconds=n % 20),
            "k": "aAbB"[n % 4],
            "v": n % 7,
            "d": (0.0, -0.0, 2.5)[n % 3],
            "m": None,
        }
        for n in range(400)
    ],
    SCHEMA,
)


def expression(text: str) -> exp.Expr:
    tree = parse_template(f"SELECT {text}")
    assert tree is not None
    found: exp.Expr = tree.expressions[0]
    return found


def bins(engine: SparkEngine, *keys: list[str]) -> list[int]:
    """Of each list of keys."""
    items = ", ".join(f"{render(bin_of([expression(key) for key in group]))} AS b{n}" for n, group in enumerate(keys))
    (row,) = run(engine, f"SELECT {items} FROM input LIMIT 1", ROWS).to_pylist()
    return list(row.values())


def in_parts(engine: SparkEngine, sql: str, parts: int = 4) -> DraftPlan:
    """As the master plans it."""
    planning = Planning.of(select_of(sql), CATALOG, parts=parts)
    return planned_with(planning, lambda analysis: analyzed(engine, analysis))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CAST(0.0 AS DOUBLE)", "-CAST(0.0 AS DOUBLE)"),
        ("CAST('NaN' AS DOUBLE)", "CAST('NaN' AS DOUBLE) + 1"),
        ("CAST(CAST(7 AS INT) AS BIGINT)", "CAST(7 AS BIGINT)"),
        ("CAST(CAST(1.5 AS DECIMAL(8,2)) AS DECIMAL(10,4))", "CAST(1.5 AS DECIMAL(10,4))"),
        ("CAST(NULL AS STRING)", "CAST(NULL AS STRING)"),
    ],
)
def test_equal_values_of_one_type_are_in_one_bin(spark_engine: SparkEngine, one: str, other: str) -> None:
    first, second = bins(spark_engine, [one], [other])
    assert first == second


def test_the_order_of_keys_does_not_matter(spark_engine: SparkEngine) -> None:
    keys = ["'page'", "CAST(17 AS BIGINT)", "CAST(NULL AS INT)"]
    first, second, fewer = bins(spark_engine, keys, keys[::-1], keys[:2])
    assert first == second
    assert all(0 <= found < 64 for found in (first, second, fewer))


def results(engine: SparkEngine, draft: DraftPlan) -> Counter[tuple[Any, ...]]:
    """Of all parts of a query without FINAL, over rows as sources publish them."""
    merge = draft.stage("m1")
    found: Counter[tuple[Any, ...]] = Counter()
    grouped, ranges = group_by_bin(run(engine, draft.stage("s1").sql, ROWS))
    for vertex in merge.vertices:
        own = merge.bins(vertex.partition)
        rows = grouped if own is None else decode_part(encode(grouped), ranges, bins=tuple(own))
        if rows.num_rows:
            found.update(tuple(row.values()) for row in run(engine, merge.sql, rows).to_pylist())
    return found


@pytest.mark.parametrize("keys", ["k, v", "v, k", "d", "d, upper(k)", "m, v"])
def test_groups_are_whole_in_their_part(spark_engine: SparkEngine, keys: str) -> None:
    sql = f"SELECT count(*) AS n, min(v) AS least, max(ts) AS last FROM s GROUP BY window(ts, '10 seconds'), {keys}"
    draft = in_parts(spark_engine, sql)
    assert BIN_COLUMN in draft.stage("s1").sql
    assert draft.stage("m1").parts == 4
    whole = run(spark_engine, sql.replace("FROM s", "FROM input"), ROWS)
    assert results(spark_engine, draft) == Counter(tuple(row.values()) for row in whole.to_pylist())
