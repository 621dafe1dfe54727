"""MAP and REDUCE together give what the query gives over all rows at once, by DuckDB as the judge."""

from __future__ import annotations

from typing import Any

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.seeds import several
from tests.unit.planner.build import catalog_of, draft_of
from tests.unit.planner.engine import load, run_batch, to_duckdb

CATALOG = catalog_of(
    """
    CREATE TABLE t (k INT, w STRING, v INT, d DOUBLE) WITH ('connector' = 'other') AT us AT eu AT ap;
    CREATE TABLE u (k INT, name STRING, x INT) WITH ('connector' = 'other') AT us AT eu;
    CREATE VIEW big AS SELECT k, w, v * 2 AS v FROM t WHERE v > 2;
    CREATE VIEW sums (k, total) AS SELECT k, sum(v) FROM t GROUP BY k;
    """
)
ROWS = [("k", "INT"), ("w", "STRING"), ("v", "INT"), ("d", "DOUBLE")]
OTHERS = [("k", "INT"), ("name", "STRING"), ("x", "INT")]

QUERIES = (
    "SELECT k, w, v + 1 AS n FROM t WHERE v > 3 AND site <> 'eu'",
    "SELECT count(*) AS n, sum(v) AS s, avg(v) AS a, max(w) AS m FROM t",
    "SELECT count(*) AS n FROM t WHERE v > 100",
    "SELECT k, count(*) AS n, avg(d) AS a, min(v) AS l FROM t GROUP BY k HAVING count(*) > 1",
    "SELECT upper(w) AS u, site, count(v) FILTER (WHERE d > 0.5) AS n FROM t GROUP BY upper(w), site",
    "SELECT k, count(DISTINCT w) AS n FROM t GROUP BY k",
    "SELECT DISTINCT k, w FROM t",
    "SELECT t.k, u.name, t.v FROM t JOIN u ON t.k = u.k WHERE u.x > 2",
    "SELECT u.name, count(*) AS n, sum(t.v) AS s FROM t LEFT JOIN u ON t.k = u.k AND u.x > 3 GROUP BY u.name",
    "SELECT t.k, u.x FROM t JOIN u ON t.k = u.k AND t.site = u.site",
    "SELECT k, sum(v) AS s FROM big GROUP BY k",
    "SELECT n, count(*) AS times FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS c GROUP BY n",
    "SELECT s.k, s.total, u.name FROM sums AS s JOIN u ON s.k = u.k WHERE s.total > 0",
    "SELECT max(total) AS m, count(*) AS n FROM sums",
    "WITH a AS (SELECT w, v FROM t WHERE v IS NOT NULL), b AS (SELECT w, sum(v) AS s FROM a GROUP BY w) "
    "SELECT w, s FROM b WHERE s <> 0",
    "SELECT k, w, n FROM (SELECT k, w, count(*) AS n FROM t GROUP BY k, w) AS c WHERE n > 1",
    "SELECT k, v FROM t WHERE v > 2 UNION ALL SELECT x, k FROM u UNION ALL SELECT k, v FROM t WHERE site = 'us'",
    "SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, x FROM u WHERE x > 3",
    "SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a FROM (SELECT k, v FROM t UNION ALL SELECT k, x FROM u) AS d "
    "WHERE v > 1 GROUP BY k",
    "SELECT u.name, count(*) AS n FROM (SELECT k FROM t UNION ALL SELECT v FROM t) AS d JOIN u ON d.k = u.k "
    "GROUP BY u.name",
    "SELECT k, max(n) AS m FROM (SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, x FROM u) AS d "
    "GROUP BY k",
    "SELECT k, c FROM (SELECT k, w AS c FROM t UNION ALL SELECT k, name FROM u) AS d WHERE c <> 'a'",
    "SELECT DISTINCT a, b FROM (SELECT k, v FROM t UNION ALL SELECT k, x FROM u) AS d(a, b)",
    "SELECT t.w, d.n FROM t JOIN (SELECT k, count(*) AS n FROM u GROUP BY k) AS d ON t.k = d.k AND d.n > 1 "
    "WHERE t.v > 1 AND t.site <> 'ap'",
    "SELECT t.k, d.m FROM t LEFT JOIN (SELECT k, max(x) AS m FROM u GROUP BY k) AS d ON t.k = d.k AND d.m > 2 "
    "WHERE t.v > 1",
    "SELECT a.k, a.n, b.m FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS a "
    "JOIN (SELECT k, max(x) AS m FROM u GROUP BY k) AS b ON a.k = b.k JOIN u ON u.k = a.k AND u.x > 1",
    "SELECT d.m, count(*) AS n FROM t JOIN (SELECT max(x) AS m FROM u) AS d ON t.v = d.m GROUP BY d.m",
    "SELECT t.k, d.c FROM t JOIN (SELECT k, w AS c FROM t UNION ALL SELECT k, name FROM u) AS d ON t.k = d.k AND "
    "t.w = d.c",
    "SELECT t.k, d.name FROM t JOIN (SELECT u.k, u.name, t.v FROM u JOIN t ON u.k = t.k) AS d ON t.v = d.v",
    "SELECT k, w, v FROM t QUALIFY rank() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST) <= 2",
    "SELECT w, d FROM t WHERE v > 0 QUALIFY dense_rank() OVER (ORDER BY v NULLS FIRST) <= 2",
    "SELECT k, w, rank() OVER (PARTITION BY k ORDER BY v NULLS FIRST) AS r, sum(v) OVER (PARTITION BY w) AS s FROM t "
    "WHERE d > 0",
    "SELECT k, count(*) AS n, sum(count(*)) OVER () AS s FROM t GROUP BY k",
    "SELECT k, v FROM (SELECT t.k, t.v, dense_rank() OVER (ORDER BY t.v) AS r FROM t JOIN u ON t.k = u.k) AS d "
    "WHERE r < 3",
    "SELECT k, max_by(v, v) AS m, count(*) AS n, bool_or(v > 3) AS b FROM t GROUP BY k HAVING bool_or(v > 2)",
    "SELECT t.k, d.m FROM t JOIN (SELECT k, median(x) AS m FROM u GROUP BY k) AS d ON t.k = d.k",
)
"""In any order of rows."""

