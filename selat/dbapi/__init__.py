"""Python's database API (PEP 249) over `selat.Client`.

    import selat.dbapi

    with selat.dbapi.connect("127.0.0.1:7410") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT page, count(*) AS n FROM visits WHERE country = ? GROUP BY page", ("DE",))
        for page, n in cursor:
            ...

A SELECT over streams does not end: its rows are fetched as they come, and closing its cursor cancels it.
"""

from __future__ import annotations

from selat.dbapi.connection import Connection, connect
from selat.dbapi.cursor import Cursor
from selat.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from selat.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 1
"""Threads may share the module, and not connections."""
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
