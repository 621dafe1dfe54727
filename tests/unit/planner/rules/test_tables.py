"""Batch queries: what becomes a MAP and what a REDUCE, and what is refused."""

from __future__ import annotations

import pytest

from planner.graph.plan import find_stage, only_appends
from planner.planning import Planning, Refusal, draft_query, planned_with
from planner.planning.drafts import with_columns
from planner.text.logical import logical_lines
from planner.values.errors import PlannerError
from planner.values.stages import StageKind
from tests.unit.planner.build import catalog_of, columns, draft_of, select_of

CATALOG = catalog_of(
    """
    CREATE TABLE texts (line STRING, at TIMESTAMP) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE pages (page STRING, topic STRING, weight INT) AT us WITH ('connector' = 'other');
    CREATE STREAM clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'other');
    """
)


def sql_of(text: str) -> tuple[str, str]:
    """Of the MAP and the REDUCE."""
    draft = draft_of(text, CATALOG)
    assert draft.batch
    (mapped,) = draft.map_stages
    return mapped.sql, draft.stage(draft.result_stage).sql


def test_words_are_counted_on_each_split_and_summed_up() -> None:
    mapped, reduced = sql_of(
        "SELECT word, count(*) AS n FROM (SELECT explode(split(line, ' ')) AS word FROM texts) GROUP BY word"
    )
    assert mapped == (
        "SELECT _k0, count(*) AS _p0 FROM (SELECT input.word AS _k0 FROM "
        "(SELECT explode(split(input.line, ' ')) AS word FROM input) AS input) AS kept GROUP BY _k0"
    )
    assert reduced == (
        "SELECT _k0 AS word, _a0 AS n FROM (SELECT _k0, sum(_p0) AS _a0 FROM input GROUP BY _k0) AS merged"
    )


def test_lateral_views_make_rows_on_each_split() -> None:
    mapped, _ = sql_of(
        "SELECT word, count(*) AS n FROM texts LATERAL VIEW OUTER explode(split(line, ' ')) t AS word GROUP BY word"
    )
    assert "FROM input LATERAL VIEW OUTER explode(split(input.line, ' ')) v1 AS word" in mapped
    assert "SELECT v1.word AS _k0" in mapped


def test_only_the_first_rows_of_each_split_are_sent() -> None:
    mapped, reduced = sql_of("SELECT page FROM pages ORDER BY weight DESC LIMIT 5 OFFSET 2")
    assert mapped.endswith("ORDER BY _o0 DESC LIMIT 7")
    assert reduced == "SELECT page FROM input ORDER BY _o0 DESC LIMIT 5 OFFSET 2"


def test_a_window_is_a_function_like_others() -> None:
    mapped, reduced = sql_of("SELECT window.start AS s, count(*) AS n FROM texts GROUP BY window(at, '1 hour')")
    assert "window(input.at, '1 hour') AS _k0" in mapped
    assert "_k0.start AS s" in reduced.replace("(_k0)", "_k0")


def test_tables_joined_before_and_after_the_aggregate_are_read_where_they_are_needed() -> None:
    draft = draft_of(
        "SELECT c.topic, c.n, p.weight FROM (SELECT b.topic, count(*) AS n FROM texts AS a JOIN pages AS b "
        "ON a.line = b.page GROUP BY b.topic) AS c JOIN pages AS p ON p.topic = c.topic WHERE p.weight > 1",
        CATALOG,
    )
    kinds = [stage.kind for stage in draft.stages]
    assert kinds == [StageKind.TABLE, StageKind.TABLE, StageKind.MAP, StageKind.REDUCE]
    joined, later = draft.stages[:2]
    assert [i.stage for i in draft.map_stages[0].inputs] == [joined.id]
    assert [i.stage for i in draft.stage("reduce").inputs] == ["map", later.id]
    assert later.sql.endswith("WHERE weight > 1")


def test_sites_that_cannot_match_are_not_read() -> None:
    assert draft_of("SELECT line FROM texts WHERE site = 'eu'", CATALOG).map_stages[0].pinned == ("eu",)


def test_branches_of_a_union_are_partial_aggregates_of_their_own_splits() -> None:
    draft = draft_of(
        "SELECT word, count(*) AS n FROM (SELECT line AS word FROM texts WHERE site = 'eu' UNION ALL "
        "SELECT topic FROM pages) AS u GROUP BY word",
        CATALOG,
    )
    first, second = draft.map_stages
    assert (first.relation, first.pinned, second.relation) == ("texts", ("eu",), "pages")
    assert "SELECT _k0, count(*) AS _p0" in first.sql
    assert "SELECT input.topic AS word FROM input" in second.sql
    assert [(i.stage, i.view) for i in draft.stage("reduce").inputs] == [("map", "input"), ("map2", "input")]
    assert logical_lines(draft.logical)[:5] == (
        "Project[word, count(*) AS n]",
        "  Aggregate[word]",
        "    UnionAll",
        "      Project[line AS word]",
        "        Scan[texts at eu; not us]",
    )


