"""What is refused without a catalog: code, place and what was found; always with a hint."""

from __future__ import annotations

import pytest

from planner.sql import SelectQuery, parse_script
from planner.values.errors import Position, UnsupportedSqlError
from tests.unit.planner.build import catalog_of, draft_of


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        ("SELECT a FROM s SORT BY a", 1, 17, "SORT BY"),
        ("SELECT a FROM s CLUSTER BY a", 1, 17, "CLUSTER BY"),
        ("SELECT a FROM s DISTRIBUTE BY a", 1, 17, "DISTRIBUTE BY"),
        ("SELECT DISTINCT window(ts, '1 s') AS w FROM s GROUP BY w", 1, 8, "DISTINCT"),
        ("SELECT DISTINCT ON (a) window(ts, '1 s') AS w FROM s", 1, 8, "DISTINCT"),
        ("SELECT /*+ BROADCAST(t) */ a FROM s", 1, 8, "/*+ BROADCAST(t) */"),
        ("SELECT a FROM s WINDOW w AS (PARTITION BY a)", 1, 17, "WINDOW"),
        ("SELECT a FROM s TABLESAMPLE (5 ROWS)", 1, 15, "s TABLESAMPLE (5"),
        ("WITH RECURSIVE x AS (SELECT a FROM s) SELECT a FROM x", 1, 6, "RECURSIVE"),
        ("WITH x AS (SELECT a FROM s),\n X AS (SELECT b FROM s) SELECT a FROM x", 2, 2, "X"),
        ("SELECT a FROM s UNION SELECT b FROM s", 1, 17, "UNION"),
        ("SELECT a FROM s UNION ALL SELECT b FROM s\nUNION DISTINCT SELECT c FROM s", 2, 1, "UNION"),
        ("SELECT a FROM s UNION ALL SELECT b FROM s INTERSECT SELECT c FROM s", 1, 43, "INTERSECT"),
        ("SELECT a FROM (SELECT a FROM s UNION SELECT a FROM s) AS d", 1, 32, "UNION"),
        ("SELECT a FROM (SELECT a FROM s) TABLESAMPLE (5 ROWS)", 1, 23, "a FROM s) TABLESAMPLE (5"),
        ("SELECT a FROM s EXCEPT SELECT b FROM s", 1, 17, "EXCEPT"),
        ("(SELECT a FROM s)", 1, 1, "("),
        ("SELECT a FROM (SELECT 1)", 1, 24, "end of statement"),
        ("SELECT a,\n b IN (SELECT c FROM t) AS x FROM s", 2, 8, "SELECT"),
        ("SELECT (SELECT 1) FROM s", 1, 17, "end of statement"),
        ("SELECT 1", 1, 9, "end of statement"),
        ("SELECT a FROM db.s", 1, 15, "db.s"),
        ("SELECT a FROM s RIGHT SEMI JOIN t ON x = y", 1, 17, "RIGHT SEMI JOIN"),
        ("SELECT a FROM s NATURAL FULL JOIN t", 1, 17, "NATURAL FULL JOIN"),
        ("SELECT a FROM s NATURAL JOIN t", 1, 17, "NATURAL JOIN"),
        ("SELECT a FROM s GROUP BY a WITH ROLLUP", 1, 33, "ROLLUP"),
        ("SELECT a FROM s GROUP BY ALL", 1, 26, "ALL"),
        ("SELECT stddev(DISTINCT a) FROM s", 1, 15, "DISTINCT a"),
        ("SELECT rand() FROM s", 1, 8, "rand"),
        ("SELECT a FROM s WHERE ts > now()", 1, 28, "now"),
        ("SELECT unix_timestamp() FROM s", 1, 8, "unix_timestamp"),
        ("SELECT uuid() FROM s", 1, 8, "uuid"),
        ("SELECT window_time(w) FROM s", 1, 8, "window_time"),
        ("SELECT ${x} FROM s", 1, 8, "$"),
        ("SELECT a:b FROM s", 1, 9, ":"),
    ],
)
def test_refused_queries(text: str, line: int, column: int, found: str) -> None:
    refused = refusal_of(text)
    assert (refused.position, refused.found) == (Position(line, column), found)
    assert refused.hint


