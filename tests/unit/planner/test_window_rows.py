"""Joins of rows of windows, and longer windows over them, give the rows that DuckDB gives for the text as written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.estimate.rates import estimate_flows
from planner.graph.operators import MergeAggregate, walk
from planner.graph.plan import DraftPlan, Statistics
from planner.text.logical import logical_lines
from planner.values.errors import PlannerError
from tests.seeds import several
from tests.unit.planner.build import draft_of
from tests.unit.planner.engine import connect, fetch, run_draft
from tests.unit.planner.test_composition import KEYS, STREAM
from tests.unit.planner.test_semantics import CATALOG, load_whole

CALL = re.compile(r"window\(([\w.]+), '(\d+) seconds'\)(\.start)?")

A = "SELECT window(ts, '5 seconds').start AS s, k, count(*) AS n, sum(v) AS m FROM s GROUP BY 1, 2"
B = "SELECT window(ts, '5 seconds').start AS s, k, max(v) AS x FROM s WHERE w = 'a' GROUP BY 1, 2"
TOTALS = "SELECT window(ts, '5 seconds').start AS s, count(*) AS total FROM s GROUP BY 1"
UNION = (
    "SELECT window(ts, '5 seconds').start AS s, k, count(*) AS n FROM (SELECT ts, k FROM s UNION ALL SELECT ts, v FROM "
    "s WHERE v > 1) AS u GROUP BY 1, 2"
)
JOINS = {
    "inner": f"WITH a AS ({A}), b AS ({B}) SELECT a.s, a.k, n, x FROM a JOIN b ON a.s = b.s AND a.k = b.k",
    "left": f"""WITH a AS ({A}), b AS ({B}) SELECT a.s, a.k, n, x FROM a LEFT JOIN b ON a.s = b.s AND a.k = b.k
        AND x > 2""",
    "using": f"SELECT s, k, n, x FROM ({A}) AS a JOIN ({B}) AS b USING (s, k)",
    "window alone": f"SELECT a.s, k, n, total FROM ({A}) AS a JOIN ({TOTALS}) AS t ON t.s = a.s WHERE n < total",
    "other condition": f"SELECT a.s, a.k, b.k AS o FROM ({A}) AS a JOIN ({B}) AS b ON a.s = b.s AND a.n > b.x",
    "itself": f"WITH a AS ({A}) SELECT a.s, a.k, b.n FROM a JOIN a AS b ON a.s = b.s AND a.k = b.k AND a.n >= b.m",
    "three": f"""WITH a AS ({A}), b AS ({B}), c AS ({TOTALS}) SELECT a.s, a.k, x, total FROM a LEFT JOIN b ON a.s = b.s
        AND a.k = b.k JOIN c ON c.s = a.s AND c.total > a.n""",
    "grouped": f"""SELECT a.s, count(*) AS c, sum(x) AS x FROM ({A}) AS a LEFT JOIN ({B}) AS b ON a.s = b.s AND a.k =
        b.k GROUP BY a.s HAVING count(*) > 1""",
    "top k": f"""SELECT a.s, a.k, x FROM ({A}) AS a JOIN ({B}) AS b ON a.s = b.s AND a.k = b.k
        QUALIFY rank() OVER (PARTITION BY a.s ORDER BY n DESC, a.k) <= 2""",
    "over a join": f"""SELECT s, max(n) AS n FROM (SELECT a.s, a.k, n + coalesce(x, 0) AS n FROM ({A}) AS a LEFT JOIN
        ({B}) AS b ON a.s = b.s AND a.k = b.k) AS d WHERE k > 0 GROUP BY s""",
    "join of a join": f"""SELECT d.s, d.k, d.x, t.total FROM (SELECT a.s, a.k, x FROM ({A}) AS a JOIN ({B}) AS b ON
        a.s = b.s AND a.k = b.k) AS d JOIN ({TOTALS}) AS t ON d.s = t.s""",
    "joined on the right": f"""SELECT t.s, total, d.x FROM ({TOTALS}) AS t LEFT JOIN (SELECT a.s, a.k, x FROM ({A}) AS a
        JOIN ({B}) AS b ON a.s = b.s AND a.k = b.k) AS d ON d.s = t.s""",
    "right": f"""SELECT b.s, b.k, n, x FROM ({A}) AS a RIGHT JOIN ({B} HAVING max(v) > 1) AS b ON a.s = b.s AND a.k =
        b.k""",
    "full": f"""WITH a AS ({A} HAVING count(*) < 3), b AS ({B}) SELECT coalesce(a.s, b.s) AS s, coalesce(a.k, b.k) AS k,
        n, x FROM a FULL JOIN b ON a.s = b.s AND a.k = b.k AND n > 1""",
    "grouped over full": f"""WITH a AS ({A} HAVING count(*) < 3), b AS ({B}) SELECT coalesce(a.s, b.s) AS s, count(n) AS
        n, count(x) AS x FROM a FULL JOIN b ON a.s = b.s AND a.k = b.k GROUP BY coalesce(a.s, b.s)""",
    "top k over full": f"""WITH a AS ({A} HAVING count(*) < 3), b AS ({B}) SELECT coalesce(a.s, b.s) AS s, n, x FROM a
        FULL JOIN b ON a.s = b.s AND a.k = b.k
        QUALIFY rank() OVER (PARTITION BY coalesce(a.s, b.s) ORDER BY n NULLS FIRST, x NULLS FIRST) < 3""",
    "over full": f"""SELECT s, max(n) AS n FROM (SELECT coalesce(a.s, b.s) AS s, coalesce(n, x) AS n FROM ({A} HAVING
        count(*) < 3) AS a FULL JOIN ({B}) AS b ON a.s = b.s AND a.k = b.k) AS d GROUP BY s""",
    "semi": f"SELECT a.s, a.k, n FROM ({A}) AS a SEMI JOIN ({B}) AS b ON a.s = b.s AND a.k = b.k AND b.x < a.n + 2",
    "anti": f"""SELECT a.s, count(*) AS c FROM ({A}) AS a ANTI JOIN ({B}) AS b ON a.s = b.s AND a.k = b.k LEFT JOIN
        ({TOTALS}) AS t ON t.s = a.s GROUP BY a.s""",
    "exists": f"""WITH a AS ({A}), b AS ({B}) SELECT a.s, a.k, n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.s =
        a.s AND b.k = a.k) AND n > 0""",
    "unions": f"SELECT a.s, a.k, a.n, b.n AS m FROM ({UNION}) AS a JOIN ({UNION}) AS b ON a.s = b.s AND a.k = b.k",
    "filtered before": f"""SELECT a.s, a.k, b.x FROM (SELECT * FROM ({A}) AS i WHERE n > 1) AS a LEFT JOIN
        (SELECT s, k, x + 1 AS x FROM ({B}) AS i WHERE x > 0) AS b ON a.s = b.s AND a.k = b.k""",
}
ROLLUPS = {
    "counts": f"SELECT window(s, '10 seconds').start AS t, sum(n) AS n FROM ({A}) AS d GROUP BY 1",
    "keys": f"""SELECT window(d.s, '15 seconds').start AS t, k, max(n) AS most, count(*) AS c FROM ({A}) AS d WHERE n
        > 0 GROUP BY 1, k HAVING count(*) > 1""",
    "same length": f"SELECT window(s, '5 seconds').start AS t, max(n) AS n FROM ({A}) AS d GROUP BY 1",
    "top k inside": f"""SELECT window(s, '10 seconds').start AS t, sum(n) AS n FROM ({A} QUALIFY row_number() OVER
        (PARTITION BY window(ts, '5 seconds').start ORDER BY count(*) DESC, coalesce(k, -1)) <= 2) AS d GROUP BY 1""",
    "top k outside": f"""SELECT window(s, '10 seconds').start AS t, k, sum(n) AS n FROM ({A}) AS d GROUP BY 1, 2
        QUALIFY rank() OVER (PARTITION BY t ORDER BY sum(n) DESC) = 1""",
    "thrice": f"""SELECT window(t, '30 seconds').start AS u, max(n) AS n FROM (SELECT window(s, '10 seconds').start
        AS t, sum(n) AS n FROM ({A}) AS d GROUP BY 1) AS e GROUP BY 1""",
    "layers between": f"""SELECT window(s, '10 seconds').start AS t, min(c) AS c FROM (SELECT s, count(*) AS c FROM
        (SELECT s, k FROM ({A}) AS a WHERE n > 1) AS b GROUP BY s) AS d GROUP BY 1""",
    "union": f"SELECT window(s, '10 seconds').start AS t, sum(n) AS n, count(*) AS c FROM ({UNION}) AS d GROUP BY 1",
    "distinct": f"SELECT DISTINCT window(s, '10 seconds').start AS t, n FROM ({A}) AS d",
    "window in a key": """SELECT window(s, '10 seconds').start AS t, max(x) AS x FROM (SELECT window(ts, '5
        seconds').start AS s, second(window(ts, '5 seconds').start) AS x, avg(v) AS v FROM s GROUP BY 1, 2) AS d
        GROUP BY 1""",
    "join": f"""SELECT window(a.s, '10 seconds').start AS t, a.k, sum(n) AS n, max(x) AS x FROM ({A}) AS a LEFT JOIN
        ({B}) AS b ON a.s = b.s AND a.k = b.k GROUP BY 1, 2""",
    "join of longer ones": f"""SELECT a.t, a.n, b.n AS m FROM (SELECT window(s, '10 seconds').start AS t, max(n) AS n
        FROM ({A}) AS d GROUP BY 1) AS a JOIN (SELECT window(ts, '10 seconds').start AS t, count(*) AS n FROM s GROUP
        BY 1) AS b ON a.t = b.t""",
}

SAME = "window(a.ts, '5 seconds') = window(b.ts, '5 seconds')"
PAIRS = f"SELECT a.ts, a.k, b.v FROM s AS a JOIN s AS b ON a.k = b.k AND {SAME} WHERE b.v > 2 AND a.v <> b.v"
OUTER = f"SELECT a.ts, b.k, a.v + 1 FROM s AS a LEFT JOIN s AS b ON a.v = b.v AND b.w = 'a' AND {SAME}"
WITH_TABLE = f"""SELECT b.ts, t.k, t.x FROM s AS b JOIN s AS a ON a.k = b.k AND {SAME} JOIN t ON t.k = a.v AND t.x = b.v
    WHERE t.name = 'x'"""
CALLS = "count(*) AS n, sum(v) AS m, avg(v) AS mean, count(DISTINCT v) AS d"
UNIONS = {
    "rows and a join": f"""SELECT window(ts, '5 seconds').start AS s, k, {CALLS} FROM (SELECT ts, k, v FROM s UNION ALL
        {PAIRS}) AS u GROUP BY 1, 2""",
    "two joins": f"""SELECT window(ts, '5 seconds').start AS s, {CALLS} FROM ({PAIRS} UNION ALL SELECT ts, k, v FROM s
        WHERE v > 3 UNION ALL {OUTER}) AS u WHERE v < 9 GROUP BY 1 HAVING count(*) > 1""",
    "a late table": f"""SELECT window(ts, '5 seconds').start AS s, k, {CALLS} FROM (SELECT ts, k, v FROM s WHERE k = 1
        UNION ALL {WITH_TABLE}) AS u GROUP BY 1, 2""",
    "a table outside": f"""SELECT window(u.ts, '5 seconds').start AS s, t.name, count(*) AS n, sum(u.v) AS m FROM
        (SELECT ts, k, v FROM s UNION ALL {PAIRS}) AS u JOIN t ON t.k = u.k GROUP BY 1, 2""",
    "joined again": f"""SELECT a.s, a.k, a.n, b.n AS o FROM (SELECT window(ts, '5 seconds').start AS s, k, count(*) AS n
        FROM (SELECT ts, k, v FROM s UNION ALL {PAIRS}) AS u GROUP BY 1, 2) AS a LEFT JOIN ({A}) AS b ON a.s = b.s AND
        a.k = b.k""",
    "joined on the right": f"""SELECT b.s, b.k, a.n, b.n AS o FROM ({A}) AS b JOIN (SELECT window(ts, '5 seconds').start
        AS s, k, count(*) AS n FROM (SELECT ts, k, v FROM s UNION ALL {PAIRS}) AS u GROUP BY 1, 2) AS a ON a.s = b.s AND
        a.k = b.k""",
}


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as connection:
        load_whole(connection, STREAM, KEYS)
        yield connection


def whole(sql: str) -> str:
    return CALL.sub(lambda call: f"w({call[1]}, {call[2]})", sql)


def check(db: duckdb.DuckDBPyConnection, sql: str) -> int:
    held = {site: [rows] for site, rows in KEYS.items()}
    wanted = fetch(db, whole(" ".join(sql.split())))
    for parts in (1, 3):
        found = run_draft(db, draft(sql, parts), {"s": STREAM, "t": held}, lambda count: count // 2)
        assert found == wanted
    return len(wanted)


def draft(sql: str, parts: int = 1) -> DraftPlan:
    return draft_of(" ".join(sql.split()), CATALOG, parts=parts)


@pytest.mark.parametrize("name", JOINS)
def test_joins(db: duckdb.DuckDBPyConnection, name: str) -> None:
    assert check(db, JOINS[name])


@pytest.mark.parametrize("name", ROLLUPS)
def test_longer_windows(db: duckdb.DuckDBPyConnection, name: str) -> None:
    assert check(db, ROLLUPS[name])


@pytest.mark.parametrize("name", UNIONS)
def test_aggregates_over_unions_with_joins_of_streams(db: duckdb.DuckDBPyConnection, name: str) -> None:
    assert check(db, UNIONS[name])


@st.composite
def rows_of_windows(draw: st.DrawFn) -> str:
    """Aggregates with columns s, k and n, over windows of 5 seconds or over those of 5 that lie in 10."""
    call = draw(st.sampled_from(["count(*)", "sum(v)", "max(v)", "count(DISTINCT v)"]))
    where = draw(st.sampled_from(["", " WHERE v > 1", " WHERE w = 'a'", " WHERE k < 4 AND site <> 'us'"]))
    having = draw(st.sampled_from(["", " HAVING count(*) > 1"]))
    return f"SELECT window(ts, '5 seconds').start AS s, k, {call} AS n FROM s{where} GROUP BY 1, 2{having}"


def longer(sql: str, length_s: int, call: str) -> str:
    return f"SELECT window(s, '{length_s} seconds').start AS s, k, {call}(n) AS n FROM ({sql}) AS d GROUP BY 1, 2"


@settings(max_examples=several(10, 25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_joins_and_longer_windows(db: duckdb.DuckDBPyConnection, data: st.DataObject) -> None:
    first, second = data.draw(rows_of_windows()), data.draw(rows_of_windows())
    length_s = data.draw(st.sampled_from([5, 10, 15, 30]))
    call = data.draw(st.sampled_from(["sum", "min", "count"]))
    before = data.draw(st.booleans())
    if before:
        first, second = longer(first, length_s, call), longer(second, length_s, call)
    kind, other = data.draw(st.sampled_from(["JOIN", "LEFT JOIN"])), data.draw(st.sampled_from(["", " AND b.n > 1"]))
    sql = f"SELECT a.s, a.k, coalesce(a.n + b.n, -1) AS n FROM ({first}) AS a {kind} ({second}) AS b"
    sql += f" ON b.s = a.s AND a.k = b.k{other}"
    check(db, sql if before else longer(sql, length_s, call))


REFUSED = {
    "no window in ON": (
        f"SELECT a.n FROM ({A}) AS a JOIN ({B}) AS b ON a.k = b.k",
        "ON does not say that b's equals another",
        "Add to ON: AND a.s = b.s.",
    ),
    "no window selected": (
        f"SELECT a.n FROM ({A}) AS a JOIN (SELECT count(*) AS c FROM s GROUP BY window(ts, '5 seconds')) AS b ON n = c",
        "ON does not say that b's equals another",
        "Select the window in both queries",
    ),
    "other length": (
        f"SELECT a.n FROM ({A}) AS a JOIN (SELECT window(ts, '9 seconds').start AS s FROM s GROUP BY 1) AS b USING (s)",
        "the windows that are joined differ: 5 seconds and 9 seconds",
        "Give both the same length and slide",
    ),
    "a start and an end": (
        f"SELECT a.n FROM ({A}) AS a JOIN (SELECT window(ts, '5 seconds').end AS s FROM s GROUP BY 1) AS b USING (s)",
        "ON does not say that b's equals another",
        "",
    ),
    "a table": (f"SELECT a.n FROM ({A}) AS a JOIN t ON a.k = t.k", "t has none", "Join tables before aggregating"),
    "a stream": (f"SELECT a.n FROM ({A}) AS a JOIN s ON a.k = s.k", "s has none", "or aggregate both"),
    "rows": (f"SELECT a.n FROM ({A}) AS a JOIN (SELECT k FROM s) AS d ON a.k = d.k", "d has none", ""),
    "to a stream": (f"SELECT a.n FROM s JOIN ({A}) AS a ON a.k = s.k", "a aggregates", "rows of windows"),
    "an aggregate in ON": (
        f"SELECT a.n FROM ({A}) AS a JOIN ({B}) AS b ON a.s = b.s AND max(a.n) = 1",
        "in ON",
        "HAVING",
    ),
    "window in ON": (
        f"SELECT a.n FROM ({A}) AS a JOIN ({B}) AS b ON window(a.s, '5 seconds') = window(b.s, '5 seconds')",
        "window(...) is not possible in ON",
        "",
    ),
    "no multiple": (
        f"SELECT count(*) AS c FROM ({A}) AS a GROUP BY window(s, '12 seconds')",
        "windows of 5 seconds do not fit into windows of 12 seconds",
        "Use a multiple of 5 seconds.",
    ),
    "of the end": (
        "SELECT count(*) AS c FROM (SELECT window(ts, '5 seconds') AS x FROM s GROUP BY 1) AS a "
        "GROUP BY window(x.end, '10 seconds')",
        "the end of a window lies in the next one",
        "window(w.start, ...)",
    ),
    "of another column": (
        f"SELECT count(*) AS c FROM ({A}) AS a GROUP BY window(n, '10 seconds')",
        "window must be on the start of their window",
        "",
    ),
    "sliding over": (
        f"SELECT count(*) AS c FROM ({A}) AS a GROUP BY window(s, '10 seconds', '5 seconds')",
        "without slide or shift",
        "",
    ),
    "over shifted": (
        "SELECT count(*) AS c FROM (SELECT window(ts, '10 seconds', '10 seconds', '1 second').start AS x FROM s "
        "GROUP BY 1) AS a GROUP BY window(x, '20 seconds')",
        "windows of 10 seconds, shifted by 1 second do not fit into longer ones",
        "",
    ),
    "over sliding": (
        "SELECT count(*) AS c FROM (SELECT window(ts, '10 seconds', '5 seconds').start AS x FROM s GROUP BY 1) AS a "
        "GROUP BY window(x, '20 seconds')",
        "windows of 10 seconds every 5 seconds overlap",
        "follow one another",
    ),
    "two": (
        f"SELECT window(s, '20 seconds').start AS c FROM ({A}) AS a GROUP BY 1, window(s, '10 seconds')",
        "a query has one window",
        "",
    ),
    "every branch joins": (
        f"SELECT count(*) AS c FROM ({PAIRS} UNION ALL {OUTER}) AS u GROUP BY window(ts, '5 seconds')",
        "of which every branch joins streams",
        "Aggregate in each branch",
    ),
    "other windows than a branch's": (
        f"SELECT count(*) AS c FROM (SELECT ts, k, v FROM s UNION ALL {PAIRS}) AS u GROUP BY window(ts, '10 seconds')",
        "a branch of the UNION ALL joins streams in windows of 5 seconds",
        "not by those of 10 seconds",
    ),
    "longer windows over a branch that joins": (
        f"SELECT sum(n) AS n FROM (SELECT window(ts, '5 seconds') AS x, count(*) AS n FROM (SELECT ts, k, v FROM s "
        f"UNION ALL {PAIRS}) AS u GROUP BY 1) AS d GROUP BY window(x, '10 seconds')",
        "longer windows over joined streams",
        "",
    ),
    "without GROUP BY": (f"SELECT window(s, '10 seconds').start AS c FROM ({A}) AS a", "only with GROUP BY", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    sql, message, hint = REFUSED[name]
    with pytest.raises(PlannerError) as caught:
        draft(sql)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.position is not None


def test_a_view_is_needed_unless_a_left_join_can_miss_it() -> None:
    merge = draft(JOINS["three"]).stage("m1").merge
    assert merge is not None
    assert [(view.view, view.required) for view in merge.views] == [
        ("input", True),
        ("t1_partials", False),
        ("t2_partials", True),
    ]


def test_the_merge_of_longer_windows_waits_for_their_end() -> None:
    found = draft(ROLLUPS["thrice"])
    merge = found.stage("m1").merge
    assert merge is not None
    assert merge.window.total_seconds() == 30
    body = found.stage("m1").body
    assert body is not None
    assert [o.keys for o in walk(body) if isinstance(o, MergeAggregate)] == [("_window_start", "_k0", "_k1")]
    assert found.shapes["s1"].inner_windows == 6


def test_joined_windows_are_shown() -> None:
    assert logical_lines(draft(JOINS["left"]).logical)[:9] == (
        "Project[a.s, a.k, a.n, b.x]",
        "  JoinOfWindows[LEFT b ON a.s = b.s AND a.k = b.k AND b.x > 2]",
        "    Project[window(ts, '5 seconds').start AS s, k, count(*) AS n, sum(v) AS m]",
        "      MergeAggregate[window, k]",
        "        PartialAggregate[window of 5 seconds, k]",
        "          Scan[s at ap, eu, us]",
        "    Project[window(ts, '5 seconds').start AS s, k, max(v) AS x]",
        "      MergeAggregate[window, k]",
        "        PartialAggregate[window of 5 seconds, k]",
    )


@pytest.mark.parametrize(
    ("sql", "rows_per_s"),
    [
        (JOINS["inner"], 20.0),
        (JOINS["window alone"], 20.0 / 3),
        (ROLLUPS["counts"], 0.1),
        (UNIONS["rows and a join"], 20.0),
    ],
)
def test_the_results_are_estimated(sql: str, rows_per_s: float) -> None:
    """100 groups in each window of 5 s; of longer ones the layer's groups; a third of them for each condition."""
    (estimate,) = estimate_flows(draft(sql), Statistics())
    assert estimate.results is not None
    assert estimate.results.rows_per_s == pytest.approx(rows_per_s)
    assert set(estimate.sources) == {"ap", "eu", "us"}


def test_branches_that_join_are_shown() -> None:
    lines = logical_lines(draft(UNIONS["rows and a join"]).logical)
    assert [line.strip().partition("[")[0] for line in lines[:8]] == [
        *("Project", "MergeAggregate", "UnionAll", "PartialAggregate", "Scan"),
        *("PartialAggregate", "Filter", "WindowJoin"),
    ]
