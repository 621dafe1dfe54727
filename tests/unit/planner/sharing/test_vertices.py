"""Which queries have equal fingerprints, and which do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.graph.plan import Statistics
from planner.planning import place
from planner.sharing.vertices import VertexKind, vertices_of
from planner.values.stages import StageKind
from tests.unit.planner.build import catalog_of, draft_of, topology_of
from tests.unit.planner.sharing.build import CATALOG, result_of, vertices
from tests.unit.planner.sharing.names import vid

WINDOW = "window(ts, '10 seconds')"
SAME = [
    ("SELECT k FROM s AS a WHERE a.v > 1", "SELECT b.k FROM s AS b WHERE b.v > 1", "an alias"),
    ("SELECT k AS a FROM s", "SELECT k AS b FROM s", "a column's alias"),
    ("SELECT k FROM s WHERE v > 1 AND w = 'a'", "SELECT k FROM s WHERE w = 'a' AND v > 1", "conjuncts"),
    ("SELECT k FROM s WHERE v > 1 OR w = 'a'", "SELECT k FROM s WHERE 'a' = w OR 1 < v", "operands of OR"),
    ("SELECT k FROM s WHERE v > 1", "SELECT k FROM s WHERE v > 1 AND v > 1", "a conjunct twice"),
    ("SELECT k + v AS a FROM s", "SELECT v + k AS a FROM s", "operands of +"),
    ("SELECT k * v AS a FROM s", "SELECT (v) * ((k)) AS a FROM s", "operands of *, brackets"),
    ("SELECT k FROM s WHERE v BETWEEN 1 AND 3", "SELECT k FROM s WHERE 3 >= v AND NOT v < 1", "BETWEEN, NOT"),
    ("SELECT k FROM s WHERE NOT v = 2", "SELECT k FROM s WHERE 2 != v", "NOT ="),
    ("SELECT k FROM s WHERE v IN (3, 1, 2, 1)", "SELECT k FROM s WHERE v IN (1, 2, 3)", "items of IN"),
    ("SELECT k FROM s WHERE v NOT IN (3, 1)", "SELECT k FROM s WHERE NOT (v IN (1, 3))", "NOT IN"),
    ("SELECT k FROM s WHERE w NOT LIKE 'a%'", "SELECT k FROM s WHERE NOT w LIKE 'a%'", "NOT LIKE"),
    ("SELECT k FROM s WHERE v NOT BETWEEN 1 AND 2", "SELECT k FROM s WHERE NOT (v >= 1 AND v <= 2)", "NOT BETWEEN"),
    ("SELECT k, v FROM s", "SELECT v, k FROM s", "the order of columns"),
    ("SELECT K FROM S WHERE V > 1", "SELECT k FROM s WHERE v > 1", "case"),
    ("SELECT UPPER(w) AS u FROM s", "SELECT upper(w) AS u FROM s", "case of functions"),
    ("SELECT CAST(v AS INT) AS v FROM s", "SELECT v FROM s", "a cast to the own type"),
    ("SELECT CAST(CAST(v AS STRING) AS STRING) AS a FROM s", "SELECT CAST(v AS STRING) AS a FROM s", "a cast twice"),
    ("SELECT k FROM s WHERE v > 1 + 2", "SELECT k FROM s WHERE v > 3", "folding"),
    ("SELECT k FROM s WHERE v > -(-3) AND 1 = 1", "SELECT k FROM s WHERE v > 3 AND TRUE", "folding, TRUE"),
    ("SELECT 'a' || 'b' AS c FROM s", "SELECT 'ab' AS c FROM s", "folding of texts"),
    ("SELECT ts + INTERVAL 1 MINUTE AS a FROM s", "SELECT ts + INTERVAL '60' SECOND AS a FROM s", "intervals"),
    (
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k",
        "SELECT count(1) AS m, k FROM s GROUP BY k, window(ts, INTERVAL 10 SECONDS)",
        "windows, keys, count",
    ),
    (
        "SELECT k, w, sum(v) AS n FROM s GROUP BY window(ts, '1 minute'), k, w",
        "SELECT w, k, sum(v) AS n FROM s GROUP BY w, window(ts, '60 seconds', '1 minute'), k",
        "the order of group keys",
    ),
    (
        f"SELECT k, mean(v) AS m FROM s GROUP BY {WINDOW}, k HAVING count(*) > 2 AND k > 1",
        f"SELECT k, avg(v) AS m FROM s GROUP BY {WINDOW}, k HAVING k > 1 AND 2 < count(*)",
        "HAVING",
    ),
    (
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k "
        "QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3",
        f"SELECT count(*) AS c, k AS key FROM s GROUP BY k, {WINDOW} "
        "QUALIFY rank() OVER (PARTITION BY window ORDER BY c DESC) < 4",
        "top k",
    ),
    (
        f"SELECT k, count(*) AS n FROM (SELECT ts, k FROM s WHERE v > 1) AS d GROUP BY {WINDOW}, k",
        f"SELECT k, count(*) AS n FROM s WHERE v > 1 GROUP BY {WINDOW}, k",
        "a derived table",
    ),
    (
        "SELECT s.k, t.name FROM s JOIN t ON s.k = t.k AND t.x > 3",
        "SELECT a.k, b.name FROM s AS a JOIN t AS b ON b.k = a.k WHERE 3 < b.x",
        "a join with a table",
    ),
    (
        "SELECT a.k, b.v FROM s AS a JOIN o AS b "
        "ON a.k = b.k AND window(a.ts, '10 seconds') = window(b.ts, '10 seconds')",
        "SELECT o.v, s.k FROM s JOIN o ON window(s.ts, '10 seconds') = window(o.ts, '10 seconds') AND o.k = s.k",
        "a join of streams",
    ),
]


@pytest.mark.parametrize(("first", "second"), [pair[:2] for pair in SAME], ids=[pair[2] for pair in SAME])
def test_the_same_meaning_has_the_same_fingerprint(first: str, second: str) -> None:
    assert result_of(first) == result_of(second)
    assert all(v.form is not None for v in vertices(first).values() if v.kind is not VertexKind.RESULTS)


DIFFERENT = [
    ("SELECT k FROM s WHERE v > 1", "SELECT k FROM s WHERE v >= 1", "a comparison"),
    ("SELECT k FROM s WHERE w = 'a'", "SELECT k FROM s WHERE w = 'A'", "case of a text"),
    ("SELECT k - v AS a FROM s", "SELECT v - k AS a FROM s", "operands of -"),
    ("SELECT k / 2 AS a FROM s", "SELECT k DIV 2 AS a FROM s", "integer division"),
    ("SELECT v + k + 1 AS a FROM s", "SELECT v + (k + 1) AS a FROM s", "order of additions: overflow"),
    ("SELECT d + 0.1 + 0.2 AS a FROM s", "SELECT d + (0.1 + 0.2) AS a FROM s", "order of additions: floats"),
    ("SELECT v FROM s", "SELECT CAST(v AS BIGINT) AS v FROM s", "a type"),
    ("SELECT TRY_CAST(w AS INT) AS v FROM s", "SELECT CAST(w AS INT) AS v FROM s", "TRY_CAST"),
    ("SELECT k FROM s WHERE v = v", "SELECT k FROM s WHERE TRUE", "NULL = NULL"),
    ("SELECT k FROM s WHERE v = NULL", "SELECT k FROM s WHERE v IS NULL", "= NULL"),
    ("SELECT k FROM s WHERE v = 1", "SELECT k FROM s WHERE v <=> 1", "<=>"),
    ("SELECT k FROM s WHERE v IN (1)", "SELECT k FROM s WHERE v IN (1, NULL)", "IN with NULL"),
    ("SELECT 2147483647 + 1 AS a FROM s", "SELECT 2147483648 AS a FROM s", "overflow of INT"),
    ("SELECT 5 / 2 AS a FROM s", "SELECT 2 AS a FROM s", "division"),
    ("SELECT DISTINCT k, window(ts, '5 seconds') AS b FROM s", "SELECT k FROM s", "DISTINCT"),
    (f"SELECT count(v) AS n FROM s GROUP BY {WINDOW}", f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}", "count"),
    (
        f"SELECT count(DISTINCT v) AS n FROM s GROUP BY {WINDOW}",
        f"SELECT count(v) AS n FROM s GROUP BY {WINDOW}",
        "count(DISTINCT)",
    ),
    (
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}",
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '10 seconds', '5 seconds')",
        "a slide",
    ),
    (
        "SELECT window.end AS e, count(*) AS n FROM s GROUP BY window(ts, '10 seconds', '5 seconds')",
        "SELECT window.end AS e, count(*) AS n FROM s GROUP BY cumulate_window(ts, '10 seconds', '5 seconds')",
        "cumulative windows, of equal statements",
    ),
    (
        "SELECT count(*) AS n FROM s GROUP BY session_window(ts, '10 seconds'), k",
        "SELECT count(*) AS n FROM s GROUP BY session_window(ts, '20 seconds'), k",
        "the gap of sessions",
    ),
    (
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}, k",
        "SELECT count(*) AS n FROM s GROUP BY session_window(ts, '10 seconds'), k",
        "windows and sessions",
    ),
    (
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}, k",
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}, v",
        "a group key that is not selected",
    ),
    (
        f"SELECT count(*) FILTER (WHERE v > 1) AS n FROM s GROUP BY {WINDOW}",
        f"SELECT count(*) AS n FROM s WHERE v > 1 GROUP BY {WINDOW}",
        "FILTER",
    ),
    ("SELECT k FROM s WHERE site = 'us'", "SELECT k FROM s WHERE site = 'eu'", "a site"),
    ("SELECT s.k FROM s JOIN t USING (k)", "SELECT s.k FROM s LEFT JOIN t USING (k)", "LEFT"),
    ("SELECT s.k FROM s JOIN t USING (k)", "SELECT s.k FROM s JOIN t USING (k, site)", "a join on site"),
    ("SELECT k FROM s", "SELECT k FROM o", "a stream"),
    (
        f"SELECT k, w, count(*) AS n FROM s GROUP BY {WINDOW}, k, w "
        "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n) <= 2",
        f"SELECT k, w, count(*) AS n FROM s GROUP BY {WINDOW}, w, k "
        "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n) <= 2",
        "what breaks ties",
    ),
    (
        f"SELECT k, n FROM (SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k "
        "QUALIFY rank() OVER (PARTITION BY window ORDER BY n) <= 2) AS d WHERE k > 1",
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k HAVING k > 1 "
        "QUALIFY rank() OVER (PARTITION BY window ORDER BY n) <= 2",
        "a filter behind a rank and one before",
    ),
]


@pytest.mark.parametrize(("first", "second"), [pair[:2] for pair in DIFFERENT], ids=[pair[2] for pair in DIFFERENT])
def test_another_meaning_has_another_fingerprint(first: str, second: str) -> None:
    assert result_of(first) != result_of(second)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE STREAM s (ts TIMESTAMP, k INT, w STRING, v INT, d DOUBLE, "
        "WATERMARK FOR ts AS ts - INTERVAL '1 second') WITH ('connector' = 'push') AT us AT eu AT ap",
        "CREATE STREAM s (ts TIMESTAMP, k INT, w STRING, v INT, d DOUBLE, WATERMARK FOR ts) "
        "WITH ('connector' = 'push', 'retention' = '2 hours') AT us AT eu AT ap",
        "CREATE STREAM s (ts TIMESTAMP, k BIGINT, w STRING, v INT, d DOUBLE, WATERMARK FOR ts) "
        "WITH ('connector' = 'push') AT us AT eu AT ap",
    ],
    ids=["watermark", "options", "a column's type"],
)
def test_a_stream_that_is_declared_otherwise_is_another_stream(change: str) -> None:
    assert result_of("SELECT k FROM s") != result_of("SELECT k FROM s", catalog_of(change, CATALOG))


def test_sources_of_one_site_are_the_same_where_the_sites_of_the_queries_differ() -> None:
    sql = "SELECT k, count(*) AS n FROM s WHERE {} GROUP BY window(ts, '10 seconds'), k"
    every, some = vertices(sql.format("TRUE")), vertices(sql.format("site <> 'ap'"))
    assert every[vid("s1.p2")].fingerprint == some[vid("s1.p1")].fingerprint != every[vid("s1.p1")].fingerprint
    assert every[vid("m1")].fingerprint != some[vid("m1")].fingerprint
    assert every[vid("m1")].inputs == (vid("s1.p0"), vid("s1.p1"), vid("s1.p2"))


def test_a_union_of_a_stream_with_itself_is_not_the_stream() -> None:
    once = f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k"
    twice = (
        f"SELECT k, count(*) AS n FROM (SELECT ts, k FROM s UNION ALL SELECT ts, k FROM s) AS u GROUP BY {WINDOW}, k"
    )
    assert result_of(once) != result_of(twice)


def test_columns_of_the_branches_of_a_union_belong_together() -> None:
    union = "(SELECT ts, k AS a, v AS b FROM s UNION ALL SELECT ts, v, k FROM s) AS u"
    sql = f"SELECT {{}}, count(*) AS n FROM {union} GROUP BY {WINDOW}, a, b"
    assert result_of(sql.format("a AS x, b AS y")) != result_of(sql.format("a AS x, a AS y"))
    assert result_of(sql.format("a AS x, b AS y")) == result_of(sql.format("b AS y, a AS x"))


def test_a_placed_plan_has_the_fingerprints_of_its_draft() -> None:
    draft = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k", CATALOG)
    sites = ("us", "eu", "ap")
    placed = place(draft, topology_of(*sites), Statistics(), alive=frozenset(sites))
    relations = {relation.name: relation for relation in CATALOG.relations.values()}
    found = vertices_of(placed, relations, {}, owner="q", gateway="us")
    assert [v.fingerprint for v in found] == [v.fingerprint for v in vertices(draft).values()]


def test_what_cannot_be_read_is_compared_by_its_text() -> None:
    draft = draft_of("SELECT k FROM s", CATALOG)
    assert draft.stages[0].kind is StageKind.SOURCE

    def with_sql(sql: str) -> str:
        stage = replace(draft.stages[0], sql=sql, body=None)
        return vertices(replace(draft, stages=(stage,)))[vid("s1.p2")].fingerprint

    odd = "SELECT k FROM input LATERAL VIEW explode(x) AS y"
    assert with_sql(odd) == with_sql(odd) != with_sql(odd + " ")
