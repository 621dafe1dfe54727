"""The stages together give what the query gives over all rows at once, by DuckDB as the judge."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.seeds import several
from tests.unit.planner.build import catalog_of, draft_of
from tests.unit.planner.engine import fetch, load, run_draft

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, w STRING, v INT, d DOUBLE, WATERMARK FOR ts)
      WITH ('connector' = 'other') AT us AT eu AT ap;
    CREATE TABLE t (k INT, name STRING, x INT) WITH ('connector' = 'other') AT us AT eu;
    """
)
STREAM = [("ts", "TIMESTAMP"), ("k", "INT"), ("w", "STRING"), ("v", "INT"), ("d", "DOUBLE")]
TABLE = [("k", "INT"), ("name", "STRING"), ("x", "INT")]
START = datetime(2024, 2, 28, 23, 59, 40)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone

KEYS = ("k", "w", "site", "upper(w)", "coalesce(k, 0) % 3", "CASE WHEN k > 2 THEN 'many' ELSE w END")
AGGREGATES = (
    *("count(*)", "count(v)", "sum(v)", "min(v)", "max(d)", "avg(v)", "avg(d)", "max(w)"),
    *("sum(v) FILTER (WHERE d > 0.5)", "avg(v) FILTER (WHERE w = 'a')", "count(*) FILTER (WHERE k IS NULL)"),
    *("sum(v) + count(*) * 2", "coalesce(sum(v * 2), -1)", "sum(CASE WHEN v > 3 THEN 1 ELSE 0 END)"),
)
FILTERS = ("v > 3", "w = 'a'", "k IS NOT NULL", "site <> 'eu'", "site IN ('us', 'ap')", "v > 1 OR d < 0.5")
HAVINGS = ("count(*) > 1", "sum(v) > 5", "count(*) > 1 AND max(d) IS NOT NULL", "a0 IS NOT NULL")


rows = st.fixed_dictionaries(
    {
        "ts": st.integers(0, 60_000).map(lambda ms: START + timedelta(milliseconds=ms)),
        "k": st.none() | st.integers(0, 5),
        "w": st.none() | st.sampled_from(["a", "b", "A"]),
        "v": st.none() | st.integers(-3, 9),
        # Quarters add up exactly in any order.
        "d": st.none() | st.integers(-8, 8).map(lambda n: n / 4),
    }
)
epochs = st.lists(st.lists(rows, max_size=8), min_size=1, max_size=3)
streams = st.fixed_dictionaries({"us": epochs, "eu": epochs, "ap": epochs})
members = st.fixed_dictionaries(
    {"k": st.none() | st.integers(0, 5), "name": st.sampled_from(["x", "y"]), "x": st.none() | st.integers(0, 9)}
)
tables = st.fixed_dictionaries({"us": st.lists(members, max_size=4), "eu": st.lists(members, max_size=4)})


def load_whole(db: duckdb.DuckDBPyConnection, stream: dict[str, Any], table: dict[str, Any] | None = None) -> None:
    born = [{**row, "site": site} for site, epochs in stream.items() for epoch in epochs for row in epoch]
    load(db, "s", [*STREAM, ("site", "STRING")], born)
    kept = [{**row, "site": site} for site, rows in (table or {}).items() for row in rows]
    load(db, "t", [*TABLE, ("site", "STRING")], kept)


WINDOWS = [
    *((7, 7, 0), (10, 10, 0), (60, 60, 0), (10, 5, 0), (21, 3, 0)),
    *((10, 10, 3), (60, 20, 15), (10, 4, 0), (21, 6, 5), (7, 5, 4)),
    *((60, 10, None), (21, 7, None), (12, 1, None), (10, 10, None)),
]
"""The length, the slide and the offset in seconds; without an offset, they are cumulative."""


