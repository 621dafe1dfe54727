"""LATERAL VIEW and explode over streams: rows that generators make can be filtered, joined, grouped and united."""

from __future__ import annotations

import duckdb
import pytest

from planner.text.logical import logical_lines
from planner.values.errors import PlannerError
from tests.unit.planner.build import catalog_of, draft_of
from tests.unit.planner.engine import fetch, load, run_draft
from tests.unit.planner.test_semantics import START

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, w STRING, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM o (ts TIMESTAMP, k INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us;
    CREATE TABLE t (k INT, name STRING) WITH ('connector' = 'other') AT us;
    """
)
W = "window(ts, '10 seconds')"
ROWS = [{"ts": START, "k": n % 3, "w": ("a b", "b", None, "c a b")[n % 4]} for n in range(20)]
STREAM = {"us": [ROWS[:7], ROWS[7:9]], "eu": [ROWS[9:]]}
NAMES = [{"k": 1, "name": "a"}, {"k": 2, "name": "b"}, {"k": 2, "name": "x"}]
WORDS = "(SELECT ts, k, explode(split(w, ' ')) AS word FROM s)"
DUCK_WORDS = "(SELECT ts, k, unnest(string_split(w, ' ')) AS word FROM s)"

CASES = {
    "filtered": (
        f"SELECT k, word FROM {WORDS} AS d WHERE word > 'a'",
        f"SELECT k, word FROM {DUCK_WORDS} WHERE word > 'a'",
    ),
    "grouped": (
        f"SELECT word, count(*) AS n FROM {WORDS} AS d WHERE word <> 'b' GROUP BY word, {W}",
        f"SELECT word, count(*) AS n FROM {DUCK_WORDS} WHERE word <> 'b' GROUP BY word, w(ts, 10)",
    ),
    "joined by it": (
        f"SELECT d.k, t.k AS j, word FROM {WORDS} AS d JOIN t ON t.name = d.word AND d.k < 2",
        f"SELECT d.k, t.k AS j, word FROM {DUCK_WORDS} AS d JOIN t ON t.name = d.word AND d.k < 2",
    ),
    "left join": (
        f"SELECT d.k, t.k AS j FROM {WORDS} AS d LEFT JOIN t ON t.name = d.word WHERE word <> 'c'",
        f"SELECT d.k, t.k AS j FROM {DUCK_WORDS} AS d LEFT JOIN t ON t.name = d.word WHERE word <> 'c'",
    ),
    "behind a join": (
        "SELECT t.name, word FROM s JOIN t ON s.k = t.k LATERAL VIEW explode(split(w, ' ')) x AS word "
        "WHERE word > t.name",
        "SELECT t.name, word FROM s JOIN t ON s.k = t.k, unnest(string_split(w, ' ')) AS x(word) WHERE word > t.name",
    ),
    "a view of a view": (
        "SELECT word, c FROM s LATERAL VIEW explode(split(w, ' ')) x AS word "
        "LATERAL VIEW explode(split(word, '')) y AS c",
        f"SELECT word, unnest(string_split(word, '')) AS c FROM {DUCK_WORDS}",
    ),
    "in a union": (
        f"SELECT u.x, count(*) AS n FROM (SELECT ts, word AS x FROM {WORDS} AS d UNION ALL SELECT ts, w FROM s) AS u "
        f"WHERE x < 'c' GROUP BY u.x, {W}",
        f"SELECT x, count(*) AS n FROM (SELECT ts, word AS x FROM {DUCK_WORDS} UNION ALL SELECT ts, w FROM s) "
        "WHERE x < 'c' GROUP BY x, w(ts, 10)",
    ),
    "a table of them": (
        "SELECT s.k, d.x FROM s JOIN (SELECT k, explode(split(name, '')) AS x FROM t) AS d ON s.k = d.k AND d.x < 'x'",
        "SELECT s.k, d.x FROM s JOIN (SELECT k, unnest(string_split(name, '')) AS x FROM t) AS d "
        "ON s.k = d.k AND d.x < 'x'",
    ),
}


@pytest.mark.parametrize(("sql", "wanted"), CASES.values(), ids=CASES)
def test_rows_are_those_of_duckdb(db: duckdb.DuckDBPyConnection, sql: str, wanted: str) -> None:
    found = run_draft(db, draft_of(sql, CATALOG), {"s": STREAM, "t": {"us": [NAMES]}}, lambda count: count // 2)
    born = [{**row, "site": site} for site, epochs in STREAM.items() for epoch in epochs for row in epoch]
    load(db, "s", [("ts", "TIMESTAMP"), ("k", "INT"), ("w", "STRING"), ("site", "STRING")], born)
    load(db, "t", [("k", "INT"), ("name", "STRING")], NAMES)
    assert found == fetch(db, wanted)
    assert found


def test_explain_shows_the_view() -> None:
    lines = logical_lines(draft_of(f"SELECT word FROM {WORDS} AS d WHERE word > 'a'", CATALOG).logical)
    assert lines[1:3] == ("  Filter[col > 'a']", "    LateralView[explode(split(w, ' '))]")


def test_an_outer_generator_keeps_rows_without_any() -> None:
    sql = draft_of("SELECT x FROM (SELECT explode_outer(split(w, ' ')) AS x FROM s) AS d WHERE x IS NULL", CATALOG)
    assert "LATERAL VIEW OUTER explode(" in sql.stage("s1").sql


REFUSED = [
    ("SELECT i FROM (SELECT posexplode(split(w, ' ')) AS i FROM s) AS d WHERE i > 1", 23),
    (
        f"SELECT x FROM (SELECT {W} AS v, collect_list(k) AS l FROM s GROUP BY v) AS d LATERAL VIEW explode(l) y AS x",
        112,
    ),
    (
        f"SELECT d.word FROM {WORDS} AS d JOIN o ON d.k = o.k AND window(d.ts, '1 second') = window(o.ts, '1 second')",
        28,
    ),
    (
        f"SELECT d.word FROM o JOIN {WORDS} AS d ON d.k = o.k AND window(d.ts, '1 second') = window(o.ts, '1 second')",
        35,
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
