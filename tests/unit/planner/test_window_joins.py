"""Joins of streams: the stages together give what the query gives over all rows at once, by DuckDB as the judge."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.values.errors import UnsupportedSqlError
from tests.seeds import several
from tests.unit.planner.build import catalog_of, draft_of
from tests.unit.planner.engine import fetch, load, run_draft

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, v INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM r (seen TIMESTAMP, k INT, x INT, WATERMARK FOR seen) WITH ('connector' = 'other') AT eu AT ap;
    CREATE TABLE t (k INT, name STRING) WITH ('connector' = 'other') AT us AT eu;
    """
)
S = [("ts", "TIMESTAMP"), ("k", "INT"), ("v", "INT")]
R = [("seen", "TIMESTAMP"), ("k", "INT"), ("x", "INT")]
T = [("k", "INT"), ("name", "STRING")]
START = datetime(2024, 2, 28, 23, 59, 40)  # noqa: DTZ001 - DuckDB's TIMESTAMP has no zone

times = st.integers(0, 25_000).map(lambda ms: START + timedelta(milliseconds=ms))
few = st.none() | st.integers(0, 3)


def epochs_of(rows: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[list[dict[str, Any]]]]:
    return st.lists(st.lists(rows, max_size=6), min_size=1, max_size=2)


s_epochs = epochs_of(st.fixed_dictionaries({"ts": times, "k": few, "v": few}))
r_epochs = epochs_of(st.fixed_dictionaries({"seen": times, "k": few, "x": few}))
t_rows = st.lists(st.fixed_dictionaries({"k": few, "name": st.sampled_from(["x", "y"])}), max_size=4)

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
CONDITIONS = ("a.v > b.x", "b.x > 1", "a.v < 3", "b.site <> 'ap'", "a.site = b.site", "(a.v = 1 OR b.x IS NULL)")
TABLES = (
    *("", "JOIN t ON t.k = a.k", "LEFT JOIN t ON t.k = a.k AND t.name = 'x'", "JOIN t ON t.k = b.x"),
    *("LEFT JOIN t ON t.k = b.x AND a.v > 1", "LEFT JOIN t ON t.k <=> b.k", "JOIN t ON t.k = a.v AND t.k = b.k"),
)
FILTERS = ("a.v IS NOT NULL", "b.k IS NULL", "b.x > 0", "a.v >= b.x", "a.site = 'us'", "t.name = 'x'")
WINDOWS = ((10, 10, 0), (10, 5, 0), (6, 2, 0), (10, 10, 4), (10, 4, 3))


def load_whole(db: duckdb.DuckDBPyConnection, data: dict[str, Any]) -> None:
    for name, declared in (("s", S), ("r", R), ("t", T)):
        born = [{**r, "site": site} for site, epochs in data[name].items() for epoch in epochs for r in epoch]
        load(db, name, [*declared, ("site", "STRING")], born)


def in_duckdb(sql: str, window: tuple[int, int, int]) -> str:
    """Each stream's rows, once for each of their windows, whose starts are equal."""
    length, slide, offset = window
    for relation, alias, time in (("s", "a", "ts"), ("r", "b", "seen"), ("s", "d", "ts")):
        rows = f"(SELECT *, unnest(starts({time}, {length}, {slide}, {offset})) AS ws FROM {relation}) AS {alias}"
        sql = sql.replace(f" {relation} AS {alias} ", f" {rows} ")
        sql = sql.replace(f"{call(f'{alias}.{time}', window)}", f"{alias}.ws")
    sql = sql.replace(call("coalesce(a.ts, b.seen)", window), "coalesce(a.ws, b.ws)")
    return sql.replace("<=>", "IS NOT DISTINCT FROM")


def call(column: str, window: tuple[int, int, int]) -> str:
    length, slide, offset = window
    return f"window({column}, '{length} seconds', '{slide} seconds', '{offset} seconds')"


data = st.fixed_dictionaries(
    {
        "s": st.fixed_dictionaries({"us": s_epochs, "eu": s_epochs}),
        "r": st.fixed_dictionaries({"eu": r_epochs, "ap": r_epochs}),
        "t": st.fixed_dictionaries({"us": t_rows.map(lambda rows: [rows]), "eu": t_rows.map(lambda rows: [rows])}),
    }
)


