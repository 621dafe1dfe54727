"""The sinks there are."""

from __future__ import annotations

from collections.abc import Mapping

from site_agent.base.errors import ConnectorError
from site_agent.base.files import Files
from site_agent.connectors.parquet.sink import ParquetSink
from site_agent.connectors.paths import ANYWHERE, AllowedPaths
from site_agent.connectors.secrets.sinks import SecretSink
from site_agent.connectors.secrets.values import NO_SECRETS, Secrets
from site_agent.connectors.sinks import SinkConnector


def make_sinks(
    files: Files | None = None, *, allowed: AllowedPaths = ANYWHERE, secrets: Secrets = NO_SECRETS
) -> Mapping[str, SinkConnector]:
    """All sinks of one site by name. They write through `files`, below the `allowed` paths; `secrets` has what options
    refer to.
    """
    return {sink.name: SecretSink(sink, secrets) for sink in (ParquetSink(files, allowed),)}


SINKS = make_sinks()
"""Sinks that may write to any path."""


def find_sink(options: Mapping[str, str], sinks: Mapping[str, SinkConnector] = SINKS) -> SinkConnector:
    """The sink that option `connector` names.

    Raises:
        ConnectorError: it names none, or one that does not exist.
    """
    name = options.get("connector", "")
    found = sinks.get(name)
    if found is None:
        raise ConnectorError(f"no sink has the connector '{name}'", hint=f"connectors of sinks: {', '.join(sinks)}")
    return found
