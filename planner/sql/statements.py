"""Statements of docs/sql.md as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from planner.catalog import Relation, RelationKind
from planner.errors import Position
from planner.sql.dialect import exp
from planner.sql.source import Source


class ShowTarget(Enum):
    STREAMS = "streams"
    TABLES = "tables"
    QUERIES = "queries"
    SITES = "sites"


@dataclass(frozen=True, slots=True)
class CreateRelation:
    relation: Relation
    if_not_exists: bool
    position: Position


@dataclass(frozen=True, slots=True)
class DropRelation:
    name: str
    kind: RelationKind | None
    if_exists: bool
    position: Position


@dataclass(frozen=True, slots=True)
class AlterBinding:
    """Changes connector options of one binding, or of all when `site` is None."""

    name: str
    site: str | None
    options: Mapping[str, str]
    position: Position


@dataclass(frozen=True, slots=True)
class Show:
    target: ShowTarget
    position: Position


@dataclass(frozen=True, slots=True)
class Describe:
    name: str
    kind: RelationKind | None
    position: Position


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """A query, parsed but not yet checked against a catalog."""

    text: str
    """The statement as written, without the semicolon."""
    position: Position
    """Where `text` begins in the script."""
    tree: exp.Select

    @property
    def source(self) -> Source:
        return Source(self.text, self.position)


@dataclass(frozen=True, slots=True)
class Explain:
    query: SelectQuery
    position: Position


@dataclass(frozen=True, slots=True)
class CancelQuery:
    query: str
    """Id, unique prefix of an id, or name."""
    position: Position


Statement = CreateRelation | DropRelation | AlterBinding | Show | Describe | SelectQuery | Explain | CancelQuery
