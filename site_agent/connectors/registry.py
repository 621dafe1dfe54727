"""The connectors that there are: those that read, and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from planner.relations.options import CONNECTOR
from site_agent.base.errors import ConnectorError
from site_agent.base.files import Files
from site_agent.connectors.files.connector import FilesConnector
from site_agent.connectors.files.prepared import Preparer
from site_agent.connectors.generator.connector import GeneratorConnector
from site_agent.connectors.installed import installed_connectors
from site_agent.connectors.parquet.sink import ParquetSink
from site_agent.connectors.paths import ANYWHERE, AllowedPaths
from site_agent.connectors.push import FindLog, PushConnector
from site_agent.connectors.secrets.sinks import SecretSink
from site_agent.connectors.secrets.sources import SecretConnector
from site_agent.connectors.secrets.values import NO_SECRETS, Secrets
from site_agent.connectors.sinks import SinkConnector
from site_agent.connectors.sources import Connector


def make_connectors(
    preparer: Preparer,
    find_log: FindLog | None = None,
    *,
    allowed: AllowedPaths = ANYWHERE,
    secrets: Secrets = NO_SECRETS,
) -> Mapping[str, Connector]:
    """All connectors of one site by name, those of other installed packages included.

    `preparer` sorts files for replays, `find_log` knows the logs of pushed rows (None: nobody can push to the site),
    `allowed` says where files may be, `secrets` has what options refer to.
    """
    pushed = (PushConnector(find_log),) if find_log else ()
    own: tuple[Connector, ...] = (FilesConnector(preparer, allowed), GeneratorConnector(), *pushed)
    others = installed_connectors()
    return {c.name: SecretConnector(c, secrets) for c in (*own, *others)}


def find_connector(connectors: Mapping[str, Connector], options: Mapping[str, str]) -> Connector:
    """The connector that option `connector` names.

    Raises:
        ConnectorError: it names none, or one that does not exist.
    """
    name = options.get(CONNECTOR, "")
    found = connectors.get(name)
    if found is not None:
        return found
    known = ", ".join(sorted(connectors))
    if not name:
        raise ConnectorError("option 'connector' is missing", hint=f"connectors are {known}")
    close = get_close_matches(name, list(connectors), n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise ConnectorError(f"there is no connector '{name}'", hint=f"{hint}connectors are {known}")


def make_sinks(
    files: Files | None = None,
    *,
    allowed: AllowedPaths = ANYWHERE,
    secrets: Secrets = NO_SECRETS,
    others: Iterable[SinkConnector] = (),
) -> Mapping[str, SinkConnector]:
    """All sinks of one site by name. Selat's own write through `files`, below the `allowed` paths; `secrets` has what
    options refer to, `others` are those of other packages.
    """
    return {sink.name: SecretSink(sink, secrets) for sink in (ParquetSink(files, allowed), *others)}


SINKS = make_sinks()
"""Selat's own sinks, which may write to any path."""


def find_sink(options: Mapping[str, str], sinks: Mapping[str, SinkConnector] = SINKS) -> SinkConnector:
    """The sink that option `connector` names.

    Raises:
        ConnectorError: it names none, or one that does not exist.
    """
    name = options.get(CONNECTOR, "")
    found = sinks.get(name)
    if found is None:
        raise ConnectorError(f"no sink has the connector '{name}'", hint=f"connectors of sinks: {', '.join(sinks)}")
    return found
