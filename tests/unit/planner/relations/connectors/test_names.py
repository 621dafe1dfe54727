"""Connectors are known by name in their declarations and their own modules alone: all others ask for traits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.relations.connectors.table import OWN

ROOT = Path(__file__).parents[5]
SHIPPED = ("planner", "master", "site_agent", "contract", "selat", "machine", "wire")
EXCEPTIONS = {
    ("planner/relations/connectors/files.py", "parquet"): "a format of files",
    ("site_agent/connectors/parquet/sink.py", "files"): "a key of manifests",
    ("site_agent/engine/kept/slots.py", "parquet"): "a format that Spark reads",
    ("site_agent/engine/scans/parts.py", "parquet"): "a format that Spark reads",
    ("site_agent/engine/spark.py", "parquet"): "a format that Spark reads",
    ("site_agent/engine/warm.py", "parquet"): "a format that Spark reads",
    ("selat/cli/__init__.py", "push"): "a command",
    ("selat/cli/commands/push_files.py", "parquet"): "a format of files",
    ("selat/cli/commands/push.py", "push"): "help that shows what to declare",
    ("selat/client/push.py", "push"): "a hint that shows what to declare",
    ("site_agent/ingest/streams.py", "push"): "a hint that shows what to declare",
    ("planner/bind/derived.py", "files"): "a hint that shows what to declare",
    ("planner/rules/sinks.py", "parquet"): "a hint that shows what to declare",
}


def texts(path: Path) -> Iterator[str]:
    """The module's texts but its docstrings."""
    tree = ast.parse(path.read_text())
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def is_of(path: str, name: str) -> bool:
    """Whether the module is the connector's declaration, or part of it."""
    parts = Path(path).with_suffix("").parts
    return name in parts and parts[:2] in (("planner", "relations"), ("site_agent", "connectors"))


@pytest.mark.parametrize("name", OWN)
def test_a_connector_is_named_where_it_is_declared_and_where_it_is(name: str) -> None:
    named = re.compile(rf"{name}|.*'{name}'.*", re.DOTALL)
    found = {
        path.relative_to(ROOT).as_posix()
        for package in SHIPPED
        for path in (ROOT / package).rglob("*.py")
        if "v1" not in path.parts and any(map(named.fullmatch, texts(path)))
    }
    others = {path for path in found if not is_of(path, name)}
    assert others == {path for path, other in EXCEPTIONS if other == name}
