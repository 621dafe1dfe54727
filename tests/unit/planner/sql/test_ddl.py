from __future__ import annotations

from datetime import timedelta

import pytest

from planner.relations.catalog import Binding, Column, RelationKind
from planner.sql import (
    AlterBinding,
    CancelQuery,
    CreateRelation,
    CreateView,
    Describe,
    DropRelation,
    ExplainAnalyze,
    PauseQuery,
    ResumeQuery,
    Show,
    ShowTarget,
    Statement,
    parse_script,
)
from planner.sql.queries import parse_any_query, relations_named
from planner.sql.source import Source
from planner.values.errors import InvalidDefinitionError, PlannerError, Position

START = Position(1, 1)


def test_create_stream_with_everything() -> None:
    (statement,) = parse_script(
        """CREATE STREAM IF NOT EXISTS clicks (
          user_id BIGINT, `odd name` map<string, array<int>>, ts TIMESTAMP, -- a comment
          WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
        COMMENT 'all clicks' WITH ('connector' = 'files', 'format' = 'csv')
        AT us WITH ('path' = '/data/us'), AT `eu-1` WITH ('path' = '/data/eu', 'format' = 'json')"""
    )
    assert isinstance(statement, CreateRelation)
    relation = statement.relation
    assert statement.if_not_exists
    assert (relation.name, relation.kind, relation.comment) == ("clicks", RelationKind.STREAM, "all clicks")
    assert (relation.event_time, relation.watermark_delay) == ("ts", timedelta(seconds=5))
    assert relation.columns == (
        Column("user_id", "BIGINT"),
        Column("odd name", "MAP<STRING,ARRAY<INT>>"),
        Column("ts", "TIMESTAMP"),
    )
    assert relation.bindings == (
        Binding("us", {"connector": "files", "format": "csv", "path": "/data/us"}),
        Binding("eu-1", {"connector": "files", "format": "json", "path": "/data/eu"}),
    )


def test_create_table_has_no_event_time_and_needs_no_comma_between_bindings() -> None:
    (statement,) = parse_script("create table t (a int) with ('connector' = 'other') at us at eu;")
    assert isinstance(statement, CreateRelation)
    assert (statement.relation.kind, statement.relation.event_time) == (RelationKind.TABLE, None)
    assert statement.relation.sites == ("us", "eu")


@pytest.mark.parametrize(
    ("watermark", "delay"),
    [
        ("WATERMARK FOR ts", timedelta(0)),
        ("WATERMARK FOR TS AS ts", timedelta(0)),
        ("WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS", timedelta(seconds=5)),
        ("WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE", timedelta(minutes=1)),
        ("WATERMARK FOR ts AS ts - INTERVAL '1 hour 30 minutes'", timedelta(minutes=90)),
    ],
)
def test_watermarks(watermark: str, delay: timedelta) -> None:
    (statement,) = parse_script(f"CREATE STREAM s (ts TIMESTAMP, {watermark}) AT us WITH ('connector' = 'other')")
    assert isinstance(statement, CreateRelation)
    assert (statement.relation.event_time, statement.relation.watermark_delay) == ("ts", delay)


@pytest.mark.parametrize("watermark", ["WATERMARK FOR arrived", "watermark for ARRIVED AS arrived"])
def test_the_time_of_arrival_is_the_event_time_of_a_stream_that_has_no_such_column(watermark: str) -> None:
    (statement,) = parse_script(f"CREATE STREAM s (a INT, {watermark}) AT us WITH ('connector' = 'push')")
    assert isinstance(statement, CreateRelation)
    relation = statement.relation
    assert (relation.event_time, relation.watermark_delay, relation.by_arrival) == ("arrived", timedelta(0), True)
    assert relation.columns == (Column("a", "INT"), Column("arrived", "TIMESTAMP"))
    assert relation.declared == (Column("a", "INT"),)


