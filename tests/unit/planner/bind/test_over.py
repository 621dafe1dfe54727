"""OVER over rows of streams: what the stages do, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from planner.graph.plan import Neighbours, takes_again
from planner.planning.drafts import input_columns
from planner.relations.catalog import Column
from planner.rules.parts import with_parts
from planner.rules.ranges import with_ranges
from planner.sharing.vertices import vertices_of
from planner.text.logical import logical_lines
from planner.text.merges import merge_json, merge_text
from tests.unit.planner.build import assert_refused, catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, v DOUBLE, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM r (ts TIMESTAMP, k INT, until TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    """
)
BY = "PARTITION BY k ORDER BY ts"


def neighbours_of(text: str) -> Neighbours | None:
    merge = draft_of(text, CATALOG).stages[-1].merge
    assert merge is not None
    return merge.neighbours


def test_sources_send_rows_and_the_merge_has_those_before_them() -> None:
    draft = draft_of(f"SELECT k, ts, sum(v) OVER ({BY} ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s FROM s", CATALOG)
    source, merge = draft.stages
    assert source.sql == (
        "SELECT _window_start, _k0, _c1, pmod(xxhash64(_k0), 64) AS _bin FROM (SELECT input.ts AS _window_start, "
        "input.k AS _k0, input.v AS _c1 FROM input) AS `rows`"
    )
    assert merge.sql == (
        "SELECT _o0 AS k, _o1 AS ts, _o2 AS s FROM (SELECT _k0 AS _o0, _window_start AS _o1, sum(_c1) OVER (PARTITION "
        "BY _k0 ORDER BY _window_start, _k0, _c1 ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS _o2, _new FROM input) "
        "AS in_order WHERE _new"
    )
    assert takes_again(draft.stages)
    found = input_columns(merge, {"s1": (Column("_k0", "INT"),)})
    assert [column.name for column in found["input"]] == ["_k0", "_new"]
    assert logical_lines(draft.logical)[1].strip() == "Scan[s at eu, us]"


@pytest.mark.parametrize(
    ("calls", "rows", "within_s"),
    [
        (f"lag(v) OVER ({BY})", 1, None),
        (f"lag(v, 4, 0) OVER ({BY}, v DESC)", 4, None),
        (f"sum(v) OVER ({BY} ROWS 7 PRECEDING)", 7, None),
        (f"sum(v) OVER ({BY} ROWS BETWEEN CURRENT ROW AND CURRENT ROW)", 0, None),
        (f"max(v) OVER ({BY} RANGE BETWEEN INTERVAL '2 minutes' PRECEDING AND CURRENT ROW)", 0, 120),
        (
            f"max(v) OVER ({BY} RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '1 minute' PRECEDING) AS m, "
            f"lag(v, 2) OVER ({BY}) AS n, count(*) OVER ({BY} ROWS BETWEEN 9 PRECEDING AND 1 PRECEDING)",
            9,
            3600,
        ),
    ],
)
def test_what_is_kept_is_what_the_frames_need(calls: str, rows: int, within_s: int | None) -> None:
    within = None if within_s is None else timedelta(seconds=within_s)
    assert neighbours_of(f"SELECT k, {calls} AS x FROM s") == Neighbours(("_k0",), rows, within)


def test_without_a_partition_all_rows_are_of_one_key() -> None:
    assert neighbours_of("SELECT lag(v) OVER (ORDER BY ts) AS x FROM s") == Neighbours((), 1)


def test_rows_of_other_queries_have_an_order_as_well() -> None:
    union = f"SELECT k, lag(k) OVER ({BY}) AS x FROM (SELECT ts, k FROM s UNION ALL SELECT ts, k FROM r)"
    assert [stage.id for stage in draft_of(union, CATALOG).stages] == ["s1", "s2", "m1"]
    windows = "SELECT k, window.end AS e, count(*) AS n FROM s GROUP BY k, window(ts, '1 minute')"
    draft = draft_of(f"SELECT k, lag(n) OVER (PARTITION BY k ORDER BY e) AS x FROM ({windows})", CATALOG)
    *_, windowed, last = draft.stages
    assert [(item.stage, item.behind) for item in last.inputs] == [(windowed.id, timedelta(0))]
    assert "its rows are read as those of a stream, by e" in draft.notes[-1]
    above = draft_of(f"SELECT k, x FROM (SELECT k, v, lag(v) OVER ({BY}) AS x FROM s) WHERE x < v", CATALOG)
    assert len(above.stages) == 2
    pairs = "SELECT s.k, s.ts FROM s JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts AND s.ts + INTERVAL '1 hour'"
    draft = draft_of(f"SELECT k, lag(ts) OVER ({BY}) AS x FROM ({pairs})", CATALOG)
    assert draft.stages[-1].inputs[0].behind == timedelta(hours=1)


