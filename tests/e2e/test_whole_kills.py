"""A join of three tables that runs whole, filtered by keys: kill -9 in each of its phases, results equal DuckDB's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import selat
from benchmarks.tpch import queries
from benchmarks.tpch.answers import difference
from benchmarks.tpch.data import declarations, load, write_shards
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import Scene, kill

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(400)]

TEXT = queries()["Q3"]
TABLES = ("customer", "orders", "lineitem")
PREFIXED = re.sub(rf"\b({'|'.join(TABLES)})\b", r"tpch_\1", TEXT)
"""The cluster has a stream called orders."""


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    return load(0.01)


@pytest.fixture
def client(
    isolated: Scene, isolated_client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> Iterator[selat.Client]:
    write_shards(db, tmp_path, SITES)
    declared = declarations(tmp_path, SITES, "tpch_").split("\n")
    tables = [line for line in declared if line.split()[2].removeprefix("tpch_") in TABLES]
    list(isolated_client.script(f"{''.join(tables)} SET key_filters = 'always'"))
    yield isolated_client
    list(isolated_client.script("".join(f"DROP TABLE tpch_{table};" for table in TABLES)))


def _maps_done(query: selat.Query, *, of_all: bool) -> bool:
    """Return whether one map has ended, or all have; or the query has, which may be quick."""
    info = query.info()
    wanted = info.batch.tasks - 1 if info.batch is not None and of_all else 1
    return info.state.over or (info.batch is not None and info.batch.done >= wanted)


def _reading_keys(query: selat.Query) -> bool:
    info = query.info()
    return info.state.over or any(task.stage_id.startswith("keys") for task in info.tasks)


PHASES: dict[str, Callable[[selat.Query], bool]] = {
    "keys": _reading_keys,
    "maps": lambda query: _maps_done(query, of_all=False),
    "reduce": lambda query: _maps_done(query, of_all=True),
}


@pytest.mark.parametrize(
    ("phase", "victims"),
    [
        pytest.param("keys", ("agent-asia",), marks=pytest.mark.long),
        pytest.param("maps", ("agent-eu", "master")),
        pytest.param("maps", ("agent-asia", "agent-eu", "agent-us", "master"), marks=pytest.mark.long),
        pytest.param("reduce", ("agent-us", "master"), marks=pytest.mark.long),
    ],
)
def test_results_after_a_kill(
    isolated: Scene, client: selat.Client, db: duckdb.DuckDBPyConnection, phase: str, victims: tuple[str, ...]
) -> None:
    query = client.sql(PREFIXED)
    assert isinstance(query, selat.Query)
    wait_until(lambda: PHASES[phase](query))
    # The last phase may be over before anybody looks.
    assert phase == "reduce" or not query.state().over

    kill(isolated.cluster, *victims)

    rows = [tuple(row.values()) for row in query.results().arrow().to_pylist()]
    assert query.wait().state is selat.QueryState.FINISHED
    assert difference(rows, db.execute(TEXT).fetchall()) is None
