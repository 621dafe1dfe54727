"""Every example of docs/sql.md does what its fence says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from planner.estimate.rates import DEFAULT_ROWS_PER_S, GROUPS_PER_KEY
from planner.functions.aggregates import MERGEABLE
from planner.functions.traits import RANKS
from planner.planning import draft_query
from planner.relations.catalog import Catalog, Function
from planner.rules.sinks import find_sink, with_sink
from planner.sql import CreateFunction, CreateRelation, CreateView, Explain, InsertInto, SelectQuery, parse_script
from planner.sql.dialect import MAX_CHAIN, MAX_DEPTH, MAX_STATEMENT_CHARS
from planner.sql.pyfunctions import checked_function
from planner.sql.types import ALIASES, SIMPLE_TYPES
from planner.values.errors import PlannerError
from tests.unit.planner.build import known_names, view_of

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"^```sql (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
CODES = {leaf.code for leaf in PlannerError.__subclasses__()}


@dataclass(frozen=True)
class Example:
    line: int
    outcome: str
    text: str


EXAMPLES = [Example(PAGE[: m.start()].count("\n") + 1, m.group(1), m.group(2)) for m in _FENCE.finditer(PAGE)]


def run(text: str, catalog: Catalog) -> Catalog:
    """The catalog after a script; queries are planned as far as that is possible without Spark."""
    relations, functions = dict(catalog.relations), dict(catalog.functions)
    for statement in parse_script(text):
        if isinstance(statement, CreateFunction):
            made = _function(statement)
            functions[made.name] = made
        elif isinstance(statement, CreateRelation):
            relations[statement.relation.name.lower()] = statement.relation
        elif isinstance(statement, CreateView):
            relations[statement.name.lower()] = view_of(statement, Catalog(relations, functions))
        elif isinstance(statement, SelectQuery):
            known_names(draft_query(statement, Catalog(relations, functions)))
        elif isinstance(statement, Explain | InsertInto):
            draft = known_names(draft_query(statement.query, Catalog(relations, functions)))
            if statement.target is not None:
                stages = (replace(stage, columns=stage.columns or draft.columns) for stage in draft.stages)
                draft = replace(draft, stages=tuple(stages))
                with_sink(draft, statement.target, find_sink(statement.target, Catalog(relations)))
    return Catalog(relations, functions)


def _function(statement: CreateFunction) -> Function:
    """With the text of the module that the page has."""
    definition = Function(
        statement.name,
        statement.parameters,
        statement.returns,
        statement.entry,
        statement.file,
        MODULES[statement.file],
    )
    try:
        return checked_function(definition)
    except PlannerError as error:
        error.position = statement.position
        raise


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
