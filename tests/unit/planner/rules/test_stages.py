"""Stages of queries: their SQL, what they read and where they run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from planner.graph.operators import MergeAggregate, walk
from planner.graph.plan import DraftPlan, StageInput
from planner.graph.schema import typed
from planner.relations.catalog import Column
from planner.text.spark import spark_sql
from planner.values.stages import StageKind
from tests.unit.planner.build import draft_of


def merge_of(draft: DraftPlan) -> MergeAggregate:
    """How the merge makes aggregates of partials."""
    body = draft.stage("m1").body
    assert body is not None
    (found,) = (operator for operator in walk(body) if isinstance(operator, MergeAggregate))
    return found


def source_sql(sql: str) -> str:
    return draft_of(sql).stage("s1").sql


def test_a_projection_is_one_stage() -> None:
    draft = draft_of("SELECT page, upper(page) AS u FROM clicks c WHERE ms > 5 AND site <> 'ap'")
    (stage,) = draft.stages
    assert (stage.id, stage.kind, stage.pinned) == ("s1", StageKind.SOURCE, ("eu", "us"))
    assert stage.sql == "SELECT input.page AS page, upper(input.page) AS u FROM input WHERE input.ms > 5"
    # The event time is always read: the watermark follows it.
    assert stage.read_columns == ("page", "ms", "ts")
    assert draft.result_stage == "s1"


def test_an_aggregate_is_split() -> None:
    draft = draft_of(
        "SELECT window.start, page, count(*) AS n, avg(ms) AS a, sum(ms) AS s FROM clicks "
        "GROUP BY window(ts, '10 seconds'), page HAVING n > 1"
    )
    source, merge = draft.stages
    assert source.sql == (
        "SELECT _window_start, _k0, count(*) AS _p0, sum(_c0) AS _p1, count(_c0) AS _p2, "
        "pmod(xxhash64(_k0), 64) AS _bin FROM (SELECT window(input.ts, '10 seconds').start AS _window_start, "
        "input.page AS _k0, input.ms AS _c0 FROM input) AS kept GROUP BY _window_start, _k0"
    )
    assert merge.sql == (
        "SELECT _window_start AS start, _k0 AS page, _a0 AS n, _a1 AS a, _a2 AS s FROM (SELECT _window_start, _k0, "
        "sum(_p0) AS _a0, try_divide(sum(_p1), sum(_p2)) AS _a1, sum(_p1) AS _a2 FROM input "
        "GROUP BY _window_start, _k0) AS merged WHERE _a0 > 1"
    )
    assert merge.merge is not None
    assert merge.merge.window == timedelta(seconds=10)
    assert merge.merge.window_column == "_window_start"
    assert merge.merge.combine_sql == (
        "SELECT _window_start, _k0, sum(_p0) AS _p0, sum(_p1) AS _p1, sum(_p2) AS _p2 FROM input "
        "GROUP BY _window_start, _k0"
    )
    assert (merge.kind, merge.pinned, merge.inputs) == (StageKind.MERGE, (), (StageInput("s1", "input"),))
    assert draft.result_stage == "m1"


def test_without_keys_there_is_no_bin() -> None:
    assert "_bin" not in source_sql("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 day')")


def test_the_window_is_rebuilt_from_its_start() -> None:
    draft = draft_of("SELECT window, window.end AS e FROM clicks GROUP BY page, window(ts, '1.5 seconds')")
    end = "(_window_start + INTERVAL '1.500000' SECOND)"
    assert draft.stage("m1").sql.startswith(
        f"SELECT named_struct('start', _window_start, 'end', {end}) AS `window`, {end} AS e FROM"
    )


def test_sources_send_panes_of_windows_that_overlap() -> None:
    draft = draft_of("SELECT window.end AS e FROM clicks GROUP BY window(ts, '1 minute', '10 seconds')")
    merge = draft.stage("m1").merge
    assert merge is not None
    assert (merge.window, merge.slide, merge.panes) == (timedelta(minutes=1), timedelta(seconds=10), True)
    assert "window(input.ts, '10 seconds').start AS _window_start" in draft.stage("s1").sql
    assert draft.stage("m1").sql.startswith("SELECT (_window_start + INTERVAL '60' SECOND) AS e")


@pytest.mark.parametrize(
    ("arguments", "window", "slide", "offset", "sent"),
    [
        ("'1 hour', '1 hour', '15 minutes'", 3600, 3600, 900, "'1 hour', '1 hour', '15 minutes'"),
        ("'1 hour', '1 hour', '-15 minutes'", 3600, 3600, 2700, "'1 hour', '1 hour', '45 minutes'"),
        ("'1 hour', '1 hour', INTERVAL 2 HOURS", 3600, 3600, 0, "'1 hour'"),
        ("'10 seconds', '4 seconds'", 10, 4, 0, "'2 seconds'"),
        ("'20 seconds', '8 seconds', '3 seconds'", 20, 8, 3, "'4 seconds', '4 seconds', '3 seconds'"),
        ("'7 days', '7 days', '4 days'", 604800, 604800, 345600, "'7 days', '7 days', '4 days'"),
    ],
)
def test_windows_may_be_shifted_and_slide_by_what_does_not_divide_them(
    arguments: str, window: int, slide: int, offset: int, sent: str
) -> None:
    draft = draft_of(f"SELECT count(*) AS n FROM clicks GROUP BY window(ts, {arguments})")
    merge = draft.stage("m1").merge
    assert merge is not None
    assert [part.total_seconds() for part in (merge.window, merge.period, merge.offset)] == [window, slide, offset]
    assert f"window(input.ts, {sent}).start" in draft.stage("s1").sql


def test_a_slide_as_long_as_the_window_is_no_slide() -> None:
    tumbling = draft_of("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 minute')")
    assert (
        tumbling.stages
        == draft_of("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '60 seconds', '1 minute')").stages
    )


def test_top_k_ranks_per_window_and_row_number_breaks_ties_by_the_keys() -> None:
    draft = draft_of(
        "SELECT page, site AS at, count(*) AS n FROM clicks GROUP BY window(ts, '1 day'), page, site "
        "QUALIFY row_number() OVER (PARTITION BY window, site ORDER BY n DESC, page) < 4"
    )
    assert draft.stage("m1").sql == (
        "SELECT page, at, n FROM (SELECT _k0 AS page, _k1 AS at, _a0 AS n, row_number() OVER "
        "(PARTITION BY _window_start, _k1 ORDER BY _a0 DESC, _k0, _k1) AS _rank FROM (SELECT _window_start, _k0, _k1, "
        "sum(_p0) AS _a0 FROM input GROUP BY _window_start, _k0, _k1) AS merged) AS ranked WHERE _rank <= 3"
    )


def test_tables_send_only_what_is_needed() -> None:
    draft = draft_of(
        "SELECT c.ms, p.topic FROM clicks c JOIN pages p ON c.page = p.page AND p.weight > 2 "
        "LEFT JOIN users u ON u.user_id = c.user_id AND u.name <> 'x' WHERE p.topic LIKE 'a%' AND u.name IS NULL"
    )
    pages, users, source = draft.stages
    assert pages.sql == "SELECT page, topic FROM input WHERE topic LIKE 'a%' AND weight > 2"
    assert (pages.kind, pages.pinned, pages.read_columns) == (StageKind.TABLE, ("us",), ("page", "topic", "weight"))
    assert users.sql == "SELECT name, user_id FROM input WHERE name <> 'x'"
    assert source.sql == (
        "SELECT input.ms AS ms, t1.topic AS topic FROM input JOIN t1 ON input.page = t1.page "
        "LEFT JOIN t2 ON t2.user_id = input.user_id WHERE t2.name IS NULL"
    )
    assert source.inputs == (StageInput("t1", "t1"), StageInput("t2", "t2"))


def test_a_join_on_site_stays_at_its_site() -> None:
    draft = draft_of("SELECT c.ms FROM clicks c JOIN users u ON c.user_id = u.user_id AND u.site = c.site")
    users, source = draft.stages
    # ap has no users, so none of its clicks can match.
    assert (users.pinned, source.pinned) == (("eu", "us"), ("eu", "us"))
    assert users.sql == "SELECT site, user_id FROM input"
    assert source.inputs == (StageInput("t1", "t1", same_site=True),)


def test_the_site_of_a_table_may_be_used_without_joining_on_it() -> None:
    draft = draft_of("SELECT c.ms, u.site AS kept FROM clicks c JOIN users u USING (user_id) WHERE c.site = 'ap'")
    users, source = draft.stages
    assert (users.pinned, source.pinned) == (("eu", "us"), ("ap",))
    assert source.inputs == (StageInput("t1", "t1"),)


@pytest.mark.parametrize(
    ("condition", "sites"),
    [
        ("site = 'us'", ("us",)),
        ("'us' = site", ("us",)),
        ("site <> 'us'", ("ap", "eu")),
        ("site IN ('us', 'ap', 'mars')", ("ap", "us")),
        ("site NOT IN ('us', 'ap')", ("eu",)),
        ("NOT (site = 'us' OR site = 'ap')", ("eu",)),
        ("(site = 'us' OR site = 'ap') AND site <> 'us'", ("ap",)),
        ("clicks.site = 'us' OR site = 'eu'", ("eu", "us")),
    ],
)
def test_conditions_on_site_are_decided_when_planning(condition: str, sites: tuple[str, ...]) -> None:
    stage = draft_of(f"SELECT ms FROM clicks WHERE ({condition}) AND ms > 1").stage("s1")
    assert stage.pinned == sites
    assert stage.sql == "SELECT input.ms AS ms FROM input WHERE input.ms > 1"


@pytest.mark.parametrize("condition", ["site = 'us' OR ms > 1", "site LIKE 'u%'", "upper(site) = 'US'"])
def test_other_conditions_on_site_are_evaluated_row_by_row(condition: str) -> None:
    stage = draft_of(f"SELECT ms FROM clicks WHERE {condition}").stage("s1")
    assert stage.pinned == ("ap", "eu", "us")
    assert "input.site" in stage.sql


@pytest.mark.parametrize(
    "group",
    [
        "window(ts, '1 minute'), upper(page)",
        "upper(page), window(ts, '1 minute')",
        "u, window(ts, INTERVAL 1 MINUTE)",
        "2, 1",
        "w, UPPER(page)",
        "window(TS, '60 seconds'), (upper(clicks.page))",
    ],
)
def test_keys_may_be_expressions_aliases_or_ordinals_in_any_order(group: str) -> None:
    items = "window(ts, '1 minute') AS w, upper(page) AS u, count(*) AS n"
    draft = draft_of(f"SELECT {items} FROM clicks GROUP BY {group}")
    assert merge_of(draft).keys == ("_window_start", "_k0")
    assert "upper(input.page) AS _k0" in draft.stage("s1").sql
    assert "_k0 AS u" in draft.stage("m1").sql


def test_equal_aggregates_are_computed_once() -> None:
    draft = draft_of(
        "SELECT avg(ms) AS a, sum(ms) AS s, count(ms) AS c, mean(ms) + 1 AS b FROM clicks GROUP BY window(ts, '1 day')"
    )
    assert [(p.name, p.part) for p in merge_of(draft).partials] == [("_p0", "sum"), ("_p1", "sum")]
    assert "sum(_c0) AS _p0, count(_c0) AS _p1" in draft.stage("s1").sql


def test_variances_share_their_partials() -> None:
    draft = draft_of(
        "SELECT stddev(ms) AS s, var_pop(ms) AS v, avg(ms) AS a, variance(ms) FILTER (WHERE ms > 1) AS f FROM clicks "
        "GROUP BY window(ts, '1 day')"
    )
    assert [(p.name, p.part, p.of) for p in merge_of(draft).partials] == [
        ("_p0", "sum", ()),
        ("_p1", "mean", ("_p0",)),
        ("_p2", "m2", ("_p0", "_p1")),
        ("_p3", "sum", ()),
        ("_p4", "sum", ()),
        ("_p5", "mean", ("_p4",)),
        ("_p6", "m2", ("_p4", "_p5")),
    ]
    assert [a.function for a in merge_of(draft).aggregates] == ["stddev_samp", "var_pop", "avg", "var_samp"]
    assert "var_pop(CAST(_c0 AS DOUBLE)) * count(_c0) AS _p2" in draft.stage("s1").sql
    assert "max(CAST(_c0 AS DOUBLE)) FILTER(WHERE _c0 > 1)) AS _p5" in draft.stage("s1").sql


def test_distinct_values_are_sent_as_sets() -> None:
    draft = draft_of(
        "SELECT count(DISTINCT ms) AS c, sum(DISTINCT ms) AS s, max(DISTINCT ms) AS m, count(DISTINCT ms, page) "
        "FILTER (WHERE ms > 1) AS f, count(ms) AS n FROM clicks GROUP BY window(ts, '1 day')"
    )
    assert [p.part for p in merge_of(draft).partials] == ["set", "max", "set", "sum"]
    assert [a.function for a in merge_of(draft).aggregates] == [
        *("count DISTINCT", "sum DISTINCT", "max", "count DISTINCT", "count")
    ]
    one = "CASE WHEN (_c0 > 1) AND (NOT (_c0) IS NULL) AND (NOT (_c1) IS NULL) THEN struct(_c0, _c1) END"
    assert f"collect_set(_c0) AS _p0, max(_c0) AS _p1, collect_set({one}) AS _p2, count(_c0) AS _p3" in (
        draft.stage("s1").sql
    )


def test_approximate_aggregates_send_sketches() -> None:
    draft = draft_of(
        "SELECT approx_count_distinct(page) AS u, approx_count_distinct(page, 0.05) FILTER (WHERE ms > 1) AS v, "
        "percentile_approx(ms, 0.5) AS m, approx_percentile(ms, array(0.5, 0.9)) AS p FROM clicks "
        "GROUP BY window(ts, '1 day')"
    )
    source, merge = draft.stages
    assert (
        "hll_sketch_agg(CASE WHEN NOT _c0 IS NULL THEN xxhash64(_c0) END, 12) AS _p0, "
        "hll_sketch_agg(CASE WHEN NOT _c0 IS NULL THEN xxhash64(_c0) END, 9) FILTER(WHERE _c1 > 1) AS _p1, "
        "kll_sketch_agg_double(CAST(_c1 AS DOUBLE), 547) AS _p2, max(_c1) AS _p3"
    ) in source.sql
    assert merge.merge is not None
    assert "hll_union_agg(_p0) AS _p0" in merge.merge.combine_sql
    assert "kll_merge_agg_double(_p2) AS _p2, max(_p3) AS _p3" in merge.merge.combine_sql
    assert merge.body is not None
    sql = spark_sql(typed(merge.body, {"input": (Column("_p3", "INT"),)}))
    assert "hll_sketch_estimate(hll_union_agg(_p0)) AS _a0" in sql
    merged = "kll_merge_agg_double(_p2)"
    one = f"CAST(kll_sketch_get_quantile_double({merged}, 0.5) AS INT)"
    assert f"CASE WHEN kll_sketch_get_n_double({merged}) > 0 THEN {one} END AS _a2" in sql
    assert f"CAST(kll_sketch_get_quantile_double({merged}, array(0.5, 0.9)) AS ARRAY<INT>)" in sql


def test_distinct_rows_of_a_window_are_its_groups() -> None:
    distinct = draft_of("SELECT DISTINCT window(ts, '1 day') AS w, upper(page) AS u, site FROM clicks WHERE ms > 1")
    grouped = draft_of(
        "SELECT window(ts, '1 day') AS w, upper(page) AS u, site FROM clicks WHERE ms > 1 GROUP BY w, u, site"
    )
    assert distinct.stages == grouped.stages
    assert distinct.columns == grouped.columns


def test_braces_in_text_stay_as_they_are() -> None:
    sql = source_sql("SELECT page || '{rows}' AS p, count(*) AS n FROM clicks GROUP BY 1, window(ts, '1 day')")
    assert "input.page || '{rows}' AS _k0" in sql


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ("page, ms AS m, c.geo.city, geo.lat", ["page", "m", "city", "lat"]),
        ("c.ms + 1, upper(c.page), cast(ms AS string)", ["(ms + 1)", "upper(page)", "CAST(ms AS STRING)"]),
        ("c.*", ["user_id", "page", "amount", "ms", "tags", "geo", "ts"]),
        ("site, *", ["site", "user_id", "page", "amount", "ms", "tags", "geo", "ts"]),
        ("ms AS a, a + 1 AS b", ["a", "b"]),
    ],
)
def test_result_columns_are_named(items: str, names: list[str]) -> None:
    assert [c.name for c in draft_of(f"SELECT {items} FROM clicks c").columns] == names


def test_star_has_the_columns_of_using_once_and_first() -> None:
    draft = draft_of("SELECT * FROM visits v JOIN pages p USING (page)")
    assert [c.name for c in draft.columns] == ["page", "ts", "topic", "weight"]


def test_an_alias_may_be_used_by_later_items_in_having_and_qualify() -> None:
    draft = draft_of(
        "SELECT upper(page) AS u, u || '!' AS v, count(*) AS n FROM clicks GROUP BY window(ts, '1 day'), upper(page) "
        "HAVING n > 3 AND u <> 'X' QUALIFY rank() OVER (PARTITION BY window ORDER BY n) = 1"
    )
    sql = draft.stage("m1").sql
    assert "_k0 || '!' AS v" in sql
    assert "WHERE _a0 > 3 AND _k0 <> 'X'" in sql
    assert "ORDER BY _a0" in sql


def test_same_input_same_plan() -> None:
    sql = (
        "SELECT p.topic, c.site, count(*) AS n, avg(c.ms) AS a FROM clicks c JOIN pages p USING (page) "
        "WHERE c.site <> 'eu' GROUP BY window(c.ts, '1 day'), p.topic, c.site"
    )
    assert draft_of(sql) == draft_of(sql)
