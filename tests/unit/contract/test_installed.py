"""Declarations of other packages: which are known, and what the log says of those that cannot be."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from contract.installed import GROUP, DeclarationError, declare_installed, declared, installed
from planner.relations.catalog import RelationKind
from planner.relations.connectors import table
from planner.relations.connectors.spec import ConnectorSpec, Traits
from planner.relations.options import Option
from planner.sql import parse_script
from planner.values.errors import InvalidDefinitionError, Position

MODULE = "selat_test_declarations"
MINE = ConnectorSpec("mine", frozenset({RelationKind.STREAM}), (Option("size", int, "a whole number", 1),))
STREAM = "CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts)\nAT us WITH ('connector' = 'mine', 'siez' = '1')"


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An installed module, and a process that knows no declarations but Selat's own."""
    made = ModuleType(MODULE)
    made.__dict__["SPEC"] = MINE
    monkeypatch.setitem(sys.modules, MODULE, made)
    monkeypatch.setattr(table, "CONNECTORS", dict(table.OWN))
    return made


def entry(name: str, value: str = MODULE) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_a_declared_option_is_refused_at_its_place() -> None:
    parse_script(STREAM)
    declare_installed([entry("mine")])
    with pytest.raises(InvalidDefinitionError, match="there is no option 'siez'") as caught:
        parse_script(STREAM)
    assert (caught.value.position, caught.value.hint) == (Position(2, 35), "did you mean 'size'?")


def test_what_is_no_module_has_no_declaration_and_is_not_loaded() -> None:
    assert declared("mine", [entry("mine", "no_such_module:Connector")]) is None
    assert table.CONNECTORS == table.OWN


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (None, "has no SPEC"),
        (replace(MINE, name="yours"), "calls itself 'yours'"),
        (replace(MINE, roles=frozenset({RelationKind.VIEW})), "is not for"),
        (replace(MINE, roles=frozenset()), "is not for"),
        (replace(MINE, traits=Traits(has_log=True)), "has a log"),
    ],
)
def test_what_is_no_declaration_says_why(module: ModuleType, spec: object, reason: str) -> None:
    module.__dict__["SPEC"] = spec
    with pytest.raises(DeclarationError, match=reason):
        declared("mine", [entry("mine")])
    assert table.CONNECTORS == table.OWN


def test_what_cannot_be_declared_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    found = [entry("a", "no_such_module"), entry("mine"), entry("z"), entry("z", "other")]
    with caplog.at_level(logging.WARNING):
        declare_installed(found)
    assert "connector=a has no declaration here: no_such_module failed with ModuleNotFoundError" in caplog.text
    assert f"connector=z has no declaration here: other, {MODULE} have it" in caplog.text
    assert table.CONNECTORS.keys() - table.OWN.keys() == {"mine"}


def test_a_name_of_ours_stays_ours(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert installed([entry("files")]) == {}
    assert f"connector=files of {MODULE} is left out: the name is taken" in caplog.text
