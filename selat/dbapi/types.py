"""Types of columns by kinds, and makers of values, as PEP 249 names them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pyarrow as pa

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - the name is the standard's
    """The day of an instant in UTC, given in seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC).date()


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """The time of day of an instant in UTC, given in seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """An instant in UTC, given in seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC)


class TypeKind:
    """Is equal to each type of a column, as `Cursor.description` has it, that is of the kind."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other.startswith(self._words))

    def __hash__(self) -> int:
        return hash(self._words)


STRING = TypeKind("string", "large_string")
BINARY = TypeKind("binary", "large_binary")
NUMBER = TypeKind("int", "uint", "float", "double", "halffloat", "decimal")
DATETIME = TypeKind("timestamp", "date", "time")
ROWID = TypeKind("rowid")
"""No column is one."""


def type_name(kind: pa.DataType) -> str:
    """A column's type in a description: Arrow's name of it."""
    return str(kind)
