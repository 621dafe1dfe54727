"""Texts of extreme sizes and depths: refused or read, with a place, in bounded time; the limit is the suite's."""

from __future__ import annotations

import pytest

from planner.sql import parse_script
from tests.unit.planner.test_robustness import answer, submit

pytestmark = pytest.mark.timeout(60)

DIGITS = "9" * 5_000
DIGITS_BEHIND = ("LIMIT", "OFFSET", "GROUP BY", "ORDER BY", "WHERE weight <")

EXTREMES = {
    "semicolons": ";" * 300_000,
    "an open string after much": "a " * 150_000 + "'",
    "open comments": "/*" * 400_000,
    "a long word": "SELECT " + "x" * 900_000,
    "a chain of operators": "SELECT " + "1+" * 32_000 + "1 FROM clicks",
    "NOT NOT": "SELECT " + "NOT " * 15_000 + "ms FROM clicks",
    "minus minus": "SELECT " + "- " * 30_000 + "ms FROM clicks",
    "dots": "SELECT " + "a." * 30_000 + "b FROM clicks",
    "columns": "SELECT " + "ms, " * 15_000 + "ms FROM clicks",
    "alternatives": f"SELECT ms FROM clicks WHERE ms IN ({','.join(map(str, range(11_000)))})",
    "columns as alternatives": f"SELECT page FROM pages WHERE page IN ({', '.join(['page'] * 10_000)})",
    "joins": "SELECT 1 FROM clicks " + "JOIN clicks " * 5_000,
    "unions": "SELECT 1 FROM clicks " + "UNION ALL SELECT 1 FROM clicks " * 2_000,
    "IS NULL IS NULL": "SELECT ms FROM clicks WHERE ms " + "IS NULL " * 8_000,
    "casts": "SELECT ms" + "::INT" * 13_000 + " FROM clicks",
    "nested types": "CREATE TABLE t (a " + "ARRAY<" * 9_000 + "INT" + ">" * 9_000 + ")",
    "brackets": "SELECT a" + "[1]" * 20_000 + " FROM clicks",
    "open brackets": "SELECT " + "(" * 60_000,
    "lambdas": "SELECT f(" + "x->" * 15_000 + "x) FROM clicks",
    "CASE in CASE": "SELECT " + "CASE WHEN ms > 1 THEN " * 29 + "1" + " END" * 29 + " FROM clicks",
    "hints": "SELECT /*+ " + "A(b) " * 10_000 + "*/ ms FROM clicks",
    "backslashes": "SELECT '" + "\\" * 60_001 + "'",
    "digits": "SELECT " + "9" * 60_000 + " FROM clicks",
    **{f"digits behind {clause}": f"SELECT page FROM pages {clause} {DIGITS}" for clause in DIGITS_BEHIND},
    **{
        f"digits in {call}": f"SELECT {call} AS x FROM clicks GROUP BY window(ts, '10 seconds')"
        for call in (f"percentile_approx(ms, 0.5, {'9' * 99})", "approx_count_distinct(ms, 1e-200)")
    },
    "digits of a rank": f"SELECT ms FROM clicks QUALIFY "
    f"row_number() OVER (PARTITION BY window ORDER BY ms) <= {DIGITS}",
    "digits of a duration": "CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts) AT us "
    f"WITH ('connector' = 'push', 'idle_timeout' = '{'9' * 60_000}')",
    "digits of a type": f"CREATE TABLE t (a DECIMAL({DIGITS})) AT us WITH ('connector' = 'other')",
    **{f"{name} in {name}": f"SELECT {name * 28}1{')' * 28} AS x FROM clicks" for name in ("date(", "struct(", "int(")},
    "open types": "SELECT CAST(1 AS " + "MAP<INT," * 1_000 + " FROM clicks",
    "exponents": "SELECT 1e999999999 FROM clicks",
    "common tables": "WITH a AS (SELECT 1) " * 3_000,
    "NUL": "SELECT \x00 FROM clicks",
    "one half of a pair": "SELECT '\ud800' FROM clicks",
    "right to left": "SELECT \u202e ms FROM clicks",
    "lines": "\n" * 900_000 + "SELECT",
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_are_refused_or_read(name: str) -> None:
    submit(EXTREMES[name])


def test_what_can_be_read_in_many_ways_is_refused_after_some_of_them() -> None:
    """The parser tries each level in two ways, and so took twice the time for each; what counts are its steps."""
    error = answer(f"SELECT {'date(' * 28}ts{')' * 28} AS x FROM clicks")
    assert error is not None
    assert error.message == "the statement could be read in too many ways"
    assert answer(f"SELECT {'date(' * 10}ts{')' * 10} AS x FROM clicks") is None


@pytest.mark.parametrize(("joins", "possible"), [(64, True), (65, False), (1_000, False)])
def test_joins_of_one_select(joins: int, possible: bool) -> None:
    joined = " ".join(f"JOIN pages AS p{i} ON c.page = p{i}.page" for i in range(joins))
    error = answer(f"SELECT c.page FROM clicks AS c {joined}")
    assert (error and error.message) == (None if possible else f"a SELECT with {joins} joins is not possible")


def test_the_longest_numbers() -> None:
    assert answer(f"SELECT ms FROM clicks WHERE ms < 0.{'1' * 37} OR ms > {'9' * 38} OR ms > 1e300") is None


def test_ten_thousand_statements_have_their_places() -> None:
    statements = parse_script("SELECT ms FROM clicks;\n" * 10_000)
    assert [s.position.line for s in statements] == list(range(1, 10_001))
