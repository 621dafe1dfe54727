"""The oracle: DuckDB, an independent engine, over the same files; and the comparison of results."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from selat.demo.dataset import AIRPORTS, HUB

Row = tuple[object, ...]

_TABLES = ("airlines", "planes", "airports")


def connect(root: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB with the prepared files as tables, and `day_of(ts)`, `week_of(ts)` as a window's start."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for name, days in (("day_of", 1), ("week_of", 7)):
        length_s = days * 86_400
        db.execute(f"CREATE MACRO {name}(ts) AS to_timestamp(floor(epoch(ts) / {length_s}) * {length_s})")
    sites = tuple(AIRPORTS.values())
    _load(db, "flights", [root / site / "flights" / "*.csv" for site in sites])
    _load(db, "weather", [root / site / "weather.csv" for site in sites])
    for table in _TABLES:
        _load(db, table, [root / HUB / f"{table}.csv"])
    return db


def expected(db: duckdb.DuckDBPyConnection, sql: str) -> list[Row]:
    """The rows of a query."""
    return [tuple(row) for row in db.execute(sql).fetchall()]


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a result."""
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


def difference(actual: Iterable[Row], wanted: Iterable[Row]) -> str:
    """The first difference between two bags of rows, in words; empty when there is none.

    Floats are compared to nine digits, because engines add in different orders.
    """
    left, right = _sorted(actual), _sorted(wanted)
    for got, want in zip(left, right, strict=False):
        if not _same_row(got, want):
            return f"got {got}, the oracle has {want}"
    return "" if len(left) == len(right) else f"{len(left)} rows, the oracle has {len(right)}"


def _load(db: duckdb.DuckDBPyConnection, name: str, files: list[Path]) -> None:
    listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    db.execute(
        f"CREATE TABLE {name} AS SELECT * FROM read_csv([{listed}], header = true, nullstr = 'NA', sample_size = -1)"
    )


def _sorted(rows: Iterable[Row]) -> list[Row]:
    # Floats last: two sums that differ in the last digit must not change the order of rows.
    plain = [tuple(_plain(value) for value in row) for row in rows]
    return sorted(plain, key=lambda row: ([str(v) for v in row if not isinstance(v, float)], _floats(row)))


def _floats(row: Row) -> list[float]:
    return [v for v in row if isinstance(v, float)]


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return value


def _same_row(got: Row, want: Row) -> bool:
    return len(got) == len(want) and all(_same(a, b) for a, b in zip(got, want, strict=True))


def _same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return type(a) is type(b) and a == b
