"""Names of PEP 249."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pyarrow as pa

from selat import dbapi
from selat.dbapi.types import type_name


def test_the_module_is_what_the_standard_asks_for() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    assert issubclass(dbapi.ProgrammingError, dbapi.DatabaseError)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert all(hasattr(dbapi, name) for name in dbapi.__all__)


def test_kinds_of_types() -> None:
    for kind, types in {
        dbapi.NUMBER: (pa.int32(), pa.float64(), pa.decimal128(5, 2)),
        dbapi.STRING: (pa.string(),),
        dbapi.BINARY: (pa.binary(),),
        dbapi.DATETIME: (pa.date32(), pa.timestamp("us", "UTC")),
    }.items():
        assert all(type_name(found) == kind for found in types)
        assert sum(type_name(pa.bool_()) == kind for _ in types) == 0
    assert type_name(pa.int32()) != dbapi.ROWID


def test_makers_of_values() -> None:
    assert dbapi.DateFromTicks(0) == date(1970, 1, 1)
    assert dbapi.TimeFromTicks(1) == time(0, 0, 1)
    assert dbapi.TimestampFromTicks(1) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
