"""Streams with tables, by IN, EXISTS, SEMI, ANTI and CROSS JOIN and without equality, give what DuckDB gives."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings

from planner.text.logical import logical_lines
from planner.values.errors import PlannerError
from tests.unit.planner.build import draft_of
from tests.unit.planner.engine import fetch, run_draft
from tests.unit.planner.test_semantics import CATALOG, load_whole, streams, tables

QUERIES = (
    "SELECT w, v FROM s WHERE k IN (SELECT k FROM t WHERE x > 2) AND v > 0",
    "SELECT w, v FROM s WHERE k NOT IN (SELECT k FROM t)",
    "SELECT w, v FROM s WHERE k NOT IN (SELECT x FROM t WHERE x IS NOT NULL)",
    "SELECT * FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND x < s.v)",
    "SELECT k, v FROM s WHERE NOT EXISTS (SELECT * FROM t AS u WHERE u.k = s.k AND s.v > 1 AND name = 'x')",
    "SELECT s.k, w FROM s SEMI JOIN t USING (k)",
    "SELECT s.k, w FROM s ANTI JOIN t ON s.k = t.k AND t.x > 3 AND s.v > 2",
    "SELECT s.k, a.name FROM s JOIN t AS a ON a.k = s.k WHERE a.x IN (SELECT k FROM t) AND v NOT IN (SELECT 1 FROM t)",
    "SELECT c.k, c.site FROM s AS c WHERE EXISTS (SELECT 1 FROM t WHERE k = c.k AND site = c.site)",
    "SELECT d.k FROM (SELECT k, upper(w) AS u FROM s WHERE k IN (SELECT k FROM t)) AS d "
    "WHERE d.u NOT IN (SELECT name FROM t)",
    "SELECT s.k, t.name FROM t JOIN s ON s.k = t.k AND t.x > 1 WHERE s.v > 0",
    "SELECT k, a.name FROM t AS a JOIN s USING (k) LEFT JOIN t AS b ON b.x = a.x AND b.name = s.w",
    "SELECT s.k, t.name FROM s CROSS JOIN t WHERE t.x > 4",
    "SELECT s.k, t.name FROM s JOIN t ON s.v > t.x AND t.name = 'x'",
    "SELECT s.k, t.name FROM s LEFT JOIN t ON s.v BETWEEN t.x AND t.x + 2 AND s.k > 1",
)


@pytest.mark.parametrize("sql", QUERIES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, table=tables)
def test_rows_are_those_of_duckdb(
    db: duckdb.DuckDBPyConnection, sql: str, stream: dict[str, Any], table: dict[str, Any]
) -> None:
    load_whole(db, stream, table)
    whole = fetch(db, sql.replace("SELECT *", "SELECT ts, k, w, v, d", 1))
    held = {site: [rows] for site, rows in table.items()}
    assert run_draft(db, draft_of(sql, CATALOG), {"s": stream, "t": held}) == whole


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, table=tables)
def test_groups_and_joins_of_streams_with_conditions_over_tables(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], table: dict[str, Any]
) -> None:
    load_whole(db, stream, table)
    held = {site: [rows] for site, rows in table.items()}
    grouped = "SELECT w, count(*) AS n FROM s WHERE k IN (SELECT k FROM t) GROUP BY w, {}"
    found = run_draft(db, draft_of(grouped.format("window(ts, '10 seconds')"), CATALOG), {"s": stream, "t": held})
    assert found == fetch(db, grouped.format("w(ts, 10)"))
    joined = (
        "SELECT a.k, b.w FROM s AS a LEFT JOIN s AS b ON a.k = b.k AND {} WHERE a.k IN (SELECT k FROM t) "
        "AND NOT EXISTS (SELECT 1 FROM t WHERE t.name = b.w AND t.k = a.k)"
    )
    streaming = draft_of(joined.format("window(a.ts, '10 seconds') = window(b.ts, '10 seconds')"), CATALOG, parts=2)
    assert run_draft(db, streaming, {"s": stream, "t": held}) == fetch(db, joined.format("w(a.ts, 10) = w(b.ts, 10)"))


def test_what_generators_make_can_be_looked_for() -> None:
    sql = "SELECT c FROM s LATERAL VIEW explode(split(w, '')) x AS c WHERE c IN (SELECT name FROM t)"
    made = draft_of(sql, CATALOG).stage("s1").sql
    assert made.index("LATERAL VIEW") < made.index("LEFT SEMI JOIN t1 ON v1.c = t1.sub_query_value")


def test_explain_shows_the_kind_of_the_join() -> None:
    lines = logical_lines(draft_of("SELECT w FROM s WHERE k NOT IN (SELECT k FROM t)", CATALOG).logical)
    assert lines[1].startswith("  Join[ANTI t ON ")


def test_explain_says_where_rows_are_compared_with_all_rows() -> None:
    draft = draft_of("SELECT s.k FROM s CROSS JOIN t", CATALOG)
    assert logical_lines(draft.logical, draft.notes)[1:] == (
        "  Join[CROSS t]",
        "    Scan[s at ap, eu, us]",
        "    Scan[t at eu, us]",
        "(t: no equality: each row is compared with all its rows)",
    )


def test_tables_alone_run_whole() -> None:
    assert draft_of("SELECT name FROM t WHERE k IN (SELECT x FROM t)", CATALOG).whole is not None
    assert draft_of("SELECT t.name FROM t SEMI JOIN t AS u ON t.k = u.x", CATALOG).whole is not None
    for side in ("RIGHT", "FULL", "FULL OUTER"):
        assert draft_of(f"SELECT t.name FROM t {side} JOIN t AS u ON t.k = u.x", CATALOG).whole is not None
        assert draft_of(f"SELECT name FROM t {side} JOIN t AS u USING (k, name, x)", CATALOG).whole is not None


REFUSED = [
    ("SELECT k FROM s WHERE k IN (SELECT k FROM s)", 36),
    ("SELECT k FROM s WHERE k IN (SELECT k FROM t) OR v > 1", 36),
    ("SELECT k IN (SELECT k FROM t) AS x FROM s", 14),
    ("SELECT k FROM s WHERE (k, v) IN (SELECT k, x FROM t)", 41),
    ("SELECT k FROM s WHERE k IN (SELECT k, x FROM t)", 36),
    ("SELECT k FROM s WHERE EXISTS (SELECT 1 FROM t JOIN t AS u ON t.k = u.k)", 38),
    ("SELECT k FROM s WHERE EXISTS (SELECT current_timestamp FROM t)", 38),
    ("SELECT k FROM s WHERE EXISTS (SELECT upper(name) FROM t)", 38),
    ("SELECT * FROM t JOIN s ON s.k = t.k", 22),
    ("SELECT s.k FROM t LEFT JOIN s ON s.k = t.k", 29),
    ("SELECT s.k FROM s SEMI JOIN s AS o ON s.k = o.k", 39),
    (
        "SELECT n FROM (SELECT count(*) AS n FROM s GROUP BY window(ts, '1 second')) AS d WHERE n IN (SELECT k FROM t)",
        101,
    ),
]


@pytest.mark.parametrize(("sql", "column"), REFUSED)
def test_what_is_refused(sql: str, column: int) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(sql, CATALOG)
    error = caught.value
    assert error.position is not None
    assert (error.code, error.position.column) == ("UNSUPPORTED_SQL", column)
    assert error.hint
