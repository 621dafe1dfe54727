"""Joins of streams within intervals give what the query gives over all rows at once, by DuckDB as the judge."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.graph.plan import Pairs, takes_again
from planner.text.logical import logical_lines
from planner.values.pairs import PairSide
from planner.values.stages import StageKind
from tests.seeds import several
from tests.unit.planner.build import assert_refused, catalog_of, draft_of
from tests.unit.planner.engine import fetch, load, run_draft

CATALOG = catalog_of(
    """
    CREATE STREAM a (ts TIMESTAMP, k INT, v INT, until TIMESTAMP, WATERMARK FOR ts)
      WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM b (seen TIMESTAMP, k BIGINT, x INT, WATERMARK FOR seen) WITH ('connector' = 'other') AT eu AT ap;
    CREATE TABLE t (k INT, name STRING) WITH ('connector' = 'other') AT us;
    """
)
A = [("ts", "TIMESTAMP"), ("k", "INT"), ("v", "INT"), ("until", "TIMESTAMP")]
B = [("seen", "TIMESTAMP"), ("k", "BIGINT"), ("x", "INT")]
T = [("k", "INT"), ("name", "STRING")]
START = datetime(2024, 2, 28, 23, 59, 40)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone
ON = "a.k = b.k AND b.seen BETWEEN a.ts - INTERVAL '2 seconds' AND a.ts + INTERVAL '3 seconds'"
UNTIL = "a.k = b.k AND b.seen BETWEEN a.ts AND a.until"
LATER = "a.k = b.k AND a.ts + INTERVAL '1 second' < b.seen AND b.seen <= a.ts + INTERVAL '4 seconds'"
BOUNDS = (ON, UNTIL, LATER)

times = st.integers(0, 12_000).map(lambda ms: START + timedelta(milliseconds=ms))
few = st.none() | st.integers(0, 2)


def _epochs(rows: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[list[dict[str, Any]]]]:
    return st.lists(st.lists(rows, max_size=6), min_size=1, max_size=2)


a_rows = st.fixed_dictionaries({"ts": times, "k": few, "v": few, "until": st.none() | times})
b_rows = st.fixed_dictionaries({"seen": times, "k": few, "x": few})
t_rows = st.lists(st.fixed_dictionaries({"k": few, "name": st.sampled_from(["x", "y"])}), max_size=4)
data_of = st.fixed_dictionaries(
    {
        "a": st.fixed_dictionaries({"us": _epochs(a_rows), "eu": _epochs(a_rows)}),
        "b": st.fixed_dictionaries({"eu": _epochs(b_rows), "ap": _epochs(b_rows)}),
        "t": st.fixed_dictionaries({"us": st.lists(t_rows, min_size=1, max_size=1)}),
    }
)


def load_whole(db: duckdb.DuckDBPyConnection, data: dict[str, Any]) -> None:
    for name, declared in (("a", A), ("b", B), ("t", T)):
        born = [{**row, "site": site} for site, epochs in data[name].items() for epoch in epochs for row in epoch]
        load(db, name, [*declared, ("site", "STRING")], born)


def check(db: duckdb.DuckDBPyConnection, data: dict[str, Any], sql: str, *, whole: str = "", parts: int = 1) -> None:
    load_whole(db, data)
    expected = fetch(db, whole or sql)
    assert run_draft(db, draft_of(sql, CATALOG, parts=parts), data) == expected


EACH = settings(max_examples=several(12, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])


@EACH
@given(
    data=data_of,
    kind=st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]),
    on=st.sampled_from(BOUNDS),
    more=st.sampled_from(["", " AND a.v > b.x", " AND b.x > 1", " AND a.v < 2"]),
    where=st.sampled_from(["", " WHERE a.v IS NOT NULL", " WHERE b.k IS NULL", " WHERE a.v >= b.x", " WHERE b.x > 0"]),
    turned=st.booleans(),
    parts=st.sampled_from([1, 3]),
)
def test_pairs_and_rows_without_a_match(
    db: duckdb.DuckDBPyConnection,
    data: dict[str, Any],
    kind: str,
    on: str,
    more: str,
    where: str,
    turned: bool,
    parts: int,
) -> None:
    sides = f"b {kind} a" if turned else f"a {kind} b"
    check(db, data, f"SELECT a.ts, a.v, a.until, b.seen, b.x FROM {sides} ON {on}{more}{where}", parts=parts)


@EACH
@given(data=data_of, kind=st.sampled_from(["SEMI", "ANTI"]), on=st.sampled_from(BOUNDS), parts=st.sampled_from([1, 3]))
def test_rows_with_a_match_or_without(
    db: duckdb.DuckDBPyConnection, data: dict[str, Any], kind: str, on: str, parts: int
) -> None:
    check(db, data, f"SELECT a.ts, a.v FROM a {kind} JOIN b ON {on} AND b.x > 0", parts=parts)
    check(db, data, f"SELECT seen, x FROM b {kind} JOIN a ON {on}", parts=parts)
    word = "EXISTS" if kind == "SEMI" else "NOT EXISTS"
    check(db, data, f"SELECT seen, x FROM b WHERE {word} (SELECT 1 FROM a WHERE {on}) AND x < 2", parts=parts)


@EACH
@given(data=data_of, on=st.sampled_from(BOUNDS), parts=st.sampled_from([1, 3]))
def test_groups_of_joined_rows(db: duckdb.DuckDBPyConnection, data: dict[str, Any], on: str, parts: int) -> None:
    groups = "SELECT {} AS s, a.v, count(*) AS n, sum(b.x) AS x FROM a JOIN b ON " + on + " GROUP BY {}, a.v"
    call = "window(b.seen, '4 seconds')"
    whole = groups.format("w(b.seen, 4)", "w(b.seen, 4)")
    check(db, data, groups.format(f"{call}.start", call), whole=whole, parts=parts)
    best = (
        "SELECT * FROM (SELECT {} AS s, a.v, count(*) AS n FROM a JOIN b ON " + on + " GROUP BY {}, a.v) AS g "
        "WHERE n > 1"
    )
    check(db, data, best.format(f"{call}.start", call), whole=best.format(*["w(b.seen, 4)"] * 2), parts=parts)


@EACH
@given(data=data_of, parts=st.sampled_from([1, 3]))
def test_groups_close_with_an_instant_of_the_first_row(
    db: duckdb.DuckDBPyConnection, data: dict[str, Any], parts: int
) -> None:
    groups = (
        f"SELECT a.v, a.ts, a.until AS closed, max(b.x) AS best FROM a JOIN b ON {UNTIL} GROUP BY a.v, a.ts, a.until"
    )
    check(db, data, groups, parts=parts)
    longer = "SELECT {} AS s, v, avg(best) AS mean FROM (" + groups + ") AS g GROUP BY {}, v"
    call = "window(closed, '3 seconds')"
    whole = longer.format("w(closed, 3)", "w(closed, 3)")
    check(db, data, longer.format(f"{call}.start", call), whole=whole, parts=parts)
    check(db, data, "SELECT ts, k, count(*) AS n FROM a GROUP BY ts, k", parts=parts)


CHAINS = (
    "SELECT a.v, b.x, c.x AS y FROM a JOIN b ON {0} JOIN b AS c ON c.k = a.v AND c.seen BETWEEN b.seen AND b.seen + "
    "INTERVAL '3 seconds'",
    "SELECT a.v, b.x, c.v AS y, c.until FROM b JOIN a ON {0} LEFT JOIN a AS c ON c.k = b.x AND c.ts BETWEEN b.seen - "
    "INTERVAL '2 seconds' AND b.seen",
    "SELECT a.ts, b.x, t.name FROM a LEFT JOIN b ON {0} LEFT JOIN t ON t.k = b.x AND a.v > 0",
    "SELECT a.ts, t.name, c.seen FROM a JOIN b ON {0} JOIN t ON t.k = a.v + b.x RIGHT JOIN b AS c ON c.x = t.k AND "
    "c.seen BETWEEN b.seen - INTERVAL '3 seconds' AND b.seen",
    "SELECT d.v, d.x, c.x AS y FROM (SELECT a.v, b.x, b.seen FROM a JOIN b ON {0} WHERE b.x > 0) AS d "
    "JOIN b AS c ON c.x = d.x AND c.seen BETWEEN d.seen - INTERVAL '1 second' AND d.seen + INTERVAL '1 second'",
    "SELECT a.v, b.x FROM a JOIN b ON a.k = b.k WHERE b.seen >= a.ts AND b.seen <= a.ts + INTERVAL '2 seconds'",
    "SELECT v, x FROM (SELECT k, v, ts FROM a WHERE v > 0) AS a JOIN (SELECT k, x, seen FROM b) AS b ON a.k = b.k AND "
    "b.seen BETWEEN a.ts AND a.ts + INTERVAL '3 seconds'",
    "SELECT v, x FROM a JOIN b ON {0} UNION ALL SELECT v, k FROM a WHERE v = 1",
)


@pytest.mark.parametrize("sql", CHAINS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=data_of, on=st.sampled_from(BOUNDS), parts=st.sampled_from([1, 3]))
def test_further_joins_and_derived_tables(
    db: duckdb.DuckDBPyConnection, sql: str, data: dict[str, Any], on: str, parts: int
) -> None:
    check(db, data, sql.format(on), parts=parts)


REFUSED = (
    (
        "SELECT a.v FROM a JOIN b ON a.k = b.k AND b.seen >= a.ts",
        "a window or an interval of time, and ON says neither of b",
    ),
    (
        "SELECT a.v FROM a JOIN b ON a.k = b.k AND b.seen BETWEEN a.ts - INTERVAL '1 month' AND a.ts",
        "ON says neither of b",
    ),
    ("SELECT a.v FROM a JOIN b ON a.k = b.k AND b.seen BETWEEN a.until AND a.ts", "ON says neither of b"),
    ("SELECT a.v FROM a LEFT JOIN b ON a.k = b.k WHERE b.seen BETWEEN a.ts AND a.until", "ON says neither of b"),
    ("SELECT a.v FROM a JOIN b ON b.seen BETWEEN a.ts AND a.until", "has no equality of columns"),
    ("SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.seen > a.ts)", "a sub-query over it"),
    (
        f"SELECT window(a.ts, '5 seconds').start AS s, count(*) AS n FROM a JOIN b ON {UNTIL} "
        "GROUP BY window(a.ts, '5 seconds')",
        "how long ago the event time of the window may be",
    ),
    (
        f"SELECT count(*) AS n FROM a LEFT JOIN b ON {ON} GROUP BY window(b.seen, '5 seconds')",
        "a stream of which a joined row may have no row",
    ),
    (
        f"SELECT a.until, count(*) AS n FROM a LEFT JOIN b ON {UNTIL} GROUP BY a.until",
        "GROUP BY over a stream needs a window",
    ),
    (
        f"SELECT a.v FROM a JOIN b ON {UNTIL} JOIN b AS c ON c.k = a.k AND c.seen BETWEEN a.ts AND a.ts + "
        "INTERVAL '1 second'",
        "c is joined by an event time that joined rows may lack, or that may be any time ago",
    ),
    (
        f"SELECT a.v FROM a JOIN b ON {ON} JOIN b AS c ON c.k = a.k AND "
        "window(a.ts, '5 seconds') = window(c.seen, '5 seconds')",
        "joins all its streams in the same windows, or all within intervals",
    ),
    (
        "SELECT d.v, c.x FROM (SELECT a.v, a.ts, a.k FROM a JOIN t ON t.k = a.k WHERE t.name = 'x') AS d "
        "FULL JOIN b AS c ON c.k = d.k AND c.seen BETWEEN d.ts AND d.ts + INTERVAL '1 second'",
        "d filters joined rows, and cannot be joined by RIGHT or FULL yet",
    ),
)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)


def test_sources_send_each_row_once_and_the_merge_pairs_them() -> None:
    draft = draft_of(f"SELECT a.v, a.ts, b.x FROM a LEFT JOIN b ON {UNTIL} AND a.v > b.x", CATALOG)
    first, second, merge = draft.stages
    assert first.sql == (
        "SELECT input.ts AS _window_start, input.until AS _window_end, input.k AS _c0, input.v AS _c2, "
        "pmod(xxhash64(CAST(input.k AS BIGINT)), 64) AS _bin FROM input"
    )
    assert second.sql == (
        "SELECT input.seen AS _window_start, input.k AS _c1, input.x AS _c3, pmod(xxhash64(input.k), 64) AS _bin "
        "FROM input"
    )
    assert "CASE WHEN t1._new IS NULL THEN input._due ELSE input._new OR t1._new END" in merge.sql
    assert merge.merge is not None
    assert merge.merge.pairs == Pairs(
        PairSide("input", ("_c0",), unmatched=True),
        PairSide("t1", ("_c1",)),
        timedelta(0),
        None,
        "_window_end",
        until_words="input.until",
    )
    assert takes_again(draft.stages)
    assert "IntervalJoin[LEFT b ON a.k = b.k AND" in "\n".join(logical_lines(draft.logical))


@pytest.mark.parametrize(
    ("on", "lower", "upper"),
    [
        ("b.seen BETWEEN a.ts - INTERVAL '2 seconds' AND a.ts + INTERVAL '1' MINUTE", -2_000_000, 60_000_000),
        ("a.ts <= b.seen AND b.seen < a.ts + INTERVAL 5 SECONDS", 0, 4_999_999),
        ("b.seen - INTERVAL '1 second' > a.ts AND a.ts >= b.seen - INTERVAL '3 seconds'", 1_000_001, 3_000_000),
        ("a.ts = b.seen", 0, 0),
        (
            "b.seen BETWEEN a.ts AND a.ts + INTERVAL '1 hour 30 minutes' AND b.seen <= a.ts + INTERVAL '9 seconds'",
            0,
            9_000_000,
        ),
    ],
)
def test_bounds_are_read_from_every_form_of_comparison(on: str, lower: int, upper: int) -> None:
    merge = draft_of(f"SELECT a.v FROM a JOIN b ON a.k = b.k AND {on}", CATALOG).stages[-1].merge
    assert merge is not None
    assert merge.pairs is not None
    assert (merge.pairs.first.view, merge.pairs.lower) == ("input", timedelta(microseconds=lower))
    assert merge.pairs.upper == timedelta(microseconds=upper)


def test_event_times_of_joined_rows_may_be_behind_the_watermark() -> None:
    groups = f"SELECT {{}} AS s, count(*) AS n FROM a JOIN b ON {ON} GROUP BY {{}}"
    for time, lag in (("a.ts", 3), ("b.seen", 2)):
        call = f"window({time}, '5 seconds')"
        last = draft_of(groups.format(f"{call}.start", call), CATALOG).stages[-1]
        assert [item.behind for item in last.inputs] == [timedelta(seconds=lag)]
    chained = draft_of(
        f"SELECT a.v FROM a JOIN b ON {ON} JOIN b AS c ON c.k = a.k AND c.seen BETWEEN a.ts AND a.ts + "
        "INTERVAL '1 second' JOIN a AS d ON d.k = a.k AND d.ts BETWEEN b.seen AND b.seen + INTERVAL '1 second'",
        CATALOG,
    )
    behind = [item.behind for stage in chained.stages for item in stage.inputs if item.behind]
    # `a` is up to 3 s before `b`; behind the second join, `b` up to 2 s before `a`, which is up to 1 s behind.
    assert behind == [timedelta(seconds=3), timedelta(seconds=3)]


def test_merges_of_pairs_are_in_parts_where_keys_are_columns_of_one_type() -> None:
    draft = draft_of(f"SELECT a.v FROM a JOIN b ON {ON}", CATALOG, parts=3)
    assert [(stage.kind, stage.parts) for stage in draft.stages][-1] == (StageKind.MERGE, 3)
    draft = draft_of(f"SELECT a.v FROM a JOIN b ON {ON.replace('a.k = b.k', 'a.k + 1 = b.k')}", CATALOG, parts=3)
    assert draft.stages[-1].parts == 1
