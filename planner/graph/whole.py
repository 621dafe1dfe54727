"""A query over tables that one task runs as it is written, over what MAPs send of each table."""

from __future__ import annotations

from dataclasses import dataclass

from planner.graph.clientplan import ClientPlan
from planner.relations.catalog import Column, Relation
from planner.sql.dialect import exp
from planner.values.edits import Edit
from planner.values.errors import PlannerError
from planner.values.scans import KeyFilter, TableScan, Threshold


@dataclass(frozen=True, slots=True)
class ViewText:
    """A view that the query names, or a view of it."""

    name: str
    columns: tuple[str, ...]
    sql: str
    """Its definition; Python functions are called by their versions."""


@dataclass(frozen=True, slots=True)
class WholeQuery:
    """The query before Spark has said what its scans must deliver."""

    sql: str
    """The query's text; Python functions are called by their versions."""
    edits: tuple[Edit, ...]
    """From the text as it was written to `sql`."""
    tables: tuple[Relation, ...]
    """In the order in which they are named first, those of views too."""
    views: tuple[ViewText, ...]
    """Each after those that it uses."""
    site_named: bool
    """`site` is a column of each table."""
    refusal: PlannerError
    """Why it does not run in parts."""
    plan: ClientPlan | None = None
    """It is run instead of `sql`: a client made the plan."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What Spark says of a query over tables."""

    columns: tuple[Column, ...]
    """Of its output."""
    scans: tuple[TableScan, ...] | None
    """None: the agent is of a version that does not say; any column of any table may be needed."""


@dataclass(frozen=True, slots=True)
class WholeScan:
    """A scan of a table, with what decisions about filters by keys need."""

    table: str
    stage: str
    """The MAP of the table."""
    where: tuple[exp.Expr, ...]
    """The conditions that are evaluated at the sites."""
    filters: tuple[KeyFilter, ...] = ()
    """By keys of other scans, numbered as `DraftPlan.whole_scans` has them."""
    columns: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    """These four as in `TableScan`."""


@dataclass(frozen=True, slots=True)
class KeptBack:
    """A condition of a scan that is not evaluated at the sites of its table."""

    condition: str
    """Spark SQL."""
    reason: str


@dataclass(frozen=True, slots=True)
class ScanOfTable:
    """What is sent for one scan of a table; a table that is scanned several times is sent once, for all of them."""

    stage: str
    table: str
    columns: tuple[str, ...]
    conditions: tuple[str, ...]
    """Spark SQL of those that are evaluated at the table's sites; other rows are not sent."""
    kept_back: tuple[KeptBack, ...] = ()
    distinct: bool = False
    """Equal rows are sent once from each split."""
    counted: bool = False
    """Rows that are equal, but for columns that are only summed or counted, are sent once, with their number."""
    stand_ins: tuple[tuple[str, str], ...] = ()
    """Maps a column to the Spark SQL expression that the MAP sends in its place."""
