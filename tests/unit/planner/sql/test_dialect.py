"""What goes through the dialect must come out meaning the same."""

from __future__ import annotations

import pytest

from planner.sql.dialect import name_node, parse_select_tree, render
from planner.sql.source import Source

UNCHANGED = [
    *("a + b * c", "(a + b) * c", "a - (b - c)", "a % 2", "a DIV 2", "-a", "~a", "a || b", "a & b | c ^ d"),
    *("a = b", "a <> b", "NOT a AND b", "a IN (1, 2)", "a BETWEEN 1 AND 2", "a LIKE 'x%'", "a LIKE 'x' ESCAPE '!'"),
    *("a RLIKE 'x'", "a LIKE ANY ('x', 'y')", "a IS NULL", "a IS DISTINCT FROM b", "1.5", "1e3", "'it\\'s'", "NULL"),
    *("array(1, 2)[0]", "map('a', 1)['a']", "x[0].y", "struct(a AS b, c)", "named_struct('a', 1)", "a.b.c"),
    *("to_timestamp(a)", "date_add(a, 1)", "dateadd(day, 1, ts)", "unix_timestamp(ts)", "nvl(a, b)", "log(a)"),
    *("date(ts)", "int(a)", "char(65)", "substring_index(a, '.', 1)", "element_at(a, 1)", "try_divide(a, b)"),
    *("CAST(a AS DECIMAL(10, 2))", "TRY_CAST(a AS INT)", "CAST(a AS ARRAY<INT>)", "EXTRACT(YEAR FROM ts)"),
    *("TRIM(BOTH 'x' FROM a)", "CASE WHEN a THEN 1 ELSE 2 END", "CASE a WHEN 1 THEN 2 END", "IF(a, b, c)"),
    *("TRANSFORM(a, x -> x + 1)", "aggregate(a, 0, (acc, x) -> acc + x)", "filter(a, x -> x.y > k)"),
    *(
        "count(*) FILTER(WHERE a > 1)",
        "window(ts, '10 seconds')",
        "`a b`",
        "`a``b`",
        "DATE_TRUNC(a)",
        "decode(a, 1, 'x')",
    ),
]
CHANGED = {
    "a <=> b": "a IS NOT DISTINCT FROM b",
    "a == b": "a = b",
    "!a": "NOT a",
    "a::int": "CAST(a AS INT)",
    "1L": "CAST(1 AS BIGINT)",
    "INTERVAL '10 seconds'": "INTERVAL '10' SECONDS",
    "timestamp '2020-01-01'": "CAST('2020-01-01' AS TIMESTAMP)",
    "substr(a, 1, 2)": "SUBSTRING(a, 1, 2)",
    "position('a' IN b)": "LOCATE('a', b)",
    "'it''s'": "'it\\'s'",
    '"text"': "'text'",
    "a /* why */ + b": "a + b",
}


@pytest.mark.parametrize(("text", "expected"), [*((text, text) for text in UNCHANGED), *CHANGED.items()])
def test_expressions_keep_their_meaning(text: str, expected: str) -> None:
    tree = parse_select_tree(Source(f"SELECT {text} FROM s"))
    assert render(tree) == f"SELECT {expected} FROM s"


@pytest.mark.parametrize(
    "keys", ["window(ts, '1 day')", "window(ts, '1 day'), k", "k, window(ts, '1 day')", "k, WINDOW(ts, '1 day'), l"]
)
def test_window_may_stand_anywhere_in_group_by(keys: str) -> None:
    text = f"SELECT count(*) FROM s GROUP BY {keys} HAVING count(*) > 1"
    assert render(parse_select_tree(Source(text))) == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a", "a"), ("a b", "`a b`"), ("end", "`end`"), ("1a", "`1a`"), ("é", "`é`"), ("a`b", "`a``b`")],
)
def test_names_are_quoted_where_needed(name: str, expected: str) -> None:
    assert render(name_node(name)) == expected