def test_a_column_of_that_name_is_one_like_others() -> None:
    columns = "Arrived TIMESTAMP, WATERMARK FOR arrived AS arrived - INTERVAL '1 second'"
    (statement,) = parse_script(f"CREATE STREAM s ({columns}) {AT}")
    assert isinstance(statement, CreateRelation)
    assert (statement.relation.event_time, statement.relation.by_arrival) == ("Arrived", False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP STREAM clicks", DropRelation("clicks", RelationKind.STREAM, False, START)),
        ("drop table if exists `a b`", DropRelation("a b", RelationKind.TABLE, True, START)),
        ("ALTER STREAM s SET ('a' = '1', 'b' = '2')", AlterBinding("s", None, {"a": "1", "b": "2"}, START)),
        ("ALTER STREAM s AT us SET ('a' = '1')", AlterBinding("s", "us", {"a": "1"}, START)),
        ("SHOW QUERIES", Show(ShowTarget.QUERIES, START)),
        ("show sites", Show(ShowTarget.SITES, START)),
        ("DESCRIBE clicks", Describe("clicks", None, START)),
        ("DESC STREAM clicks", Describe("clicks", RelationKind.STREAM, START)),
        ("DESCRIBE table", Describe("table", None, START)),
        ("CANCEL QUERY q-0001-a1b2c3", CancelQuery("q-0001-a1b2c3", START)),
        ("CANCEL QUERY 'my query'", CancelQuery("my query", START)),
        ("pause query q-0001", PauseQuery("q-0001", START)),
        ("RESUME QUERY 'my query'", ResumeQuery("my query", START)),
        ("EXPLAIN ANALYZE QUERY q-0001-a1b2c3", ExplainAnalyze("q-0001-a1b2c3", START)),
        ("EXPLAIN ANALYZE q-0001", ExplainAnalyze("q-0001", START)),
        ("explain analyze query 'my query'", ExplainAnalyze("my query", START)),
    ],
)
def test_small_statements(text: str, expected: Statement) -> None:
    assert parse_script(text) == (expected,)