ORDERED = (
    "SELECT k, w, v, d FROM t ORDER BY v DESC NULLS LAST, k NULLS FIRST, w NULLS FIRST, d NULLS FIRST LIMIT 3",
    "SELECT w, v FROM t ORDER BY v * 2 NULLS FIRST, w DESC NULLS LAST",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k NULLS FIRST LIMIT 2 OFFSET 1",
    "SELECT k, sum(v) AS s FROM t GROUP BY k ORDER BY max(v) NULLS FIRST, 1 NULLS FIRST",
    "SELECT DISTINCT k FROM t ORDER BY k NULLS LAST LIMIT 2",
    "SELECT v FROM (SELECT v FROM t ORDER BY v NULLS LAST LIMIT 4) AS f ORDER BY 1 DESC NULLS LAST",
    "SELECT count(*) AS n FROM (SELECT v FROM t LIMIT 3) AS f",
    "SELECT k, total FROM sums ORDER BY total NULLS FIRST, k NULLS FIRST",
    "SELECT v FROM t QUALIFY rank() OVER (PARTITION BY k ORDER BY v NULLS LAST) = 1 ORDER BY v NULLS LAST LIMIT 2",
    "SELECT k, n FROM (SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM t) AS d "
    "ORDER BY n NULLS FIRST, k NULLS FIRST LIMIT 4 OFFSET 1",
    "SELECT k, v FROM t WHERE v > 2 UNION ALL SELECT k, x FROM u ORDER BY v, k NULLS FIRST LIMIT 3",
    "SELECT v, rank() OVER (ORDER BY v NULLS FIRST) AS r FROM t ORDER BY r, v NULLS FIRST LIMIT 5",
    "(SELECT v FROM t ORDER BY v NULLS LAST LIMIT 2) UNION ALL (SELECT max(x) FROM u) ORDER BY 1 NULLS LAST",
)


rows = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(0, 4),
        "w": st.none() | st.sampled_from(["a", "b", "A"]),
        "v": st.none() | st.integers(-3, 9),
        # Quarters add up exactly in any order.
        "d": st.none() | st.integers(-8, 8).map(lambda n: n / 4),
    }
)
splits = st.lists(st.lists(rows, max_size=6), min_size=1, max_size=3)
tables = st.fixed_dictionaries({"us": splits, "eu": splits, "ap": splits})
members = st.lists(
    st.fixed_dictionaries(
        {"k": st.none() | st.integers(0, 4), "name": st.sampled_from(["x", "y"]), "x": st.none() | st.integers(0, 9)}
    ),
    max_size=4,
)
others = st.fixed_dictionaries({"us": members.map(lambda rows: [rows]), "eu": members.map(lambda rows: [rows])})

Data = dict[str, list[list[dict[str, Any]]]]


def expected(db: duckdb.DuckDBPyConnection, sql: str, data: dict[str, Data]) -> list[tuple[Any, ...]]:
    for name, declared in (("t", ROWS), ("u", OTHERS)):
        everything = [{**row, "site": site} for site, parts in data[name].items() for part in parts for row in part]
        load(db, f"{name}_rows", [*declared, ("site", "STRING")], everything)
        hidden = "" if "site" in sql else " EXCLUDE (site)"
        db.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT *{hidden} FROM {name}_rows")
    db.execute("CREATE OR REPLACE VIEW big AS SELECT k, w, v * 2 AS v FROM t WHERE v > 2")
    db.execute("CREATE OR REPLACE VIEW sums AS SELECT k, sum(v) AS total FROM t GROUP BY k")
    return db.execute(to_duckdb(sql)).fetchall()


@settings(max_examples=several(20, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=st.sampled_from(QUERIES), table=tables, other=others)
def test_the_parts_give_what_the_whole_gives(db: duckdb.DuckDBPyConnection, sql: str, table: Data, other: Data) -> None:
    data: dict[str, Data] = {"t": table, "u": other}
    found = run_batch(db, draft_of(sql, CATALOG), data)
    assert sorted(found, key=repr) == sorted(expected(db, sql, data), key=repr)


@settings(max_examples=several(15, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=st.sampled_from(ORDERED), table=tables)
def test_results_come_in_order(db: duckdb.DuckDBPyConnection, sql: str, table: Data) -> None:
    data: dict[str, Data] = {"t": table, "u": {"us": [[]], "eu": [[]]}}
    assert run_batch(db, draft_of(sql, CATALOG), data) == expected(db, sql, data)
