"""Sessions: the stages together give what the query gives over all rows at once, by DuckDB as the judge."""

from __future__ import annotations

from typing import Any

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.planner.build import draft_of
from tests.unit.planner.engine import fetch, run_draft
from tests.unit.planner.test_semantics import AGGREGATES, CATALOG, FILTERS, HAVINGS, KEYS, load_whole, streams

GAPS = (
    ("'3 seconds'", "INTERVAL 3 SECOND"),
    ("'250 milliseconds'", "INTERVAL 250 MILLISECOND"),
    (
        "CASE WHEN v > 5 THEN '9 seconds' WHEN v < 0 THEN '0 seconds' WHEN d IS NULL THEN NULL ELSE '1 second' END",
        "CASE WHEN v > 5 THEN INTERVAL 9 SECOND WHEN v < 0 THEN INTERVAL 0 SECOND WHEN d IS NULL THEN NULL "
        "ELSE INTERVAL 1 SECOND END",
    ),
)
"""As Spark has them, and DuckDB."""


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=streams,
    keys=st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    aggregates=st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True),
    where=st.lists(st.sampled_from(FILTERS), max_size=1),
    having=st.none() | st.sampled_from(HAVINGS),
    gap=st.sampled_from(GAPS),
    share=st.floats(0, 1),
    split=st.sampled_from([1, 3]),
)
def test_sessions_of_epochs_and_sites_are_those_of_all_rows(
    db: duckdb.DuckDBPyConnection,
    stream: dict[str, Any],
    keys: list[str],
    aggregates: list[str],
    where: list[str],
    having: str | None,
    gap: tuple[str, str],
    share: float,
    split: int,
) -> None:
    names = [f"k{index}" for index in range(len(keys))]
    items = ", ".join(f"{aggregate} AS a{index}" for index, aggregate in enumerate(aggregates))
    picked = "".join(f"{key} AS {name}, " for key, name in zip(keys, names, strict=True))
    filters = f" WHERE ({where[0]})" if where else ""
    kept = f" HAVING {having}" if having else ""
    groups = ", ".join([f"session_window(ts, {gap[0]})", *keys])
    head = f"SELECT session_window.start AS s, session_window.end AS e, {picked}{items} FROM s{filters}"
    draft = draft_of(f"{head} GROUP BY {groups}{kept}", CATALOG, parts=split)

    load_whole(db, stream)
    by = f"PARTITION BY {', '.join(names) or '1'} ORDER BY ts, e"
    before = f"max(e) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    rows = f"SELECT *, {picked}ts + {gap[1]} AS e FROM s{filters}"
    begun = f"SELECT *, CASE WHEN ts <= {before} THEN 0 ELSE 1 END AS b FROM ({rows}) WHERE e > ts"
    islands = f"SELECT *, sum(b) OVER ({by}) AS island FROM ({begun})"
    whole = f"SELECT min(ts) AS s, max(e) AS e, {''.join(f'{name}, ' for name in names)}{items} FROM ({islands}) AS s "
    whole += f"GROUP BY {', '.join([*names, 'island'])}{kept}"
    assert run_draft(db, draft, {"s": stream}, lambda count: int(count * share)) == fetch(db, whole)