@settings(max_examples=several(25, 80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=streams,
    keys=st.lists(st.sampled_from(KEYS), max_size=3, unique=True),
    aggregates=st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True),
    where=st.lists(st.sampled_from(FILTERS), max_size=2, unique=True),
    having=st.none() | st.sampled_from(HAVINGS),
    top=st.none() | st.tuples(st.sampled_from(["rank", "dense_rank"]), st.integers(1, 3), st.booleans()),
    window=st.sampled_from(WINDOWS),
    share=st.floats(0, 1),
    split=st.sampled_from([1, 3]),
)
def test_partials_and_merge_equal_the_query(
    db: duckdb.DuckDBPyConnection,
    stream: dict[str, Any],
    keys: list[str],
    aggregates: list[str],
    where: list[str],
    having: str | None,
    top: tuple[str, int, bool] | None,
    window: tuple[int, int, int | None],
    share: float,
    split: int,
) -> None:
    seconds, slide, offset = window
    call = f"window(ts, '{seconds} seconds', '{slide} seconds', '{offset} seconds')"
    if offset is None:
        call = f"cumulate_window(ts, '{seconds} seconds', '{slide} seconds')"
    names = [f"a{index}" for index in range(len(aggregates))]
    items = [*(f"{key} AS k{i}" for i, key in enumerate(keys)), *map("{} AS {}".format, aggregates, names)]
    filters = f" WHERE {' AND '.join(f'({part})' for part in where)}" if where else ""
    kept = f" HAVING {having}" if having else ""
    groups = [*keys[:1], call, *keys[1:]]
    partition = f", {keys[0]}" if top and top[2] and keys else ""
    qualify = f" QUALIFY {top[0]}() OVER (PARTITION BY window{partition} ORDER BY a0 DESC) <= {top[1]}" if top else ""
    head = f"SELECT window.start AS ws, window.end AS we, {', '.join(items)} FROM s{filters}"
    draft = draft_of(f"{head} GROUP BY {', '.join(groups)}{kept}{qualify}", CATALOG, parts=split)

    load_whole(db, stream)
    parts = ", ".join(["ws", *(f"k{i}" for i in range(len(keys)))])
    inner = f"SELECT ws, we, {', '.join(items)}"
    starts = f"unnest(starts(ts, {seconds}, {slide}, {offset})) AS ws, ws + to_seconds({seconds}) AS we"
    if offset is None:
        starts = f"w(ts, {seconds}) AS ws, unnest(cumulated(ts, {seconds}, {slide})) AS we"
    source = f"(SELECT *, {starts} FROM s) AS s"
    whole = f"{inner} FROM {source}{filters} GROUP BY {parts}, we{kept}"
    if top:
        ranked = "ws, we, k0" if partition else "ws, we"
        # Spark sorts NULLs last in DESC order, DuckDB too when told.
        order = f"{top[0]}() OVER (PARTITION BY {ranked} ORDER BY a0 DESC NULLS LAST)"
        whole = f"SELECT * FROM ({whole}) QUALIFY {order} <= {top[1]}"
    assert run_draft(db, draft, {"s": stream}, lambda count: int(count * share)) == fetch(db, whole)


def assert_close(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> None:
    """Equal, floats but for their last digits; rows must be told apart by what stands before their floats."""
    for row, right in zip(found, wanted, strict=True):
        for a, b in zip(row, right, strict=True):
            assert a == (pytest.approx(b, rel=1e-9, abs=1e-9) if isinstance(b, float) else b), (row, right)


DISTINCT = (
    *("count(DISTINCT v)", "count(DISTINCT w)", "sum(DISTINCT v)", "sum(DISTINCT d)", "max(DISTINCT v)"),
    *("count(DISTINCT v) FILTER (WHERE d > 0)", "sum(DISTINCT v + k) FILTER (WHERE w = 'a')", "avg(DISTINCT v)"),
    *("count(DISTINCT v) + count(*)", "coalesce(avg(DISTINCT d), -1)"),
)
SPREADS = (
    *("stddev(v)", "stddev_samp(d)", "stddev_pop(v)", "variance(d)", "var_samp(v)", "var_pop(v + 1000000)"),
    *("stddev(v) FILTER (WHERE w = 'a')", "var_pop(d) FILTER (WHERE k > 2)", "coalesce(stddev(d), -1) + count(*)"),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=streams,
    keys=st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    aggregates=st.lists(
        st.sampled_from((*SPREADS, *DISTINCT, "avg(v)", "count(d)")), min_size=1, max_size=4, unique=True
    ),
    share=st.floats(0, 1),
)
def test_spreads_and_distinct_values_equal_the_query(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], keys: list[str], aggregates: list[str], share: float
) -> None:
    items = [*(f"{key} AS k{i}" for i, key in enumerate(keys)), *(f"{a} AS a{i}" for i, a in enumerate(aggregates))]
    groups = ", ".join(f"k{i}" for i in range(len(keys)))
    by = ", ".join(["window(ts, '10 seconds')", *keys])
    draft = draft_of(f"SELECT window.start AS ws, {', '.join(items)} FROM s GROUP BY {by}", CATALOG)
    load_whole(db, stream)
    found = run_draft(db, draft, {"s": stream}, lambda count: int(count * share))
    whole = f"SELECT w(ts, 10) AS ws, {', '.join(items)} FROM s GROUP BY ws{', ' if groups else ''}{groups}"
    assert_close(found, fetch(db, whole))


