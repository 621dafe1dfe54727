"""`files`: CSV, JSON lines and Parquet at a site, followed as files arrive, or replayed by event time."""

from __future__ import annotations

from collections.abc import Mapping

from site_agent.connectors import Source, SourceContext, Table
from site_agent.connectors.files_follow import FollowSource
from site_agent.connectors.files_listing import complete_files
from site_agent.connectors.files_options import (
    FORMAT,
    MODE,
    PATTERN,
    REPLAY,
    check_options,
    check_table_options,
    path_of,
    reader_options,
)
from site_agent.connectors.files_prepared import PreparedFiles, Preparer
from site_agent.connectors.files_replay import ReplaySource
from site_agent.engine import FilesScan, Scan
from site_agent.errors import ConnectorError


class FilesTable:
    """All files that are there when the table is read."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context

    def scan(self) -> Scan:
        """Raises ConnectorError when there is no file."""
        context = self._context
        path = path_of(context.options)
        files = complete_files(path, PATTERN.of(context.options))
        if not files:
            raise ConnectorError(
                f"table {context.relation}: {path} has no file that matches {PATTERN.of(context.options)!r}"
            )
        return FilesScan(
            format=FORMAT.of(context.options),
            paths=tuple(sorted(f.path for f in files)),
            columns=context.columns,
            read_columns=context.read_columns,
            options=reader_options(context.options),
        )


class FilesConnector:
    """See docs/connectors.md."""

    name = "files"

    def __init__(self, preparer: Preparer) -> None:
        self._prepared = PreparedFiles(preparer)

    def check(self, options: Mapping[str, str]) -> None:
        """See `Connector.check`."""
        check_options(options)

    def open_source(self, context: SourceContext) -> Source:
        """Raises ConnectorError when an option is wrong."""
        check_options(context.options)
        if MODE.of(context.options) == REPLAY:
            return ReplaySource(context, self._prepared)
        return FollowSource(context)

    def open_table(self, context: SourceContext) -> Table:
        """Raises ConnectorError when an option is wrong or belongs to streams."""
        check_table_options(context.options)
        return FilesTable(context)
