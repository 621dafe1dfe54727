"""The sinks there are."""

from __future__ import annotations

from collections.abc import Mapping

from site_agent.errors import ConnectorError
from site_agent.sinks import SinkConnector
from site_agent.sinks.parquet import ParquetSink

SINKS: Mapping[str, SinkConnector] = {sink.name: sink for sink in (ParquetSink(),)}


def find_sink(options: Mapping[str, str]) -> SinkConnector:
    """The sink that option `connector` names.

    Raises:
        ConnectorError: it names none, or one that does not exist.
    """
    name = options.get("connector", "")
    found = SINKS.get(name)
    if found is None:
        raise ConnectorError(f"no sink has the connector '{name}'", hint=f"connectors of sinks: {', '.join(SINKS)}")
    return found
