"""Connectors of other packages: what is loaded, and what is said of those that cannot be."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from contract.installed import GROUP
from planner.relations.catalog import RelationKind
from planner.relations.connectors import table
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option, parse_positive_int
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.connector import GeneratorConnector
from site_agent.connectors.installed import installed_connectors, installed_sinks
from site_agent.connectors.parquet.sink import ParquetSink
from site_agent.connectors.sources import Source, SourceContext
from tests.unit.site_agent.connectors.contexts import source_context

MODULE = "selat_test_connectors"


class Mine(GeneratorConnector):
    name = "mine"


SIZE = Option("size", parse_positive_int, "a whole number", 1)
SPEC = ConnectorSpec("declared", frozenset({RelationKind.STREAM}), (SIZE,))


class Declared(GeneratorConnector):
    name = SPEC.name

    def open_source(self, context: SourceContext) -> Source:
        context.check(SPEC, RelationKind.STREAM)
        return super().open_source(context)


class Writes(ParquetSink):
    name = SPEC.name


class Lacking:
    name = "lacking"


def broken() -> None:
    raise RuntimeError("no licence")


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType(MODULE)
    made.__dict__.update(Mine=Mine, Lacking=Lacking, broken=broken, SPEC=SPEC, connector=Declared)
    monkeypatch.setitem(sys.modules, MODULE, made)
    monkeypatch.setattr(table, "CONNECTORS", dict(table.OWN))


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value if ":" in value or value == MODULE else f"{MODULE}:{value}", GROUP)


def test_what_an_entry_point_names_is_made_and_has_its_name() -> None:
    (made,) = installed_connectors([entry("mine", "Mine")])
    assert isinstance(made, Mine)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("gone", "no_such_module:X", "failed with ModuleNotFoundError: No module named 'no_such_module'"),
        ("gone", "Gone", "failed with AttributeError"),
        ("broken", "broken", "failed with RuntimeError: no licence"),
        ("lacking", "Lacking", "has no open_source, open_table"),
        ("yours", "Mine", "calls itself 'mine'"),
    ],
)
def test_one_that_cannot_be_used_says_why_when_it_is_named(tmp_path: Path, name: str, value: str, reason: str) -> None:
    (made,) = installed_connectors([entry(name, value)])
    assert made.name == name
    with pytest.raises(ConnectorError, match=f"connector '{name}' cannot be used: .*{reason}"):
        made.open_source(source_context(tmp_path, {}))


def test_a_name_that_two_packages_have_is_neithers(tmp_path: Path) -> None:
    (made,) = installed_connectors([entry("mine", "Mine"), entry("mine", "other:Mine")])
    with pytest.raises(ConnectorError, match="other:Mine, selat_test_connectors:Mine have it"):
        made.open_source(source_context(tmp_path, {}))


def test_a_module_declares_its_connector_and_makes_it(tmp_path: Path) -> None:
    (made,) = installed_connectors([entry("declared", MODULE)])
    assert isinstance(made, Declared)
    with pytest.raises(ConnectorError, match="there is no option 'siez'"):
        made.open_source(source_context(tmp_path, {"connector": "declared", "siez": "1"}))


def test_a_declaration_whose_connector_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[MODULE], "connector", broken)
    (made,) = installed_connectors([entry("declared", MODULE)])
    with pytest.raises(ConnectorError, match="failed with RuntimeError: no licence"):
        made.open_table(source_context(tmp_path, {}))


def test_a_connector_is_made_for_what_it_is_declared_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [entry("declared", MODULE), entry("mine", "Mine")]
    assert installed_sinks(found) == ()
    monkeypatch.setattr(sys.modules[MODULE], "SPEC", replace(SPEC, roles=frozenset({RelationKind.SINK})))
    monkeypatch.setattr(sys.modules[MODULE], "connector", Writes)
    assert [type(made) for made in installed_connectors(found)] == [Mine]
    assert [type(made) for made in installed_sinks(found)] == [Writes]


def test_a_sink_that_cannot_be_used_says_why_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[MODULE], "SPEC", replace(SPEC, roles=frozenset({RelationKind.SINK})))
    (made,) = installed_sinks([entry("declared", MODULE)])
    with pytest.raises(ConnectorError, match=r"cannot be used: .*has no policy, open"):
        made.policy({})