def test_a_merge_that_another_reads_is_one_task() -> None:
    windows = "SELECT k, window.end AS e, count(*) AS n FROM s GROUP BY k, window(ts, '1 minute')"
    draft = draft_of(f"SELECT k, lag(n) OVER (PARTITION BY k ORDER BY e) AS x FROM ({windows})", CATALOG)
    parts = with_parts(draft, 4)
    assert [stage.parts for stage in parts.stages[1:]] == [1, 4]
    assert "m1: one task, for another MERGE reads its results" in parts.notes
    marked = with_ranges(draft)
    assert [stage.merge.by_bins for stage in marked.stages[1:] if stage.merge] == [False, True]


def test_only_queries_with_the_same_frames_share_a_merge() -> None:
    texts = [f"SELECT k, lag(v) OVER ({BY}) AS x FROM s", f"SELECT k, lag(v, 2) OVER ({BY}) AS x FROM s"]
    drafts = [draft_of(text, CATALOG) for text in texts]
    first, second = (
        [v.fingerprint for v in vertices_of(d, CATALOG.relations, {}, owner="q", gateway="us")] for d in drafts
    )
    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_explain_says_what_is_kept() -> None:
    *_, merge = draft_of(f"SELECT k, lag(v, 3) OVER ({BY}) AS x FROM s", CATALOG).stages
    assert merge_text(merge.merge) == (
        "emits each row once, when the watermark passes it, with what it needs of those before it\n"
        "keeps of each key its last 3 rows, for ever"
    )
    fields = merge_json(merge.merge)
    assert fields is not None
    assert fields["neighbours"] == {"keys": ["_k0"], "rows": 3, "within_s": None}
    frame = f"sum(v) OVER ({BY} RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW)"
    *_, merge = draft_of(f"SELECT k, {frame} AS x FROM s", CATALOG).stages
    assert merge_text(merge.merge).endswith("keeps of each key its rows of 1 hour")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT sum(v) OVER ({BY}) AS x FROM s", "a frame that begins so many rows"),
        (f"SELECT sum(v) OVER ({BY} ROWS UNBOUNDED PRECEDING) AS x FROM s", "a frame that begins so many rows"),
        (f"SELECT sum(v) OVER ({BY} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS x FROM s", "rows behind a row"),
        (
            f"SELECT sum(v) OVER ({BY} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS x FROM s",
            "rows behind a row",
        ),
        (f"SELECT sum(v) OVER ({BY} RANGE BETWEEN INTERVAL '1 month' PRECEDING AND CURRENT ROW) AS x FROM s", "fixed"),
        (f"SELECT sum(v) OVER ({BY} ROWS 1000000 PRECEDING) AS x FROM s", "at most 10000"),
        (f"SELECT lag(v, k) OVER ({BY}) AS x FROM s", "must be written out"),
        (f"SELECT lead(v) OVER ({BY}) AS x FROM s", "lead is not possible"),
        (f"SELECT row_number() OVER ({BY}) AS x FROM s", "row_number is not possible"),
        (f"SELECT median(v) OVER ({BY} ROWS 3 PRECEDING) AS x FROM s", "median is not possible"),
        ("SELECT lag(v) OVER (PARTITION BY k ORDER BY v) AS x FROM s", "ORDER BY its event time, ascending"),
        ("SELECT lag(v) OVER (PARTITION BY k ORDER BY ts DESC) AS x FROM s", "ORDER BY its event time, ascending"),
        (f"SELECT lag(v) OVER ({BY}) AS x, lag(v) OVER (ORDER BY ts) AS y FROM s", "the same PARTITION BY"),
        (
            "SELECT k, sum(count(*)) OVER (ORDER BY k) AS x FROM s GROUP BY k, window(ts, '1 hour')",
            "select list without",
        ),
        (f"SELECT k FROM s WHERE lag(v) OVER ({BY}) > 1", "OVER"),
        (
            "SELECT lag(s.v) OVER (PARTITION BY s.k ORDER BY s.ts) AS x FROM s JOIN r ON s.k = r.k AND "
            "window(s.ts, '1 hour') = window(r.ts, '1 hour')",
            "joined in windows",
        ),
        (
            f"SELECT window(t, '1 hour') AS w, count(*) AS n FROM (SELECT ts AS t, lag(v) OVER ({BY}) AS x FROM s) "
            "GROUP BY w",
            "windows over, rows with OVER",
        ),
        (
            "SELECT lag(n) OVER (ORDER BY n) AS x FROM (SELECT count(*) AS n FROM s GROUP BY window(ts, '1 hour'))",
            "does not select when its windows end",
        ),
    ],
)
def test_what_is_not_possible_is_refused_with_its_place(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)
