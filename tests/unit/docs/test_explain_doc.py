"""docs/explain.md has the fields of the code."""

from __future__ import annotations

from pathlib import Path

from master.statements import analyze
from planner.text import explain
from planner.text.fields import markdown

DOCUMENT = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()


def test_the_tables_of_fields_are_those_of_the_code() -> None:
    assert markdown(explain.SECTIONS) in DOCUMENT
    assert markdown((analyze.TASKS, analyze.OPERATORS, analyze.LINKS)) in DOCUMENT
