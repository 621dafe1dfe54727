"""Streams, tables and sinks, where they are bound, and views over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

DIGEST_CHARS = 12
"""So much of a function's digest is in the name of its version."""

SITE_COLUMN = "site"
"""Pseudo-column of every relation: the site at which a row was born."""


class RelationKind(Enum):
    STREAM = "stream"
    TABLE = "table"
    VIEW = "view"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    """A Spark SQL type in capitals, as in `DECIMAL(10,2)`."""


ARRIVED = Column("arrived", "TIMESTAMP")
"""The event time of a stream that declares none: when a row arrived at its site, as the connector noted it for good."""


def is_arrival(event_time: str | None, declared: Iterable[str]) -> bool:
    """Return whether an event time is `ARRIVED`, given the names of the columns that rows come with."""
    return event_time == ARRIVED.name and not any(name.lower() == ARRIVED.name for name in declared)


@dataclass(frozen=True, slots=True)
class Binding:
    """One site's share of a relation."""

    site: str
    options: Mapping[str, str]
    """Connector options; `connector` names the connector."""


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Holds what ANALYZE TABLE, or a query that read all of the table, found."""

    rows: int
    distinct: Mapping[str, int] = field(default_factory=dict)
    """About how many different values a column has, by its name."""
    analyzed_at: datetime | None = None
    """None: it was only read."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The least and the greatest value of a column; those of a DATE as days (`date.toordinal`)."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream (unbounded, has an event-time column), a table (bounded), a view (a query with a name), or a sink.

    A sink is written into, at one site; without columns it takes those of the query.
    """

    name: str
    kind: RelationKind
    columns: tuple[Column, ...]
    bindings: tuple[Binding, ...]
    event_time: str | None = None
    watermark_delay: timedelta = timedelta(0)
    by_arrival: bool = False
    """Streams only: `ARRIVED` is the event time, and the last of `columns`, though it is not declared."""
    comment: str = ""
    created_at: datetime | None = None
    definition: str = ""
    """Views only: the query, as it was written; bound anew whenever the view is used."""
    statistics: TableStatistics | None = None
    """Tables only; None: it was not analysed."""

    def column(self, name: str) -> Column | None:
        """The column of that name (names are compared without case), or None."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns that rows come with."""
        return self.columns[:-1] if self.by_arrival else self.columns

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(b.site for b in self.bindings)


@dataclass(frozen=True, slots=True)
class Function:
    """One version of a Python scalar function."""

    name: str
    parameters: tuple[Column, ...]
    returns: str
    """A Spark SQL type."""
    entry: str
    """The Python function's name in its module."""
    file: str
    """What the module's file was called; for messages only."""
    source: str
    """The module's text."""
    vectorised: bool = False
    """It takes and gives whole `pyarrow.Array`s instead of one row's values."""
    digest: str = ""
    created_at: datetime | None = None

    @property
    def versioned_name(self) -> str:
        """The name by which plans call it."""
        return f"{self.name.lower()}__{self.digest[:DIGEST_CHARS]}"

    @property
    def signature(self) -> str:
        """`name(x STRING, y INT) RETURNS DOUBLE`"""
        return f"{self.name}({', '.join(f'{p.name} {p.type}' for p in self.parameters)}) RETURNS {self.returns}"


@dataclass(frozen=True, slots=True)
class Catalog:
    """An immutable snapshot: relations and functions by lower-case name."""

    relations: Mapping[str, Relation] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)

    def find(self, name: str) -> Relation | None:
        return self.relations.get(name.lower())
