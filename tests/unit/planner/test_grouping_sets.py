"""ROLLUP, CUBE and GROUPING SETS over streams give what DuckDB gives over all rows, in one part or several."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.text.logical import logical_lines
from planner.values.errors import PlannerError
from tests.unit.planner.build import draft_of
from tests.unit.planner.engine import fetch, run_draft
from tests.unit.planner.test_semantics import CATALOG, load_whole, streams

W = "window(ts, '10 seconds')"
SETS = (
    *("ROLLUP (k, w)", "CUBE (k, w)", "GROUPING SETS ((k), (w), ())", "k, CUBE (w)", "ROLLUP ((k, w))"),
    *("GROUPING SETS ((k, w), (k), (k))", "GROUPING SETS (ROLLUP (k), CUBE (w))"),
)
ITEMS = "k, w, grouping(k) AS gk, grouping_id() AS id, count(*) AS n, sum(v) AS v, count(DISTINCT v) AS d"
DUCK_ITEMS = ITEMS.replace("grouping(", "GROUPING(").replace("grouping_id()", "GROUPING(k, w)")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=streams, sets=st.sampled_from(SETS), share=st.floats(0, 1), split=st.sampled_from([1, 3]), more=st.booleans()
)
def test_groups_by_sets_equal_the_query(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], sets: str, share: float, split: int, more: bool
) -> None:
    having = " HAVING count(*) > 1 OR grouping(w) = 1" if more else ""
    draft = draft_of(f"SELECT window.start AS ws, {ITEMS} FROM s GROUP BY {W}, {sets}{having}", CATALOG, parts=split)
    load_whole(db, stream)
    whole = f"SELECT w(ts, 10) AS ws, {DUCK_ITEMS} FROM s GROUP BY ws, {sets}{having.replace('grouping', 'GROUPING')}"
    assert run_draft(db, draft, {"s": stream}, lambda count: int(count * share)) == fetch(db, whole)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, split=st.sampled_from([1, 3]))
def test_groups_of_joined_streams_and_longer_windows_over_groups(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], split: int
) -> None:
    load_whole(db, stream)
    joined = (
        "SELECT window.start AS ws, a.k, b.w, count(*) AS n FROM s AS a JOIN s AS b ON a.k = b.k AND "
        "window(a.ts, '10 seconds') = window(b.ts, '10 seconds') GROUP BY window(a.ts, '10 seconds'), ROLLUP (a.k, b.w)"
    )
    wanted = (
        "SELECT w(a.ts, 10) AS ws, a.k, b.w, count(*) AS n FROM s AS a JOIN s AS b ON a.k = b.k AND "
        "w(a.ts, 10) = w(b.ts, 10) GROUP BY ws, ROLLUP (a.k, b.w)"
    )
    assert run_draft(db, draft_of(joined, CATALOG, parts=split), {"s": stream}) == fetch(db, wanted)
    longer = (
        f"SELECT window.start AS ws, max(n) AS most FROM (SELECT {W} AS t, k, count(*) AS n FROM s "
        f"GROUP BY {W}, ROLLUP (k)) AS d GROUP BY window(t.start, '30 seconds')"
    )
    of_all = (
        "SELECT w(t, 30) AS ws, max(n) AS most FROM (SELECT w(ts, 10) AS t, k, count(*) AS n FROM s "
        "GROUP BY t, ROLLUP (k)) AS d GROUP BY 1"
    )
    assert run_draft(db, draft_of(longer, CATALOG, parts=split), {"s": stream}) == fetch(db, of_all)


def test_the_window_counts_in_the_number_of_a_set() -> None:
    head, tail = f"SELECT grouping_id() AS id FROM s GROUP BY {W}, ROLLUP (k, w)", f"CUBE (k), {W}"
    assert "array(0, 1, 3)" in draft_of(head, CATALOG).stage("m1").sql
    assert "array(0, 2)" in draft_of(head.replace(f"{W}, ROLLUP (k, w)", tail), CATALOG).stage("m1").sql


def test_explain_says_how_many_sets_there_are() -> None:
    draft = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY {W}, CUBE (k, w)", CATALOG)
    assert logical_lines(draft.logical)[1] == "  MergeAggregate[window, k, w; 4 grouping sets]"


MANY = f"{W}, CUBE (k, w, v, d, ts, abs(k), upper(w))"
REFUSED = [
    ("GROUP BY ROLLUP (k, w)", 59, "k, w"),
    (f"GROUP BY ROLLUP ({W}, k)", 59, f"{W}, k"),
    (f"GROUP BY {W}, k WITH ROLLUP", 84, "ROLLUP"),
    (f"GROUP BY {MANY}", 51, MANY[:60] + "..."),
    (f"GROUP BY {W}, k HAVING grouping(k) = 0", 86, "grouping"),
    (f"GROUP BY {W}, CUBE (k) HAVING grouping(w) = 0", 93, "grouping"),
    (f"GROUP BY {W}, CUBE (k) HAVING grouping_id(k) = 0", 93, "grouping_id"),
]


@pytest.mark.parametrize(("groups", "column", "found"), REFUSED)
def test_what_is_refused(groups: str, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(f"SELECT count(*) AS n, max(v) AS v FROM s {groups}", CATALOG)
    error = caught.value
    assert error.position is not None
    assert (error.code, error.position.column) == ("UNSUPPORTED_SQL", column)
    assert error.found.startswith(found.removesuffix("...")[:30])
    assert error.hint
