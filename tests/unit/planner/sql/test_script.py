from __future__ import annotations

import pytest

from planner.sql import Explain, SelectQuery, Show, ShowTarget, parse_script
from planner.values.errors import PlannerError, Position, SqlSyntaxError, UnsupportedSqlError


def test_statements_keep_their_text_and_place() -> None:
    script = "-- first\nSHOW STREAMS;;\n  SELECT a,\n b FROM s ; EXPLAIN SELECT a FROM s"
    show, select, explain = parse_script(script)
    assert show == Show(ShowTarget.STREAMS, Position(2, 1))
    assert isinstance(select, SelectQuery)
    assert (select.text, select.position) == ("SELECT a,\n b FROM s", Position(3, 3))
    assert isinstance(explain, Explain)
    assert (explain.position, explain.query.position) == (Position(4, 13), Position(4, 21))
    assert explain.query.text == "SELECT a FROM s"


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing\n", ";;", "/* nothing */"])
def test_no_statement_is_an_empty_script(text: str) -> None:
    assert parse_script(text) == ()


def test_a_semicolon_in_quotes_or_comments_parts_nothing() -> None:
    (select,) = parse_script("SELECT ';' AS a /* ; */ FROM s -- ;")
    assert isinstance(select, SelectQuery)


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        ("SELEC a FROM s", 1, 1, "SELEC"),
        ("SHOW TABLES;\n selec b", 2, 2, "selec"),
        ("SELECT a FROM s WHERE", 1, 22, "end of statement"),
        ("SELECT a FROM s\nWHERE a = = b", 2, 11, "="),
        ("SELECT a,, b FROM s", 1, 10, ","),
        ("SELECT a, FROM s", 1, 11, "FROM"),
        ("SELECT f(a,) FROM s", 1, 12, ")"),
        ("SELECT FROM s", 1, 8, "FROM"),
        ("SELECT (a FROM s", 1, 11, "FROM"),
        ("SELECT a b c FROM s", 1, 12, "c"),
        ("SELECT a FROM s GROUP BY", 1, 25, "end of statement"),
        ("SELECT cast(a AS foo) FROM s", 1, 18, "foo"),
        ("SELECT a FROM s WHERE b = 'x", 1, 27, "'x"),
        ("SELECT `a FROM s", 1, 8, "`a FROM s"),
        ("SHOW TABLES;\n/* open", 2, 1, "/* open"),
        ("SELECT a FROM s WHERE b = 'it''s'\n AND c = '", 2, 10, "'"),
        ("EXPLAIN SHOW TABLES", 1, 9, "SHOW"),
    ],
)
def test_syntax_errors_have_their_place(text: str, line: int, column: int, found: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_script(text)
    assert (caught.value.position, caught.value.found) == (Position(line, column), found)


@pytest.mark.parametrize("word", ["UPDATE", "MERGE", "RESET", "USE", "VALUES"])
def test_other_statements_are_refused_with_what_is_possible(word: str) -> None:
    with pytest.raises(UnsupportedSqlError) as caught:
        parse_script(f"SHOW SITES;\n{word} INTO x")
    assert caught.value.position == Position(2, 1)
    assert "CREATE" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 10_000 + "1" + ")" * 10_000 + " FROM s",
        "SELECT " + "f(" * 100 + "1" + ")" * 100 + " FROM s",
        "SELECT " + "NOT " * 5_000 + "a FROM s",
        "SELECT " + "CASE WHEN a THEN " * 200 + "1" + " END" * 200 + " FROM s",
        "SELECT a" + " + a" * 5_000 + " FROM s",
        "SELECT a FROM s WHERE b = '" + "x" * 70_000 + "'",
        "SELECT a FROM s WHERE b = '" + "x" * 1_100_000 + "'",
        "CREATE TABLE t (" + "a ARRAY<" * 5_000,
        "CREATE TABLE t (a " + "ARRAY<" * 9_000,
    ],
    ids=["brackets", "calls", "not", "case", "chain", "long", "megabyte", "columns", "types"],
)
def test_monsters_give_a_clean_error(text: str) -> None:
    with pytest.raises(PlannerError) as caught:
        parse_script(text)
    assert caught.value.position is not None
    assert len(str(caught.value)) < 500
