"""What is left to do on top of another operator's output gives what was wanted, by DuckDB as the judge."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.graph.plan import DraftPlan, Stage
from planner.sharing.containment import left_to_do
from planner.sharing.vertices import Vertex
from planner.values.names import BIN_COLUMN
from planner.values.stages import StageKind
from tests.seeds import several
from tests.unit.planner.build import draft_of
from tests.unit.planner.engine import Rows, fetch, load, run_draft, to_duckdb
from tests.unit.planner.sharing.build import CATALOG, residual_sql, typed, vertices
from tests.unit.planner.sharing.names import vid
from tests.unit.planner.test_semantics import rows as any_row

STREAM = [("ts", "TIMESTAMP"), ("k", "INT"), ("w", "STRING"), ("v", "INT"), ("d", "DOUBLE"), ("site", "STRING")]
SPARK_TYPES = {"HUGEINT": "BIGINT", "INTEGER": "INT", "VARCHAR": "STRING"}
WINDOW = "window(ts, '10 seconds')"
MINUTE = timedelta(minutes=1)


@cache
def described(db: duckdb.DuckDBPyConnection, sql: str, *, parts: int = 1) -> DraftPlan:
    """The draft with the types of its SOURCE stages, as DuckDB finds them."""
    draft = draft_of(sql, CATALOG, parts=parts)
    load(db, "input", STREAM, [])
    found = {}
    for stage in draft.stages:
        if stage.kind is StageKind.SOURCE and not stage.inputs:
            try:
                columns = db.execute(f"DESCRIBE {to_duckdb(stage.sql)}").fetchall()
            except duckdb.CatalogException:
                # A function that only Spark has.
                continue
            found[stage.id] = [(c[0], SPARK_TYPES.get(c[1], c[1])) for c in columns if c[0] != BIN_COLUMN]
    return typed(draft, found)


def source_of(draft: DraftPlan) -> tuple[Stage, Vertex]:
    return draft.stage("s1"), vertices(draft)[vid("s1")]


def residual(db: duckdb.DuckDBPyConnection, wanted: str, offered: str) -> str | None:
    """On top of the source stage at one site."""
    return residual_sql(source_of(described(db, wanted))[1], source_of(described(db, offered))[1])


def output(db: duckdb.DuckDBPyConnection, sql: str, names: tuple[str, ...]) -> list[Any]:
    listed = ", ".join(names)
    rows = db.execute(f"SELECT {listed} FROM ({to_duckdb(sql)})").fetchall()
    return sorted((tuple(sorted(v, key=repr) if isinstance(v, list) else v for v in row) for row in rows), key=repr)


def check_source(db: duckdb.DuckDBPyConnection, wanted: str, offered: str, rows: Rows) -> bool:
    """Whether the wanted source stage is contained; the residual gives what it gives then."""
    (stage, vertex), (other, known) = source_of(described(db, wanted)), source_of(described(db, offered))
    sql = residual_sql(vertex, known)
    if sql is None:
        return False
    load(db, "input", STREAM, [{**row, "site": "us"} for row in rows])
    names = tuple(column.name for column in stage.columns)
    direct = output(db, stage.sql, names)
    db.execute(f"CREATE OR REPLACE TABLE sent AS {to_duckdb(other.sql)}")
    sent = ", ".join(f'"{column.name}"' for column in other.columns)
    db.execute(f"CREATE OR REPLACE TABLE input AS SELECT {sent} FROM sent")
    assert output(db, sql, names) == direct
    return True


rows = st.lists(any_row, max_size=12)

CONTAINED = [
    ("SELECT k FROM s WHERE v > 1 AND w = 'a'", "SELECT k, w, v FROM s WHERE v > 1", "a stricter filter"),
    ("SELECT k FROM s WHERE v > 5", "SELECT k, v FROM s WHERE v > 1", "an implied filter"),
    ("SELECT k FROM s WHERE v = 5", "SELECT k, v FROM s WHERE v >= 1 AND v < 9", "bounds of an equality"),
    ("SELECT w FROM s", "SELECT k, w, v FROM s", "fewer columns"),
    ("SELECT k + v AS a, upper(w) AS u FROM s WHERE k < 3", "SELECT k, w, v FROM s", "computed columns"),
    ("SELECT upper(w) AS u FROM s WHERE upper(w) = 'A'", "SELECT upper(w) AS x FROM s", "an expression that is sent"),
    (
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k",
        f"SELECT k, w, count(*) AS n, sum(v) AS t FROM s GROUP BY {WINDOW}, k, w",
        "fewer group keys",
    ),
    (
        "SELECT k, sum(v) AS t, max(d) AS m FROM s GROUP BY window(ts, '1 minute'), k",
        f"SELECT k, sum(v) AS t, max(d) AS m FROM s GROUP BY {WINDOW}, k",
        "a coarser window",
    ),
    (
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '30 seconds', '20 seconds') ".replace("30", "40"),
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}",
        "a sliding window of tumbling ones",
    ),
    (
        f"SELECT w, count(*) AS n FROM s WHERE k > 2 GROUP BY {WINDOW}, w",
        f"SELECT k, w, count(*) AS n FROM s GROUP BY {WINDOW}, k, w",
        "a filter on a group key",
    ),
    (
        f"SELECT k % 2 AS p, count(DISTINCT v) AS n FROM s GROUP BY {WINDOW}, k % 2".replace("% 2", "> 2"),
        f"SELECT k, count(DISTINCT v) AS n FROM s GROUP BY {WINDOW}, k",
        "a key of a key, sets",
    ),
    (
        "SELECT k, upper(w) AS u, avg(v) AS a, sum(d) AS t, count(DISTINCT w) FILTER (WHERE v > 1) AS n "
        "FROM s WHERE v < 5 GROUP BY window(ts, '20 seconds', '10 seconds'), k, upper(w)",
        "SELECT ts, k AS key, w, v, d FROM s WHERE v < 8",
        "groups of rows",
    ),
    (
        f"SELECT k, avg(v) AS a FROM s GROUP BY {WINDOW}, k",
        f"SELECT k, avg(v) AS a, count(*) AS n, min(w) AS m FROM s GROUP BY k, {WINDOW}",
        "fewer aggregates",
    ),
    ("SELECT w AS k, k AS w, k AS again FROM s WHERE v > 1", "SELECT k, w FROM s WHERE 1 < v", "other names"),
    (
        f"SELECT w, k, count(*) AS n, sum(v) AS t FROM s GROUP BY {WINDOW}, w, k",
        f"SELECT k, w, sum(v) AS s, count(*) AS c FROM s GROUP BY {WINDOW}, k, w",
        "another order of keys and aggregates",
    ),
    (
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '20 seconds')",
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '10 seconds', '5 seconds')",
        "windows made up of the panes of windows that overlap",
    ),
    (
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '30 seconds', '10 seconds', '7 seconds')",
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '5 seconds', '5 seconds', '2 seconds')",
        "windows shifted by more of the other's",
    ),
]


@pytest.mark.parametrize(("wanted", "offered"), [case[:2] for case in CONTAINED], ids=[case[2] for case in CONTAINED])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=rows)
def test_contained_in_a_source(db: duckdb.DuckDBPyConnection, wanted: str, offered: str, found: Rows) -> None:
    assert check_source(db, wanted, offered, found)


REFUSED = [
    ("SELECT k FROM s WHERE w = 'a'", "SELECT k FROM s", "the filter's column is not sent"),
    ("SELECT k, v FROM s", "SELECT k, v FROM s WHERE v > 1", "a weaker filter"),
    ("SELECT k, v FROM s WHERE v > 1", "SELECT k, v FROM s WHERE v > 1 AND k > 1", "a filter too many"),
    ("SELECT k FROM s WHERE v > 0", "SELECT k, v, 1 / v AS q FROM s", "what the other computes may fail"),
    ("SELECT k FROM s", "SELECT k, explode(split(w, ',')) AS e FROM s", "explode"),
    ("SELECT k FROM s", "SELECT k FROM o", "another stream"),
    ("SELECT k FROM f", "SELECT k, v FROM f", "a file's row that is malformed in a column that is not wanted"),
    (f"SELECT sum(d) AS t FROM s GROUP BY {WINDOW}", f"SELECT k, sum(d) AS t FROM s GROUP BY {WINDOW}, k", "floats"),
    (
        f"SELECT avg(d) AS t FROM s GROUP BY {WINDOW}",
        f"SELECT k, avg(d) AS t FROM s GROUP BY {WINDOW}, k",
        "an average",
    ),
    (
        f"SELECT stddev(v) AS t FROM s GROUP BY {WINDOW}",
        f"SELECT k, stddev(v) AS t FROM s GROUP BY {WINDOW}, k",
        "a deviation",
    ),
    (
        f"SELECT percentile_approx(v, 0.5) AS t FROM s GROUP BY {WINDOW}",
        f"SELECT k, percentile_approx(v, 0.5) AS t FROM s GROUP BY {WINDOW}, k",
        "a percentile",
    ),
    (
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '25 seconds')",
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}",
        "a window that is no multiple",
    ),
    (
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '20 seconds', '5 seconds')",
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}",
        "a slide that is no multiple",
    ),
    (
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '20 seconds', '20 seconds', '3 seconds')",
        f"SELECT count(*) AS n FROM s GROUP BY {WINDOW}",
        "an offset that is no multiple",
    ),
    (
        f"SELECT k, count(*) AS n FROM s WHERE v > 1 GROUP BY {WINDOW}, k",
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k",
        "a filter on what is no key",
    ),
    (
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k",
        f"SELECT w, count(*) AS n FROM s GROUP BY {WINDOW}, w",
        "another key",
    ),
    (
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k",
        f"SELECT k, count(v) AS n FROM s GROUP BY {WINDOW}, k",
        "another aggregate",
    ),
    (f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k", "SELECT k, v FROM s", "groups of rows without a time"),
    (f"SELECT k, sum(v) AS n FROM s GROUP BY {WINDOW}, k", "SELECT ts, k FROM s", "groups of rows without a value"),
    ("SELECT k FROM s WHERE w > '5'", "SELECT k, w FROM s WHERE w > '1'", "bounds of texts"),
]


@pytest.mark.parametrize(("wanted", "offered"), [case[:2] for case in REFUSED], ids=[case[2] for case in REFUSED])
def test_not_contained_in_a_source(db: duckdb.DuckDBPyConnection, wanted: str, offered: str) -> None:
    assert residual(db, wanted, offered) is None


FILTERS = ("v > 3", "v > 1", "w = 'a'", "k IS NOT NULL", "k > 1", "k = 2", "v > 1 OR d < 0.5", "d > 0.5")
COLUMNS = ("ts", "k", "w", "v", "d", "upper(w)", "k > 2", "v + k")
AGGREGATES = (
    "count(*)",
    "count(v)",
    "sum(v)",
    "min(d)",
    "max(w)",
    "avg(v)",
    "count(DISTINCT k)",
    "sum(v) FILTER (WHERE d > 0.5)",
)
KEYS = ("k", "w", "upper(w)", "k > 2")
WINDOWS = ("'10 seconds'", "'20 seconds'", "'20 seconds', '10 seconds'", "'5 seconds'")


def some(values: tuple[str, ...], least: int = 0, most: int = 3) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=most, unique=True)


def query(items: list[str], where: list[str], groups: str = "") -> str:
    listed = ", ".join(f"{item} AS c{index}" for index, item in enumerate(items))
    return f"SELECT {listed} FROM s" + (f" WHERE {' AND '.join(f'({f})' for f in where)}" if where else "") + groups


plain = st.builds(query, some(COLUMNS, 1, 6), some(FILTERS, 0, 2))
grouped = st.builds(
    lambda keys, aggregates, where, window: query(
        [*keys, *aggregates], where, f" GROUP BY {', '.join([f'window(ts, {window})', *keys])}"
    ),
    some(KEYS, 0, 3),
    some(AGGREGATES, 1, 3),
    some(FILTERS, 0, 1),
    st.sampled_from(WINDOWS),
)


@settings(max_examples=several(25, 70), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=st.tuples(plain, plain) | st.tuples(grouped, grouped) | st.tuples(grouped, plain), found=rows)
def test_whatever_is_contained_gives_the_same(
    db: duckdb.DuckDBPyConnection, pair: tuple[str, str], found: Rows
) -> None:
    check_source(db, *pair, found)


COUNTS = f"SELECT window.start AS ws, k, w, count(*) AS n, max(v) AS m FROM s GROUP BY {WINDOW}, k, w"
RANKED = "QUALIFY {}() OVER (PARTITION BY window ORDER BY n DESC) <= {}"
OF_MERGES = [
    (f"{COUNTS} HAVING count(*) > 1", COUNTS, "HAVING"),
    (f"{COUNTS} HAVING count(*) > 2 AND max(v) > 1", f"{COUNTS} HAVING count(*) > 1", "a stricter HAVING"),
    (f"{COUNTS} HAVING k > 1", COUNTS, "HAVING on a key"),
    (f"{COUNTS} {RANKED.format('rank', 2)}", COUNTS, "a top k"),
    (f"{COUNTS} {RANKED.format('row_number', 2)}", COUNTS, "a top k with ties broken by keys"),
    (f"{COUNTS} {RANKED.format('rank', 2)}", f"{COUNTS} {RANKED.format('rank', 4)}", "a smaller k"),
    (
        f"{COUNTS.replace('k, w, count(*) AS n', 'w AS word, count(*) AS n, k AS key')} {RANKED.format('rank', 2)}",
        f"{COUNTS} {RANKED.format('rank', 2)}",
        "a top k under other names",
    ),
    (f"{COUNTS} HAVING count(*) > 1 {RANKED.format('dense_rank', 1)}", COUNTS, "HAVING and a top k"),
    (
        f"SELECT ws, max(n) AS most, count(*) AS groups FROM ({COUNTS}) AS d GROUP BY ws",
        COUNTS,
        "an aggregate over the groups",
    ),
]


@pytest.mark.parametrize(("wanted", "offered"), [case[:2] for case in OF_MERGES], ids=[case[2] for case in OF_MERGES])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(any_row, min_size=3, max_size=14))
def test_contained_in_a_merge(db: duckdb.DuckDBPyConnection, wanted: str, offered: str, found: Rows) -> None:
    data = {"s": {"us": [found[:2]], "eu": [found[2:5]], "ap": [found[5:]]}}
    draft, other = draft_of(wanted, CATALOG), draft_of(offered, CATALOG)
    sql = residual_sql(vertices(draft)[vid("m1")], vertices(other)[vid("m1")])
    assert sql is not None
    direct = run_draft(db, draft, data)
    run_draft(db, other, data)
    db.execute(f"CREATE OR REPLACE TABLE sent AS {to_duckdb(other.stage('m1').sql)}")
    db.execute("CREATE OR REPLACE TABLE input AS SELECT * FROM sent")
    assert fetch(db, to_duckdb(sql)) == direct


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        (COUNTS, f"{COUNTS} HAVING count(*) > 1"),
        (f"{COUNTS} {RANKED.format('rank', 4)}", f"{COUNTS} {RANKED.format('rank', 2)}"),
        (f"{COUNTS} {RANKED.format('rank', 2)}", f"{COUNTS} {RANKED.format('dense_rank', 4)}"),
        (f"{COUNTS} HAVING n > 1 {RANKED.format('rank', 2)}", f"{COUNTS} {RANKED.format('rank', 4)}"),
        (f"{COUNTS} {RANKED.format('rank', 2)}", COUNTS.replace("window.start AS ws, ", "")),
        (f"{COUNTS} HAVING sum(v) > 1", COUNTS),
    ],
    ids=[
        "no HAVING",
        "a larger k",
        "another rank",
        "HAVING before the rank",
        "no window to rank in",
        "more aggregates",
    ],
)
def test_not_contained_in_a_merge(wanted: str, offered: str) -> None:
    assert residual_sql(vertices(wanted)[vid("m1")], vertices(offered)[vid("m1")]) is None


def test_a_merge_of_other_windows_does_not_emit_the_same_at_once() -> None:
    offered = draft_of(COUNTS, CATALOG)
    merge = offered.stage("m1").merge
    assert merge is not None
    longer = replace(
        draft_of(f"{COUNTS} HAVING count(*) > 1", CATALOG).stage("m1"), merge=replace(merge, window=MINUTE)
    )
    wanted = replace(offered, stages=(offered.stage("s1"), longer))
    assert residual_sql(vertices(wanted)[vid("m1")], vertices(offered)[vid("m1")]) is None


WORDS = [
    ("SELECT k FROM s WHERE v > 5", "SELECT k, v FROM s WHERE v > 1", "a stricter filter, fewer columns"),
    ("SELECT k + v AS a FROM s", "SELECT k, v FROM s", "columns made of its own"),
    ("SELECT v AS k, k AS v FROM s", "SELECT k, v FROM s", "other names or another order of columns"),
    (
        "SELECT count(*) AS n FROM s GROUP BY window(ts, '1 minute')",
        f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k",
        "longer windows, fewer group keys",
    ),
    (f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k", "SELECT ts, k FROM s", "groups of its rows"),
]
WORDS_OF_MERGES = [
    (f"{COUNTS} HAVING count(*) > 1", COUNTS, "HAVING"),
    (f"{COUNTS} {RANKED.format('rank', 2)}", COUNTS, "a top k"),
    (f"{COUNTS} HAVING count(*) > 1 {RANKED.format('rank', 2)}", COUNTS, "HAVING, a top k"),
    (f"{COUNTS} {RANKED.format('rank', 2)}", f"{COUNTS} {RANKED.format('rank', 4)}", "a smaller top k"),
    (f"SELECT ws, max(n) AS most FROM ({COUNTS}) AS d GROUP BY ws", COUNTS, "an aggregate over its groups"),
]


@pytest.mark.parametrize(
    ("name", "wanted", "offered", "words"),
    [*(("s1", *case) for case in WORDS), *(("m1", *case) for case in WORDS_OF_MERGES)],
)
def test_what_is_left_to_do_is_said_in_words(name: str, wanted: str, offered: str, words: str) -> None:
    assert left_to_do(vertices(wanted)[vid(name)], vertices(offered)[vid(name)]) == words


JOINED = (
    "SELECT window(s.ts, '10 seconds').start AS w, s.k, s.w AS word, max(s.w) AS m, {} FROM s "
    "JOIN o ON s.k = o.k AND window(s.ts, '10 seconds') = window(o.ts, '10 seconds')"
    " GROUP BY window(s.ts, '10 seconds'), {}"
)


def test_distinct_values_of_several_groups_are_not_added_up() -> None:
    both, one = "s.k, s.w", "s.k"

    def contained(aggregate: str) -> bool:
        offered = typed(draft_of(JOINED.format(f"{aggregate} AS n", both), CATALOG), {"m1": types})
        wanted = JOINED.replace("s.w AS word, ", "").format(f"{aggregate} AS n", one)
        return residual_sql(vertices(wanted)[vid("m1")], vertices(offered)[vid("m1")]) is not None

    types = [("w", "TIMESTAMP"), ("k", "INT"), ("word", "STRING")]
    types += [("m", "STRING"), ("n", "BIGINT")]
    assert contained("sum(o.v)")
    assert not contained("sum(DISTINCT o.v)")
    assert not contained("count(DISTINCT o.v)")
    assert not contained("avg(o.v)")


def test_bins_of_the_rows_of_a_join_are_computed_again() -> None:
    """A reader gets no bins, so nothing can be made of them; those of the join's keys are."""
    sql = f"""SELECT {WINDOW.replace("ts", "o.ts")}.start AS s, o.w AS w, count(b.v) AS n
        FROM s AS o JOIN s AS b ON o.w = b.w AND o.k = b.k AND window(o.ts, '10 seconds') = window(b.ts, '10 seconds')
        GROUP BY {WINDOW.replace("ts", "o.ts")}, o.w"""
    source = vertices(draft_of(sql, CATALOG))[vid("s1")]
    made = residual_sql(source, source)
    assert made is not None
    assert f"`{BIN_COLUMN}`" not in made
    both = "sort_array(array(xxhash64(`input`.`_c1`), xxhash64(`input`.`_c0`)))"
    assert made.endswith(f"pmod(xxhash64({both}), 64) AS {BIN_COLUMN} FROM input")
