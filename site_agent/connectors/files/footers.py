"""What the footer of a Parquet file says of the values of its row groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from planner.values.ranges import Range, Value, is_compared
from site_agent.engine import Field

_OLD_YEARS_END = 1900
"""Spark reads dates and times before by another calendar, where an old version has written them."""


def group_ranges(metadata: pq.FileMetaData, number: int, columns: Sequence[Field]) -> Mapping[str, Range]:
    """The ranges of the columns in a row group; columns of which the footer says nothing are left out."""
    group = metadata.row_group(number)
    places = _flat_columns(metadata.schema)
    found = {}
    for column in columns:
        place = places.get(column.name.lower())
        if place is None:
            continue
        statistics = group.column(place).statistics
        if statistics is not None:
            found[column.name] = _range(statistics, group.num_rows, column.type)
    return found


def _flat_columns(schema: pq.ParquetSchema) -> Mapping[str, int | None]:
    """The numbers of columns that are not nested, by names in lower case; None for a name of several."""
    places: dict[str, int | None] = {}
    for number in range(len(schema)):
        column = schema.column(number)
        name = column.path.lower()
        flat = column.path == column.name and not column.max_repetition_level and column.max_definition_level <= 1
        places[name] = number if flat and name not in places else None
    return places


def _range(statistics: pq.Statistics, rows: int, column_type: str) -> Range:
    nulls = statistics.null_count if statistics.has_null_count else None
    known = statistics.has_min_max and is_compared(column_type)
    low, high = (_value(statistics.min), _value(statistics.max)) if known else (None, None)
    if isinstance(low, date) and low.year < _OLD_YEARS_END:
        low = high = None
    return Range(low, high, nulls=nulls != 0, values=nulls != rows)


def _value(bound: Any) -> Value | None:
    """A bound as values are compared; other types than the column's are told apart when they are compared."""
    if type(bound) is datetime:
        return bound.replace(tzinfo=UTC) if bound.tzinfo is None else bound.astimezone(UTC)
    return bound if type(bound) in (int, Decimal, str, date) else None
