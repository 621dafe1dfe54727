from __future__ import annotations

import pytest

from planner.sql.qualify import without_qualify
from planner.sql.source import Source
from planner.values.edits import edited

RANK = "QUALIFY rank() OVER (ORDER BY a) = 1"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"SELECT 'QUALIFY' AS a FROM s\n {RANK}", "SELECT 'QUALIFY' AS a FROM s"),
        ("SELECT a FROM s", "SELECT a FROM s"),
        (
            f"SELECT a FROM (SELECT a FROM s {RANK}) AS d WHERE a > 1",
            "SELECT a FROM (SELECT a FROM s ) AS d WHERE a > 1",
        ),
        (f"SELECT a FROM s {RANK} UNION ALL SELECT b FROM s", "SELECT a FROM s UNION ALL SELECT b FROM s"),
        (f"SELECT a FROM (SELECT a FROM s {RANK}) AS d {RANK}", "SELECT a FROM (SELECT a FROM s ) AS d"),
    ],
)
def test_every_qualify_is_left_out(text: str, left: str) -> None:
    assert edited(text, without_qualify(Source(text))) == left
