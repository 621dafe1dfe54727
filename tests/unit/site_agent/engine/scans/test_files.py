from __future__ import annotations

import pytest

from site_agent.engine import MALFORMED_OPTION, Field, FilesScan
from site_agent.engine.scans.files import converted_columns, literal


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("/data/a b#1%.csv", "/data/a b#1%.csv"), ("/d/[a]*?{b}.csv", r"/d/\[a\]\*\?\{b\}.csv"), ("a\\b", r"a\\b")],
)
def test_characters_of_patterns_are_escaped(name: str, pattern: str) -> None:
    assert literal(name) == pattern


def test_a_column_is_converted_where_malformed_rows_have_to_be_found() -> None:
    scan = FilesScan("csv", (), (Field("a", "INT"), Field("b", "INT")), ())
    assert converted_columns(scan) == ()
    assert converted_columns(FilesScan("csv", (), scan.columns, (), {MALFORMED_OPTION: "bad"})) == ("a",)
    assert converted_columns(FilesScan("csv", (), scan.columns, ("b",), {MALFORMED_OPTION: "bad"})) == ("b",)