def refusal_of(text: str) -> UnsupportedSqlError:
    """Of a query over streams; one that would be possible over tables is parsed, and refused when names are known."""
    try:
        (statement,) = parse_script(text)
    except UnsupportedSqlError as error:
        return error
    assert isinstance(statement, SelectQuery)
    assert statement.refusal is not None
    return statement.refusal


def test_order_by_and_limit_show_the_top_k_form() -> None:
    for text in ("SELECT a FROM s ORDER BY a", "SELECT a FROM s LIMIT 3"):
        with pytest.raises(UnsupportedSqlError) as caught:
            draft_of(text, STREAM_AND_TABLE)
        assert "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n DESC) <= k" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM s WHERE b LIKE ANY ('x', 'y')",
        "SELECT unix_timestamp(ts) FROM s",
        "SELECT a IS DISTINCT FROM b FROM s",
        "SELECT s.limit, `order` FROM s",
        "SELECT a FROM s LEFT OUTER JOIN t ON s.a = t.a",
        "SELECT a FROM s INNER JOIN t USING (a)",
    ],
)
def test_what_only_looks_alike_is_possible(text: str) -> None:
    assert len(parse_script(text)) == 1


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        ("SELECT a FROM s\nORDER BY a", 2, 1, "ORDER BY"),
        ("SELECT a FROM s LIMIT 5", 1, 17, "LIMIT"),
        ("SELECT a FROM s FETCH FIRST 3 ROWS ONLY", 1, 17, "FETCH"),
        ("SELECT a FROM s OFFSET 5", 1, 17, "OFFSET"),
        ("WITH x AS (SELECT a FROM s ORDER BY a) SELECT a FROM x", 1, 28, "ORDER BY"),
        ("SELECT a FROM s LIMIT 2 UNION ALL SELECT b FROM s", 1, 17, "LIMIT"),
        ("SELECT a FROM s UNION ALL (SELECT b FROM s LIMIT 3)", 1, 44, "LIMIT"),
        ("SELECT a FROM (SELECT a FROM s\n ORDER BY a) AS d", 2, 2, "ORDER BY"),
        ("SELECT a FROM s JOIN (SELECT b FROM t LIMIT 1) AS d ON a = b", 1, 30, "b FROM t LIMIT 1) AS d"),
        ("SELECT a FROM s UNION ALL SELECT b FROM s ORDER BY a", 1, 43, "ORDER BY"),
        ("SELECT a FROM s UNION ALL (SELECT b FROM s UNION ALL SELECT a FROM s LIMIT 2)", 1, 70, "LIMIT"),
        ("SELECT row_number() OVER (ORDER BY a) FROM s", 1, 8, "row_number() OVER (ORDER BY a"),
        ("SELECT a,\n histogram_numeric(b, 3) FROM s", 2, 2, "histogram_numeric"),
        ("SELECT count_min_sketch(a, 0.1, 0.9, 1) FROM s", 1, 8, "count_min_sketch"),
        ("SELECT sum(b) OVER () AS t FROM (SELECT b FROM s) AS d", 1, 8, "sum(b) OVER () AS t"),
        (
            "SELECT a FROM s JOIN (SELECT lag(b) OVER (ORDER BY b) AS b FROM t) AS d ON a = d.b",
            1,
            30,
            "lag(b) OVER (ORDER BY b) AS b FROM t) AS d",
        ),
    ],
)
def test_what_only_tables_can_be_asked_is_refused_over_streams(text: str, line: int, column: int, found: str) -> None:
    with pytest.raises(UnsupportedSqlError) as caught:
        draft_of(text, STREAM_AND_TABLE)
    assert caught.value.position == Position(line, column)
    assert caught.value.found == found
    assert caught.value.hint


STREAM_AND_TABLE = catalog_of(
    "CREATE STREAM s (a INT, b INT, x ARRAY<INT>, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'other');"
    "CREATE TABLE t (b INT) AT us WITH ('connector' = 'other');"
)
