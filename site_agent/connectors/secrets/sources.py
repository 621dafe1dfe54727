"""Connectors with secrets: they are given values where their options refer to them, and tell none of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from site_agent.base.errors import ConnectorError, SiteAgentError
from site_agent.connectors.secrets.values import Secrets
from site_agent.connectors.sources import Connector, Offset, Poll, ReadLimit, Source, SourceContext, Split, Table
from site_agent.engine import Scan

logger = logging.getLogger(__name__)


class SecretConnector:
    """A connector whose options are resolved each time it is opened: a task that was refused opens it anew."""

    def __init__(self, connector: Connector, secrets: Secrets) -> None:
        self.name = connector.name
        self._connector = connector
        self._secrets = secrets

    def open_source(self, context: SourceContext) -> Source:
        """Raises ConnectorError as the connector does, and where a secret cannot be used."""
        with redacted(self._secrets):
            options = self._secrets.resolved(context.options)
            source = self._connector.open_source(replace(context, options=options))
        return source if options is context.options else _SecretSource(source, self._secrets)

    def open_table(self, context: SourceContext) -> Table:
        """As `open_source`."""
        with redacted(self._secrets):
            options = self._secrets.resolved(context.options)
            table = self._connector.open_table(replace(context, options=options))
        return table if options is context.options else _SecretTable(table, self._secrets)


class _SecretSource:
    """See `Source`."""

    def __init__(self, source: Source, secrets: Secrets) -> None:
        self._source = source
        self._secrets = secrets

    def initial(self) -> Offset:
        with redacted(self._secrets):
            return self._source.initial()

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        with redacted(self._secrets):
            return self._source.poll(start, now=now, limit=limit)

    def scan(self, start: Offset, end: Offset) -> Scan:
        with redacted(self._secrets):
            return self._source.scan(start, end)

    def reconfigure(self, options: Mapping[str, str]) -> None:
        try:
            with redacted(self._secrets):
                self._source.reconfigure(self._secrets.resolved(options))
        except ConnectorError as error:
            logger.warning("options left as they are: %s", error.message)

    def close(self) -> None:
        with redacted(self._secrets):
            self._source.close()


class _SecretTable:
    """See `Table`."""

    def __init__(self, table: Table, secrets: Secrets) -> None:
        self._table = table
        self._secrets = secrets

    def scan(self, split: Split | None = None) -> Scan:
        with redacted(self._secrets):
            return self._table.scan(split)

    def splits(self, split_bytes: int) -> Sequence[Split]:
        with redacted(self._secrets):
            return self._table.splits(split_bytes)


@contextmanager
def redacted(secrets: Secrets) -> Iterator[None]:
    """A block whose errors have no value of a secret in their texts; another error is raised as a ConnectorError."""
    try:
        yield
    except SiteAgentError as error:
        error.message, error.hint = secrets.redact(error.message), secrets.redact(error.hint)
        error.ids = {name: secrets.redact(value) for name, value in error.ids.items()}
        error.args = (error.message,)
        if _tells(error.__cause__ or error.__context__, secrets):
            error.__cause__ = error.__context__ = None
        raise
    except Exception as error:
        if not _tells(error, secrets):
            raise
        if isinstance(error, OSError):
            # Who writes tries again for as long as the disk refuses.
            raise OSError(error.errno, secrets.redact(error.strerror or str(error))) from None
        raise ConnectorError(f"{type(error).__name__}: {secrets.redact(str(error))}") from None


def _tells(error: BaseException | None, secrets: Secrets) -> bool:
    """True when a value of a secret is in the error's text, or in those of its causes."""
    while error is not None:
        if secrets.redact(str(error)) != str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
