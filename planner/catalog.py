"""Streams and tables, and where they are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

SITE_COLUMN = "site"
"""Pseudo-column of every relation: the site at which a row was born."""


class RelationKind(Enum):
    STREAM = "stream"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    """A Spark SQL type in capitals, as in `DECIMAL(10,2)`."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One site's share of a relation."""

    site: str
    options: Mapping[str, str]
    """Connector options; `connector` names the connector."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream (unbounded, has an event-time column) or a table (bounded)."""

    name: str
    kind: RelationKind
    columns: tuple[Column, ...]
    bindings: tuple[Binding, ...]
    event_time: str | None = None
    watermark_delay: timedelta = timedelta(0)
    comment: str = ""
    created_at: datetime | None = None

    def column(self, name: str) -> Column | None:
        """The column of that name (names are compared without case), or None."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(b.site for b in self.bindings)


@dataclass(frozen=True, slots=True)
class Catalog:
    """An immutable snapshot: relations by lower-case name."""

    relations: Mapping[str, Relation] = field(default_factory=dict)

    def find(self, name: str) -> Relation | None:
        return self.relations.get(name.lower())
