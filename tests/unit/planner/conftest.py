"""Fixtures of the planner's tests."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.unit.planner.engine import connect


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine of its own for each module: DuckDB with Spark's functions."""
    with connect() as connection:
        yield connection
