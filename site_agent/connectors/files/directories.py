"""Columns of a table whose values are in the names of directories: `country=us/day=2026-01-31/part.parquet`.

The form is Hive's, which Spark, DuckDB, pandas and the sink `parquet` write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from planner.relations.connectors.directories import NULL_DIRECTORY
from planner.values.ranges import WHOLE_NUMBERS, Range, is_compared, value_of
from site_agent.base.errors import ConnectorError
from site_agent.engine import Field

Values = tuple[str | None, ...]
"""Of each of the columns the text of its value, None for NULL."""

_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def partition_values(path: str, root: str, columns: Sequence[Field]) -> Values:
    """The values of the columns for all rows of a file.

    Args:
        path: the file's.
        root: the table's directory, above the directories of the columns.
        columns: that the table is partitioned by, in any order.

    Raises:
        ConnectorError: a directory is missing, or its value is none of the column.
    """
    named = dict(_named(part) for part in Path(path).relative_to(root).parts[:-1] if "=" in part)
    return tuple(_value(path, column, named) for column in columns)


def partition_ranges(values: Values, columns: Sequence[Field]) -> Mapping[str, Range]:
    """What the values say of the rows of a file, by column."""
    return {column.name: _range(text, column.type) for column, text in zip(columns, values, strict=True)}


def _named(directory: str) -> tuple[str, str]:
    name, _, value = directory.partition("=")
    return _unescaped(name).lower(), value


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _value(path: str, column: Field, named: Mapping[str, str]) -> str | None:
    text = named.get(column.name.lower())
    if text is None:
        raise ConnectorError(
            f"{path} is not below a directory {column.name}=...",
            hint="with 'partition_by', each file of the table is; leave out others by 'pattern'",
        )
    value = None if text == NULL_DIRECTORY else _unescaped(text)
    if value is not None and not _is_valid(value, column.type):
        raise ConnectorError(
            f"{path} is below {column.name}={text}, and {text!r} is no {column.type}",
            hint=f"declare {column.name} as STRING, or correct the directory's name",
        )
    return value


def _is_valid(text: str, column_type: str) -> bool:
    if column_type == "BOOLEAN":
        return text in ("true", "false")
    try:
        value = value_of(text, column_type)
    except ValueError:
        # Numbers of more digits than are compared; Spark says whether they fit.
        return column_type in WHOLE_NUMBERS and text.removeprefix("-").isdecimal()
    return column_type not in WHOLE_NUMBERS or isinstance(value, int)


def _range(text: str | None, column_type: str) -> Range:
    if text is None:
        return Range(values=False)
    try:
        value = value_of(text, column_type) if is_compared(column_type) else None
    except ValueError:
        value = None
    return Range(value, value, nulls=False)