@settings(max_examples=several(15, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=data,
    kind=st.sampled_from(KINDS),
    conditions=st.lists(st.sampled_from(CONDITIONS), max_size=2, unique=True),
    table=st.sampled_from(TABLES),
    filters=st.lists(st.sampled_from(FILTERS), max_size=2, unique=True),
    window=st.sampled_from(WINDOWS),
    grouped=st.booleans(),
    parts=st.sampled_from([1, 3]),
)
def test_a_join_of_two_streams_equals_the_query(
    db: duckdb.DuckDBPyConnection,
    data: dict[str, Any],
    kind: str,
    conditions: list[str],
    table: str,
    filters: list[str],
    window: tuple[int, int, int],
    grouped: bool,
    parts: int,
) -> None:
    kept = [f for f in filters if table or not f.startswith("t.")]
    times = {"RIGHT JOIN": "b.seen", "FULL JOIN": "coalesce(a.ts, b.seen)"}
    time = times.get(kind, "a.ts")
    on = " AND ".join(["a.k = b.k", *conditions, f"{call('a.ts', window)} = {call('b.seen', window)}"])
    rows = f" FROM s AS a {kind} r AS b ON {on} {table}" + (f" WHERE {' AND '.join(kept)}" if kept else "")
    name = "t.name" if table else "b.site"
    if grouped:
        head = f"SELECT a.k AS k, {name} AS n, count(*) AS c, sum(b.x + a.v) AS x, count(DISTINCT b.x) AS d{rows}"
        sql = f"{head} GROUP BY {call(time, window)}, a.k, {name} HAVING count(*) > 1"
    else:
        sql = f"SELECT a.k AS k, a.v AS v, b.x AS x, {name} AS n, a.site AS born{rows}"
    load_whole(db, data)
    assert run_draft(db, draft_of(sql, CATALOG, parts=parts), data) == fetch(db, in_duckdb(sql, window))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=data,
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    beside=st.sampled_from(["a.ts", "b.seen"]),
    key=st.sampled_from(["d.v = a.v", "d.k = a.k", "d.k = b.k"]),
    parts=st.sampled_from([1, 3]),
)
def test_a_join_of_three_streams_equals_the_query(
    db: duckdb.DuckDBPyConnection,
    data: dict[str, Any],
    kinds: tuple[str, str],
    beside: str,
    key: str,
    parts: int,
) -> None:
    window = (10, 10, 0)
    sql = (
        f"SELECT a.v AS v, b.x AS x, d.v AS y FROM s AS a {kinds[0]} r AS b ON a.k = b.k AND "
        f"{call('a.ts', window)} = {call('b.seen', window)} {kinds[1]} s AS d ON {key} AND "
        f"{call(beside, window)} = {call('d.ts', window)} AND d.k > 0 WHERE d.v > 0 OR b.x IS NULL"
    )
    load_whole(db, data)
    assert run_draft(db, draft_of(sql, CATALOG, parts=parts), data) == fetch(db, in_duckdb(sql, window))


