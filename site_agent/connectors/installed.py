"""Connectors of other installed packages, by their entry points `selat.connectors`.

    [project.entry-points."selat.connectors"]
    lines = "selat_connector_lines:LinesConnector"

What an entry point names is called without arguments and gives a `Connector` of the entry point's name. It runs in the
agent with all of the agent's rights: `--allow-path` does not bind it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from site_agent.base.errors import ConnectorError
from site_agent.connectors.sources import Connector, Source, SourceContext, Table

logger = logging.getLogger(__name__)

GROUP = "selat.connectors"
_METHODS = ("check", "open_source", "open_table")


class UnusableConnector:
    """Stands for a connector that is installed and cannot be used: whoever names it is told why."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def check(self, options: Mapping[str, str]) -> None:
        """Raises ConnectorError, always, as all its methods do."""
        raise self._error()

    def open_source(self, context: SourceContext) -> Source:
        raise self._error()

    def open_table(self, context: SourceContext) -> Table:
        raise self._error()

    def _error(self) -> ConnectorError:
        return ConnectorError(
            f"connector '{self.name}' cannot be used: {self._reason}",
            hint="mend the package at this site, or remove it",
        )


def installed_connectors(known: Collection[str], found: Iterable[EntryPoint] | None = None) -> tuple[Connector, ...]:
    """The connectors of other packages.

    Args:
        known: names that are taken, by connectors of our own.
        found: the entry points; None: those of the group that are installed.

    Returns:
        One for each name. One that cannot be loaded, or whose name two packages have, gives an `UnusableConnector`; one
        that has a name of ours is left out. The log says so.
    """
    by_name: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP) if found is None else found:
        by_name.setdefault(entry.name, []).append(entry)
    made = []
    for name, entries in sorted(by_name.items()):
        packages = ", ".join(sorted(map(_package, entries)))
        if name in known:
            logger.warning("connector=%s of %s is left out: the name is taken", name, packages)
            continue
        connector = _loaded(entries[0]) if len(entries) == 1 else UnusableConnector(name, f"{packages} have it")
        if isinstance(connector, UnusableConnector):
            logger.warning("connector=%s of %s cannot be used", name, packages)
        else:
            logger.info("connector=%s of %s", name, packages)
        made.append(connector)
    return tuple(made)


def _loaded(entry: EntryPoint) -> Connector:
    package = _package(entry)
    try:
        connector: Connector = entry.load()()
    except Exception as error:  # noqa: BLE001 - the code is of others, and may raise whatever it likes
        return UnusableConnector(entry.name, f"{package} failed with {type(error).__name__}: {error}")
    lacking = [name for name in _METHODS if not callable(getattr(connector, name, None))]
    if lacking:
        return UnusableConnector(entry.name, f"that of {package} has no {', '.join(lacking)}")
    if getattr(connector, "name", None) != entry.name:
        return UnusableConnector(entry.name, f"that of {package} calls itself {getattr(connector, 'name', None)!r}")
    return connector


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