AT = "AT us WITH ('connector' = 'other')"


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "found"),
    [
        ("CREATE VIEW v", "SYNTAX_ERROR", 1, 14, "end of statement"),
        ("CREATE VIEW v AS VALUES (1)", "SYNTAX_ERROR", 1, 18, "VALUES"),
        ("CREATE VIEW v (a, A) AS SELECT a, b FROM s", "INVALID_DEFINITION", 1, 19, "A"),
        ("CREATE VIEW v (a INT) AS SELECT a FROM s", "SYNTAX_ERROR", 1, 18, "INT"),
        ("CREATE VIEW v AS\nSELECT a FROM s SORT BY a", "UNSUPPORTED_SQL", 2, 17, "SORT BY"),
        ("CREATE VIEW v AS SELECT a,, b FROM s", "SYNTAX_ERROR", 1, 27, ","),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT a FROM s", "INVALID_DEFINITION", 1, 24, "IF NOT EXISTS"),
        ("CREATE OR REPLACE TABLE t (a INT)", "SYNTAX_ERROR", 1, 19, "TABLE"),
        ("ALTER VIEW v SET ('a' = 'b')", "SYNTAX_ERROR", 1, 7, "VIEW"),
        (f"CREATE TABLE t (a VARCHAR) {AT}", "INVALID_DEFINITION", 1, 19, "VARCHAR"),
        (f"CREATE TABLE t (a INT,\n A INT) {AT}", "INVALID_DEFINITION", 2, 2, "A"),
        (f"CREATE TABLE t (site STRING) {AT}", "INVALID_DEFINITION", 1, 17, "site"),
        (f"CREATE TABLE t (_a INT) {AT}", "INVALID_DEFINITION", 1, 17, "_a"),
        (f"CREATE TABLE t (a INT NOT NULL) {AT}", "SYNTAX_ERROR", 1, 23, "NOT"),
        (f"CREATE TABLE t (a DECIMAL(39,2)) {AT}", "INVALID_DEFINITION", 1, 27, "39"),
        (f"CREATE TABLE t (a MAP<INT>) {AT}", "SYNTAX_ERROR", 1, 26, ">"),
        (f"CREATE TABLE t (a INT, ts TIMESTAMP, WATERMARK FOR ts) {AT}", "INVALID_DEFINITION", 1, 52, "ts"),
        (f"CREATE STREAM s (a INT) {AT}", "INVALID_DEFINITION", 1, 17, "("),
        (f"CREATE STREAM s (a INT, WATERMARK FOR a) {AT}", "INVALID_DEFINITION", 1, 39, "a"),
        (f"CREATE STREAM s (a INT, WATERMARK FOR b) {AT}", "INVALID_DEFINITION", 1, 39, "b"),
        (f"CREATE STREAM s (arrived INT, WATERMARK FOR arrived) {AT}", "INVALID_DEFINITION", 1, 45, "arrived"),
        (
            f"CREATE STREAM s (a INT, WATERMARK FOR arrived AS arrived - INTERVAL '1 second') {AT}",
            "INVALID_DEFINITION",
            1,
            39,
            "arrived",
        ),
        (f"CREATE TABLE t (a INT, WATERMARK FOR arrived) {AT}", "INVALID_DEFINITION", 1, 38, "arrived"),
        (f"CREATE STREAM s (t TIMESTAMP, WATERMARK FOR t AS u) {AT}", "SYNTAX_ERROR", 1, 50, "u"),
        (
            f"CREATE STREAM s (t TIMESTAMP, WATERMARK FOR t AS t - INTERVAL '1 month') {AT}",
            "INVALID_DEFINITION",
            1,
            63,
            "'1 month'",
        ),
        ("CREATE TABLE t (a INT)", "SYNTAX_ERROR", 1, 23, "end of statement"),
        ("CREATE TABLE t (a INT) AT us", "INVALID_DEFINITION", 1, 27, "us"),
        (f"CREATE TABLE t (a INT) {AT}, {AT}", "INVALID_DEFINITION", 1, 63, "us"),
        ("CREATE TABLE t (a INT) AT us WITH ('a' = '1', 'a' = '2')", "INVALID_DEFINITION", 1, 47, "'a'"),
        ("CREATE TABLE t (a INT) AT us WITH (a = '1')", "SYNTAX_ERROR", 1, 36, "a"),
        (f"CREATE TABLE t (a INT) {AT} junk", "SYNTAX_ERROR", 1, 59, "junk"),
        ("DROP clicks", "SYNTAX_ERROR", 1, 6, "clicks"),
        ("ALTER STREAM s ADD COLUMN x INT", "SYNTAX_ERROR", 1, 16, "ADD"),
        ("SHOW DATABASES", "SYNTAX_ERROR", 1, 6, "DATABASES"),
        ("CANCEL q-1", "SYNTAX_ERROR", 1, 8, "q"),
        ("CANCEL QUERY a b", "SYNTAX_ERROR", 1, 16, "b"),
        ("PAUSE q-0001", "SYNTAX_ERROR", 1, 7, "q"),
        ("RESUME QUERY", "SYNTAX_ERROR", 1, 13, "end of statement"),
        ("EXPLAIN ANALYZE", "SYNTAX_ERROR", 1, 16, "end of statement"),
        ("EXPLAIN ANALYZE SELECT a FROM b", "SYNTAX_ERROR", 1, 17, "SELECT"),
    ],
)
def test_refused_declarations(text: str, code: str, line: int, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as caught:
        parse_script(text)
    error = caught.value
    assert (error.code, error.position, error.found) == (code, Position(line, column), found)
    assert error.hint


def test_an_unknown_type_says_which_are_possible() -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        parse_script(f"CREATE TABLE t (a VARCHAR) {AT}")
    assert "STRING" in caught.value.hint
    assert "DECIMAL(p,s)" in caught.value.hint


def test_a_view_is_its_name_and_its_query() -> None:
    (view,) = parse_script("CREATE OR REPLACE VIEW v (x, `y z`) COMMENT 'two' AS\n  SELECT a, b FROM s  ;")
    assert isinstance(view, CreateView)
    assert (view.name, view.columns, view.comment) == ("v", ("x", "y z"), "two")
    assert (view.or_replace, view.if_not_exists) == (True, False)
    assert (view.query.text, view.query.position) == ("SELECT a, b FROM s", Position(2, 3))


@pytest.mark.parametrize(("text", "named"), [
    ("SELECT a FROM s JOIN t USING (a)", {"s", "t"}),
    ("WITH x AS (SELECT a FROM s) SELECT a FROM x", {"s"}),
    ("WITH s AS (SELECT a FROM s) SELECT a FROM S", {"s"}),
    ("WITH x AS (SELECT a FROM s), y AS (SELECT a FROM x) SELECT a FROM y UNION ALL SELECT a FROM (SELECT a FROM Z)",
     {"s", "z"}),
    ("SELECT a FROM (WITH x AS (SELECT a FROM s) SELECT a FROM x) AS d JOIN x USING (a)", {"s", "x"}),
])  # fmt: skip
def test_relations_that_a_query_names(text: str, named: set[str]) -> None:
    assert relations_named(parse_any_query(Source(text))[0]) == named
