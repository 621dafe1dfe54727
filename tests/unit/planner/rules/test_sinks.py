from __future__ import annotations

from dataclasses import replace

import pytest

from planner.graph.ids import VertexId
from planner.graph.plan import Destination, DraftPlan, PhysicalPlan, StageInput, Statistics
from planner.place.placement import place
from planner.planning import draft_query
from planner.planning.drafts import with_columns, with_texts
from planner.relations.catalog import Binding, Catalog, Column, Relation, RelationKind
from planner.rules.sinks import SINK_ID, can_store, find_sink, with_sink
from planner.sql import CreateRelation, Explain, InsertInto, SelectQuery, parse_script
from planner.text.explain import explain_json, explain_text
from planner.values.errors import (
    InvalidDefinitionError,
    PlacementError,
    PlannerError,
    UnknownRelationError,
    UnsupportedSqlError,
)
from planner.values.stages import StageKind
from tests.unit.planner.build import CATALOG, catalog_of, columns, topology_of

ROWS = "INSERT INTO daily SELECT page, ms FROM clicks"
SUMS = "INSERT INTO daily SELECT page, sum(ms) AS ms FROM clicks GROUP BY page, window(ts, '1 day')"
TYPES = columns("page STRING, ms INT")


def sink_of(text: str = "", options: str = "") -> Relation:
    (statement,) = parse_script(
        f"CREATE SINK daily {text} AT eu WITH ('connector' = 'parquet', 'path' = '/out'{options})"
    )
    assert isinstance(statement, CreateRelation)
    return statement.relation


def insert_of(sql: str) -> InsertInto:
    (statement,) = parse_script(sql)
    assert isinstance(statement, InsertInto)
    return statement


def draft_of(sink: Relation, sql: str = ROWS, types: tuple[Column, ...] = TYPES) -> DraftPlan:
    insert = insert_of(sql)
    catalog = Catalog({**CATALOG.relations, "daily": sink})
    draft = draft_query(insert.query, catalog)
    stages = {stage.id: types for stage in draft.stages}
    ended = with_sink(with_columns(draft, stages, types), insert.target, find_sink(insert.target, catalog))
    return with_texts(ended)


def placed(sink: Relation, sql: str = ROWS, alive: str = "us eu ap") -> PhysicalPlan:
    return place(draft_of(sink, sql), topology_of("us", "eu", "ap"), Statistics(), alive=frozenset(alive.split()))


def test_a_sink_is_declared_at_one_site_with_columns_or_without() -> None:
    assert sink_of() == Relation(
        "daily", RelationKind.SINK, (), (Binding("eu", {"connector": "parquet", "path": "/out"}),)
    )
    assert sink_of("(site STRING, n BIGINT) COMMENT 'x'").columns == columns("site STRING, n BIGINT")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("CREATE SINK s AT us AT eu WITH ('connector' = 'parquet')", "no connector"),
        ("CREATE SINK s WITH ('connector' = 'parquet') AT us AT eu", "at one site"),
        ("CREATE SINK s (ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'parquet')", "no watermark"),
        ("CREATE SINK s () AT us WITH ('connector' = 'parquet')", "column"),
        ("CREATE SINK s AT us", "no connector"),
        ("INSERT OVERWRITE daily SELECT page FROM clicks", "INTO is expected"),
        ("INSERT INTO daily (page) SELECT page FROM clicks", "SELECT is expected"),
        ("INSERT INTO daily VALUES (1)", "one by one"),
        ("INSERT INTO", "the sink's name is expected"),
        ("EXPLAIN INSERT INTO daily", "SELECT is expected"),
    ],
)
def test_what_is_refused_as_it_is_written(sql: str, says: str) -> None:
    with pytest.raises(PlannerError, match=says) as caught:
        parse_script(sql)
    assert caught.value.position is not None
    assert caught.value.hint


def test_an_insert_knows_its_text_and_places() -> None:
    _, insert = parse_script("SELECT page FROM clicks;\nINSERT INTO `daily` SELECT page FROM clicks; ")
    assert isinstance(insert, InsertInto)
    assert insert.text == "INSERT INTO `daily` SELECT page FROM clicks"
    assert (insert.position.line, insert.position.column) == (2, 1)
    assert (insert.target.name, insert.target.position.column) == ("daily", 13)
    assert (insert.query.text, insert.query.position.column) == ("SELECT page FROM clicks", 21)
    (explain,) = parse_script(f"EXPLAIN {ROWS}")
    assert isinstance(explain, Explain)
    assert explain.target is not None
    assert isinstance(explain.query, SelectQuery)


def test_results_go_to_the_sink_at_its_site() -> None:
    plan = placed(sink_of())
    sink = plan.sink
    assert sink is not None
    assert (sink.id, sink.kind, sink.pinned, sink.relation) == (SINK_ID, StageKind.SINK, ("eu",), "daily")
    assert sink.inputs == (StageInput(plan.result_stage, "input"),)
    assert sink.columns == TYPES
    assert {link.target for link in plan.links} == {"eu"}
    assert plan.destination == Destination("eu", "daily")
    assert placed(sink_of(), SUMS).sites == {VertexId("m1"): "eu"}


