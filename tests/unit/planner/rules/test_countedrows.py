"""Rows that are sent once with their number: when, and the stages that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from planner.graph.clientplan import ClientPlan, ClientView
from planner.graph.operators import Aggregate, Project
from planner.graph.plan import DraftPlan, Split
from planner.graph.whole import Scanned
from planner.planning.drafts import with_columns, with_texts
from planner.relations.catalog import Column, TableStatistics
from planner.rules.countedrows import with_counted_rows
from planner.rules.draft import with_scans
from planner.values.scans import SparkExpression, TableScan
from tests.unit.planner.build import catalog_of, columns, draft_of

CATALOG = catalog_of(
    """
    CREATE TABLE f (k INT, p STRING, x DECIMAL(9,2), n BIGINT, d DOUBLE, wide DECIMAL(30,2))
      WITH ('connector' = 'other') AT us AT eu
    """
)
TEXT = "SELECT k, sum(n) AS n FROM f GROUP BY ROLLUP (k)"
FEW = TableStatistics(1000, {"k": 10, "p": 10, "d": 10, "x": 10, "n": 10, "wide": 10})
RESULT = "k INT, n BIGINT"


def whole(*scans: TableScan, text: str = TEXT) -> DraftPlan:
    draft = with_scans(draft_of(text, CATALOG), Scanned(columns(RESULT), scans))
    types = {}
    for stage in draft.map_stages:
        declared = {column.name: column for column in draft.relations[stage.relation or ""]}
        assert isinstance(stage.body, Project | Aggregate)
        named = [item.name for item in stage.body.items]
        types[stage.id] = tuple(declared.get(name, Column(name, "INT")) for name in named)
    return with_columns(draft, types, draft.columns)


def counted(draft: DraftPlan, known: Mapping[str, TableStatistics] | None = None, rows: int | None = 1000) -> DraftPlan:
    splits = [Split(site, (), 1000, stage.id, rows=rows) for stage in draft.map_stages for site in stage.pinned]
    return with_texts(with_counted_rows(draft, splits, {"f": FEW} if known is None else known))


def scan(*read: str, summed: str = "", tallied: str = "") -> TableScan:
    return TableScan("f", read, summed=tuple(summed.split()), counted=tuple(tallied.split()))


def sql_of(draft: DraftPlan, stage: str) -> str:
    return draft.stage(stage).sql.replace("\n", " ")


def test_rows_are_sent_with_their_number_and_made_again() -> None:
    draft = counted(whole(scan("k", "x", "p", summed="x", tallied="p")))
    units = "CAST(input.x * CAST('100' AS DECIMAL(3,0)) AS DECIMAL(19,0))"
    parts = (
        f"sum({units}) DIV nullif(count(input.x), 0) AS _q2, CAST((sum({units}) % nullif(count(input.x), 0)) AS BIGINT)"
    )
    assert sql_of(draft, "map") == (
        f"SELECT k, COUNT(*) AS _n, count(input.p) AS _c1, count(input.x) AS _c2, {parts} AS _r2 FROM input GROUP BY k"
    )
    assert [column.type for column in draft.stage("map").columns] == ["INT", *["BIGINT"] * 5]
    one_more = "CASE WHEN _row >= abs(_r2) THEN 0 WHEN _r2 < 0 THEN -1 ELSE 1 END"
    mean = f"CAST(CAST((_q2 + {one_more}) AS DECIMAL(19,0)) * CAST('0.01' AS DECIMAL(3,2)) AS DECIMAL(9,2))"
    rows = (
        "SELECT *, explode(sequence(CAST(0 AS BIGINT), (_n - 1) DIV 4096)) AS _block FROM _input WHERE _n > 0",
        "SELECT *, explode(sequence(_block * 4096, least(_n, (_block + 1) * 4096) - 1)) AS _row FROM",
    )
    assert (
        f"SELECT k, CASE WHEN _row < _c1 THEN CAST('x' AS STRING) END AS p, CASE WHEN _row < _c2 THEN {mean} END AS x "
        in (sql_of(draft, "reduce"))
    )
    assert f"FROM ({rows[1]} ({rows[0]})) ), f AS (SELECT k, p, x, CAST(NULL AS BIGINT) AS n" in sql_of(draft, "reduce")
    assert sql_of(draft, "reduce").startswith("WITH input AS (SELECT k, ")
    assert [item.view for item in draft.stage("reduce").inputs] == ["_input"]
    assert [scan.counted for scan in draft.scans] == [True]


@pytest.mark.parametrize(
    ("found", "columns_sent"),
    [
        # Wide decimals may have a mean that is no whole number of 64 bits.
        (scan("k", "wide", summed="wide"), "k wide _n"),
        (scan("k", "n", "d", summed="n", tallied="d"), "k _n _c1 _q1 _r1 _c2"),
        (scan("n", summed="n"), "_n _c1 _q1 _r1"),
        (scan(), "_n"),
    ],
)
def test_columns_by_which_rows_are_equal(found: TableScan, columns_sent: str) -> None:
    draft = counted(whole(found))
    assert sorted(column.name for column in draft.stage("map").columns) == sorted(columns_sent.split())


def test_rows_alone_are_one_row() -> None:
    draft = counted(whole(scan()))
    assert sql_of(draft, "map") == "SELECT COUNT(*) AS _n FROM input"
    assert "SELECT 1 AS _one FROM (" in sql_of(draft, "reduce")


@pytest.mark.parametrize(
    "scans",
    [
        # Groups of floats are not what equal floats are.
        [scan("k", "d", summed="d")],
        [TableScan("f", ("k",), distinct=True)],
    ],
)
def test_rows_that_are_sent_as_they_are(scans: list[TableScan]) -> None:
    draft = counted(whole(*scans))
    assert not any(scan.counted for scan in draft.scans)
    assert "_block" not in sql_of(draft, "reduce")


@pytest.mark.parametrize(
    ("known", "rows"),
    [
        ({}, 1000),
        ({"f": TableStatistics(1000, {"p": 3})}, 1000),
        # Each row has a value of its own.
        ({"f": TableStatistics(1000, {"k": 100_000})}, 1000),
        ({"f": FEW}, None),
        ({"f": FEW}, 12),
    ],
)
def test_nothing_is_counted_where_it_is_not_known_to_be_worth_it(
    known: dict[str, TableStatistics], rows: int | None
) -> None:
    draft = whole(scan("k", "n", summed="n"))
    assert counted(draft, known, rows) == with_texts(draft)


def test_a_column_that_one_of_the_scans_reads_otherwise_tells_rows_apart() -> None:
    text = "SELECT k, sum(n) AS n FROM f GROUP BY ROLLUP (k) EXCEPT SELECT n, k FROM f"
    draft = counted(whole(scan("k", "n", summed="n"), scan("n"), text=text))
    assert [column.name for column in draft.stage("map").columns] == ["k", "n", "_n"]
    both = counted(whole(scan("k", "n", summed="n"), scan("n", tallied="n"), text=text))
    assert [column.name for column in both.stage("map").columns] == ["k", "_n", "_c1", "_q1", "_r1"]


def test_conditions_make_rows_fewer() -> None:
    column, value = SparkExpression("AttributeReference", "STRING", "p"), SparkExpression("Literal", "STRING", "a")
    condition = SparkExpression("EqualTo", "BOOLEAN", None, (column, value))
    found = TableScan("f", ("k", "n"), (condition,), summed=("n",))
    assert [s.counted for s in counted(whole(found), rows=1000).scans] == [True]
    assert [s.counted for s in counted(whole(found), rows=100).scans] == [False]


def test_the_plan_of_a_client_finds_the_rows_under_the_view_that_it_reads() -> None:
    draft = whole(scan("k", "n", summed="n"))
    client = ClientPlan("cGxhbg==", views=(ClientView("f", "SELECT k, n FROM input"),))
    reduce = replace(draft.stage("reduce"), body=None, client=client)
    asked = replace(draft, stages=tuple(reduce if stage.id == "reduce" else stage for stage in draft.stages))
    made = counted(asked).stage("reduce")
    assert [item.view for item in made.inputs] == ["_input"]
    assert made.client is not None
    rows, table = made.client.views
    assert rows.name == "input"
    assert rows.sql.startswith("SELECT k, CASE WHEN _row < _c1 THEN ")
    assert " FROM _input " in rows.sql
    assert table == client.views[0]


def test_a_query_in_parts_stays_as_it_is() -> None:
    draft = draft_of("SELECT k FROM f", CATALOG)
    assert with_counted_rows(draft, (), {"f": FEW}) is draft
