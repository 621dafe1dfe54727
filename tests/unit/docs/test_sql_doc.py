"""Every example of docs/sql.md does what its fence says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner.catalog import Catalog
from planner.errors import PlannerError
from planner.estimate import DEFAULT_ROWS_PER_S, GROUPS_PER_KEY
from planner.functions import MERGEABLE, RANKS
from planner.planning import draft_query
from planner.sql import CreateRelation, Explain, SelectQuery, parse_script
from planner.sql.dialect import MAX_CHAIN, MAX_DEPTH, MAX_STATEMENT_CHARS
from planner.sql.types import ALIASES, SIMPLE_TYPES

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"^```sql (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODES = {leaf.code for leaf in PlannerError.__subclasses__()}


@dataclass(frozen=True)
class Example:
    line: int
    outcome: str
    text: str


EXAMPLES = [Example(PAGE[: m.start()].count("\n") + 1, m.group(1), m.group(2)) for m in _FENCE.finditer(PAGE)]


def run(text: str, catalog: Catalog) -> Catalog:
    """The catalog after a script; queries are planned as far as that is possible without Spark."""
    relations = dict(catalog.relations)
    for statement in parse_script(text):
        if isinstance(statement, CreateRelation):
            relations[statement.relation.name.lower()] = statement.relation
        elif isinstance(statement, SelectQuery | Explain):
            query = statement.query if isinstance(statement, Explain) else statement
            draft_query(query, Catalog(relations))
    return Catalog(relations)


def declared() -> Catalog:
    catalog = Catalog()
    for example in EXAMPLES:
        if example.outcome == "accepted" and "CREATE" in example.text:
            catalog = run(example.text, catalog)
    return catalog


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line {example.line}")
def test_examples(example: Example) -> None:
    if example.outcome == "accepted":
        run(example.text, declared())
        return
    assert example.outcome in CODES
    with pytest.raises(PlannerError) as caught:
        run(example.text, declared())
    assert caught.value.code == example.outcome
    assert caught.value.position is not None
    assert caught.value.hint


def test_every_example_says_what_happens() -> None:
    assert len(EXAMPLES) > 30
    assert PAGE.count("```sql") == len(EXAMPLES)


def test_every_statement_of_the_table_has_an_example() -> None:
    text = "\n".join(example.text for example in EXAMPLES if example.outcome == "accepted")
    table = PAGE.partition("## Statements")[2].partition("### ")[0]
    statements = re.findall(r"^\| `([A-Z ]+)`", table, re.MULTILINE)
    assert len(statements) > 8
    for statement in statements:
        assert statement in text


@pytest.mark.parametrize("name", [*SIMPLE_TYPES, *ALIASES, *RANKS, *MERGEABLE])
def test_the_page_names_what_the_code_knows(name: str) -> None:
    assert name in PAGE


def test_the_pages_figures_are_those_of_the_code() -> None:
    assert f"{MAX_STATEMENT_CHARS:,}".replace(",", " ") in PAGE
    assert f"{MAX_DEPTH} nested brackets, or {MAX_CHAIN} operators" in PAGE
    assert f"else {DEFAULT_ROWS_PER_S:.0f} rows/s" in PAGE
    assert f"| {GROUPS_PER_KEY:.0f} for each key" in PAGE
