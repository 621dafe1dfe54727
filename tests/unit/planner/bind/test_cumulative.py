"""Cumulative windows: which one a group is of is said by the window or its end, never by its start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from planner.values.errors import PlannerError
from tests.unit.planner.build import assert_refused, catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM r (ts TIMESTAMP, k INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE t (ts TIMESTAMP, k INT) WITH ('connector' = 'other') AT us AT eu;
    """
)
CALL = "cumulate_window(ts, '1 hour', '10 minutes')"
ROWS = f"(SELECT {CALL} AS w, window.start AS s, window.end AS e, k, count(*) AS n FROM s GROUP BY w, k)"


def test_sources_send_steps_and_the_merge_has_windows_of_any_number_of_them() -> None:
    draft = draft_of(f"SELECT window.start AS s, count(*) AS n FROM s GROUP BY {CALL}", CATALOG)
    source, stage = draft.stages
    assert "window(input.ts, '10 minutes')" in source.sql
    assert stage.merge is not None
    found = (stage.merge.window, stage.merge.period, stage.merge.panes, stage.merge.cumulates)
    assert found == (timedelta(hours=1), timedelta(minutes=10), True, True)
    assert "cumulate" not in stage.sql


def test_spark_is_asked_about_windows_that_it_knows() -> None:
    call = "`Cumulate_Window`(ts, '1 hour', '1 minute')"
    query = f"SELECT window.end AS e, count(*) AS n FROM s GROUP BY {call}"
    ranked = f"{query} QUALIFY rank() OVER (PARTITION BY {call} ORDER BY n) <= 2"
    for text in (query, ranked):
        asked = draft_of(text, CATALOG).texts[-1].sql
        assert asked == "SELECT window.end AS e, count(*) AS n FROM s GROUP BY window(ts, '1 hour', '1 minute')"
    named = draft_of(f"SELECT k AS cumulate_window, count(*) AS n FROM s GROUP BY {CALL}, k", CATALOG)
    assert "k AS cumulate_window, count" in named.texts[-1].sql


def test_with_one_step_they_are_plain_windows() -> None:
    drafts = [
        draft_of(f"SELECT window.end AS e, count(*) AS n FROM s GROUP BY {call}", CATALOG)
        for call in ("cumulate_window(ts, '1 hour', '1 hour')", "window(ts, '1 hour')")
    ]
    assert drafts[0].stages == drafts[1].stages


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT window.end AS e, count(*) AS n FROM s GROUP BY {CALL}.end",
        f"SELECT window.start AS a, k, count(*) AS n FROM s GROUP BY {CALL}, window.start, k",
        f"SELECT max(n) AS m FROM {ROWS} GROUP BY e",
        f"SELECT w.start AS a, max(n) AS m FROM {ROWS} GROUP BY w",
        f"SELECT max(n) AS m FROM {ROWS} GROUP BY w.end, s",
        f"SELECT w, k FROM {ROWS} QUALIFY rank() OVER (PARTITION BY w.end ORDER BY n) <= 1",
        f"SELECT a.k, b.k AS l FROM {ROWS} AS a JOIN {ROWS} AS b ON a.w = b.w",
        f"SELECT a.k, b.k AS l FROM {ROWS} AS a JOIN {ROWS} AS b ON a.w.end = b.e",
    ],
)
def test_the_window_and_its_end_are_keys(text: str) -> None:
    draft_of(text, CATALOG)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT count(*) AS n FROM s GROUP BY {CALL}.start", "several cumulative windows begin together"),
        (f"SELECT s, max(n) AS m FROM {ROWS} GROUP BY s", "need the window as a key"),
        (f"SELECT max(n) AS m FROM {ROWS} GROUP BY w.start", "need the window as a key"),
        (f"SELECT k FROM {ROWS} QUALIFY rank() OVER (PARTITION BY w.start ORDER BY n) <= 1", "PARTITION BY window"),
        (
            f"SELECT k, count(*) AS n FROM s GROUP BY {CALL}, k "
            "QUALIFY rank() OVER (PARTITION BY window.start ORDER BY n) <= 1",
            "PARTITION BY window",
        ),
        (f"SELECT a.k FROM {ROWS} AS a JOIN {ROWS} AS b ON a.s = b.s", "does not say that b's equals"),
        (
            f"SELECT a.k FROM {ROWS} AS a JOIN (SELECT window(ts, '1 hour', '10 minutes') AS w, count(*) AS n FROM r "
            "GROUP BY w) AS b ON a.w = b.w",
            "the windows that are joined differ: up to 1 hour in steps of 10 minutes and 1 hour every 10 minutes",
        ),
        (f"SELECT max(n) AS m FROM {ROWS} GROUP BY window(w.start, '2 hours')", "must be on the start"),
        (f"SELECT max(n) AS m FROM {ROWS} GROUP BY window(w, '2 hours')", "overlap, and do not fit"),
        (
            "SELECT max(n) AS m FROM (SELECT window(ts, '1 minute') AS w, count(*) AS n FROM s GROUP BY w) "
            "GROUP BY cumulate_window(w.start, '2 hours', '1 hour')",
            "over the rows of windows are not possible",
        ),
        ("SELECT count(*) AS n FROM s GROUP BY cumulate_window(ts, '1 hour', '7 minutes')", "does not divide"),
        ("SELECT count(*) AS n FROM s GROUP BY cumulate_window(ts, '7 minutes', '1 hour')", "does not divide"),
        ("SELECT count(*) AS n FROM s GROUP BY cumulate_window(ts, '1 hour')", "has a length and a step"),
        ("SELECT count(*) AS n FROM s GROUP BY cumulate_window(k, '1 hour', '1 minute')", "event-time column"),
        ("SELECT count(*) AS n FROM s GROUP BY cumulate_window(ts, '1 hour', k)", "literal of fixed length"),
        ("SELECT count(*) AS n FROM s GROUP BY cumulate_window(ts, '1 day', '1 second')", "at most 1000"),
        ("SELECT cumulate_window(ts, '1 hour', '1 minute') AS w FROM s", "only with GROUP BY"),
        (
            "SELECT a.k FROM s AS a JOIN r AS b ON a.k = b.k AND "
            "cumulate_window(a.ts, '1 hour', '1 minute') = cumulate_window(b.ts, '1 hour', '1 minute')",
            "in ON only to join the windows of two streams",
        ),
        (
            "SELECT a.k FROM s AS a JOIN r AS b ON a.k = b.k AND window(a.ts, '1 hour') = window(b.ts, '1 hour') "
            "WHERE cumulate_window(a.ts, '1 hour', '1 minute').end > a.ts",
            "has one window, that of the join",
        ),
        ("SELECT count(*) AS n FROM t GROUP BY cumulate_window(ts, '1 hour', '1 minute')", "over streams alone"),
        (
            "SELECT k FROM t WHERE k IN (SELECT k FROM t GROUP BY cumulate_window(ts, '1 hour', '1 minute'), k)",
            "over streams alone",
        ),
    ],
)
def test_other_uses_are_refused_with_their_place(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of("SELECT count(*) AS n FROM s GROUP BY cumulate(ts, '1 hour', '1 minute')", CATALOG)
    assert caught.value.hint == "Did you mean cumulate_window?"
