"""Joins of streams within UNION ALL, WITH, sub-queries and views give the rows that DuckDB gives for the same text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import duckdb
import pytest

from planner.planning.questions import analyses_of_union, analyses_of_views, analysis_of_query, analysis_of_view
from planner.text.logical import logical_lines
from planner.values.edits import edited
from planner.values.errors import PlannerError, Position
from tests.unit.planner.build import catalog_of, draft_of
from tests.unit.planner.engine import connect, fetch, run_draft
from tests.unit.planner.test_window_joins import CATALOG, START, load_whole

SAME = "window(a.ts, '10 seconds') = window(b.seen, '10 seconds')"
JOINED = f"FROM s AS a JOIN r AS b ON a.k = b.k AND {SAME}"
LEFT = f"FROM s AS a LEFT JOIN r AS b ON a.k = b.k AND {SAME}"


def _forms(text: str) -> dict[str, str]:
    """Queries by name; $JOINED and $LEFT join `s AS a` with `r AS b`, $W is the window."""
    parts = (part.partition("\n") for part in text.split("-- ")[1:])
    known = {"$JOINED": JOINED, "$LEFT": LEFT, "$SAME": SAME, "$W": "window(a.ts, '10 seconds')"}
    forms = {name: " ".join(sql.split()) for name, _, sql in parts}
    for word, meaning in known.items():
        forms = {name: sql.replace(word, meaning) for name, sql in forms.items()}
    return forms


FORMS = _forms("""
-- branches
SELECT a.v AS n, b.x AS m $JOINED UNION ALL SELECT v, k FROM s WHERE v > 1 UNION ALL SELECT b.x, a.k $LEFT
-- aggregated_branches
SELECT a.k AS n, count(*) AS m $JOINED GROUP BY a.k, $W UNION ALL SELECT k, max(v) FROM s GROUP BY k, window(ts,
'10 seconds')
-- both_derived
SELECT a.p AS p, b.y AS y FROM (SELECT k, ts, v * 2 AS p FROM s WHERE v > 0) AS a JOIN (SELECT k AS j, x + 1 AS y,
seen AS t0 FROM r WHERE x <> 2) AS b ON a.k = b.j AND b.y <> a.p AND window(a.ts, '10 seconds') =
window(b.t0, '10 seconds') WHERE b.y > 1
-- left_derived
SELECT a.v AS v, b.hit AS hit, b.y AS y FROM s AS a LEFT JOIN (SELECT k, seen, 1 AS hit, coalesce(x, 0) AS y FROM r
WHERE x IS NULL OR x > 0) AS b ON a.k = b.k AND b.y < 3 AND $SAME WHERE b.y IS NULL OR a.v = 1
-- derived_twice
WITH d AS (SELECT k, seen, x FROM r WHERE x > 0), e(j, t0, z) AS (SELECT k, seen, x + k FROM d WHERE k > 0)
SELECT a.v AS v, e.z AS z FROM s AS a JOIN e ON a.k = e.j AND window(a.ts, '10 seconds') = window(e.t0, '10 seconds')
-- site_of_derived
SELECT a.v AS v, b.born AS born, t.name AS n FROM s AS a JOIN (SELECT k, seen, x, site AS born FROM r) AS b ON
a.k = b.k AND $SAME JOIN t ON t.k = b.x AND t.site = b.born WHERE b.born <> 'ap' AND a.site = 'us'
-- table_of_derived
SELECT a.v AS v, t.y AS y FROM s AS a LEFT JOIN (SELECT k, seen, x + 1 AS z FROM r) AS b ON a.k = b.k AND $SAME
LEFT JOIN (SELECT k, coalesce(name, '') AS y FROM t WHERE k > 0) AS t ON t.k = b.z
-- over_join
SELECT p + 1 AS q, y FROM (SELECT a.v AS p, coalesce(b.x, 0) AS y, b.k AS j $LEFT) AS d WHERE y = 0 OR j > 1
-- over_join_with_table
SELECT d.p AS p, t.name AS n FROM (SELECT a.v AS p, coalesce(b.x, 1) AS y $LEFT) AS d LEFT JOIN t ON t.k = d.y
WHERE d.p > 0
-- groups_over_join
SELECT w, j, count(*) AS n, max(q) AS m FROM (SELECT $W.start AS w, a.k AS j, b.x + a.v AS q $LEFT) AS d WHERE
j IS NOT NULL GROUP BY w, j HAVING count(*) > 1
-- groups_over_time
SELECT count(*) AS n, sum(q) AS m FROM (SELECT a.ts AS t0, b.x AS q $JOINED) AS d GROUP BY
window(t0, '10 seconds'), q
-- over_groups
SELECT max(n) AS most, count(*) AS groups FROM (SELECT $W.start AS w, a.k AS j, count(*) AS n $JOINED GROUP BY 1, 2)
AS d WHERE n > 0 GROUP BY w
-- with_union
WITH d AS (SELECT a.v AS p, b.x AS q $JOINED) SELECT p FROM d WHERE q > 0 UNION ALL SELECT q + 1 FROM d
-- over_union
SELECT p * 2 AS n FROM (SELECT a.v AS p $JOINED UNION ALL SELECT x FROM r) AS d WHERE p > 0
-- union_joined
SELECT a.n AS n, b.x AS x FROM (SELECT k, ts, v AS n FROM s WHERE v > 0 UNION ALL SELECT v, ts, k FROM s) AS a
LEFT JOIN r AS b ON a.k = b.k AND $SAME
-- join_joined
SELECT d.p AS p, d.q AS q, c.v AS v FROM (SELECT a.ts AS t0, a.v AS p, b.x AS q $LEFT) AS d JOIN s AS c ON c.k = d.q
AND window(d.t0, '10 seconds') = window(c.ts, '10 seconds') WHERE c.v > 0
""")


def _row(random: Random, time: str, value: str) -> dict[str, Any]:
    few = [None, 0, 1, 2, 3]
    return {
        time: START + timedelta(milliseconds=random.randrange(25_000)),
        "k": random.choice(few),
        value: random.choice(few),
    }


RANDOM = Random(11)
DATA: dict[str, dict[str, list[list[dict[str, Any]]]]] = {
    "s": {site: [[_row(RANDOM, "ts", "v") for _ in range(8)] for _ in "12"] for site in ("us", "eu")},
    "r": {site: [[_row(RANDOM, "seen", "x") for _ in range(8)] for _ in "12"] for site in ("eu", "ap")},
    "t": {
        site: [[{"k": RANDOM.choice([0, 1, 2, 3]), "name": RANDOM.choice("xy")} for _ in "123"]]
        for site in ("us", "eu")
    },
}


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as connection:
        load_whole(connection, DATA)
        yield connection


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", FORMS)
def test_forms(db: duckdb.DuckDBPyConnection, name: str, parts: int) -> None:
    found = run_draft(db, draft_of(FORMS[name], CATALOG, parts=parts), DATA)
    assert found == fetch(db, re.sub(r"window\(([\w.]+), '10 seconds'\)(\.start)?", r"w(\1, 10)", FORMS[name]))
    assert found


AT = "SELECT a.v AS v FROM s AS a JOIN"
SLIDING = SAME.replace("'10 seconds'", "'10 seconds', '5 seconds'")
REFUSED = [
    (f"SELECT count(*) AS n FROM (SELECT a.ts AS t0 {JOINED} UNION ALL SELECT ts FROM s) AS d "
     "GROUP BY window(t0, '20 seconds')", "a.ts AS t0 F", "each branch"),
    ("SELECT count(*) AS n FROM (SELECT k, ts FROM s UNION ALL SELECT v, ts FROM s) AS a JOIN r AS b ON a.k = b.k "
     f"AND {SAME} GROUP BY window(a.ts, '10 seconds')", "r AS b", "each branch"),
    (f"{AT} (SELECT k, count(*) AS n FROM r GROUP BY window(seen, '10 seconds'), k) AS b ON a.k = b.k", "k, count",
     "can be joined"),
    (f"{AT} (SELECT r.k, r.seen FROM r JOIN t ON r.k = t.k) AS b ON a.k = b.k AND {SAME}", "r.k, r.seen",
     "can be joined"),
    (f"{AT} (SELECT k, seen FROM r UNION ALL SELECT k, seen FROM r) AS b ON a.k = b.k AND {SAME}", "k, seen FROM r U",
     "can be joined"),
    (f"{AT} (SELECT k FROM r) AS b ON a.k = b.k", "a.k = b.k", "b does not select the event-time column"),
    (f"{AT} (SELECT k, x AS seen FROM r) AS b ON a.k = b.k AND {SAME}", "b.seen", "b does not select"),
    (f"SELECT count(*) FROM (SELECT a.ts AS t0 {JOINED.replace(SAME, SLIDING)}) AS d GROUP BY "
     "window(t0, '10 seconds', '5 seconds')", "window(t0", "Select the window in the sub-query"),
    (f"SELECT d.p FROM (SELECT a.ts AS t0, a.v AS p {JOINED}) AS d JOIN s AS c ON c.k = d.p AND "
     "window(d.t0, '5 seconds') = window(c.ts, '5 seconds')", "s AS c", "same windows"),
    (f"SELECT count(*) FROM (SELECT a.ts AS t0 {JOINED}) AS d GROUP BY window(t0, '5 seconds')", "window(t0",
     "Write window(d.t0, '10 seconds')."),
    (f"SELECT count(*) FROM (SELECT a.v AS p {JOINED}) AS d GROUP BY p", "p", "needs a window"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "found", "hint"), REFUSED, ids=[sql for sql, _, _ in REFUSED])
def test_what_is_refused_has_its_place_and_a_hint(sql: str, found: str, hint: str) -> None:
    with pytest.raises(PlannerError) as raised:
        draft_of(sql, CATALOG)
    assert raised.value.code == "UNSUPPORTED_SQL"
    assert raised.value.position == Position(1, sql.rindex(found) + 1)
    assert hint in raised.value.hint


def test_columns_of_the_window_can_be_named_window() -> None:
    draft = draft_of(
        f"SELECT window.START AS s, p, count(*) AS n FROM (SELECT window(a.ts, '10 seconds', '5 seconds') AS window, "
        f"a.v AS p {JOINED.replace(SAME, SLIDING)}) AS d GROUP BY window, p",
        CATALOG,
    )
    assert draft.stage("m1").sql.startswith("SELECT _window_start AS s, _k0 AS p, _a0 AS n FROM")


def test_spark_checks_views_and_queries_without_the_equal_windows() -> None:
    catalog = catalog_of(f"CREATE VIEW j AS SELECT a.ts, a.site AS born, b.x\n{JOINED}", CATALOG)
    text = f"WITH d AS (SELECT a.v, b.* {LEFT}) SELECT v FROM d UNION ALL SELECT x FROM j UNION ALL SELECT d.x FROM d"
    draft = draft_of(text, catalog)
    (view,) = analyses_of_views(draft)
    checked = analysis_of_view(draft, view, catalog, {})
    assert checked.statement == f"SELECT a.ts, a.site AS born, b.x\n{JOINED.replace(SAME, 'true')}"
    whole = analysis_of_query(draft, catalog)
    starred = text.replace("b.*", "b.seen, b.k, b.x").replace(SAME, "true")
    assert whole.statement == edited(text, whole.edits) == starred
    assert set(whole.views) == {"s", "r", "j"}
    assert [stage.id for stage in draft.stages] == ["s1", "s2", "m1", "s3", "s4", "m2", "s5", "s6", "m3"]
    assert draft.result_stages == ("m1", "m2", "m3")
    assert logical_lines(draft.logical)[:2] == ("UnionAll", "  Project[a.v]")


def test_types_of_a_union_of_joins_are_asked() -> None:
    draft = draft_of(f"SELECT p FROM (SELECT a.v AS p {LEFT} UNION ALL SELECT b.x {JOINED}) AS d", CATALOG)
    asked = analyses_of_union(draft, {})
    assert asked["u1.0"].statement == "SELECT input.v AS p FROM s AS input LEFT JOIN r AS t1 ON input.k = t1.k"
    assert set(asked["u1"].views) == {"s", "r"}


@pytest.mark.parametrize(
    ("entry", "checked"),
    [
        (f"SELECT a.v {JOINED}", f"SELECT a.v {JOINED.replace(SAME, 'true')}"),
        ("SELECT * FROM s WHERE site = 'us'", "SELECT s.ts, s.k, s.v FROM s WHERE site = 'us'"),
        ("SELECT count(*) AS n FROM s", "SELECT count(*) AS n FROM s"),
        ("SELECT k FROM t", "SELECT k FROM t"),
    ],
)
def test_entries_that_nothing_uses_are_checked_by_spark_all_the_same(entry: str, checked: str) -> None:
    draft = draft_of(f"WITH d AS ({entry}), e AS (SELECT * FROM d) SELECT x FROM r", CATALOG)
    whole = analysis_of_query(draft, CATALOG)
    assert f"WITH d AS ({checked})," in whole.statement
    assert [stage.id for stage in draft.stages] == ["s1"]
    assert set(draft.relations) == {"r"}
    assert draft.site_named == (frozenset({"s"}) if "site" in entry else frozenset())