@settings(max_examples=several(12, 30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=data,
    kind=st.sampled_from(["SEMI JOIN", "ANTI JOIN", "EXISTS", "NOT EXISTS"]),
    conditions=st.lists(st.sampled_from(CONDITIONS), max_size=2, unique=True),
    table=st.sampled_from(["", "JOIN t ON t.k = a.k", "LEFT JOIN t ON t.k = a.v"]),
    last=st.sampled_from(["", "LEFT JOIN s AS d ON d.k = a.k AND"]),
    window=st.sampled_from(WINDOWS),
    grouped=st.booleans(),
    parts=st.sampled_from([1, 3]),
)
def test_rows_with_a_partner_in_their_window_and_rows_without_one(
    db: duckdb.DuckDBPyConnection,
    data: dict[str, Any],
    kind: str,
    conditions: list[str],
    table: str,
    last: str,
    window: tuple[int, int, int],
    grouped: bool,
    parts: int,
) -> None:
    on = " AND ".join(["a.k = b.k", *conditions, f"{call('a.ts', window)} = {call('b.seen', window)}"])
    last = f"{last} {call('d.ts', window)} = {call('a.ts', window)}" if last else ""
    name, other = "t.name" if table else "a.site", "d.v" if last else "a.v"
    if kind.endswith("EXISTS"):
        rows = f" FROM s AS a {table} {last} WHERE {kind} (SELECT 1 FROM r AS b WHERE {on})"
    else:
        rows = f" FROM s AS a {kind} r AS b ON {on} {table} {last}"
    sql = f"SELECT a.v AS v, {name} AS n, {other} AS y{rows}"
    if grouped:
        sql = f"SELECT a.k AS k, {name} AS n, count({other}) AS c{rows} GROUP BY {call('a.ts', window)}, a.k, {name}"
    load_whole(db, data)
    assert run_draft(db, draft_of(sql, CATALOG, parts=parts), data) == fetch(db, in_duckdb(sql, window))


@pytest.mark.parametrize("condition", ["a.k IN (SELECT k FROM r)", "NOT EXISTS (SELECT 1 FROM r AS b WHERE b.k = a.k)"])
def test_a_sub_query_over_a_stream_says_in_which_window_it_looks(condition: str) -> None:
    with pytest.raises(UnsupportedSqlError, match="r is a stream: a sub-query over it looks within a window") as error:
        draft_of(f"SELECT a.k FROM s AS a WHERE {condition}", CATALOG)
    assert "AND window(a.ts, '10 seconds') = window(r.seen, '10 seconds')), or NOT EXISTS" in (error.value.hint or "")


def test_what_semi_joins_say_of_one_stream_is_evaluated_at_its_sources() -> None:
    on = "a.k = b.k AND window(a.ts, '10 seconds') = window(b.seen, '10 seconds') AND b.x > 1 AND a.v < 3"
    semi, anti = (draft_of(f"SELECT a.v FROM s AS a {kind} JOIN r AS b ON {on}", CATALOG) for kind in ("SEMI", "ANTI"))
    for draft in (semi, anti):
        assert "input.x > 1" in draft.stage("s2").sql
    assert "input.v < 3" in semi.stage("s1").sql
    # A row that is without a partner for that reason is a result.
    assert "WHERE" not in anti.stage("s1").sql
    merge = anti.stage("m1").merge
    assert merge is not None
    assert [view.required for view in merge.views] == [True, False]


ON = "a.k = b.k AND window(a.ts, '10 seconds') = window(b.seen, '10 seconds')"
COUNTED = "SELECT a.k, count(*) AS n FROM s AS a {} JOIN r AS b ON {} GROUP BY a.k, {}"


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            COUNTED.format("RIGHT", ON, "window(a.ts, '10 seconds')"),
            "has one window, that of the join",
            "Write window(b.seen, '10 seconds').",
        ),
        (
            COUNTED.format("FULL", ON, "window(a.ts, '10 seconds')"),
            "has one window, that of the join",
            "Write window(coalesce(a.ts, b.seen), '10 seconds').",
        ),
        (
            COUNTED.format("LEFT", ON, "window(coalesce(a.ts, b.seen), '10 seconds')"),
            "has one window, that of the join",
            "Write window(a.ts, '10 seconds').",
        ),
        (
            f"SELECT a.k, last(a.v) AS v FROM s AS a FULL JOIN r AS b ON {ON} "
            "GROUP BY a.k, window(coalesce(a.ts, b.seen), '10 seconds')",
            "last needs rows with an event time",
            "",
        ),
        (
            f"SELECT k, count(*) AS n FROM (SELECT a.ts, a.k FROM s AS a FULL JOIN r AS b ON {ON}) AS d "
            "GROUP BY k, window(ts, '10 seconds')",
            "window must be on the stream's event-time column",
            "",
        ),
        *(
            (
                COUNTED.format("FULL", ON, f"window({time}, '10 seconds')"),
                "window must be on the stream's event-time column",
                "",
            )
            for time in (
                "coalesce(a.ts + INTERVAL '1' HOUR, b.seen)",
                "coalesce(a.ts, b.seen, TIMESTAMP '2020-01-01 00:00:00')",
                "coalesce(a.ts, a.ts)",
            )
        ),
        (
            "SELECT a.k FROM s AS a FULL JOIN r AS b USING (k)",
            "USING is not possible in a FULL JOIN",
            "coalesce(a.x, b.x)",
        ),
        ("SELECT a.k FROM s AS a RIGHT JOIN t ON a.k = t.k", "RIGHT JOIN with a table is not possible", "LEFT JOIN"),
        (f"SELECT a.k FROM s AS a RIGHT SEMI JOIN r AS b ON {ON}", "RIGHT SEMI JOIN is not possible", ""),
    ],
)
def test_what_outer_joins_of_streams_refuse(sql: str, message: str, hint: str) -> None:
    with pytest.raises(UnsupportedSqlError, match=message) as error:
        draft_of(sql, CATALOG)
    assert hint in (error.value.hint or "")


def test_a_left_stream_that_may_lack_a_row_keeps_its_conditions_and_tables_for_the_merge() -> None:
    sql = f"SELECT b.x FROM s AS a JOIN t ON t.k = a.k RIGHT JOIN r AS b ON {ON} AND b.x > 1 WHERE a.v > 1"
    draft = draft_of(sql, CATALOG)
    assert all("WHERE" not in draft.stage(name).sql for name in ("s1", "s2"))
    merge = draft.stage("m1")
    assert "RIGHT JOIN" in merge.sql
    assert merge.merge is not None
    assert [view.required for view in merge.merge.views] == [False, True]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=st.fixed_dictionaries({"us": s_epochs, "eu": s_epochs}),
    other=st.fixed_dictionaries({"eu": r_epochs, "ap": r_epochs}),
    kind=st.sampled_from(KINDS),
)
def test_a_sub_query_in_from_filters_before_it_is_joined(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], other: dict[str, Any], kind: str
) -> None:
    sql = f"SELECT a.v, b.x FROM (SELECT * FROM s WHERE v > 1) AS a {kind} r AS b ON a.k = b.k AND {{}}"
    data = {"s": stream, "r": other, "t": {"us": [[]]}}
    load_whole(db, data)
    draft = draft_of(sql.format("window(a.ts, '10 seconds') = window(b.seen, '10 seconds')"), CATALOG)
    assert run_draft(db, draft, data) == fetch(db, sql.format("w(a.ts, 10) = w(b.seen, 10)"))
