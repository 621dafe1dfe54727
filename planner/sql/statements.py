"""Statements of docs/sql.md as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from planner.relations.catalog import Column, Relation, RelationKind
from planner.sql.dialect import exp
from planner.sql.option_ddl import WrittenOptions
from planner.sql.source import Source
from planner.values.errors import Position, UnsupportedSqlError
from planner.values.privileges import Privilege


class ShowTarget(Enum):
    STREAMS = "streams"
    TABLES = "tables"
    VIEWS = "views"
    SINKS = "sinks"
    QUERIES = "queries"
    SITES = "sites"
    FUNCTIONS = "functions"
    SETTINGS = "settings"
    GRANTS = "grants"


@dataclass(frozen=True, slots=True)
class CreateRelation:
    relation: Relation
    if_not_exists: bool
    position: Position


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """A Python function; its module's text comes beside the script."""

    name: str
    parameters: tuple[Column, ...]
    returns: str
    entry: str
    file: str
    or_replace: bool
    if_not_exists: bool
    position: Position


@dataclass(frozen=True, slots=True)
class DropFunction:
    name: str
    if_exists: bool
    position: Position


@dataclass(frozen=True, slots=True)
class DescribeFunction:
    name: str
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
    written: WrittenOptions = field(default_factory=dict, compare=False)
    """The options with their places."""


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
class AnalyzeTable:
    """Counts a table's rows, and the different values of columns, for later plans."""

    name: str
    columns: tuple[str, ...] | None
    """None: all; empty: only rows are counted."""
    text: str
    """The statement as written, without the semicolon."""
    position: Position


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """A query, parsed but not yet checked against a catalog."""

    text: str
    """The statement as written, without the semicolon."""
    position: Position
    """Where `text` begins in the script."""
    tree: exp.Query
    refusal: UnsupportedSqlError | None = field(default=None, compare=False)
    """Why it can run neither over streams nor in parts; Spark may run it as it is written, over tables."""

    @property
    def source(self) -> Source:
        return Source(self.text, self.position)


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """The name behind INSERT INTO."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class InsertInto:
    """A query whose results go into a sink."""

    target: SinkTarget
    query: SelectQuery
    text: str
    """The whole statement as written, without the semicolon."""
    position: Position


@dataclass(frozen=True, slots=True)
class Explain:
    query: SelectQuery
    position: Position
    target: SinkTarget | None = None
    """EXPLAIN INSERT INTO: where the results would go."""


@dataclass(frozen=True, slots=True)
class ExplainAnalyze:
    """The plan of a submitted query beside what was measured."""

    query: str
    """Id, unique prefix of an id, or name."""
    position: Position


@dataclass(frozen=True, slots=True)
class CancelQuery:
    query: str
    """Id, unique prefix of an id, or name."""
    position: Position


@dataclass(frozen=True, slots=True)
class PauseQuery:
    query: str
    """Id, unique prefix of an id, or name."""
    position: Position


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    query: str
    """Id, unique prefix of an id, or name."""
    position: Position


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    columns: tuple[str, ...]
    """Names given to the columns; empty: those of the query."""
    comment: str
    query: SelectQuery
    or_replace: bool
    if_not_exists: bool
    position: Position


@dataclass(frozen=True, slots=True)
class SetOption:
    """Changes how the queries that follow are run."""

    name: str
    value: str
    position: Position


@dataclass(frozen=True, slots=True)
class Grant:
    """Allows a role to read a relation, or to write into a sink."""

    privilege: Privilege
    relation: str
    role: str
    """In lower case."""
    position: Position


@dataclass(frozen=True, slots=True)
class Revoke:
    """Takes back what GRANT has given."""

    privilege: Privilege
    relation: str
    role: str
    position: Position


Statement = (
    CreateRelation
    | CreateView
    | CreateFunction
    | DropFunction
    | DescribeFunction
    | DropRelation
    | AlterBinding
    | Show
    | Describe
    | AnalyzeTable
    | SelectQuery
    | InsertInto
    | Explain
    | ExplainAnalyze
    | CancelQuery
    | PauseQuery
    | ResumeQuery
    | SetOption
    | Grant
    | Revoke
)