@pytest.mark.parametrize(
    ("rest", "results"),
    [
        ("SELECT page, ms FROM clicks UNION ALL SELECT page, 1 FROM visits", ("s1", "s2")),
        ("WITH d AS (SELECT page, ms FROM clicks) SELECT page, ms FROM d WHERE ms > 1", ("s1",)),
        ("(SELECT page, ms FROM clicks) UNION ALL (SELECT page, count(*) FROM visits GROUP BY 1, window(ts, '1 day'))",
         ("s1", "m1")),
        ("SELECT c.page, c.ms FROM clicks c JOIN visits v ON c.page = v.page AND window(c.ts, '1 day') = "
         "window(v.ts, '1 day')", ("m1",)),
    ],
)  # fmt: skip
def test_a_sink_takes_the_results_of_all_branches(rest: str, results: tuple[str, ...]) -> None:
    plan = placed(sink_of("(place STRING, delay BIGINT)"), f"INSERT INTO daily {rest}")
    assert plan.result_stages == results
    assert plan.sink is not None
    assert plan.sink.inputs == tuple(StageInput(stage, "input") for stage in results)
    assert all("AS place, CAST(ms AS BIGINT) AS delay" in plan.stage(stage).sql for stage in results)


def test_explain_shows_the_sink() -> None:
    plan = placed(sink_of())
    text = explain_text(plan)
    assert text.startswith("Logical plan\n  Insert[daily]\n    Project[page, ms]\n      Scan[clicks at ap, eu, us]\n")
    assert "sink: sink of daily at eu" in text
    assert text == text.rstrip()
    assert explain_json(plan)["stages"][-1]["kind"] == "sink"


def test_a_sink_whose_site_is_away_is_refused() -> None:
    with pytest.raises(PlacementError, match="daily is bound there"):
        placed(sink_of(), f"{ROWS} WHERE site = 'us'", alive="us ap")


def test_declared_columns_rename_and_cast_by_position() -> None:
    draft = draft_of(sink_of("(place STRING, delay BIGINT)"))
    (stage,) = (s for s in draft.stages if s.id == draft.result_stage)
    assert stage.sql.startswith("SELECT page AS place, CAST(ms AS BIGINT) AS delay FROM (SELECT")
    assert draft.columns == stage.columns == columns("place STRING, delay BIGINT")


def test_columns_that_fit_are_left_alone() -> None:
    plain, declared = draft_of(sink_of()), draft_of(sink_of("(page STRING, ms INT)"))
    assert plain.stages == declared.stages


@pytest.mark.parametrize(
    ("declared", "options", "says"),
    [
        ("(page STRING)", "", "the query has 2 columns, and sink daily has 1 column"),
        ("(page INT, ms INT)", "", "column 1 of the query, page, is STRING, and cannot go into column page INT"),
        ("", ", 'partition_by' = 'page, country'", "partitioned by country"),
    ],
)
def test_columns_that_do_not_fit(declared: str, options: str, says: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=says) as caught:
        draft_of(sink_of(declared, options))
    assert caught.value.position is not None
    assert caught.value.position.column == 13
    assert caught.value.hint


def test_only_sinks_are_written_and_never_read() -> None:
    views = catalog_of("CREATE VIEW pages_seen AS SELECT page FROM clicks", CATALOG)
    catalog = Catalog({**views.relations, "daily": sink_of()})
    for name, error, hint in (
        ("clicks", UnsupportedSqlError, "CREATE SINK"),
        ("pages_seen", UnsupportedSqlError, "CREATE SINK"),
        ("dally", UnknownRelationError, "daily?"),
    ):
        with pytest.raises(error) as caught:
            find_sink(replace(insert_of(ROWS).target, name=name), catalog)
        assert hint in caught.value.hint
    for sql in (
        "SELECT * FROM daily",
        "SELECT c.page FROM clicks c JOIN daily d ON c.page = d.page",
        "WITH d AS (SELECT page FROM daily) SELECT page FROM d",
        "WITH d AS (SELECT page FROM daily) SELECT page FROM clicks",
        "SELECT page FROM clicks UNION ALL SELECT page FROM (SELECT page FROM daily) AS d",
    ):
        (select,) = parse_script(sql)
        assert isinstance(select, SelectQuery)
        with pytest.raises(UnsupportedSqlError, match="nothing can be read"):
            draft_query(select, catalog)


@pytest.mark.parametrize(
    ("source", "target", "possible"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "TINYINT", True),
        ("DECIMAL(20,2)", "DOUBLE", True),
        ("DATE", "TIMESTAMP", True),
        ("BOOLEAN", "STRING", True),
        ("VOID", "INT", True),
        ("STRUCT<a: INT>", "STRUCT<a:INT>", True),
        ("ARRAY<INT>", "ARRAY<BIGINT>", True),
        ("ARRAY<STRING>", "ARRAY<INT>", False),
        ("STRING", "INT", False),
        ("BOOLEAN", "INT", False),
        ("TIMESTAMP", "BIGINT", False),
        ("STRUCT<a:INT>", "STRING", False),
        ("MAP<STRING,INT>", "MAP<STRING,BIGINT>", False),
    ],
)
def test_what_can_be_stored_in_what(source: str, target: str, possible: bool) -> None:
    assert can_store(source, target) is possible
