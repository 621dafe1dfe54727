"""Logical operators: what a query means, before it is cut into stages.

A tree of frozen values, result first; EXPLAIN shows it. Expressions name columns as the query does. What stages compute
are the operators of `planner.graph.operators`.

    Scan               rows of a stream or table
    Join               pairs of rows, INNER or LEFT; of streams, within a window
    JoinOfWindows      pairs of rows of windows, those of the same window
    Generate           LATERAL VIEW: the rows that a generator makes of each row
    Filter, Having     the rows, or groups, for which all conditions hold
    Aggregate          groups of rows that are all there
    PartialAggregate   groups of what is there so far at one site, by window
    MergeAggregate     groups by window, of partial ones
    TopK               rows whose rank within a window or partition is at most k
    Project            expressions over each row
    Sort, Limit        rows in an order; the first of them
    UnionAll           the rows of several inputs
    Whole              the query as its author wrote it, over the rows that are sent of each table
    Insert             rows into a sink
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from planner.graph.operators import Expression, Named
from planner.sql.dialect import exp


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of this length; one begins every `slide`, shifted by `offset`.

    Cumulative ones begin every `length`, and end `slide` after one another. Those of `months` are so many calendar
    months; 0: they have one length.
    """

    length: timedelta
    slide: timedelta
    offset: timedelta = timedelta(0)
    cumulates: bool = False
    months: int = 0
    gap: str = ""
    """The gap of sessions, which have no length of their own."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of a stream or table."""

    relation: str
    sites: tuple[str, ...]
    """Where they are read."""
    left_out: tuple[str, ...] = ()
    """Sites whose rows cannot match."""


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows for which all conditions hold; of a LEFT join also the left rows without a match."""

    left_input: LogicalOperator
    right_input: LogicalOperator
    name: str
    """What the query calls the right side."""
    left: bool
    on: tuple[Expression, ...]
    same_site: bool = False
    """Rows match rows of their own site only."""
    windows: Windows | None = None
    """Of a join of streams: rows match rows of the same window."""
    only: str = ""
    """SEMI: rows with a match; ANTI: rows without one."""
    right: bool = False
    """Right rows without a match are kept as well."""
    interval: str = ""
    """It says how far apart the event times of matching rows of streams may be, for people; else it is empty."""


@dataclass(frozen=True, slots=True)
class JoinOfWindows:
    """Pairs of rows that two aggregates have in the same window."""

    left_input: LogicalOperator
    right_input: LogicalOperator
    name: str
    left: bool
    on: tuple[Expression, ...]
    only: str = ""
    right: bool = False
    """These three as in `Join`."""


@dataclass(frozen=True, slots=True)
class Generate:
    """The rows that a generator makes of each row, beside it."""

    input: LogicalOperator
    call: Expression


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which all conditions hold."""

    input: LogicalOperator
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Having:
    """The groups for which all conditions hold."""

    input: LogicalOperator
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Groups of rows that are all there."""

    input: LogicalOperator
    keys: tuple[Expression, ...]
    """Without keys all rows, or all of a window, are one group."""
    windowed: bool = False
    """The window is one more key."""


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """Groups of the rows that a site has had so far."""

    input: LogicalOperator
    keys: tuple[Expression, ...]
    windows: Windows


@dataclass(frozen=True, slots=True)
class MergeAggregate:
    """From partial groups to groups, when a window closes."""

    input: LogicalOperator
    keys: tuple[Expression, ...]
    """Besides the window."""
    sets: int = 1
    """Grouping sets: how many groups a row may be in."""


@dataclass(frozen=True, slots=True)
class TopK:
    """Rows whose rank is at most k."""

    input: LogicalOperator
    function: str
    partition: tuple[Expression, ...]
    order: tuple[exp.Ordered, ...]
    k: int
    windowed: bool = False
    """The window is one more part of the partition."""


@dataclass(frozen=True, slots=True)
class Project:
    """Expressions over each row."""

    input: LogicalOperator
    items: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """Rows in an order."""

    input: LogicalOperator
    order: tuple[exp.Ordered, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """The first rows behind the offset."""

    input: LogicalOperator
    limit: int | None
    """None: all."""
    offset: int


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of several inputs."""

    inputs: tuple[LogicalOperator, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """The rows of a query as its author wrote it."""

    inputs: tuple[LogicalOperator, ...]
    """What is sent of each table."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Tells what each cell of time changes of rows that are never complete."""

    input: LogicalOperator
    every: timedelta
    upsert_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows into a sink."""

    input: LogicalOperator
    sink: str


LogicalOperator = (
    Scan
    | Join
    | JoinOfWindows
    | Generate
    | Filter
    | Having
    | Aggregate
    | PartialAggregate
    | MergeAggregate
    | TopK
    | Project
    | Sort
    | Limit
    | UnionAll
    | Whole
    | Changes
    | Insert
)


def inputs_of(operator: LogicalOperator) -> Sequence[LogicalOperator]:
    """The operators that an operator reads."""
    match operator:
        case Scan():
            return ()
        case Join() | JoinOfWindows():
            return (operator.left_input, operator.right_input)
        case UnionAll() | Whole():
            return operator.inputs
        case _:
            return (operator.input,)
