"""Connectors of other packages: what is loaded, and what is said of those that cannot be."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.connector import GeneratorConnector
from site_agent.connectors.installed import GROUP, installed_connectors

MODULE = "selat_test_connectors"


class Mine(GeneratorConnector):
    name = "mine"


class Lacking:
    name = "lacking"


def broken() -> None:
    raise RuntimeError("no licence")


@pytest.fixture(autouse=True)
def module() -> Iterator[None]:
    made = ModuleType(MODULE)
    made.__dict__.update(Mine=Mine, Lacking=Lacking, broken=broken)
    sys.modules[MODULE] = made
    yield
    del sys.modules[MODULE]


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value if ":" in value else f"{MODULE}:{value}", GROUP)


def test_what_an_entry_point_names_is_made_and_has_its_name() -> None:
    (made,) = installed_connectors({"files"}, [entry("mine", "Mine")])
    assert isinstance(made, Mine)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("gone", "no_such_module:X", "failed with ModuleNotFoundError: No module named 'no_such_module'"),
        ("gone", "Gone", "failed with AttributeError"),
        ("broken", "broken", "failed with RuntimeError: no licence"),
        ("lacking", "Lacking", "has no check, open_source, open_table"),
        ("yours", "Mine", "calls itself 'mine'"),
    ],
)
def test_one_that_cannot_be_used_says_why_when_it_is_named(name: str, value: str, reason: str) -> None:
    (made,) = installed_connectors((), [entry(name, value)])
    assert made.name == name
    with pytest.raises(ConnectorError, match=f"connector '{name}' cannot be used: .*{reason}"):
        made.check({})


def test_a_name_that_two_packages_have_is_neithers() -> None:
    (made,) = installed_connectors((), [entry("mine", "Mine"), entry("mine", "other:Mine")])
    with pytest.raises(ConnectorError, match="other:Mine, selat_test_connectors:Mine have it"):
        made.check({})


def test_a_name_of_ours_stays_ours(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert installed_connectors({"mine"}, [entry("mine", "Mine")]) == ()
    assert "connector=mine of selat_test_connectors:Mine is left out: the name is taken" in caplog.text
