"""All that makes a query that runs whole send less, together."""

from __future__ import annotations

from datetime import timedelta

import pytest

from planner.graph.batchoptions import KeyFilters
from planner.graph.plan import DraftPlan, Split
from planner.planning.drafts import with_texts
from planner.relations.catalog import TableStatistics
from planner.rules.sending import MAX_SORTED, with_fewer_bytes
from planner.values.scans import TableScan
from planner.values.topology import Link, Topology
from tests.unit.planner.build import draft_of
from tests.unit.planner.rules.test_countedrows import CATALOG, FEW, scan, sql_of, whole


def sent(draft: DraftPlan, rows: int | None, known: dict[str, TableStatistics] | None = None) -> DraftPlan:
    splits = [Split(site, (), 1000, stage.id, rows=rows) for stage in draft.map_stages for site in stage.pinned]
    return with_texts(with_fewer_bytes(draft, splits, Topology({}, {}, "us"), KeyFilters.TIME, known or {}))


@pytest.mark.parametrize(("rows", "sorts"), [(1000, True), (MAX_SORTED + 1, False), (None, False)])
def test_rows_that_are_sent_once_are_sorted_unless_there_are_too_many(rows: int | None, sorts: bool) -> None:
    draft = sent(whole(TableScan("f", ("k", "p"), distinct=True)), rows)
    assert sql_of(draft, "map") == f"SELECT k, p FROM input GROUP BY k, p{' ORDER BY k, p' if sorts else ''}"


def test_counted_rows_are_sorted_by_what_tells_them_apart() -> None:
    draft = sent(whole(scan("k", "p", tallied="p")), 1000, {"f": FEW})
    assert sql_of(draft, "map") == "SELECT k, COUNT(*) AS _n, count(input.p) AS _c1 FROM input GROUP BY k ORDER BY k"


def test_one_row_needs_no_order() -> None:
    assert "ORDER" not in sql_of(sent(whole(scan()), 1000, {"f": FEW}), "map")


def test_a_query_in_parts_stays_as_it_is() -> None:
    draft = draft_of("SELECT k FROM f", CATALOG)
    assert with_fewer_bytes(draft, (), Topology({}, {}, "us"), KeyFilters.ALWAYS, {"f": FEW}) is draft


LINKED = {
    speed: Topology({}, {(a, b): Link(a, b, speed, timedelta(0)) for a, b in (("us", "eu"), ("eu", "us"))}, "us")
    for speed in (1e5, 1e8)
}


@pytest.mark.parametrize(
    ("speed", "mode", "distinct", "groups"),
    [
        (1e8, KeyFilters.TIME, 900_000, False),
        (1e8, KeyFilters.BYTES, 900_000, True),
        (1e5, KeyFilters.TIME, 900_000, True),
        (1e8, KeyFilters.TIME, None, True),
    ],
)
def test_equal_rows_are_sought_where_that_saves_time(
    speed: float, mode: KeyFilters, distinct: int | None, groups: bool
) -> None:
    draft = whole(TableScan("f", ("k", "p"), distinct=True))
    splits = [Split(site, (), 1000, s.id, rows=500_000) for s in draft.map_stages for site in s.pinned]
    known = {"f": TableStatistics(1_000_000, {"k": distinct, "p": 3})} if distinct else {}
    found = with_texts(with_fewer_bytes(draft, splits, LINKED[speed], mode, known))
    assert ("GROUP BY" in sql_of(found, "map")) is groups
    assert [s.distinct for s in found.scans] == [groups]
