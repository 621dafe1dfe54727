"""Runs NEXMark's texts on a cluster, and compares their results with DuckDB's over the same rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa

import selat
from benchmarks.nexmark import STREAMS, Text, scaled

INPUTS = {
    "person": "SELECT * FROM person",
    "auction": "SELECT * FROM auction",
    "bid": "SELECT * FROM bid",
}
"""Queries that give the oracle's tables all rows of the streams."""
CELL_END = "CREATE MACRO cell_end(ts) AS time_bucket(INTERVAL '10 seconds', ts) + INTERVAL '10 seconds'"
SINK = "bid_log"

Row = tuple[object, ...]


def declare(client: selat.Client, log: Path, *, scale: int = 1) -> None:
    """The streams, so many times as long, and what q10 writes into."""
    sink = (
        f"CREATE SINK {SINK} AT us "
        f"WITH ('connector' = 'parquet', 'path' = '{log}', 'partition_by' = 'dt, hm', 'roll_interval' = '1 s')"
    )
    list(client.script(f"{scaled(STREAMS.read_text(), scale)}\n{sink}"))


def submit(client: selat.Client, sql: str) -> selat.Query:
    """The query that a text submits. Raises SelatError when it is refused."""
    query = client.sql(sql)
    assert isinstance(query, selat.Query)
    return query


def load(client: selat.Client) -> duckdb.DuckDBPyConnection:
    """DuckDB with all rows of the streams that are declared, and what the oracle calls."""
    db = duckdb.connect()
    db.execute(CELL_END)
    for name, text in INPUTS.items():
        rows = _naive(submit(client, text).results().arrow())
        db.register("given", rows)
        db.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        db.unregister("given")
    return db


def wrong(text: Text, query: selat.Query, db: duckdb.DuckDBPyConnection, log: Path) -> str | None:
    """Return the difference between the result of a text and DuckDB's; waits for its end."""
    found = _written(query, db, log) if query.info().sink else _rows(query.results().arrow())
    info = query.wait()
    if info.state is not selat.QueryState.FINISHED or info.rows_late:
        return f"{info.state.value}, {info.rows_late} rows late: {info.reason}"
    wanted = db.execute(text.oracle).fetchall()
    return _difference(found, wanted) if wanted else "the oracle has no rows, which proves nothing"


def _difference(found: Iterable[Row], wanted: Iterable[Row]) -> str | None:
    """The first difference, in any order of the rows; all values are compared exactly but floats."""
    one, other = (sorted(rows, key=_exact) for rows in (found, wanted))
    if len(one) != len(other):
        return f"{len(one)} rows, not {len(other)}"
    pairs = zip(one, other, strict=True)
    return next((f"{row}, not {right}" for row, right in pairs if not _same(row, right)), None)


def _same(row: Row, right: Row) -> bool:
    floats = zip((v for v in row if isinstance(v, float)), (v for v in right if isinstance(v, float)), strict=True)
    return _exact(row) == _exact(right) and all(math.isclose(a, b, rel_tol=1e-9) for a, b in floats)


def _exact(row: Row) -> list[str]:
    return [
        str(value.normalize() if isinstance(value, Decimal) else value) for value in row if not isinstance(value, float)
    ]


def _written(query: selat.Query, db: duckdb.DuckDBPyConnection, log: Path) -> Sequence[Row]:
    query.wait()
    files = [str(path) for path in sorted(log.rglob("*.parquet"))]
    names = "auction, bidder, price, dateTime, extra, dt, hm"
    types = "{'dt': VARCHAR, 'hm': VARCHAR}"
    read = f"SELECT {names} FROM read_parquet({files}, hive_partitioning = true, hive_types = {types})"
    return [tuple(map(_plain, row)) for row in db.execute(read).fetchall()]


def _rows(table: pa.Table) -> Sequence[Row]:
    return [tuple(map(_plain, row.values())) for row in table.to_pylist()]


def _plain(value: object) -> object:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def _naive(table: pa.Table) -> pa.Table:
    """Times of UTC without a zone, so that no zone of DuckDB's session counts."""
    fields = [
        pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
