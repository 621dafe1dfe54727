"""The oracle: DuckDB, an engine that knows nothing of ours, over the same files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import overload

import duckdb
import pyarrow as pa

from tests.e2e.dataset import Dataset

Row = tuple[object, ...]

TYPES = {
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "HUGEINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
}
"""The type that Spark gives a column, by DuckDB's type; a decimal has the same digits in both.

DuckDB makes a HUGEINT of a sum of integers, Spark a BIGINT. Wherever else Spark has another type than DuckDB, above all
by its rules for decimals, the oracle's query has a CAST.
"""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True, slots=True)
class Answer(Sequence[Row]):
    """Columns, and rows as plain values that compare across engines, sorted."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def where(self, keeps: Callable[[Row], bool]) -> Answer:
        """The rows that the function keeps."""
        return replace(self, rows=tuple(filter(keeps, self.rows)))

    def since(self, instant: datetime) -> Answer:
        """The rows of windows that begin at the instant or later; the first column is the window's start."""
        return self.where(lambda row: isinstance(row[0], datetime) and row[0] >= instant)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self.rows[index]


def connect(dataset: Dataset) -> duckdb.DuckDBPyConnection:
    """DuckDB with the dataset's relations as tables and `w(ts, n)`, the start of ts's window of n seconds."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute("CREATE MACRO w(ts, n) AS to_timestamp(floor(epoch(ts) / n) * n)")
    columns = (
        "{id: 'BIGINT', ts: 'TIMESTAMPTZ', product: 'VARCHAR', quantity: 'INTEGER', price: 'DOUBLE', "
        "fee: 'DECIMAL(10,2)', express: 'BOOLEAN'}"
    )
    root = dataset.root
    db.execute(
        f"""CREATE TABLE orders AS
        SELECT *, 'us' AS site FROM read_csv('{root}/us/orders/*.csv', header = true, columns = {columns})
        UNION ALL SELECT *, 'eu' AS site
        FROM read_json('{root}/eu/orders/*.json', format = 'newline_delimited', columns = {columns})
        UNION ALL SELECT *, 'asia' AS site FROM read_parquet('{root}/asia/orders/*.parquet')"""
    )
    db.execute("CREATE TABLE parcels AS SELECT id, ts, product, fee, site FROM orders WHERE site = 'asia'")
    db.execute(f"CREATE TABLE products AS SELECT * FROM read_csv('{root}/us/products.csv', header = true)")
    db.execute("CREATE TABLE recalls (product VARCHAR, reason VARCHAR)")
    shards = " UNION ALL ".join(
        f"SELECT *, '{site}' AS site FROM read_parquet('{root}/{site}/stock.parquet')" for site in ("us", "eu", "asia")
    )
    db.execute(f"CREATE TABLE stock AS {shards}")
    return db


def rows_of(table: pa.Table) -> Answer:
    """The answer that a client was given."""
    columns = tuple(Column(field.name, field.type) for field in table.schema)
    values = [column.to_pylist() for column in table.columns]
    return Answer(columns, _sorted(zip(*values, strict=True)))


def expected(db: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    """DuckDB's answer, with the types that Spark gives it."""
    found = db.execute(sql)
    columns = tuple(Column(name, _type_of(str(kind))) for name, kind, *_ in found.description or ())
    return Answer(columns, _sorted(found.fetchall()))


def assert_same(actual: Answer, wanted: Answer, name: str) -> None:
    """Assert that names and types of columns and the rows are the same."""
    got, want = (", ".join(map(str, answer.columns)) for answer in (actual, wanted))
    assert got == want, f"{name}: columns {got}, the oracle has {want}"
    assert_same_rows(actual, wanted, name)


def assert_same_rows(actual: Sequence[Row], wanted: Sequence[Row], name: str) -> None:
    """Equal as multisets; floats to 9 digits, because sums are added in another order."""
    assert len(actual) == len(wanted), f"{name}: {len(actual)} rows, the oracle has {len(wanted)}"
    for got, want in zip(_sorted(actual), _sorted(wanted), strict=True):
        assert len(got) == len(want), f"{name}: {got} against {want}"
        assert all(_same(a, b) for a, b in zip(got, want, strict=True)), f"{name}: {got}, the oracle says {want}"


def assert_among(actual: Answer, wanted: Answer, name: str) -> None:
    """Assert that names and types of columns are the same, and each row is one of the oracle's, none more often."""
    assert actual.columns == wanted.columns, f"{name}: {actual.columns} instead of {wanted.columns}"
    left: dict[Row, list[Row]] = {}
    for row in wanted:
        left.setdefault(_but_floats(row), []).append(row)
    for got in actual:
        alike = left.get(_but_floats(got), [])
        found = next((row for row in alike if all(map(_same, got, row))), None)
        assert found is not None, f"{name}: the oracle does not have {got}, or not so often; of its rows {alike}"
        alike.remove(found)


def _but_floats(row: Row) -> Row:
    return tuple(None if isinstance(value, float) else value for value in row)


def _type_of(duckdb_type: str) -> pa.DataType:
    """Spark's type for one of DuckDB. Raises KeyError when `TYPES` lacks a type that no query had before."""
    decimal = _DECIMAL.fullmatch(duckdb_type)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else TYPES[duckdb_type]


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, Decimal):
        return value.normalize()
    return value


def _same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return a == b


def _sorted(rows: Iterable[Sequence[object]]) -> tuple[Row, ...]:
    # Floats last: two sums that differ in the last digit must not change the order of rows.
    plain = (tuple(map(_plain, row)) for row in rows)
    return tuple(sorted(plain, key=lambda row: ([str(v) for v in row if not isinstance(v, float)], _floats(row))))


def _floats(row: Row) -> list[float]:
    return [v for v in row if isinstance(v, float)]
