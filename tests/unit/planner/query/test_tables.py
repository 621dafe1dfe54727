"""Batch queries: what becomes a MAP and what a REDUCE, and what is refused."""

from __future__ import annotations

import pytest

from planner.errors import PlannerError
from planner.plan import StageKind
from tests.unit.planner.build import catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE TABLE texts (line STRING, at TIMESTAMP) WITH ('connector' = 'files') AT us AT eu;
    CREATE TABLE pages (page STRING, topic STRING, weight INT) AT us WITH ('connector' = 'files');
    CREATE STREAM clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'files');
    """
)


def sql_of(text: str) -> tuple[str, str]:
    """Of the MAP and the REDUCE."""
    draft = draft_of(text, CATALOG)
    assert draft.batch
    return draft.map_stage.sql, draft.stage(draft.result_stage).sql


def test_words_are_counted_on_each_split_and_summed_up() -> None:
    mapped, reduced = sql_of(
        "SELECT word, count(*) AS n FROM (SELECT explode(split(line, ' ')) AS word FROM texts) GROUP BY word"
    )
    assert mapped == (
        "SELECT _k0, count(*) AS _p0 FROM (SELECT input.word AS _k0 FROM "
        "(SELECT explode(split(input.line, ' ')) AS word FROM input AS input) AS input) AS kept GROUP BY _k0"
    )
    assert reduced == (
        "SELECT _k0 AS word, _a0 AS n FROM (SELECT _k0, sum(_p0) AS _a0 FROM input GROUP BY _k0) AS merged"
    )


def test_lateral_views_make_rows_on_each_split() -> None:
    mapped, _ = sql_of(
        "SELECT word, count(*) AS n FROM texts LATERAL VIEW OUTER explode(split(line, ' ')) t AS word GROUP BY word"
    )
    assert "FROM input AS input LATERAL VIEW OUTER explode(split(input.line, ' ')) v1 AS word" in mapped
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
    assert [i.stage for i in draft.map_stage.inputs] == [joined.id]
    assert [i.stage for i in draft.stage("reduce").inputs] == ["map", later.id]
    assert later.sql.endswith("WHERE weight > 1")


def test_sites_that_cannot_match_are_not_read() -> None:
    assert draft_of("SELECT line FROM texts WHERE site = 'eu'", CATALOG).map_stage.sites == ("eu",)


@pytest.mark.parametrize(
    ("text", "code", "column", "found"),
    [
        ("SELECT page FROM pages UNION ALL SELECT line FROM texts", "UNSUPPORTED_SQL", 51, "texts"),
        ("SELECT p.page FROM pages p JOIN clicks c ON p.page = c.page", "UNSUPPORTED_SQL", 33, "clicks c"),
        ("SELECT page FROM pages LIMIT 1 + 1", "UNSUPPORTED_SQL", 30, "1 + 1"),
        ("SELECT page FROM pages HAVING page = 'x'", "UNSUPPORTED_SQL", 31, "page = 'x'"),
        ("SELECT page, count(*) AS n FROM pages", "INVALID_EXPRESSION", 8, "page"),
        ("SELECT page FROM pages ORDER BY 2", "UNSUPPORTED_SQL", 33, "2"),
        ("SELECT pagee FROM pages ORDER BY page", "UNKNOWN_COLUMN", 8, "pagee"),
        ("SELECT page FROM pages ORDER BY pagee", "UNKNOWN_COLUMN", 33, "pagee"),
        (
            "SELECT a.line FROM texts a JOIN (SELECT page FROM pages LIMIT 1) AS b ON a.line = b.page",
            "UNSUPPORTED_SQL",
            41,
            "page FROM pages LIMIT 1) AS b",
        ),
        ("SELECT line FROM texts WHERE at < now()", "UNSUPPORTED_SQL", 35, "now"),
        ("SELECT w FROM texts LATERAL VIEW explode(split(lin, ' ')) t AS w", "UNKNOWN_COLUMN", 48, "lin"),
    ],
)
def test_what_is_refused(text: str, code: str, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(text, CATALOG)
    error = caught.value
    assert error.code == code, error.message
    assert error.position is not None
    assert (error.position.line, error.position.column, error.found) == (1, column, found)
    assert error.hint
