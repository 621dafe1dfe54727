"""One row of each chain of rows: the first or last of DuckDB's over all rows; WITHIN is read where it stands."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.graph.plan import Sessions
from planner.text.merges import merge_text
from tests.seeds import several
from tests.unit.planner.build import assert_refused, draft_of
from tests.unit.planner.engine import fetch, run_draft
from tests.unit.planner.test_semantics import CATALOG, load_whole, streams

EACH = settings(max_examples=several(12, 30), suppress_health_check=[HealthCheck.function_scoped_fixture])
FIRST = "QUALIFY row_number() OVER (PARTITION BY session_window(ts, '5 seconds'), k ORDER BY ts) = 1"


@EACH
@given(
    stream=streams,
    last=st.booleans(),
    key=st.sampled_from(["k", "k, w", "coalesce(k, 0) % 3"]),
    within=st.booleans(),
    parts=st.sampled_from([1, 3]),
)
def test_one_row_of_each_chain(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], last: bool, key: str, within: bool, parts: int
) -> None:
    load_whole(db, stream)
    order, near = ("ts DESC", "lead") if last else ("ts", "lag")
    sessions = "" if within else "session_window(ts, '5 seconds'), "
    text = (
        f"SELECT ts, {key} FROM s WHERE v > 0 QUALIFY row_number() OVER (PARTITION BY {sessions}{key} ORDER BY {order})"
    )
    text += " = 1 WITHIN INTERVAL '5 seconds'" if within else " = 1"
    chain = f"OVER (PARTITION BY {key} ORDER BY ts)"
    gap = f"ts - lag(ts) {chain}" if not last else f"lead(ts) {chain} - ts"
    whole = f"SELECT ts, {key} FROM s WHERE v > 0 QUALIFY {near}(ts) {chain} IS NULL OR {gap} > INTERVAL 5 SECOND"
    assert run_draft(db, draft_of(text, CATALOG, parts=parts), {"s": stream}) == fetch(db, whole)


@EACH
@given(stream=streams, parts=st.sampled_from([1, 3]))
def test_distinct_rows_of_chains_and_what_is_over_them(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], parts: int
) -> None:
    load_whole(db, stream)
    chain = "OVER (PARTITION BY k, upper(w) ORDER BY ts)"
    whole = (
        f"SELECT k, upper(w) AS w FROM s QUALIFY lag(ts) {chain} IS NULL OR ts - lag(ts) {chain} > INTERVAL 5 SECOND"
    )
    text = "SELECT DISTINCT k, upper(w) AS w FROM s WITHIN INTERVAL 5 SECONDS"
    assert run_draft(db, draft_of(text, CATALOG, parts=parts), {"s": stream}) == fetch(db, whole)
    over = "SELECT k + 1 AS k FROM ({}) AS d WHERE k > 1"
    assert run_draft(db, draft_of(over.format(text), CATALOG), {"s": stream}) == fetch(db, over.format(whole))


def test_sites_send_one_row_of_each_chain_that_an_epoch_has() -> None:
    draft = draft_of(f"SELECT ts, w FROM s {FIRST}", CATALOG)
    source, merge = draft.stages
    assert "min(named_struct('f0', _c0, 'f1', _c1)) AS _p0" in source.sql
    assert "GROUP BY session_window(_at, '5 seconds'), _k0" in source.sql
    assert "SELECT _a0.f0 AS ts, _a0.f1 AS w" in merge.sql
    assert merge.merge is not None
    assert merge.merge.sessions == Sessions(("_k0",), "5 seconds", at_start=True)
    assert merge_text(merge.merge).startswith("emits the first row of each session once, when the watermark passes it")
    last = draft_of(f"SELECT session_window.end AS e, w FROM s {FIRST.replace('ts)', 'ts DESC)')}", CATALOG).stages[-1]
    assert "max(_p0) AS _a0" in last.sql
    assert last.merge is not None
    assert last.merge.sessions == Sessions(("_k0",), "5 seconds")


def test_spark_checks_the_text_without_the_clause() -> None:
    text = (
        "SELECT n FROM (SELECT DISTINCT k AS n FROM s WITHIN INTERVAL '5' SECONDS) WHERE n > 2 UNION ALL "
        "SELECT k FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts) = 1 WITHIN INTERVAL '1 hour'"
    )
    sql = draft_of(text, CATALOG).texts[-1].sql
    assert sql == "SELECT n FROM (SELECT DISTINCT k AS n FROM s ) WHERE n > 2 UNION ALL SELECT k FROM s"


REFUSED = (
    ("SELECT k FROM s WITHIN INTERVAL '5 seconds'", "WITHIN goes with SELECT DISTINCT"),
    (f"SELECT k FROM s {FIRST} WITHIN INTERVAL '5 seconds'", "WITHIN goes with SELECT DISTINCT"),
    ("SELECT DISTINCT k FROM s WITHIN INTERVAL '1 month'", "the interval must be of fixed length"),
    ("SELECT DISTINCT name FROM t WITHIN INTERVAL '1 hour'", "WITHIN is possible over streams only"),
    ("SELECT DISTINCT k FROM (SELECT k FROM s) WITHIN INTERVAL '1 hour'", "WITHIN needs rows with an event time"),
    (f"SELECT session_window.end AS e FROM s {FIRST}", "the first row of a session comes out before its end is known"),
    (f"SELECT session_window AS w FROM s {FIRST}", "the first row of a session comes out before its end is known"),
    (f"SELECT k FROM s {FIRST.replace('row_number', 'rank')}", "only the first or the last by event time can be kept"),
    (f"SELECT k FROM s {FIRST.replace('= 1', '<= 2')}", "only the first or the last by event time can be kept"),
    (f"SELECT k FROM s {FIRST.replace('BY ts)', 'BY v)')}", "only the first or the last by event time can be kept"),
    (f"SELECT k FROM s {FIRST.replace('BY ts)', 'BY ts, v DESC)')}", "rows are ordered in one direction"),
    (f"SELECT k FROM s GROUP BY k {FIRST}", "a query has one window|QUALIFY over sessions|needs a window"),
)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)


def test_spark_checks_names_of_windows_that_only_the_rank_writes_out() -> None:
    window = "CAST(NULL AS STRUCT<start: TIMESTAMP, end: TIMESTAMP>)"
    last = FIRST.replace("ts)", "ts DESC)")
    sql = draft_of(f"SELECT session_window.end AS e, ts FROM s {last}", CATALOG).texts[-1].sql
    assert sql == f"SELECT {window}.end AS e, ts FROM s"
    rank = "QUALIFY rank() OVER (PARTITION BY window(ts, '5 seconds') ORDER BY window.start, v) = 1"
    sql = draft_of(f"SELECT window.start, window(ts, '5 seconds').end AS e FROM s {rank}", CATALOG).texts[-1].sql
    assert sql == f"SELECT {window}.start, window(ts, '5 seconds').end AS e FROM s"
