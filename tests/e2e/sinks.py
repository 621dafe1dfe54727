"""What the tests of sinks share: INSERT INTO over the dataset, and the directory as DuckDB reads it."""

from __future__ import annotations

from pathlib import Path

import duckdb

import selat
from tests.e2e.oracle import Answer, expected

NOTHING = Answer((), ())


def insert(client: selat.Client, sink: str, sql: str) -> selat.Query:
    outcome = client.sql(f"INSERT INTO {sink} {sql}")
    assert isinstance(outcome, selat.Query)
    assert outcome.last.sink == sink
    return outcome


def files(directory: Path) -> list[Path]:
    """What a reader's glob finds."""
    return sorted(directory.rglob("*.parquet"))


def written(db: duckdb.DuckDBPyConnection, directory: Path, columns: str = "*") -> Answer:
    """All rows in the files that are there; without files, no columns either."""
    there = files(directory)
    return expected(db, f"SELECT {columns} FROM read_parquet({[str(path) for path in there]})") if there else NOTHING


def half_written(directory: Path) -> list[Path]:
    """Files that no reader looks at."""
    return [path for path in (directory / "_selat").rglob("*") if path.is_file()]
