"""Queries over queries give the rows that DuckDB gives for the text as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.planning import draft_query
from tests.seeds import several
from tests.unit.planner.build import draft_of, select_of
from tests.unit.planner.engine import connect, fetch, run_draft
from tests.unit.planner.test_semantics import CATALOG, START, load_whole

W = "window(ts, '10 seconds')"


def _forms(text: str) -> dict[str, str]:
    """Queries by name; $W is the window."""
    parts = (part.partition("\n") for part in text.split("-- ")[1:])
    return {name: " ".join(sql.split()).replace("$W", W) for name, _, sql in parts}


FORMS = _forms("""
-- projection
SELECT a, b + 1 AS c FROM (SELECT k AS a, v * 2 AS b FROM s WHERE v > 0) AS d WHERE b < 9
-- star
SELECT * FROM (SELECT *, v + k AS vk FROM s WHERE k > 1) AS d WHERE vk IS NOT NULL
-- nested
SELECT x FROM (SELECT y + 1 AS x FROM (SELECT v AS y, k FROM s) AS a WHERE k < 4) AS b WHERE x > 2
-- brackets
SELECT p * 2 AS q FROM (SELECT k + v AS p, -v AS n FROM s) AS d WHERE p - n > 1 OR NOT p = n
-- site
SELECT here, v FROM (SELECT site AS here, v FROM s) AS d WHERE here <> 'us'
-- with
WITH a AS (SELECT k, v FROM s WHERE v > 0), b AS (SELECT k + v AS n FROM a) SELECT n FROM b WHERE n > 3
-- with_columns
WITH a(x, y) AS (SELECT k, w FROM s) SELECT y, x FROM a AS q WHERE q.x = 2
-- shadowing
WITH s AS (SELECT k AS v FROM s WHERE k > 1), u AS (WITH s AS (SELECT v + 10 AS v FROM s) SELECT v FROM s)
SELECT v FROM u
-- join_inside
SELECT n, v FROM (SELECT s.v, t.name AS n, t.x FROM s JOIN t ON s.k = t.k) AS d WHERE x > 2
-- left_join_inside
SELECT n, y FROM (SELECT t.name AS n, coalesce(t.x, -1) AS y FROM s LEFT JOIN t ON s.k = t.k) AS d WHERE y < 5
-- join_outside
SELECT d.a, t.name AS n FROM (SELECT k AS a FROM s WHERE v > 1) AS d JOIN t ON d.a = t.k
-- table_joined
SELECT s.v, d.y FROM s JOIN (SELECT k, x + 1 AS y FROM t WHERE x > 1) AS d ON s.k = d.k WHERE d.y < 8
-- table_left_joined
SELECT s.v, d.y FROM s LEFT JOIN (SELECT k, coalesce(x, 0) AS y FROM t WHERE name = 'x') AS d ON s.k = d.k AND
d.y < 7
-- table_joined_using
WITH d AS (SELECT k, name AS n FROM t), e(k, m) AS (SELECT k, n FROM d WHERE n <> 'y') SELECT k, m, v FROM s
JOIN e USING (k)
-- union
SELECT k AS a, w AS b FROM s WHERE v > 2 UNION ALL SELECT v, upper(w) FROM s WHERE k = 1
-- union_of_three
(SELECT k AS a FROM s) UNION ALL ((SELECT v FROM s) UNION ALL SELECT k + v FROM s WHERE k > 0)
-- union_of_joins
SELECT t.name AS n FROM s JOIN t ON s.k = t.k UNION ALL SELECT s.w FROM s LEFT JOIN t ON s.k = t.x
-- over_union
SELECT a + 1 AS b FROM (SELECT k AS a FROM s WHERE v > 2 UNION ALL SELECT v FROM s) AS d WHERE a <> 3
-- with_union
WITH a AS (SELECT v FROM s) SELECT v FROM a UNION ALL SELECT v + 1 AS v FROM a
-- join_over_union
SELECT d.a, t.x FROM (SELECT k AS a FROM s UNION ALL SELECT v FROM s) AS d JOIN t ON d.a = t.k
""")
AGGREGATES = _forms("""
-- merged
SELECT b, sum(a) AS n FROM (SELECT v * 2 AS a, upper(w) AS b, ts FROM s WHERE v > 0) AS d GROUP BY b, $W
-- renamed_time
SELECT count(*) AS n FROM (SELECT ts AS t0, k FROM s) AS d WHERE k > 1 GROUP BY window(t0, '10 seconds')
-- union
SELECT a, count(*) AS n, sum(b) AS m FROM (SELECT k AS a, v AS b, ts FROM s WHERE v > 0 UNION ALL SELECT v, k,
ts FROM s WHERE site <> 'us') AS d WHERE a <> 3 GROUP BY $W, a HAVING count(*) > 1
-- union_join
SELECT t.name AS n, count(*) AS c, avg(d.b) AS m FROM (SELECT k AS a, v AS b, ts FROM s UNION ALL SELECT v, v
+ 1, ts FROM s) AS d JOIN t ON d.a = t.k GROUP BY window(d.ts, '10 seconds'), t.name
-- two_merges
SELECT k AS a, count(*) AS n FROM s GROUP BY k, $W UNION ALL SELECT v, count(*) FROM s WHERE k = 1 GROUP BY v,
$W
-- mixed
SELECT k AS a, count(*) AS n FROM s GROUP BY k, $W UNION ALL SELECT v, k FROM s WHERE w = 'a'
-- filtered
SELECT a * 2 AS b, n FROM (SELECT k AS a, count(*) AS n FROM s GROUP BY k, $W) AS d WHERE n > 1 AND a > 0
-- over_window
SELECT max(n) AS most, count(*) AS groups FROM (SELECT $W.start AS w, k, count(*) AS n FROM s GROUP BY 1, k)
AS d GROUP BY w HAVING count(*) > 1
-- over_keys
SELECT b, sum(n) AS m FROM (SELECT $W.start AS w, k, w AS b, count(*) AS n FROM s GROUP BY 1, 2, 3) AS d WHERE
n > 1 OR k = 2 GROUP BY w, b
-- thrice
SELECT m + 1 AS l FROM (SELECT w, max(n) AS m FROM (SELECT $W.start AS w, k, count(*) AS n FROM s GROUP BY 1,
2) AS d GROUP BY w) AS e WHERE m > 1
-- distinct
SELECT DISTINCT w, n FROM (SELECT $W.start AS w, k, count(*) AS n FROM s GROUP BY 1, 2) AS d
-- having
WITH c AS (SELECT $W.start AS w, k, sum(v) AS n FROM s GROUP BY 1, 2 HAVING count(*) > 1) SELECT w, min(n) AS
l FROM c GROUP BY 1
""")
TOP_K = (
    f"SELECT a, n FROM (SELECT {W}.start AS w, k AS a, count(*) AS n FROM s GROUP BY 1, 2) AS d "
    "WHERE a IS NOT NULL QUALIFY rank() OVER (PARTITION BY w ORDER BY n DESC) <= 2"
)


def _row(random: Random) -> dict[str, Any]:
    return {
        "ts": START + timedelta(milliseconds=random.randrange(30_000)),
        "k": random.choice([None, 0, 1, 2, 3, 4, 5]),
        "w": random.choice([None, "a", "b", "A"]),
        "v": random.choice([None, *range(-3, 10)]),
        "d": random.choice([None, -0.25, 0.5, 1.0]),
    }


RANDOM = Random(7)
STREAM = {site: [[_row(RANDOM) for _ in range(9)] for _ in range(2)] for site in ("us", "eu", "ap")}
KEYS = {
    site: [
        {"k": RANDOM.randrange(6), "name": RANDOM.choice("xy"), "x": RANDOM.choice([None, 1, 2, 7, 8])} for _ in "1234"
    ]
    for site in ("us", "eu")
}


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as connection:
        load_whole(connection, STREAM, KEYS)
        yield connection


def whole(sql: str) -> str:
    """The text for DuckDB, which knows `w` for windows."""
    sql = sql.replace(f"{W}.start", "w(ts, 10)").replace(W, "w(ts, 10)")
    return sql.replace("window(t0, '10 seconds')", "w(t0, 10)").replace("window(d.ts, '10 seconds')", "w(d.ts, 10)")


def check(db: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    held = {site: [rows] for site, rows in KEYS.items()}
    wanted = fetch(db, whole(sql).replace("SELECT *,", "SELECT s.* EXCLUDE (site),"))
    for parts in (1, 3):
        draft = draft_of(sql, CATALOG, parts=parts)
        assert run_draft(db, draft, {"s": STREAM, "t": held}, lambda count: count // 2) == wanted
    return wanted


@pytest.mark.parametrize("name", [*FORMS, *AGGREGATES, "top_k"])
def test_forms(db: duckdb.DuckDBPyConnection, name: str) -> None:
    assert check(db, {**FORMS, **AGGREGATES, "top_k": TOP_K}[name])


names = st.sampled_from(["a", "b", "k", "v"])
terms = st.sampled_from(
    ["{0}", "{0} + 1", "{0} - {1}", "coalesce({0}, {1})", "CASE WHEN {0} > {1} THEN {0} ELSE -1 END"]
)
tests = st.sampled_from(["{0} > 1", "{0} IS NOT NULL", "{0} < {1} OR {1} = 2", "NOT {0} = {1}", "{0} IN (0, 1, 3)"])


@st.composite
def nested(draw: st.DrawFn) -> str:
    """SELECTs over SELECTs over `s`, with and without unions, the names of their columns mixed up."""
    sql = "s"
    columns: tuple[str, ...] = ("k", "v")
    for level in range(draw(st.integers(1, 4))):
        renamed = tuple(draw(st.permutations(["a", "b", "k", "v"]))[:2])
        items = [draw(terms).format(*draw(st.permutations(columns))) for _ in renamed]
        parts = ", ".join(f"{item} AS {name}" for item, name in zip(items, renamed, strict=True))
        where = draw(st.none() | tests)
        filters = f" WHERE {where.format(*draw(st.permutations(columns)))}" if where else ""
        source = f"({sql}) AS d{level}" if level else "s"
        sql, before, columns = f"SELECT {parts} FROM {source}{filters}", sql, renamed
        if level and draw(st.booleans()):
            sql = f"{sql} UNION ALL SELECT {', '.join(items[::-1])} FROM ({before}) AS e{level}"
    return sql


@settings(max_examples=several(12, 30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=nested())
def test_random_nesting(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    check(db, sql)


def test_drafting_changes_nothing() -> None:
    select = select_of(FORMS["shadowing"])
    before = repr(select.tree)
    assert draft_query(select, CATALOG) == draft_query(select, CATALOG)
    assert repr(select.tree) == before
