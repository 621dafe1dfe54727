"""The ports of connectors that read: streams' sources and tables.

A source plans offsets and says what to scan; the engine does the reading. Everything a source needs to answer again the
same way after a crash is in its offset (JSON) or on disk under its own directory, written before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from planner.relations.catalog import ARRIVED, Column, Relation, RelationKind, is_arrival
from planner.relations.connectors.spec import ConnectorSpec
from planner.values.ranges import Condition
from planner.values.splits import FilePart
from site_agent.base.json import Json
from site_agent.base.options import refused
from site_agent.engine import Field, Scan

Offset = Mapping[str, Json]
"""A connector's own position; the task stores it with the epoch that ends there."""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source is made from."""

    relation: str
    site: str
    columns: tuple[Field, ...]
    read_columns: tuple[str, ...]
    event_time: str
    """`ARRIVED`, where `columns` have none of that name: the source makes it."""
    options: Mapping[str, str]
    directory: Path
    """The source's own, kept over restarts; made by the caller."""
    created_at: datetime
    """When the relation was declared."""
    reader: str = ""
    """The task that reads; the same over restarts."""
    needed: Condition | None = None
    """Rows of a table that do not fulfil it may be missing from its splits. None: all are needed."""

    @property
    def by_arrival(self) -> bool:
        """The source tells the instant at which each row arrived, as its event time."""
        return is_arrival(self.event_time, (column.name for column in self.columns))

    def check(self, spec: ConnectorSpec, kind: RelationKind) -> None:
        """Raises ConnectorError naming the option that is unknown, missing or wrong by the connector's declaration."""
        columns = tuple(Column(column.name, column.type) for column in self.columns)
        relation = Relation(
            self.relation,
            kind,
            (*columns, ARRIVED) if self.by_arrival else columns,
            (),
            self.event_time or None,
            by_arrival=self.by_arrival,
        )
        with refused():
            spec.check_options(relation, self.options)


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """Most that one epoch may read; a source may exceed it by one unit that it cannot split (a file)."""

    rows: int = 2_000_000
    size_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Poll:
    """Answer of a source: what the next epoch would read."""

    end: Offset
    empty: bool
    """True: `end` equals the start and there is nothing to scan."""
    ended: bool = False
    """True: after `end` there will never be anything."""
    lag_rows: int = 0
    """Rows that are due and beyond `end`, as far as the source can tell."""
    event_time_floor_us: int | None = None
    """Every row after `end` has an event time at or after this one, where the source can promise it (replay,
    generator): the watermark follows it without waiting for a row."""


class Source(Protocol):
    """A stream's rows at one site. Blocking; called from one worker thread at a time."""

    def initial(self) -> Offset: ...

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """Raises ConnectorError when the input cannot be looked at."""
        ...

    def scan(self, start: Offset, end: Offset) -> Scan:
        """The same for the same offsets, always."""
        ...

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over changed options while running; options that cannot change are ignored with a log line."""
        ...

    def close(self) -> None: ...


MAX_SPLITS = 10_000
"""Of a table at one site: more would be more to keep track of than to read. Splits become larger instead."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a table at one site; without `parts` all of it. Parts of generated tables are ranges of row numbers."""

    parts: tuple[FilePart, ...] = ()
    size_bytes: int = 0
    """On disk; of a generated table by estimate."""
    left_out_bytes: int = 0
    """Of the table, in none of its splits: no row in them is needed. Told with one split, if need be one of NOTHING."""
    rows: int | None = None
    """None: it would have to be read to know."""


class Table(Protocol):
    """A table's rows at one site."""

    def scan(self, split: Split | None = None) -> Scan:
        """All rows, or those of one of its splits.

        Raises:
            ConnectorError: there is nothing to read, or the split's files are not what they were.
        """
        ...

    def splits(self, split_bytes: int) -> Sequence[Split]:
        """Splits of about so many bytes that have each needed row of the table once; none: it has no rows.

        Raises:
            ConnectorError: the table's files cannot be looked at.
        """
        ...


class Connector(Protocol):
    """What a connector module offers."""

    name: str

    def open_source(self, context: SourceContext) -> Source:
        """Raises ConnectorError naming an option that is unknown, missing or wrong; see `SourceContext.check`."""
        ...

    def open_table(self, context: SourceContext) -> Table:
        """As `open_source`."""
        ...
