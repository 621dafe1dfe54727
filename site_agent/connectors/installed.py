"""Connectors of other installed packages, made for a site; `contract.installed` says how they are found.

A connector runs in the agent with all of the agent's rights: `--allow-path` does not bind it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

from contract.installed import DeclarationError, declared, installed, packages
from planner.relations.catalog import RelationKind
from site_agent.base.errors import ConnectorError
from site_agent.connectors.sinks import RollPolicy, SinkConnector, SinkWriter
from site_agent.connectors.sources import Connector, Source, SourceContext, Table

logger = logging.getLogger(__name__)

_READS = frozenset({RelationKind.STREAM, RelationKind.TABLE})
_WRITES = frozenset({RelationKind.SINK})
_METHODS = {_READS: ("open_source", "open_table"), _WRITES: ("policy", "open")}


class UnusableConnector:
    """Stands for a connector that is installed and cannot be used: whoever names it is told why."""

    fixed_options: tuple[str, ...] = ()

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def open_source(self, context: SourceContext) -> Source:
        """Raises ConnectorError, always, as all its methods do."""
        raise self._error()

    def open_table(self, context: SourceContext) -> Table:
        raise self._error()

    def policy(self, options: Mapping[str, str]) -> RollPolicy:
        raise self._error()

    def open(self, options: Mapping[str, str], query_id: str) -> SinkWriter:
        raise self._error()

    def _error(self) -> ConnectorError:
        return ConnectorError(
            f"connector '{self.name}' cannot be used: {self._reason}",
            hint="mend the package at this site, or remove it",
        )


def installed_connectors(found: Iterable[EntryPoint] | None = None) -> tuple[Connector, ...]:
    """The connectors of other packages that read.

    Args:
        found: the entry points; None: those that are installed.

    Returns:
        One for each name. One that cannot be made, or whose name two packages have, gives an `UnusableConnector`. The
        log says so.
    """
    return tuple(_made(_READS, found))


def installed_sinks(found: Iterable[EntryPoint] | None = None) -> tuple[SinkConnector, ...]:
    """The connectors of other packages that write, as `installed_connectors` gives those that read."""
    return tuple(_made(_WRITES, found))


def _made(kinds: frozenset[RelationKind], found: Iterable[EntryPoint] | None) -> Iterator[Any]:
    for name, entries in installed(found).items():
        connector = _connector(name, entries, kinds)
        if isinstance(connector, UnusableConnector):
            logger.warning("connector=%s of %s cannot be used", name, packages(entries))
        elif connector is not None:
            logger.info("connector=%s of %s", name, packages(entries))
        if connector is not None:
            yield connector


def _connector(name: str, entries: Sequence[EntryPoint], kinds: frozenset[RelationKind]) -> object | None:
    """None: it is not for relations of these kinds. Without a declaration, a connector reads."""
    package = packages(entries)
    try:
        module = declared(name, entries)
        roles = _READS if module is None else module.SPEC.roles
        if not roles & kinds:
            return None
        connector: object = entries[0].load()() if module is None else module.connector()
    except DeclarationError as error:
        return UnusableConnector(name, str(error))
    except Exception as error:  # noqa: BLE001 - the code is of others, and may raise whatever it likes
        return UnusableConnector(name, f"{package} failed with {type(error).__name__}: {error}")
    lacking = [method for method in _METHODS[kinds] if not callable(getattr(connector, method, None))]
    if lacking:
        return UnusableConnector(name, f"that of {package} has no {', '.join(lacking)}")
    if getattr(connector, "name", None) != name:
        return UnusableConnector(name, f"that of {package} calls itself {getattr(connector, 'name', None)!r}")
    return connector