def test_columns_of_a_union_are_of_one_type_before_they_are_aggregated() -> None:
    sql = (
        "SELECT x, count(*) AS n FROM (SELECT weight AS x FROM pages UNION ALL SELECT line FROM texts) AS u GROUP BY x"
    )
    open_ = draft_of(sql, CATALOG)
    assert list(open_.unions["u1"]) == ["u1", "u1.0", "u1.1"]
    types = {"u1": columns("x STRING"), "u1.0": columns("x INT"), "u1.1": columns("x STRING")}
    first, second = draft_query(select_of(sql), CATALOG, types).map_stages
    assert "CAST(input.weight AS STRING) AS x" in first.sql
    assert "input.line AS x" in second.sql


@pytest.mark.parametrize(
    ("sql", "appends"),
    [
        ("SELECT line FROM texts WHERE line <> ''", True),
        ("SELECT a.page, t.line FROM texts AS t JOIN pages AS a ON a.topic = t.line", True),
        ("SELECT line FROM texts UNION ALL SELECT topic FROM pages", True),
        ("SELECT line FROM texts UNION ALL SELECT topic FROM pages ORDER BY 1", False),
        ("SELECT line FROM texts ORDER BY line", False),
        ("SELECT line FROM texts LIMIT 3", False),
        ("SELECT DISTINCT line FROM texts", False),
        ("SELECT line, count(*) AS n FROM texts GROUP BY line", False),
        ("SELECT line, row_number() OVER (ORDER BY line) AS n FROM texts", False),
        ("SELECT n FROM (SELECT line, count(*) AS n FROM texts GROUP BY line) AS c WHERE n > 1", False),
        ("SELECT a.page FROM pages AS a JOIN (SELECT line FROM texts GROUP BY line) AS d ON a.page = d.line", False),
    ],
)
def test_a_reduce_that_only_appends_says_so(sql: str, appends: bool) -> None:
    assert draft_of(sql, CATALOG).stage("reduce").appends is appends


def test_rows_are_appended_only_where_names_and_types_are_equal() -> None:
    draft = draft_of("SELECT line FROM texts UNION ALL SELECT topic FROM pages", CATALOG)
    typed = {"map": columns("line STRING"), "map2": columns("topic STRING"), "reduce": columns("line STRING")}
    stages = with_columns(draft, typed, columns("line STRING")).stages
    assert not only_appends(find_stage(stages, "reduce"), stages)
    same = {**typed, "map2": columns("line STRING")}
    stages = with_columns(draft, same, columns("line STRING")).stages
    assert only_appends(find_stage(stages, "reduce"), stages)
    cast = with_columns(draft, same, columns("line BINARY")).stages
    assert not only_appends(find_stage(cast, "reduce"), cast)


def test_a_query_that_gathers_is_joined_by_the_reduce() -> None:
    draft = draft_of(
        "SELECT a.page, d.n FROM pages AS a JOIN (SELECT line, count(*) AS n FROM texts GROUP BY line) AS d "
        "ON a.page = d.line WHERE a.weight > 1",
        CATALOG,
    )
    first, second = draft.map_stages
    assert first.sql == "SELECT page FROM input WHERE input.weight > 1"
    assert "count(*) AS _p0" in second.sql
    assert [(i.stage, i.view) for i in draft.stage("reduce").inputs] == [("map", "input"), ("map2", "input2")]
    assert "d: computed by the reduce, which joins it" in draft.notes


@pytest.mark.parametrize(
    ("text", "code", "column", "found"),
    [
        ("SELECT page FROM pages UNION ALL SELECT page FROM clicks", "UNSUPPORTED_SQL", 51, "clicks"),
        ("SELECT page FROM pages UNION ALL SELECT line, at FROM texts", "INVALID_DEFINITION", 34, "SELECT"),
        (
            "SELECT a.page FROM pages a JOIN (SELECT count(*) AS n FROM clicks) b ON a.weight = b.n",
            "UNSUPPORTED_SQL",
            41,
            "count",
        ),
        ("SELECT p.page FROM pages p LEFT JOIN clicks c ON p.page = c.page", "UNSUPPORTED_SQL", 38, "clicks c"),
        ("SELECT page, count(*) AS n FROM pages", "INVALID_EXPRESSION", 8, "page"),
        ("SELECT pagee FROM pages ORDER BY page", "UNKNOWN_COLUMN", 8, "pagee"),
        ("SELECT page FROM pages ORDER BY pagee", "UNKNOWN_COLUMN", 33, "pagee"),
        ("SELECT line FROM texts WHERE at < now()", "UNSUPPORTED_SQL", 35, "now"),
        ("SELECT w FROM texts LATERAL VIEW explode(split(lin, ' ')) t AS w", "UNKNOWN_COLUMN", 48, "lin"),
    ],
)
def test_what_is_refused(text: str, code: str, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as caught:
        # Where a name is wrong Spark, which is asked whether the query can run whole, refuses it too.
        planned_with(Planning.of(select_of(text), CATALOG), lambda analysis: Refusal("no such name"))
    error = caught.value
    assert error.code == code, error.message
    assert error.position is not None
    assert (error.position.line, error.position.column, error.found) == (1, column, found)
    assert error.hint
