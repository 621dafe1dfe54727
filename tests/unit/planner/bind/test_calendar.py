"""Keys that are alike for all rows of a unit of time close with it, as windows do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.seeds import several
from tests.unit.planner.build import assert_refused, catalog_of, draft_of
from tests.unit.planner.engine import connect, fetch, run_draft, to_duckdb
from tests.unit.planner.test_semantics import CATALOG as STREAMS
from tests.unit.planner.test_semantics import load_whole, streams

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, `window` INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM r (ts TIMESTAMP, k INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    """
)
DAYS = "(SELECT date(ts) AS day, k, count(*) AS n FROM s GROUP BY day, k)"
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@pytest.mark.parametrize(
    ("key", "length", "offset"),
    [
        ("date(ts)", DAY, timedelta(0)),
        ("to_date(ts)", DAY, timedelta(0)),
        ("CAST(ts AS DATE)", DAY, timedelta(0)),
        ("(ts)::date", DAY, timedelta(0)),
        ("date_trunc('DAY', ts)", DAY, timedelta(0)),
        ("date_trunc('hour', s.ts)", timedelta(hours=1), timedelta(0)),
        ("date_trunc('WEEK', ts)", timedelta(days=7), timedelta(days=4)),
        ("date_format(ts, 'yyyy-MM-dd')", DAY, timedelta(0)),
        ("date_format(ts, 'yyyyMMdd')", DAY, timedelta(0)),
        ("date_format(ts, 'yyyy-MM-dd HH')", timedelta(hours=1), timedelta(0)),
        ("date_format(ts, \"yyyy-MM-dd'T'HH:mm\")", MINUTE, timedelta(0)),
        ("date_format(ts, 'yyyy-MM-dd HH:mm:ss')", timedelta(seconds=1), timedelta(0)),
        ("date(ts), date_trunc('MINUTE', ts), hour(ts)", MINUTE, timedelta(0)),
    ],
)
def test_a_key_closes_with_its_unit(key: str, length: timedelta, offset: timedelta) -> None:
    merge = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY {key}, k", CATALOG).stages[-1].merge
    assert merge is not None
    assert (merge.window, merge.period, merge.offset, merge.panes) == (length, length, offset, False)


@pytest.mark.parametrize(
    ("key", "length", "months"),
    [
        ("date_trunc('MONTH', ts)", timedelta(days=31), 1),
        ("date_trunc('mon', ts)", timedelta(days=31), 1),
        ("date_format(ts, 'yyyy-MM')", timedelta(days=31), 1),
        ("date_format(ts, 'yyyyMM')", timedelta(days=31), 1),
        ("date_trunc('QUARTER', ts)", timedelta(days=92), 3),
        ("date_format(ts, 'yyyy-QQ')", timedelta(days=92), 3),
        ("date_trunc('YEAR', ts)", timedelta(days=366), 12),
        ("date_format(ts, 'yyyy')", timedelta(days=366), 12),
        ("date_trunc('YEAR', ts), date_trunc('MONTH', ts)", timedelta(days=31), 1),
    ],
)
def test_months_quarters_and_years_close_with_their_last_day(key: str, length: timedelta, months: int) -> None:
    merge = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY {key}, k", CATALOG).stages[-1].merge
    assert merge is not None
    assert (merge.window, merge.period, merge.months, merge.panes) == (length, length, months, False)


def test_months_and_quarters_are_different_windows() -> None:
    text = (
        "SELECT a.n FROM (SELECT date_trunc('MONTH', ts) AS m, count(*) AS n FROM s GROUP BY m) AS a JOIN "
        "(SELECT date_trunc('QUARTER', ts) AS q, count(*) AS n FROM r GROUP BY q) AS b ON a.m = b.q"
    )
    assert_refused(text, "the windows that are joined differ: a month and a quarter", CATALOG)


