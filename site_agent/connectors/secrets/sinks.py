"""Sinks with secrets; see `site_agent.connectors.secrets.sources`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from site_agent.connectors.secrets.sources import redacted
from site_agent.connectors.secrets.values import Secrets
from site_agent.connectors.sinks import EncodedFile, RollPolicy, SinkCommit, SinkConnector, SinkWriter


class SecretSink:
    """A sink whose options are resolved each time it is opened."""

    def __init__(self, sink: SinkConnector, secrets: Secrets) -> None:
        self.name = sink.name
        self.fixed_options = sink.fixed_options
        self._sink = sink
        self._secrets = secrets

    def policy(self, options: Mapping[str, str]) -> RollPolicy:
        """See `SinkConnector.policy`."""
        with redacted(self._secrets):
            return self._sink.policy(self._secrets.resolved(options))

    def open(self, options: Mapping[str, str], query_id: str) -> SinkWriter:
        """Raises ConnectorError as the sink does, and where a secret cannot be used."""
        with redacted(self._secrets):
            resolved = self._secrets.resolved(options)
            writer = self._sink.open(resolved, query_id)
        return writer if resolved is options else _SecretWriter(writer, self._secrets)


class _SecretWriter:
    """See `SinkWriter`."""

    def __init__(self, writer: SinkWriter, secrets: Secrets) -> None:
        self._writer = writer
        self._secrets = secrets

    def prepare(self) -> None:
        with redacted(self._secrets):
            self._writer.prepare()

    def encode(self, commit: SinkCommit, rows: pa.Table) -> Sequence[EncodedFile]:
        with redacted(self._secrets):
            return self._writer.encode(commit, rows)

    def write(self, commit: SinkCommit, files: Sequence[EncodedFile]) -> int:
        with redacted(self._secrets):
            return self._writer.write(commit, files)

    def close(self) -> None:
        with redacted(self._secrets):
            self._writer.close()
