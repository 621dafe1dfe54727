"""Changes of queries with EMIT EVERY: the table that they leave, and sinks that take them."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import selat
from selat.cli import cli
from tests.e2e import oracle
from tests.e2e.cluster import submit
from tests.e2e.faults import Scene
from tests.e2e.queries import CASES

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

CHANGES = {c.name: c for c in CASES if c.name in ("totals_that_are_deleted", "ranks_that_change", "total_of_all_rows")}
KEYS = {
    "totals_that_are_deleted": "product, category",
    "ranks_that_change": "category, place",
    "total_of_all_rows": "1",
}


@pytest.fixture
def db(calm: Scene) -> duckdb.DuckDBPyConnection:
    return oracle.connect(calm.dataset)


def left_by(db: duckdb.DuckDBPyConnection, name: str) -> list[tuple[object, ...]]:
    """The table that the oracle's changes leave."""
    newest = f"QUALIFY row_number() OVER (PARTITION BY {KEYS[name]} ORDER BY _at DESC) = 1"
    kept = f"SELECT * EXCLUDE (_op, _at) FROM (FROM ({CHANGES[name].oracle}) {newest}) WHERE _op = 'upsert'"
    return sorted(db.sql(kept).fetchall(), key=repr)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def test_the_table_is_what_all_changes_leave(
    calm: Scene, calm_client: selat.Client, db: duckdb.DuckDBPyConnection
) -> None:
    queries = submit(calm_client, tuple(CHANGES.values()))
    for name, query in queries.items():
        wanted = left_by(db, name)
        assert wanted
        with query.results() as results:
            assert rows(results.table()) == wanted, name
        assert query.info().upsert_by is not None
    deleted = queries["totals_that_are_deleted"]
    assert deleted.info().upsert_by == ("product", "category")
    assert deleted.results().arrow().column_names == ["product", "category", "n", "_op", "_at"]
    options = ["--master", calm.cluster.address, "-o", "json"]
    shown = CliRunner().invoke(cli, [*options, "query", "results", deleted.id, "--no-follow"])
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert sorted(tuple(line.values()) for line in lines) == left_by(db, "totals_that_are_deleted")
    shown = CliRunner().invoke(cli, [*options, "query", "results", deleted.id, "--no-follow", "--changes"])
    assert {json.loads(line)["_op"] for line in shown.stdout.splitlines()} == {"upsert", "delete"}


def test_a_sink_takes_changes_if_it_says_so(
    calm: Scene, calm_client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    case = CHANGES["totals_that_are_deleted"]
    for name, options in (("rows_alone", ""), ("with_changes", ", 'changes' = 'log', 'partition_by' = '_op'")):
        calm_client.sql(
            f"CREATE SINK {name} AT eu WITH ('connector' = 'parquet', 'path' = '{tmp_path / name}'{options})"
        )
    with pytest.raises(selat.StatementError, match="takes rows, and a query with EMIT EVERY gives changes") as caught:
        calm_client.sql(f"INSERT INTO rows_alone {case.sql}")
    assert "'changes' = 'log'" in caught.value.hint
    query = calm_client.sql(f"INSERT INTO with_changes {case.sql}")
    assert isinstance(query, selat.Query)
    info = query.wait()
    assert info.state is selat.QueryState.FINISHED, info.reason
    files = f"read_parquet('{tmp_path}/with_changes/*/*.parquet', hive_partitioning = true)"
    columns = "product, category, n, _op, _at"
    written = db.sql(f"SELECT {columns} FROM {files}").fetchall()
    assert sorted(written, key=repr) == sorted(db.sql(f"SELECT {columns} FROM ({case.oracle})").fetchall(), key=repr)
    for name in ("rows_alone", "with_changes"):
        calm_client.sql(f"DROP SINK {name}")
