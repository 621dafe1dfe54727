"""ANALYZE TABLE, and the query that it runs. Grammar: docs/sql.md."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from planner.relations.catalog import Column, Relation, TableStatistics
from planner.sql.cursor import Cursor
from planner.sql.dialect import tokenize
from planner.sql.queries import select_query
from planner.sql.source import Source
from planner.sql.statements import AnalyzeTable, SelectQuery
from planner.values.errors import UnknownColumnError
from planner.values.literals import quoted_name
from planner.values.ranges import WHOLE_NUMBERS

FORM = "ANALYZE TABLE name COMPUTE STATISTICS [FOR COLUMNS column, ... | FOR ALL COLUMNS] is possible."
ROWS = "rows"
"""The result column with the number of rows."""
_DISTINCT = "distinct_"
"""A result column's name has this prefix before the name of the column whose values are counted."""
_ENDS = ("min", "max")
_UNCOUNTED = ("ARRAY", "MAP", "STRUCT")


def parse_analyze(cursor: Cursor) -> AnalyzeTable:
    position, start = cursor.position, cursor.tokens[cursor.index].start
    cursor.expect("ANALYZE")
    cursor.expect("TABLE", hint=FORM)
    name = cursor.name("the table's name")
    cursor.expect("COMPUTE", hint=FORM)
    cursor.expect("STATISTICS", hint=FORM)
    columns = _columns(cursor) if cursor.take("FOR") else ()
    cursor.finish()
    return AnalyzeTable(name, columns, cursor.source.text[start : cursor.tokens[-1].end + 1], position)


def _columns(cursor: Cursor) -> tuple[str, ...] | None:
    if cursor.take("ALL"):
        cursor.expect("COLUMNS", hint=FORM)
        return None
    cursor.expect("COLUMNS", hint=FORM)
    columns = [cursor.name("a column's name")]
    while cursor.take(","):
        columns.append(cursor.name("a column's name"))
    return tuple(columns)


def statistics_query(statement: AnalyzeTable, table: Relation) -> SelectQuery:
    """The query that counts what the statement asks for.

    Raises:
        UnknownColumnError: the table has no such column.
    """
    counted = dict.fromkeys(_counted(statement, table))
    items = [f"count(*) AS {ROWS}"]
    items += [f"approx_count_distinct({quoted_name(c.name)}) AS {quoted_name(_DISTINCT + c.name)}" for c in counted]
    items += [
        f"{what}({quoted_name(c.name)}) AS {quoted_name(f'{what}_{c.name}')}"
        for c in counted
        if _ordered(c)
        for what in _ENDS
    ]
    source = Source(f"SELECT {', '.join(items)} FROM {quoted_name(table.name)}", statement.position)
    return select_query(tokenize(source), source)


def _counted(statement: AnalyzeTable, table: Relation) -> tuple[Column, ...]:
    if statement.columns is None:
        return tuple(column for column in table.columns if not column.type.startswith(_UNCOUNTED))
    found = []
    for name in statement.columns:
        column = table.column(name)
        if column is None:
            raise UnknownColumnError(
                f"table {table.name} has no column {name}",
                position=statement.position,
                found=name,
                hint=f"It has {', '.join(c.name for c in table.columns)}.",
                ids={"relation": table.name},
            )
        found.append(column)
    return tuple(found)


def _ordered(column: Column) -> bool:
    return column.type in WHOLE_NUMBERS or column.type == "DATE" or column.type.startswith("DECIMAL")


def statistics_of(row: Mapping[str, Any], now: datetime) -> TableStatistics:
    """Return what the query found, from its only row."""
    distinct = {name.removeprefix(_DISTINCT): n for name, n in row.items() if name.startswith(_DISTINCT)}
    ends = {name: [row.get(f"{what}_{name}") for what in _ENDS] for name in distinct}
    ranges = {n: (_number(low), _number(high)) for n, (low, high) in ends.items() if low is not None is not high}
    return TableStatistics(row[ROWS], distinct, now, ranges)


def _number(value: date | float | Decimal) -> float:
    return float(value.toordinal() if isinstance(value, date) else value)
