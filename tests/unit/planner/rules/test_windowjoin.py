"""Joins of streams inside a window: their stages, what is done where, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from planner.graph.plan import DraftPlan, MergeView, StageInput
from planner.planning.questions import analyses_of_combines, analysis_of_query, original_place
from planner.text.logical import logical_lines
from planner.values.errors import PlannerError, Position
from planner.values.stages import StageKind
from tests.unit.planner.build import CATALOG, draft_of

SAME = "window(c.ts, '10 seconds') = window(v.ts, '10 seconds')"
JOINED = f"FROM clicks c JOIN visits v ON c.page = v.page AND {SAME}"
LEFT = f"FROM clicks c LEFT JOIN visits v ON c.page = v.page AND {SAME}"


def sql_of(draft: DraftPlan, stage: str) -> str:
    return draft.stage(stage).sql


def test_each_stream_has_a_source_and_the_merge_a_view_of_each() -> None:
    draft = draft_of(f"SELECT c.page, c.ms, v.site AS seen {JOINED}")
    first, second, merge = draft.stages
    assert (first.id, first.relation, first.pinned) == ("s1", "clicks", ("ap", "eu", "us"))
    assert (second.id, second.relation, second.pinned) == ("s2", "visits", ("us",))
    assert first.sql == (
        "SELECT window(input.ts, '10 seconds').start AS _window_start, input.page AS _c0, input.ms AS _c1, "
        "pmod(xxhash64(input.page), 64) AS _bin FROM input"
    )
    assert second.sql == (
        "SELECT window(input.ts, '10 seconds').start AS _window_start, input.site AS _c0, input.page AS _c1, "
        "pmod(xxhash64(input.page), 64) AS _bin FROM input"
    )
    assert first.read_columns == ("page", "ms", "ts")
    assert merge.sql == (
        "SELECT input._c0 AS page, input._c1 AS ms, t1._c0 AS seen FROM input JOIN t1 ON input._c0 = t1._c1 "
        "AND input._window_start = t1._window_start"
    )
    assert (merge.kind, merge.pinned) == (StageKind.MERGE, ())
    assert merge.inputs == (StageInput("s1", "input"), StageInput("s2", "t1"))
    assert merge.merge is not None
    assert merge.merge.views == (MergeView("input"), MergeView("t1"))
    assert (merge.merge.window, merge.merge.period) == (timedelta(seconds=10), timedelta(seconds=10))
    assert (draft.result_stage, draft.site_named) == ("m1", frozenset({"visits"}))


def test_an_aggregate_is_computed_by_spark_over_the_joined_rows() -> None:
    draft = draft_of(
        f"SELECT window.start AS s, c.page, count(*) AS n, avg(c.ms) AS a, max(window.end) AS e {JOINED} "
        "GROUP BY window(c.ts, '10 seconds'), c.page HAVING n > 1 "
        "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n DESC) <= 3"
    )
    assert sql_of(draft, "m1") == (
        "SELECT s, page, n, a, e FROM (SELECT _window_start AS s, _k0 AS page, _a0 AS n, _a1 AS a, _a2 AS e, "
        "row_number() OVER (PARTITION BY _window_start ORDER BY _a0 DESC, _k0) AS _rank FROM (SELECT _window_start, "
        "_k0, count(*) AS _a0, avg(_c0) AS _a1, max((_window_start + INTERVAL '10' SECOND)) AS _a2 FROM (SELECT "
        "input._window_start AS _window_start, input._c0 AS _k0, input._c1 AS _c0 FROM input JOIN t1 ON "
        "input._c0 = t1._c0 AND input._window_start = t1._window_start) AS kept GROUP BY _window_start, _k0) AS merged "
        "WHERE _a0 > 1) AS ranked WHERE _rank <= 3"
    )


def test_the_window_can_be_selected_and_slide() -> None:
    same = SAME.replace("'10 seconds'", "'10 seconds', '5 seconds'")
    draft = draft_of(
        f"SELECT window(c.ts, '10 seconds', '5 seconds') AS w, c.ms FROM clicks c JOIN visits v ON {same} "
        "AND v.page = c.page"
    )
    assert sql_of(draft, "s2").startswith("SELECT window(input.ts, '5 seconds').start AS _window_start")
    assert sql_of(draft, "m1").startswith(
        "SELECT named_struct('start', input._window_start, 'end', (input._window_start + INTERVAL '10' SECOND)) AS w"
    )
    merge = draft.stage("m1").merge
    assert merge is not None
    assert (merge.period, merge.panes) == (timedelta(seconds=5), True)


def test_conditions_on_one_stream_are_evaluated_at_its_sources() -> None:
    draft = draft_of(
        f"SELECT c.ms {JOINED} AND v.page <> 'x' AND c.ms > 5 WHERE c.site = 'us' AND length(v.page) > 2 "
        "AND c.ms > length(v.page)"
    )
    assert draft.stage("s1").pinned == ("us",)
    assert sql_of(draft, "s1").endswith("FROM input WHERE input.ms > 5")
    assert sql_of(draft, "s2").endswith("FROM input WHERE length(input.page) > 2 AND input.page <> 'x'")
    assert sql_of(draft, "m1").endswith("AND input._window_start = t1._window_start WHERE input._c0 > length(t1._c0)")


def test_a_left_join_keeps_what_is_asked_of_missing_rows_behind_it() -> None:
    draft = draft_of(f"SELECT c.ms {LEFT} AND v.page <> 'x' AND c.ms > 5 WHERE v.page IS NULL")
    assert sql_of(draft, "s1").endswith("FROM input")
    assert sql_of(draft, "s2").endswith("FROM input WHERE input.page <> 'x'")
    assert sql_of(draft, "m1").endswith(
        "LEFT JOIN t1 ON input._c1 = t1._c0 AND input._c0 > 5 AND input._window_start = t1._window_start "
        "WHERE t1._c0 IS NULL"
    )
    merge = draft.stage("m1").merge
    assert merge is not None
    assert [(view.view, view.required) for view in merge.views] == [("input", True), ("t1", False)]


def test_a_table_of_one_stream_is_joined_at_its_sources() -> None:
    draft = draft_of(
        f"SELECT p.topic, u.name {JOINED} JOIN pages p ON p.page = v.page AND p.weight > 1 "
        "LEFT JOIN users u ON u.user_id = c.user_id AND u.site = c.site WHERE c.site <> 'ap'"
    )
    assert [stage.id for stage in draft.stages] == ["t3", "s1", "t2", "s2", "m1"]
    assert draft.stage("s1").inputs == (StageInput("t3", "t3", same_site=True),)
    assert draft.stage("s2").inputs == (StageInput("t2", "t2"),)
    assert sql_of(draft, "s2").endswith("FROM input JOIN t2 ON t2.page = input.page")
    assert sql_of(draft, "t2") == "SELECT page, topic FROM input WHERE weight > 1"
    assert " t2" not in sql_of(draft, "m1")


def test_a_table_of_several_streams_or_of_missing_rows_is_joined_in_the_merge() -> None:
    draft = draft_of(
        f"SELECT p.topic, q.topic AS t2 {LEFT} LEFT JOIN pages p ON p.page = v.page "
        "JOIN pages q ON q.page = c.page AND q.weight > length(v.page) WHERE q.topic <> 'x'"
    )
    assert [stage.id for stage in draft.stages] == ["s1", "s2", "t2", "t3", "m1"]
    assert sql_of(draft, "t3") == "SELECT page, topic, weight FROM input WHERE topic <> 'x'"
    assert draft.stage("m1").inputs[2:] == (StageInput("t2", "t2"), StageInput("t3", "t3"))
    assert sql_of(draft, "m1").endswith(
        "LEFT JOIN t1 ON input._c0 = t1._c0 AND input._window_start = t1._window_start "
        "LEFT JOIN t2 ON t2.page = t1._c0 JOIN t3 ON t3.page = input._c0 AND t3.weight > length(t1._c0)"
    )


def test_a_third_stream_names_the_window_that_its_own_equals() -> None:
    draft = draft_of(
        f"SELECT c.ms {JOINED} LEFT JOIN clicks d ON d.user_id = c.user_id "
        "AND window(v.ts, '10 seconds') = window(d.ts, '10 seconds')"
    )
    assert sql_of(draft, "m1").endswith("LEFT JOIN t2 ON t2._c0 = input._c2 AND t1._window_start = t2._window_start")
    assert [s.relation for s in draft.stages] == ["clicks", "visits", "clicks", None]


def test_spark_checks_the_text_without_the_equal_windows() -> None:
    text = (
        "SELECT c.ms FROM clicks c JOIN visits v ON c.page = v.page\n"
        "  AND ( window(c.ts, '10 seconds') =\n    window(v.ts, INTERVAL 10 SECONDS) )\nWHERE c.ms > 5"
    )
    checked = analysis_of_query(draft_of(text), CATALOG)
    assert checked.statement == (
        "SELECT c.ms FROM clicks c JOIN visits v ON c.page = v.page\n  AND ( true )\nWHERE c.ms > 5"
    )
    assert original_place(checked, text, 3, 7) == (4, 7)


def test_rows_are_not_combined() -> None:
    draft = draft_of(f"SELECT c.ms {JOINED}")
    assert analyses_of_combines(draft, "m1", {"s1": (), "s2": ()}) == ()


def test_the_logical_plan_has_both_streams() -> None:
    draft = draft_of(
        f"SELECT p.topic, count(*) AS n {LEFT} AND c.ms > 1 JOIN pages p ON p.page = c.page WHERE v.page IS NULL "
        "GROUP BY window(c.ts, '10 seconds'), p.topic"
    )
    assert logical_lines(draft.logical) == (
        "Project[p.topic, count(*) AS n]",
        "  Aggregate[window, p.topic]",
        "    Filter[v.page IS NULL]",
        "      WindowJoin[LEFT v in each window of 10 seconds ON c.page = v.page AND c.ms > 1]",
        "        Join[INNER pages ON p.page = c.page]",
        "          Scan[clicks at ap, eu, us]",
        "          Scan[pages at us]",
        "        Scan[visits at us]",
    )


PLAIN = "SELECT c.ms FROM clicks c JOIN visits v ON c.page = v.page"
REFUSED = [
    (PLAIN, 44, "c.page = v.page"),
    ("SELECT c.ms FROM clicks c JOIN visits v", 32, "visits v"),
    ("SELECT c.ms FROM clicks c JOIN visits v USING (page)", 32, "visits v"),
    (f"SELECT c.ms FROM clicks c JOIN visits v ON {SAME}", 44, SAME[:-1]),
    (
        f"SELECT c.ms FROM clicks c JOIN visits v ON c.ms > length(v.page) AND {SAME}",
        44,
        f"c.ms > length(v.page) AND {SAME}"[:60] + "...",
    ),
    (
        f"{PLAIN} AND window(c.ts, '9 seconds') = window(v.ts, '8 seconds')",
        64,
        "window(c.ts, '9 seconds') = window(v.ts, '8 seconds')",
    ),
    (f"SELECT c.ms {JOINED} AND window(c.ts, '10 seconds').start > v.ts", 124, "window"),
    (
        f"{PLAIN} AND window(c.ts, '9 seconds') = window(c.ts, '9 seconds')",
        64,
        "window",
    ),
    (
        "SELECT c.ms FROM clicks c JOIN pages p ON c.page = p.page AND window(c.ts, '9 seconds').start > c.ts",
        63,
        "window",
    ),
    (f"SELECT window(v.ts, '10 seconds') AS w {JOINED}", 8, "window"),
    (f"SELECT window(c.ts, '5 seconds') AS w {JOINED}", 8, "window"),
    (f"SELECT count(*) AS n {JOINED} GROUP BY window(c.ts, '1 minute'), c.page", 138, "window"),
    (f"SELECT count(*) AS n {JOINED}", 8, "count"),
    (f"SELECT count(*) AS n {JOINED} GROUP BY c.page", 138, "c.page"),
]


@pytest.mark.parametrize(("sql", "column", "found"), REFUSED, ids=[sql for sql, _, _ in REFUSED])
def test_what_is_refused_has_its_place_and_a_hint(sql: str, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as raised:
        draft_of(sql)
    error = raised.value
    assert error.code == "UNSUPPORTED_SQL"
    assert (error.position, error.found) == (Position(1, column), found)
    assert error.hint


def test_the_hint_shows_the_condition() -> None:
    with pytest.raises(PlannerError) as raised:
        draft_of("SELECT c.ms FROM clicks c JOIN visits AS seen ON c.page = seen.page")
    assert raised.value.hint == (
        "Add to ON: AND window(c.ts, '10 seconds') = window(seen.ts, '10 seconds'), or AND seen.ts BETWEEN c.ts - "
        "INTERVAL '1 hour' AND c.ts + INTERVAL '1 hour'."
    )


def test_a_bare_site_is_ambiguous() -> None:
    with pytest.raises(PlannerError, match="site is ambiguous: the query joins streams") as raised:
        draft_of(f"SELECT site {JOINED}")
    assert raised.value.position == Position(1, 8)
