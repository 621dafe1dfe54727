"""The oracle: DuckDB, an engine that knows nothing of ours, over the same files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa

from tests.e2e.dataset import Dataset

Row = tuple[object, ...]


def connect(dataset: Dataset) -> duckdb.DuckDBPyConnection:
    """DuckDB with the dataset's relations as views and `w(ts, n)`, the start of ts's window of n seconds."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute("CREATE MACRO w(ts, n) AS to_timestamp(floor(epoch(ts) / n) * n)")
    columns = (
        "{id: 'BIGINT', ts: 'TIMESTAMPTZ', product: 'VARCHAR', quantity: 'INTEGER', price: 'DOUBLE', "
        "fee: 'DECIMAL(10,2)', express: 'BOOLEAN'}"
    )
    root = dataset.root
    db.execute(
        f"""CREATE VIEW orders AS
        SELECT *, 'us' AS site FROM read_csv('{root}/us/orders/*.csv', header = true, columns = {columns})
        UNION ALL SELECT *, 'eu' AS site
        FROM read_json('{root}/eu/orders/*.json', format = 'newline_delimited', columns = {columns})
        UNION ALL SELECT *, 'asia' AS site FROM read_parquet('{root}/asia/orders/*.parquet')"""
    )
    db.execute("CREATE VIEW parcels AS SELECT id, ts, product, fee, site FROM orders WHERE site = 'asia'")
    db.execute(f"CREATE VIEW products AS SELECT * FROM read_csv('{root}/us/products.csv', header = true)")
    db.execute("CREATE TABLE recalls (product VARCHAR, reason VARCHAR)")
    shards = " UNION ALL ".join(
        f"SELECT *, '{site}' AS site FROM read_parquet('{root}/{site}/stock.parquet')" for site in ("us", "eu", "asia")
    )
    db.execute(f"CREATE VIEW stock AS {shards}")
    return db


def rows_of(table: pa.Table) -> list[Row]:
    """Rows as plain values that compare across engines, sorted."""
    return _sorted([tuple(_plain(v) for v in row.values()) for row in table.to_pylist()])


def expected(db: duckdb.DuckDBPyConnection, sql: str) -> list[Row]:
    return _sorted([tuple(_plain(v) for v in row) for row in db.execute(sql).fetchall()])


def assert_same(actual: Sequence[Row], wanted: Sequence[Row], name: str) -> None:
    """Equal as multisets; floats to 9 digits, because sums are added in another order."""
    assert len(actual) == len(wanted), f"{name}: {len(actual)} rows, the oracle has {len(wanted)}"
    for got, want in zip(actual, wanted, strict=True):
        assert len(got) == len(want), f"{name}: {got} against {want}"
        assert all(_same(a, b) for a, b in zip(got, want, strict=True)), f"{name}: {got}, the oracle says {want}"


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


def _sorted(rows: list[Row]) -> list[Row]:
    # Floats last: two sums that differ in the last digit must not change the order of rows.
    return sorted(
        rows,
        key=lambda row: ([str(v) for v in row if not isinstance(v, float)], [v for v in row if isinstance(v, float)]),
    )
