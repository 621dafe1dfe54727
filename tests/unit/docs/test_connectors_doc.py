"""docs/connectors.md: its statements are accepted, and its tables of options are those of the declarations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.connector_lines import selat_connector_lines
from examples.connector_sqlite import selat_connector_sqlite
from planner.relations.connectors.common import IDLE_TIMEOUT
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.connectors.table import CONNECTORS, OWN
from planner.sql import CreateRelation, parse_script

PAGE = (Path(__file__).parents[3] / "docs" / "connectors.md").read_text()
_ROW = re.compile(r"^\| `([^`]+)` \|(.*?)\| (.*) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")

Row = tuple[str, str, str]
"""Name, default and meaning."""


def documented(section: str) -> list[Row]:
    """The rows of the tables of options, without links."""
    tables = re.findall(
        r"^\| option[^|]* \| default \| meaning \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", section, re.MULTILINE
    )
    rows = [row for table in tables for row in _ROW.findall(_LINK.sub(r"\1", table))]
    return [(name, default.strip(), meaning) for name, default, meaning in rows]


def declared(spec: ConnectorSpec) -> list[Row]:
    """What the declaration says, as documentation shows it."""
    return [(option.name, option.shown, option.summary) for option in spec.options if option != IDLE_TIMEOUT]


def section(name: str) -> str:
    return PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("spec", OWN.values(), ids=OWN)
def test_the_tables_of_options_are_the_declarations(spec: ConnectorSpec) -> None:
    assert sorted(documented(section(spec.name))) == sorted(declared(spec))


def test_the_options_of_all_that_read_are_those_of_the_code() -> None:
    rows = {name: rest for name, *rest in documented(PAGE.partition("\n## ")[0])}
    assert rows.pop("connector")
    assert rows == {IDLE_TIMEOUT.name: [IDLE_TIMEOUT.shown, IDLE_TIMEOUT.summary]}


@pytest.mark.parametrize("spec", OWN.values(), ids=OWN)
def test_a_default_that_is_shown_is_the_default(spec: ConnectorSpec) -> None:
    for option in spec.options:
        written = re.fullmatch("`(.+)`", option.shown)
        assert written is None or option.parse(written[1]) == option.default, option.name


def test_the_statements_on_the_page_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    for example in (selat_connector_lines, selat_connector_sqlite):
        monkeypatch.setitem(CONNECTORS, example.SPEC.name, example.SPEC)
    statements = [s for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) for s in parse_script(block)]
    assert all(isinstance(statement, CreateRelation) for statement in statements)
    assert len(statements) >= 8