def test_what_is_sent_is_that_of_windows() -> None:
    by_day = draft_of("SELECT date(ts) AS day, k, count(*) AS n FROM s GROUP BY day, k", CATALOG)
    windows = draft_of("SELECT k, count(*) AS n FROM s GROUP BY window(ts, '1 day'), k", CATALOG)
    assert by_day.stages[0].sql == windows.stages[0].sql


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT date(ts) AS day, k FROM s",
        "SELECT date(ts) AS day, count(*) AS n FROM s GROUP BY 1 HAVING day > DATE'2024-01-01' AND count(*) > 2",
        "SELECT date(ts) AS d, k, count(*) AS n FROM s GROUP BY d, k "
        "QUALIFY rank() OVER (PARTITION BY d ORDER BY n) <= 3",
        "SELECT date(ts) AS d, `window`, count(*) AS n FROM s GROUP BY d, `window` HAVING `window` > 1",
        "SELECT date(ts) AS d, k, count(*) AS n FROM s GROUP BY date(ts), ROLLUP (k)",
        "SELECT date(ts) AS d, count(*) AS n FROM (SELECT ts FROM s UNION ALL SELECT ts FROM r) GROUP BY d",
        f"SELECT day, max(n) AS most FROM {DAYS} GROUP BY day",
        f"SELECT k, n FROM {DAYS} QUALIFY rank() OVER (PARTITION BY day ORDER BY n) <= 3",
        f"SELECT a.day, a.n - b.n AS more FROM {DAYS} AS a JOIN {DAYS} AS b ON a.day = b.day AND a.k < b.k",
    ],
)
def test_it_is_a_window_wherever_one_is_needed(text: str) -> None:
    draft_of(text, CATALOG)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT date_format(ts, 'yy') AS m, count(*) AS n FROM s GROUP BY m", "needs a window"),
        ("SELECT month(ts) AS m, count(*) AS n FROM s GROUP BY m", "needs a window"),
        ("SELECT date_format(ts, 'MM-dd') AS m, count(*) AS n FROM s GROUP BY m", "needs a window"),
        ("SELECT date_format(ts, 'yyyy-MM-dd mm') AS m, count(*) AS n FROM s GROUP BY m", "needs a window"),
        ("SELECT hour(ts) AS h, count(*) AS n FROM s GROUP BY h", "needs a window"),
        ("SELECT date(ts + INTERVAL 1 HOUR) AS d, count(*) AS n FROM s GROUP BY d", "needs a window"),
        ("SELECT date(ts) AS d, window.start AS w, count(*) AS n FROM r GROUP BY d", "no column window"),
        ("SELECT date(ts) AS d, hour(ts) AS h, count(*) AS n FROM s GROUP BY d", "neither a group key"),
        (f"SELECT k, max(n) AS most FROM {DAYS} GROUP BY k", "need the window as a key"),
        (f"SELECT max(n) AS most FROM {DAYS} GROUP BY window(day, '7 days')", "must be on the start"),
        (
            f"SELECT a.n FROM {DAYS} AS a JOIN (SELECT date_trunc('HOUR', ts) AS h, count(*) AS n FROM r GROUP BY h) "
            "AS b ON a.day = b.h",
            "the windows that are joined differ: 1 day and 1 hour",
        ),
    ],
)
def test_other_keys_are_refused_with_their_place(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    return connect()


@settings(max_examples=several(25, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=streams,
    key=st.sampled_from(
        [
            *("date(ts)", "CAST(ts AS DATE)", "date_trunc('DAY', ts)", "date_trunc('MINUTE', ts)"),
            *("date_trunc('WEEK', ts)", "date_format(ts, 'yyyy-MM-dd')", "date_format(ts, 'yyyy-MM-dd HH:mm')"),
        ]
    ),
    others=st.lists(st.sampled_from(["k", "w", "date(ts)", "second(ts) % 7"]), max_size=2, unique=True),
    share=st.floats(0, 1),
    split=st.sampled_from([1, 3]),
)
def test_groups_of_a_unit_are_those_of_the_query(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], key: str, others: list[str], share: float, split: int
) -> None:
    """The rows lie on both sides of a midnight."""
    keys = [key, *(other for other in others if other != key)]
    items = ", ".join(f"{node} AS k{place}" for place, node in enumerate(keys))
    text = f"SELECT {items}, count(*) AS n, sum(v) AS v FROM s GROUP BY {', '.join(keys)} HAVING count(*) > 1"
    load_whole(db, stream)
    found = run_draft(db, draft_of(text, STREAMS, parts=split), {"s": stream}, lambda count: int(count * share))
    assert found == fetch(db, to_duckdb(text))


SHIFTS = {"MONTH": timedelta(days=1), "QUARTER": timedelta(days=32), "YEAR": timedelta(days=-59)}
"""From the midnight of the rows to one that ends February, March, or 2023."""


@settings(max_examples=several(25, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=streams,
    unit=st.sampled_from(sorted(SHIFTS)),
    others=st.lists(st.sampled_from(["k", "w", "date(ts)"]), max_size=2, unique=True),
    share=st.floats(0, 1),
    split=st.sampled_from([1, 3]),
)
def test_groups_of_months_are_those_of_the_query(
    db: duckdb.DuckDBPyConnection, stream: dict[str, Any], unit: str, others: list[str], share: float, split: int
) -> None:
    """The rows lie on both sides of the end of a month of 29 days, of a quarter, and of a year."""
    moved = {
        site: [[{**row, "ts": row["ts"] + SHIFTS[unit]} for row in epoch] for epoch in epochs]
        for site, epochs in stream.items()
    }
    keys = [f"date_trunc('{unit}', ts)", *others]
    items = ", ".join(f"{node} AS k{place}" for place, node in enumerate(keys))
    text = f"SELECT {items}, count(*) AS n, sum(v) AS v FROM s GROUP BY {', '.join(keys)} HAVING count(*) > 1"
    load_whole(db, moved)
    draft = draft_of(text, STREAMS, parts=split)
    assert run_draft(db, draft, {"s": moved}, lambda count: int(count * share)) == fetch(db, to_duckdb(text))
