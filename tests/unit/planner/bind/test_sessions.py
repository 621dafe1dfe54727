"""Session windows: what the stages do, what can be done with their rows, and what is refused."""

from __future__ import annotations

import pytest

from planner.graph.plan import Sessions, takes_again
from planner.rules.combines import with_combines
from planner.sharing.vertices import vertices_of
from planner.text.logical import logical_lines
from planner.values.stages import StageKind
from tests.unit.planner.build import assert_refused, catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, v DOUBLE, g STRING, WATERMARK FOR ts)
      WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM r (ts TIMESTAMP, k INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    """
)
CALL = "session_window(ts, '10 minutes')"
ROWS = f"(SELECT {CALL} AS w, session_window.end AS e, k, count(*) AS n FROM s GROUP BY w, k)"


def test_sources_send_the_sessions_of_an_epoch_and_the_merge_groups_by_their_ends() -> None:
    draft = draft_of(
        f"SELECT k, session_window.start, session_window.end, count(*) AS n FROM s GROUP BY {CALL}, k", CATALOG
    )
    source, merge = draft.stages
    assert source.sql == (
        "SELECT session_window.start AS _window_start, session_window.end AS _window_end, _k0, count(*) AS _p0, "
        "pmod(xxhash64(_k0), 64) AS _bin FROM (SELECT input.ts AS _at, input.k AS _k0 FROM input) AS kept "
        "GROUP BY session_window(_at, '10 minutes'), _k0"
    )
    assert merge.merge is not None
    assert merge.merge.sessions == Sessions(("_k0",), "10 minutes")
    assert "GROUP BY _window_start, _window_end, _k0" in merge.merge.combine_sql
    assert takes_again(draft.stages)
    assert "PartialAggregate[session with a gap of 10 minutes, k]" in "\n".join(logical_lines(draft.logical))


def test_each_row_may_have_a_gap_of_its_own() -> None:
    gap = "CASE WHEN k = 1 THEN '5 seconds' ELSE g END"
    draft = draft_of(
        f"SELECT k, session_window AS w, count(*) AS n FROM s GROUP BY session_window(ts, {gap}), k", CATALOG
    )
    source, merge = draft.stages
    assert "CASE WHEN input.k = 1 THEN '5 seconds' ELSE input.g END AS _gap" in source.sql
    assert source.read_columns == ("ts", "k", "g")
    assert "GROUP BY session_window(_at, _gap), _k0" in source.sql
    assert merge.merge is not None
    assert merge.merge.sessions == Sessions(("_k0",), gap)
    assert "named_struct('start', _window_start, 'end', _window_end) AS w" in merge.sql


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT DISTINCT {CALL} AS w, k FROM s",
        f"SELECT w.end - w.start AS d, n FROM {ROWS} WHERE n > 3",
        f"SELECT {CALL}.end AS e, count(*) AS n FROM s GROUP BY {CALL} HAVING count(*) > 3",
        f"SELECT k, count(*) AS n FROM (SELECT ts, k FROM s UNION ALL SELECT ts, k FROM r) GROUP BY {CALL}, k",
        f"SELECT k FROM s GROUP BY {CALL}, k UNION ALL SELECT k FROM r GROUP BY {CALL}, k",
    ],
)
def test_filters_projections_and_unions_are_possible(text: str) -> None:
    assert takes_again(draft_of(text, CATALOG).stages)


def test_merges_of_sessions_run_in_parts_where_they_have_keys() -> None:
    (*_, merge) = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY {CALL}, k", CATALOG, parts=3).stages
    assert (merge.kind, merge.parts) == (StageKind.MERGE, 3)
    draft = draft_of(f"SELECT count(*) AS n FROM s GROUP BY {CALL}", CATALOG, parts=3)
    assert draft.stages[-1].parts == 1
    assert draft.notes == ("m1: one task, for its groups have no keys",)


def test_sites_do_not_combine_sessions_and_the_plan_says_why() -> None:
    draft = with_combines(draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY {CALL}, k", CATALOG))
    assert [stage.kind for stage in draft.stages] == [StageKind.SOURCE, StageKind.MERGE]
    assert draft.notes == ("m1: sites do not combine its partials, for nothing says when a session is whole there",)


def test_channels_of_equal_sessions_are_shared_and_merges_differ_by_what_they_keep() -> None:
    def fingerprints(having: str) -> list[str]:
        draft = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY {CALL}, k{having}", CATALOG)
        return [v.fingerprint for v in vertices_of(draft, CATALOG.relations, {}, owner="q", gateway="us")][:3]

    some, all_of_them = fingerprints(" HAVING count(*) > 3"), fingerprints("")
    assert some[:2] == all_of_them[:2]
    assert some[2] != all_of_them[2]
    assert fingerprints("") == all_of_them


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT {CALL} AS w FROM s", "possible only with GROUP BY"),
        ("SELECT count(*) AS n FROM s GROUP BY session_window(ts)", "session_window has a gap"),
        ("SELECT count(*) AS n FROM s GROUP BY session_window(v, '1 second')", "must be on the stream's event-time"),
        *(
            (
                f"SELECT count(*) AS n FROM s GROUP BY session_window(ts, {gap})",
                "the gap must be a text of fixed length",
            )
            for gap in ("'2 months'", "'0 seconds'", "'soon'", "INTERVAL '1' MINUTE", "-1", "concat('1 ', 'second')")
        ),
        (
            "SELECT count(*) AS n FROM s GROUP BY session_window(ts, CASE WHEN k = 1 THEN '1 month' ELSE '1 day' END)",
            "the gap must be a text of fixed length",
        ),
        (f"SELECT count(*) AS n FROM s GROUP BY {CALL}, window(ts, '1 hour')", "a query has one window"),
        (
            f"SELECT count(*) AS n FROM s GROUP BY {CALL}, session_window(ts, '1 hour')",
            "a query has one window",
        ),
        (
            f"SELECT k, count(*) AS n FROM s GROUP BY {CALL}, k "
            "QUALIFY rank() OVER (PARTITION BY session_window ORDER BY n) <= 2",
            "QUALIFY over sessions",
        ),
        (f"SELECT k, count(*) AS n FROM s GROUP BY CUBE({CALL}, k)", "grouping sets of sessions"),
        (
            "SELECT s.k FROM s JOIN r ON s.k = r.k AND window(s.ts, '5 seconds') = window(r.ts, '5 seconds') "
            "GROUP BY session_window(s.ts, '5 seconds'), s.k",
            "sessions over joined streams",
        ),
        (f"SELECT w, max(n) AS m FROM {ROWS} GROUP BY w", "rows of sessions are not grouped"),
        (f"SELECT window(e, '1 hour') AS w, max(n) AS m FROM {ROWS} GROUP BY w", "rows of sessions are not grouped"),
        (f"SELECT max(n) AS m FROM {ROWS}", "rows of sessions are not grouped"),
        (f"SELECT DISTINCT k FROM {ROWS}", "rows of sessions are not grouped"),
        (f"SELECT a.k FROM {ROWS} AS a JOIN {ROWS} AS b ON a.w = b.w", "joins of sessions"),
        (
            "SELECT count(*) AS m FROM (SELECT window(ts, '5 seconds') AS w, k, count(*) AS n FROM s GROUP BY w, k) "
            "GROUP BY session_window(w.start, '10 seconds')",
            "sessions over the rows of windows",
        ),
        (f"SELECT session_window.first AS f FROM s GROUP BY {CALL}", "a window has the fields start and end"),
        (f"SELECT window.start AS f FROM s GROUP BY {CALL}", "there is no column window.start"),
        ("SELECT count(*) AS n FROM s GROUP BY SESSION(ts, INTERVAL '10' MINUTE)", "unexpected \\("),
    ],
)
def test_what_is_not_possible_is_refused_with_its_place(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)
