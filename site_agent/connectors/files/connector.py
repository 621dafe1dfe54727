"""`files`: CSV, JSON lines and Parquet at a site, followed as files arrive, or replayed by event time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from planner.relations.catalog import RelationKind
from planner.relations.connectors.files import (
    CSV_FORMAT,
    FILES,
    FORMAT,
    MODE,
    PARTITION_BY,
    PATH,
    REPLAY,
    pattern_of,
)
from planner.values.splits import NOTHING, FilePart
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.directories import Values, partition_values
from site_agent.connectors.files.follow import FollowSource
from site_agent.connectors.files.listing import FoundFile, complete_files
from site_agent.connectors.files.options import dialect_of, reader_options
from site_agent.connectors.files.prepared import PreparedFiles, Preparer
from site_agent.connectors.files.replay import ReplaySource
from site_agent.connectors.files.splits import Needed, splits_of
from site_agent.connectors.paths import ANYWHERE, AllowedPaths
from site_agent.connectors.sources import Source, SourceContext, Split, Table
from site_agent.engine import EmptyScan, FilesScan, Scan


class FilesTable:
    """All files that are there when the table is read."""

    def __init__(self, context: SourceContext, allowed: AllowedPaths) -> None:
        self._context = context
        self._allowed = allowed
        names = PARTITION_BY.of(context.options)
        self._partitioned_by = tuple(column for column in context.columns if column.name in names)

    def scan(self, split: Split | None = None) -> Scan:
        """See `Table.scan`. It is an error when there is no file."""
        context = self._context
        parts = split.parts if split is not None else ()
        if parts == (NOTHING,):
            return EmptyScan(tuple(column for column in context.columns if column.name in context.read_columns))
        self._allowed.check_files(part.path for part in parts)
        for part in parts:
            _verify(part)
        paths = tuple(dict.fromkeys(part.path for part in parts)) or self._all_paths()
        return FilesScan(
            format=FORMAT.of(context.options),
            paths=paths,
            columns=tuple(column for column in context.columns if column not in self._partitioned_by),
            read_columns=context.read_columns,
            options=reader_options(context.options),
            parts=parts,
            partitioned_by=self._partitioned_by,
            partitions=self._partitions(paths),
        )

    def splits(self, split_bytes: int) -> Sequence[Split]:
        """See `Table.splits`."""
        options = self._context.options
        dialect = dialect_of(options) if FORMAT.of(options) == CSV_FORMAT else None
        files = self._files()
        partitions = self._partitions(found.path for found in files)
        needed = Needed(self._context.needed, self._context.columns, self._partitioned_by, partitions)
        return splits_of(files, FORMAT.of(options), split_bytes, dialect, needed)

    def _partitions(self, paths: Iterable[str]) -> dict[str, Values]:
        """The values of the columns that the table is partitioned by, for each file."""
        columns, root = self._partitioned_by, PATH.of(self._context.options)
        return {path: partition_values(path, root, columns) for path in paths} if columns else {}

    def _files(self) -> Sequence[FoundFile]:
        options = self._context.options
        return sorted(
            complete_files(Path(PATH.of(options)), pattern_of(options), self._allowed), key=lambda found: found.path
        )

    def _all_paths(self) -> tuple[str, ...]:
        files, options = self._files(), self._context.options
        if not files:
            raise ConnectorError(
                f"table {self._context.relation}: {PATH.of(options)} has no file that matches {pattern_of(options)!r}"
            )
        return tuple(found.path for found in files)


class FilesConnector:
    """See docs/connectors.md."""

    name = FILES.name

    def __init__(self, preparer: Preparer, allowed: AllowedPaths = ANYWHERE) -> None:
        self._prepared = PreparedFiles(preparer, allowed)
        self._allowed = allowed

    def open_source(self, context: SourceContext) -> Source:
        """Raises ConnectorError when an option is wrong or the path is not allowed."""
        context.check(FILES, RelationKind.STREAM)
        self._allowed.check(PATH.of(context.options))
        if MODE.of(context.options) == REPLAY:
            return ReplaySource(context, self._prepared)
        return FollowSource(context, self._allowed)

    def open_table(self, context: SourceContext) -> Table:
        """Raises ConnectorError when an option is wrong or belongs to streams, or the path is not allowed."""
        context.check(FILES, RelationKind.TABLE)
        self._allowed.check(PATH.of(context.options))
        return FilesTable(context, self._allowed)


def _verify(part: FilePart) -> None:
    """Raises ConnectorError when the file is gone, or has become shorter."""
    hint = "files of a table must stay as they are while queries read them"
    try:
        size_bytes = Path(part.path).stat().st_size
    except OSError as error:
        raise ConnectorError(f"{part.path} was there when the query began: {error.strerror}", hint=hint) from error
    if size_bytes < part.offset + part.length:
        raise ConnectorError(
            f"{part.path} had {part.offset + part.length} bytes at least when the query began and has {size_bytes} now",
            hint=hint,
        )
