"""Reads lines, as streams and tables.

A stream's position is the number of bytes that were read. It is stored with each epoch, so that after a crash the same
bytes are read again: the file may grow, and must not be changed otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from planner.relations.catalog import RelationKind
from site_agent.base.errors import ConnectorError
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source, SourceContext, Split, Table
from site_agent.engine import ArrowScan, Scan

from . import PATH, SPEC

SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("line", pa.string())])
MAX_EPOCH_BYTES = 16 * 1024 * 1024


class LinesConnector:
    """Checks the options once more: a master that does not have the package could not check them."""

    name = SPEC.name

    def open_source(self, context: SourceContext) -> Source:
        """The rows of a stream at this site."""
        context.check(SPEC, RelationKind.STREAM)
        return LinesSource(context)

    def open_table(self, context: SourceContext) -> Table:
        """The rows of a table at this site."""
        context.check(SPEC, RelationKind.TABLE)
        return LinesTable(context)


class LinesSource:
    """Follows the file; it may come later than the query."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context

    def initial(self) -> Offset:
        """The file's first byte."""
        return {"byte": 0}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """Whole lines only: the last one may still be written."""
        first = _byte(start)
        data = _read(self._context, first, first + min(limit.size_bytes, MAX_EPOCH_BYTES))
        end = first + data.rfind(b"\n") + 1
        return Poll({"byte": end}, empty=end == first)

    def scan(self, start: Offset, end: Offset) -> Scan:
        """The same bytes for the same positions, always."""
        return ArrowScan(_rows(_read(self._context, _byte(start), _byte(end)), self._context))

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """No option changes while a query runs."""

    def close(self) -> None:
        """Nothing is held."""


class LinesTable:
    """All lines that are there when a query begins, in one split."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context

    def scan(self, split: Split | None = None) -> Scan:
        """As many bytes as there were when the split was made."""
        size_bytes = split.size_bytes if split is not None else None
        return ArrowScan(_rows(_read(self._context, 0, size_bytes), self._context))

    def splits(self, split_bytes: int) -> Sequence[Split]:
        """One: the example does not look for places where lines end."""
        return (Split(size_bytes=len(_read(self._context, 0, None))),)


def _byte(offset: Offset) -> int:
    byte = offset["byte"]
    if not isinstance(byte, int):
        raise ConnectorError(f"{byte!r} is no position of lines")
    return byte


def _read(context: SourceContext, start: int, end: int | None) -> bytes:
    """Bytes of the file; none while it is not there."""
    try:
        with open(PATH.of(context.options), "rb") as file:
            file.seek(start)
            return file.read(-1 if end is None else end - start)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConnectorError(f"{PATH.of(context.options)} cannot be read: {error}") from error


def _rows(data: bytes, context: SourceContext) -> pa.Table:
    """The columns that the query reads, in the declared order."""
    texts = data.decode(errors="replace").splitlines()
    parts = [text.partition(" ") for text in texts]
    times = [_time(head) for head, _, _ in parts]
    lines = [rest if at is not None else text for (_, _, rest), at, text in zip(parts, times, texts, strict=True)]
    table = pa.table({"ts": times, "line": lines}, schema=SCHEMA)
    wanted = {*context.read_columns, context.event_time}
    return table.select([column.name for column in context.columns if column.name in wanted])


def _time(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
