"""Connectors of other installed packages, by their entry points `selat.connectors`.

    [project.entry-points."selat.connectors"]
    lines = "selat_connector_lines"

An entry point names a module that has the connector's declaration, `SPEC`, and a function `connector`, which imports
and makes what does the work. Every member loads the module, agents alone call the function. Without a declaration, an
entry point names what makes the connector, as in `selat_connector_lines.reader:LinesConnector`; only agents load it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.connectors.table import OWN, declare

logger = logging.getLogger(__name__)

GROUP = "selat.connectors"


class DeclarationError(Exception):
    """A connector of another package cannot be used; the text says why."""


def installed(found: Iterable[EntryPoint] | None = None) -> Mapping[str, Sequence[EntryPoint]]:
    """The entry points of each name, in the order of names.

    Args:
        found: the entry points; None: those of the group that are installed.

    Returns:
        Names of Selat's own connectors stay theirs: what else has one is left out, and the log says so.
    """
    by_name: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP) if found is None else found:
        by_name.setdefault(entry.name, []).append(entry)
    for name in sorted(by_name.keys() & OWN.keys()):
        logger.warning("connector=%s of %s is left out: the name is taken", name, packages(by_name[name]))
    return {name: entries for name, entries in sorted(by_name.items()) if name not in OWN}


def packages(entries: Iterable[EntryPoint]) -> str:
    """The names and versions of the packages of these entry points."""
    return ", ".join(sorted(map(_package, entries)))


def declared(name: str, entries: Sequence[EntryPoint]) -> ModuleType | None:
    """The module that the one entry point of a name names, whose declaration this process knows from now on.

    Returns:
        None: it names no module, so there is no declaration.

    Raises:
        DeclarationError: several packages have the name, the module cannot be loaded, or its declaration is none.
    """
    package = packages(entries)
    if len(entries) > 1:
        raise DeclarationError(f"{package} have it")
    (entry,) = entries
    if entry.attr:
        return None
    try:
        module: ModuleType = entry.load()
    except Exception as error:
        # The code is of others, and may raise whatever it likes.
        raise DeclarationError(f"{package} failed with {type(error).__name__}: {error}") from error
    spec = getattr(module, "SPEC", None)
    if not isinstance(spec, ConnectorSpec):
        raise DeclarationError(f"the module {entry.value} of {package} has no SPEC")
    if spec.name != name:
        raise DeclarationError(f"that of {package} calls itself {spec.name!r}")
    try:
        declare(spec)
    except ValueError as error:
        raise DeclarationError(f"that of {package} {error}") from error
    return module


def declare_installed(found: Iterable[EntryPoint] | None = None) -> None:
    """Let this process know all declarations that there are; the log names them, and those that cannot be used.

    Args:
        found: as `installed` takes them.
    """
    for name, entries in installed(found).items():
        try:
            module = declared(name, entries)
        except DeclarationError as error:
            logger.warning("connector=%s has no declaration here: %s", name, error)
        else:
            if module is not None:
                logger.info("connector=%s of %s is declared", name, packages(entries))


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