def test_a_large_mean_takes_no_digits_from_a_small_variance(db: duckdb.DuckDBPyConnection) -> None:
    rows = [{"ts": START, "k": 1, "w": "a", "v": 1, "d": 1e9 + i % 2} for i in range(8)]
    stream = {"us": [rows[:3], rows[3:4]], "eu": [rows[4:]], "ap": []}
    draft = draft_of("SELECT var_pop(d) AS v FROM s GROUP BY window(ts, '10 seconds')", CATALOG)
    assert run_draft(db, draft, {"s": stream}, lambda count: 2) == [(pytest.approx(0.25, rel=1e-6),)]


JOINS = (
    "SELECT s.k AS a, t.name AS b, t.x AS c FROM s JOIN t ON s.k = t.k",
    "SELECT s.k AS a, t.name AS b, s.site AS c FROM s JOIN t ON s.k = t.k AND t.x > 3 WHERE v > 2 AND t.name = 'x'",
    "SELECT s.k AS a, t.name AS b, v AS c FROM s LEFT JOIN t ON s.k = t.k AND t.x > 3 AND s.v > 2",
    "SELECT s.k AS a, t.name AS b FROM s LEFT JOIN t ON s.k = t.k WHERE t.name IS NULL OR t.name = 'x'",
    "SELECT s.k AS a, t.name AS b, t.site AS c FROM s JOIN t ON s.site = t.site AND s.k = t.k",
    "SELECT k, name AS b, v FROM s JOIN t USING (k) WHERE s.site = 'us'",
    "SELECT a.name AS a, b.name AS b FROM s JOIN t AS a ON s.k = a.k LEFT JOIN t AS b ON b.k = a.x AND b.name <> 'y'",
    "SELECT t.name AS a, s.w AS b FROM s JOIN t ON t.k = s.k AND (t.x < s.v OR s.v IS NULL) WHERE NOT (w = 'a')",
    "SELECT s.k AS a FROM s LEFT JOIN t USING (k, site) WHERE s.site <> 'ap' AND (t.x > 2 OR t.x IS NULL)",
)


@pytest.mark.parametrize("sql", JOINS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, table=tables)
def test_joins_equal_the_query(
    db: duckdb.DuckDBPyConnection, sql: str, stream: dict[str, Any], table: dict[str, Any]
) -> None:
    load_whole(db, stream, table)
    whole = fetch(db, sql)
    held = {site: [rows] for site, rows in table.items()}
    assert run_draft(db, draft_of(sql, CATALOG), {"s": stream, "t": held}) == whole


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, table=tables, share=st.floats(0, 1))
def test_aggregate_over_a_join_equals_the_query(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], table: dict[str, Any], share: float
) -> None:
    load_whole(db, stream, table)
    items = "t.name AS n, count(*) AS c, avg(s.v + t.x) AS a FROM s JOIN t ON s.k = t.k WHERE s.v > 0"
    draft = draft_of(f"SELECT {items} GROUP BY window(s.ts, '10 seconds'), t.name", CATALOG)
    held = {site: [rows] for site, rows in table.items()}
    found = run_draft(db, draft, {"s": stream, "t": held}, lambda count: int(count * share))
    assert found == fetch(db, f"SELECT {items} GROUP BY w(ts, 10), t.name")


def test_row_number_breaks_ties_by_the_keys(db: duckdb.DuckDBPyConnection) -> None:
    def row(word: str) -> dict[str, Any]:
        return {"ts": START, "k": 1, "w": word, "v": 1, "d": 0.0}

    sql = (
        "SELECT w, count(*) AS n FROM s GROUP BY window(ts, '10 seconds'), w "
        "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n DESC) <= 2"
    )
    stream = {"us": [[row("c"), row("b")]], "eu": [[row("a"), row("d")]], "ap": [[row("d")]]}
    assert run_draft(db, draft_of(sql, CATALOG), {"s": stream}) == [("a", 1), ("d", 2)]
