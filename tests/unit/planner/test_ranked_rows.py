"""QUALIFY over rows: the first k of each window are those of DuckDB over all rows at once."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.rules.combines import with_combines
from planner.rules.parts import with_parts
from planner.text.logical import logical_lines
from tests.seeds import several
from tests.unit.planner.build import assert_refused, draft_of
from tests.unit.planner.engine import fetch, run_draft
from tests.unit.planner.test_interval_joins import CATALOG as PAIRED
from tests.unit.planner.test_interval_joins import UNTIL, data_of
from tests.unit.planner.test_interval_joins import load_whole as load_paired
from tests.unit.planner.test_semantics import CATALOG, load_whole, streams, tables

EACH = settings(max_examples=several(12, 30), suppress_health_check=[HealthCheck.function_scoped_fixture])
WINDOWS = (
    ("window(ts, '10 seconds')", "w(ts, 10)"),
    ("date_trunc('MINUTE', ts)", "date_trunc('minute', ts)"),
    ("ts", "ts"),
)


@EACH
@given(
    stream=streams,
    table=tables,
    rank=st.sampled_from(["row_number", "rank", "dense_rank"]),
    k=st.integers(1, 3),
    window=st.sampled_from(WINDOWS),
    key=st.sampled_from(["", ", k", ", w, k", ", upper(w)"]),
    order=st.sampled_from(["v DESC", "d, v", "coalesce(v, 0) + 1 DESC NULLS LAST"]),
    tail=st.sampled_from(["", " WHERE v > 0", " JOIN t USING (k)"]),
    parts=st.sampled_from([1, 3]),
)
def test_the_first_rows_of_a_window(
    db: duckdb.DuckDBPyConnection,
    stream: dict[str, Any],
    table: dict[str, Any],
    rank: str,
    k: int,
    window: tuple[str, str],
    key: str,
    order: str,
    tail: str,
    parts: int,
) -> None:
    load_whole(db, stream, table)
    text = f"SELECT ts, s.k, w, v, d FROM s{tail.replace('USING (k)', 'ON t.k = s.k')} QUALIFY {rank}() OVER "
    text += f"(PARTITION BY {{}}{key.replace(' k', ' s.k')} ORDER BY {{}}) <= {k}"
    ties = ", ts NULLS FIRST, s.k NULLS FIRST, w NULLS FIRST, v NULLS FIRST, d NULLS FIRST"
    # Spark has NULLs first unless the order descends; DuckDB has them last.
    first = (
        order
        if "NULLS" in order
        else ", ".join(
            part + (" NULLS LAST" if part.endswith("DESC") else " NULLS FIRST") for part in order.split(", ")
        )
    )
    expected = fetch(db, text.format(window[1], first + (ties if rank == "row_number" else "")))
    held = {site: [rows] for site, rows in table.items()}
    assert (
        run_draft(db, draft_of(text.format(window[0], order), CATALOG, parts=parts), {"s": stream, "t": held})
        == expected
    )


@EACH
@given(stream=streams, parts=st.sampled_from([1, 3]))
def test_over_ranked_rows_and_unions_of_them(db: duckdb.DuckDBPyConnection, stream: dict[str, Any], parts: int) -> None:
    load_whole(db, stream)
    best = "SELECT {} AS s, k, v FROM s QUALIFY rank() OVER (PARTITION BY {}, k ORDER BY v DESC NULLS LAST) = 1"
    call = "window(ts, '10 seconds')"
    ours, whole = best.format(f"{call}.start", call), best.format("w(ts, 10)", "w(ts, 10)")
    for text in ("SELECT s, sum(v) AS v FROM ({}) AS x GROUP BY s", "SELECT k, v FROM ({}) AS x WHERE v > 2"):
        draft = draft_of(text.format(ours), CATALOG, parts=parts)
        assert run_draft(db, draft, {"s": stream}) == fetch(db, text.format(whole))
    both = "SELECT k, v FROM (SELECT ts, k, v FROM s UNION ALL SELECT ts, v AS k, k AS v FROM s WHERE v > 0) AS u"
    both += " QUALIFY dense_rank() OVER (PARTITION BY {} ORDER BY v DESC NULLS LAST) <= 2"
    draft = draft_of(both.format(call), CATALOG, parts=parts)
    assert run_draft(db, draft, {"s": stream}) == fetch(db, both.format("w(ts, 10)"))


@EACH
@given(data=data_of, parts=st.sampled_from([1, 3]))
def test_the_best_match_of_a_row_is_known_when_no_other_can_come(
    db: duckdb.DuckDBPyConnection, data: dict[str, Any], parts: int
) -> None:
    load_paired(db, data)
    text = (
        f"SELECT a.v, a.ts, a.until, b.x, b.seen FROM a JOIN b ON {UNTIL} QUALIFY row_number() OVER "
        "(PARTITION BY a.v, a.ts, a.until ORDER BY b.x DESC {}, b.seen{}) = 1"
    )
    draft = draft_of(text.format("", ""), PAIRED, parts=parts)
    ties = ", a.v NULLS FIRST, a.ts, a.until NULLS FIRST, b.x NULLS FIRST, b.seen"
    assert run_draft(db, draft, data) == fetch(db, text.format("NULLS LAST", ties))


def test_sources_send_the_first_rows_of_an_epoch() -> None:
    text = (
        "SELECT k, v FROM s QUALIFY row_number() OVER (PARTITION BY window(ts, '10 seconds'), k ORDER BY v DESC) <= 2"
    )
    draft = draft_of(text, CATALOG)
    source, merge = draft.stages
    rank = "row_number() OVER (PARTITION BY _window_start, _c0 ORDER BY _c1 DESC, _c0, _c1) AS _rank"
    assert source.sql == (
        "SELECT _window_start, _c0, _c1, _bin FROM (SELECT _window_start, _c0, _c1, pmod(xxhash64(_c0), 64) AS _bin, "
        f"{rank} FROM (SELECT window(input.ts, '10 seconds').start AS _window_start, input.k AS _c0, input.v AS _c1 "
        "FROM input) AS ranked) AS ranked WHERE _rank <= 2"
    )
    assert rank in merge.sql
    assert "TopK[2 per window, k by row_number over v DESC]" in "\n".join(logical_lines(draft.logical))
    assert with_combines(draft).stages == draft.stages


def test_joined_rows_are_ranked_where_they_are_joined() -> None:
    joined = (
        "SELECT window(a.ts, '5 seconds') AS span, a.k, b.v FROM s AS a JOIN s AS b ON a.k = b.k AND "
        "window(a.ts, '5 seconds') = window(b.ts, '5 seconds') QUALIFY rank() OVER (PARTITION BY span ORDER BY b.v) = 1"
    )
    for text in (joined, f"SELECT span, count(*) AS n FROM ({joined}) GROUP BY span"):
        draft = draft_of(text, CATALOG)
        *_, merge = draft.stages
        assert "rank() OVER (PARTITION BY _window_start ORDER BY" in merge.sql
        assert "JOIN t1 ON" in merge.sql
        parts = with_parts(draft, 4)
        assert [stage.parts for stage in parts.stages] == [1, 1, 1]
        assert "m1: one task, for what it makes of its joined rows cannot be made of partials" in parts.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT k FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 1",
            "rows of a stream are ranked within",
        ),
        (
            "SELECT k FROM s QUALIFY rank() OVER (PARTITION BY session_window(ts, '5 seconds'), k ORDER BY v) = 1",
            "of the rows of a session only the first or the last",
        ),
        (
            "SELECT a.k FROM s AS a JOIN s AS b ON a.k = b.k AND window(a.ts, '5 seconds') = window(b.ts, '5 seconds') "
            "QUALIFY row_number() OVER (PARTITION BY a.k ORDER BY a.v) = 1",
            "rows of a stream are ranked within",
        ),
        (
            "SELECT count(*) AS n FROM (SELECT window(ts, '5 seconds') AS w FROM s QUALIFY rank() OVER "
            "(PARTITION BY window(ts, '5 seconds') ORDER BY v) = 1) GROUP BY window(w, '1 minute')",
            "longer windows over ranked rows",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)
