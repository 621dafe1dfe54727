"""Copies of joined tables that are larger than the table whose sites get them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.relations.catalog import Catalog, TableStatistics
from tests.unit.planner.build import catalog_of, draft_of

DECLARED = catalog_of(
    """
    CREATE TABLE few (k INT, s STRING) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE many (k INT, s STRING) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE alone (k INT) WITH ('connector' = 'other') AT us;
    CREATE STREAM clicks (k INT, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'other')
    """
)
JOINED = "SELECT few.k, count(many.s) AS n FROM few LEFT JOIN many ON few.k = many.k GROUP BY few.k"
NOTE = "each site of few would get a copy of many: 1000 rows, and it has 100 itself"


def known(**rows: int) -> Catalog:
    relations = {
        name: replace(relation, statistics=TableStatistics(rows[name], {"s": 20})) if name in rows else relation
        for name, relation in DECLARED.relations.items()
    }
    return replace(DECLARED, relations=relations)


def test_a_query_runs_whole_where_its_parts_would_need_such_copies() -> None:
    draft = draft_of(JOINED, known(few=100, many=1000))
    assert draft.whole is not None
    assert draft.notes == (f"it runs whole: in parts, {NOTE}",)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (JOINED, {}),
        (JOINED, {"few": 100}),
        (JOINED, {"many": 1000}),
        (JOINED, {"few": 1000, "many": 1000}),
        (JOINED.replace("few", "alone"), {"alone": 10, "many": 1000}),
        # A twentieth of the rows is copied.
        (JOINED.replace(" GROUP", " AND many.s = 'a' GROUP"), {"few": 100, "many": 1000}),
        ("SELECT k FROM few", {"few": 1, "many": 1000}),
        # There is no other way.
        ("SELECT clicks.k FROM clicks JOIN many ON clicks.k = many.k", {"many": 1000}),
    ],
)
def test_a_query_runs_in_parts_where_copies_are_small_or_nothing_is_known(sql: str, rows: dict[str, int]) -> None:
    assert draft_of(sql, known(**rows)).whole is None
