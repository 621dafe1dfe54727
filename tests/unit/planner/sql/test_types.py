from __future__ import annotations

import pytest

from planner.sql.cursor import Cursor
from planner.sql.dialect import tokenize
from planner.sql.source import Source
from planner.sql.types import parse_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", "INT"),
        ("Integer", "INT"),
        ("long", "BIGINT"),
        ("real", "FLOAT"),
        ("decimal", "DECIMAL(10,0)"),
        ("NUMERIC(12)", "DECIMAL(12,0)"),
        ("dec ( 10 , 2 )", "DECIMAL(10,2)"),
        ("array<array<int>>", "ARRAY<ARRAY<INT>>"),
        ("map<string, array<map<int,int>>>", "MAP<STRING,ARRAY<MAP<INT,INT>>>"),
        ("struct<a: int, `b c` string>", "STRUCT<a:INT,`b c`:STRING>"),
        ("timestamp", "TIMESTAMP"),
    ],
)
def test_types_are_normalised(text: str, expected: str) -> None:
    source = Source(text)
    cursor = Cursor(tokenize(source), source)
    assert parse_type(cursor) == expected
    cursor.finish()
    # What was normalised parses to itself.
    again = Source(expected)
    assert parse_type(Cursor(tokenize(again), again)) == expected
