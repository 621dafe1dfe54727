"""What each scan of a table must deliver, as Spark's optimiser says of a query's text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SparkExpression:
    """An expression of an optimised plan, by the name of its class; which classes are understood is the reader's."""

    kind: str
    """The class's name without package, as in `EqualTo`."""
    type: str = ""
    """Its Spark SQL type in capitals."""
    text: str | None = None
    """Of an attribute the column's name; of a literal its value as text (None: NULL); of LIKE the escape character."""
    arguments: tuple[SparkExpression, ...] = ()
    sql: str = ""
    """Spark SQL for people, of a whole condition."""


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Rows of a scan whose key is none of another scan's keys change nothing of the result."""

    column: str
    giver: int
    """The number of the other scan, among all that the answer has, from 0."""
    giver_column: str
    """Of the same type."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Only large groups of a scan's rows matter: rows of other groups change nothing of the result.

    A group is large if its positive values add up to a bound.
    """

    column: str
    """Rows with the same value of it are a group, and so are those with NULL."""
    summand: str | None
    """The column whose positive values count; None: each row counts as 1."""
    at_least: str
    """The bound, a number as text."""


@dataclass(frozen=True, slots=True)
class TableScan:
    """One scan of a table. A query may scan a table several times."""

    table: str
    """The name of the view that stands for it."""
    columns: tuple[str, ...]
    """Those that anything above the scan reads."""
    conditions: tuple[SparkExpression, ...] = ()
    """The query's result stays the same without the rows for which one of them is not true."""
    filters: tuple[KeyFilter, ...] = ()
    """Each holds for what the scans are then: also after others were applied, one after the other."""
    distinct: bool = False
    """The query's result stays the same where rows that are equal in these columns are there once."""
    only_in_conditions: tuple[str, ...] = ()
    """Nothing but the conditions reads these of `columns`."""
    summed: tuple[str, ...] = ()
    """Sums, averages and counts alone read these of `columns`; rows that are equal in all others stay together up to
    there."""
    counted: tuple[str, ...] = ()
    """Counts alone read these in this way: all that matters is whether they are NULL."""
    thresholds: tuple[Threshold, ...] = ()
    """Each holds for what the scan is then, as filters do."""
    functions: tuple[tuple[str, tuple[SparkExpression, ...]], ...] = ()
    """Those of `columns` that are read through these functions alone, each of the column and of literals; the query may
    also ask whether they are NULL."""
