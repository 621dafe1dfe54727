"""Relational operators: what a stage of a query computes.

Each operator is a frozen value over its inputs. Expressions are bound: a column names the view or alias that it is read
from (`input.page`, `t1.name`), or no view where the operator has one input whose columns are its own.

    Scan                 rows of a view: the relation that a stage reads, or a channel
    Alias                the rows of an operator under a name
    Join                 pairs of rows, INNER or LEFT
    Generate             LATERAL VIEW: the rows that a generator makes of each row
    Filter               the rows for which all conditions hold
    Project              expressions over each row
    Aggregate            groups, with aggregates as the query has them: all rows of a group are there
    PartialAggregate     groups of what is there so far, with partials that can be combined
    CombinePartials      from partials to fewer partials, with the same columns
    MergeAggregate       from partials to aggregates
    TopK                 rows whose rank within a partition is at most k
    Sort                 rows in an order, or the first of them
    UnionAll             the rows of several operators, by the position of the columns
    Statement            the rows of a query as its author wrote it; the names in it are defined by operators
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.relations.catalog import Column
from planner.sql.dialect import exp

Expression = exp.Expr


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of the column that it makes."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of a view."""

    view: str
    columns: tuple[Column, ...] = ()
    """With Spark's types; empty until they are known."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Rows under a name, by which expressions above call them."""

    input: Operator
    name: str


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows for which all conditions hold; of a LEFT join also the left rows without a match.

    Of a SEMI or ANTI join the left rows with a match, once, or without one.
    """

    left_input: Operator
    right_input: Operator
    """A Scan or an Alias."""
    left: bool
    on: tuple[Expression, ...]
    only: str = ""
    """SEMI, ANTI, or empty."""
    right: bool = False
    """Right rows without a match are pairs, too."""


@dataclass(frozen=True, slots=True)
class Generate:
    """The rows that a generator makes of each row, beside it; of an OUTER one also a row for those that give none."""

    input: Operator
    call: Expression
    view: str
    columns: tuple[str, ...]
    outer: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which all conditions hold."""

    input: Operator
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """Expressions over each row."""

    input: Operator
    items: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Groups of rows that are all there; items and conditions contain aggregates."""

    input: Operator
    keys: tuple[Expression, ...]
    """Without keys all rows are one group."""
    items: tuple[Named, ...]
    having: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Partial:
    """A column of partial aggregates."""

    name: str
    part: str
    """Name of the part in the table of aggregates; it says how partials become one."""
    of: tuple[str, ...] = ()
    """Partials that the part takes when it is merged: for a mean its count, for an m2 its count and its mean."""


@dataclass(frozen=True, slots=True)
class Merged:
    """An aggregate of the query, made of merged partials."""

    name: str
    function: str
    """Name of the entry in the table of aggregates."""
    partials: tuple[str, ...]
    argument: Expression | None = None
    """What the last step takes besides: the rank of a percentile."""


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """Groups of the rows that are there so far."""

    input: Operator
    keys: tuple[str, ...]
    """Columns of the input."""
    partials: tuple[Partial, ...]
    calls: tuple[Expression, ...]
    """One for each partial, over columns of the input."""
    bins: tuple[str, ...] = ()
    """Keys by whose hash a group's bin is made; none: groups have no bins."""
    session: Expression | None = None
    """Groups are sessions: the call that makes them of columns of the input. Of the keys, the first two, their start
    and end, are no columns of it."""


@dataclass(frozen=True, slots=True)
class CombinePartials:
    """From partials to fewer partials of the same columns."""

    input: Operator
    keys: tuple[str, ...]
    partials: tuple[Partial, ...]
    bins: tuple[str, ...] = ()
    """As of `PartialAggregate`."""
    numbered: bool = False
    """With one more column, the hash of a group's keys."""


@dataclass(frozen=True, slots=True)
class MergeAggregate:
    """From partials to aggregates: a row for each group."""

    input: Operator
    keys: tuple[str, ...]
    partials: tuple[Partial, ...]
    aggregates: tuple[Merged, ...]


@dataclass(frozen=True, slots=True)
class TopK:
    """Rows whose rank is at most k, and the rank as one more column."""

    input: Operator
    function: str
    """`row_number`, `rank` or `dense_rank`."""
    partition: tuple[Expression, ...]
    order: tuple[exp.Ordered, ...]
    k: int


@dataclass(frozen=True, slots=True)
class Sort:
    """Rows in an order; with a limit, the first of them behind the offset."""

    input: Operator
    order: tuple[exp.Ordered, ...]
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of several operators, under the column names of the first."""

    inputs: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """Rows under a name, for the definitions behind it and the text of a `Statement`."""

    name: str
    rows: Operator
    columns: tuple[str, ...] = ()
    """New names of its columns; none: they keep theirs."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The rows of a query as its author wrote it."""

    text: str
    """Spark SQL, without a comment at its end."""
    definitions: tuple[Definition, ...] = ()
    """Of the names in it that are no views."""


Operator = (
    Scan
    | Alias
    | Join
    | Generate
    | Filter
    | Project
    | Aggregate
    | PartialAggregate
    | CombinePartials
    | MergeAggregate
    | TopK
    | Sort
    | UnionAll
    | Statement
)


def rank_over(top_k: TopK) -> Expression:
    """The rank of a row, as an expression over the input."""
    return exp.Window(
        this=exp.Anonymous(this=top_k.function, expressions=[]),
        partition_by=[part.copy() for part in top_k.partition],
        order=exp.Order(expressions=[ordered.copy() for ordered in top_k.order]),
        over="OVER",
    )


def inputs_of(operator: Operator) -> tuple[Operator, ...]:
    """The operators that an operator reads."""
    if isinstance(operator, Scan):
        return ()
    if isinstance(operator, Join):
        return (operator.left_input, operator.right_input)
    if isinstance(operator, Statement):
        return tuple(definition.rows for definition in operator.definitions)
    return operator.inputs if isinstance(operator, UnionAll) else (operator.input,)


def with_inputs(operator: Operator, change: Callable[[Operator], Operator]) -> Operator:
    """The operator over what `change` makes of its inputs."""
    if isinstance(operator, Scan):
        return operator
    if isinstance(operator, Join):
        return replace(operator, left_input=change(operator.left_input), right_input=change(operator.right_input))
    if isinstance(operator, UnionAll):
        return replace(operator, inputs=tuple(map(change, operator.inputs)))
    if isinstance(operator, Statement):
        definitions = tuple(replace(known, rows=change(known.rows)) for known in operator.definitions)
        return replace(operator, definitions=definitions)
    return replace(operator, input=change(operator.input))


def walk(operator: Operator) -> Iterator[Operator]:
    """The operator, then all below it, each before its inputs."""
    yield operator
    for part in inputs_of(operator):
        yield from walk(part)
