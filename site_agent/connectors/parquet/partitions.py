"""Rows by the values of some columns, each with the directories that stand for the values: `country=us/day=2026-01-31`.

The form is Hive's, which Spark, DuckDB and pandas read: the columns are in the directories' names and not in the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from planner.relations.connectors.directories import NULL_DIRECTORY
from site_agent.connectors.sinks import SinkError

MAX_NAME_BYTES = 255
"""The longest name of a file or directory on Linux; a sink that waits for a longer one waits for ever."""

_SPECIAL = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(32)}
_INDEX = "_selat_row"
_POSSIBLE: Sequence[Callable[[pa.DataType], bool]] = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date,
)


@dataclass(frozen=True, slots=True)
class Partition:
    directories: tuple[str, ...]
    rows: pa.Table


def partitions(rows: pa.Table, columns: Sequence[str]) -> list[Partition]:
    """In the order in which their first rows come; without columns one partition, of all rows.

    Raises:
        SinkError: a column is missing, has a type whose values make no names, is all there is, or has a value that is
            too long for a name.
    """
    if not columns:
        return [Partition((), rows)]
    _check(rows.schema, columns)
    keys = rows.select(list(columns)).append_column(_INDEX, pa.array(range(rows.num_rows), pa.int64()))
    groups = keys.group_by(list(columns), use_threads=False).aggregate([(_INDEX, "list")])
    kept = rows.drop_columns(list(columns))
    return [
        Partition(tuple(_directory(c, group[c]) for c in columns), kept.take(indices))
        for group, indices in _groups(groups)
    ]


def _directory(column: str, value: object) -> str:
    name = f"{escaped(column)}={value_name(value)}"
    if len(name.encode()) > MAX_NAME_BYTES:
        raise SinkError(
            f"no directory can be called {name[:60]}..., which has {len(name.encode())} bytes of {MAX_NAME_BYTES}",
            hint=f"partition by something short, such as left({column}, 50) AS {column}",
        )
    return name


def value_name(value: object) -> str:
    """A value in a directory's name."""
    if value is None or value == "":
        return NULL_DIRECTORY
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else escaped(str(value))


def escaped(text: str) -> str:
    """Characters that file systems or Hive's readers take for something else, as `%` and two hexadecimal digits."""
    return "".join(f"%{ord(char):02X}" if char in _SPECIAL else char for char in text)


def _groups(groups: pa.Table) -> Iterator[tuple[dict[str, object], pa.Array]]:
    lists = groups.column(f"{_INDEX}_list").combine_chunks()
    for number, group in enumerate(groups.drop_columns([f"{_INDEX}_list"]).to_pylist()):
        yield group, lists[number].values


def _check(schema: pa.Schema, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in schema.names:
            raise SinkError(f"rows are partitioned by {name}, which they lack", hint=f"they have {schema.names}")
        kind = schema.field(name).type
        if not any(is_possible(kind) for is_possible in _POSSIBLE):
            raise SinkError(
                f"rows cannot be partitioned by {name}, which is {kind}",
                hint="STRING, whole numbers, BOOLEAN and DATE are possible",
            )
    if len(columns) >= len(schema.names):
        raise SinkError("rows are partitioned by all their columns", hint="leave one to be written into the files")
