"""Results of 300,000 rows where the driver may collect 1 MiB of a job's output, and an agent's heap is small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import selat
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = 300_000
TOPOLOGY = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}}
default_link: {bandwidth: 1Gbit/s, latency: 1ms}
"""
TABLES = f"""
CREATE TABLE big (id BIGINT, k STRING, v DOUBLE) WITH ('connector' = 'generator', 'rows' = '{ROWS // 2}', 'seed' = '1',
  'column.id' = 'sequence', 'column.k' = 'uniform(0, 1000000000)') AT us, AT eu;
CREATE SINK copies WITH ('connector' = 'parquet', 'path' = '%s', 'target_file_bytes' = '2000000') AT eu;
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[selat.Client]:
    root = tmp_path_factory.mktemp("large")
    (root / "topology.yaml").write_text(TOPOLOGY)
    limits = ("--driver-memory", "512m", "--spark-conf", "spark.driver.maxResultSize=1m")
    with (
        DevCluster(
            root / "topology.yaml", root / "data", ClusterOptions(agent_arguments=limits, allow_paths=(root,))
        ) as cluster,
        selat.connect(cluster.address) as made,
    ):
        list(made.script(f"SET split_size = 8; {TABLES % (root / 'copies')}"))
        yield made


def read(client: selat.Client, sql: str) -> tuple[list[int], pa.Table]:
    """The sizes of the result's batches, and all rows."""
    query = client.sql(sql)
    assert isinstance(query, selat.Query)
    with query.results() as results:
        batches = [batch.batch for batch in results]
    return [batch.num_rows for batch in batches], pa.Table.from_batches(batches)


def sums(rows: pa.Table) -> tuple[object, ...]:
    with duckdb.connect() as session:
        session.register("result", rows)
        row = session.execute("SELECT count(*), sum(id), sum(hash(id, k, v)) FROM result").fetchone()
    assert row is not None
    return tuple(row)


def test_rows_that_only_pass_reach_a_client_and_a_sink_equally(client: selat.Client, tmp_path: Path) -> None:
    sizes, rows = read(client, "SELECT id, k, v FROM big")
    assert len(sizes) > 1
    counted = sums(rows)
    assert counted[0] == ROWS
    assert counted[1] == 2 * sum(range(ROWS // 2))

    insert = client.sql("INSERT INTO copies SELECT id, k, v FROM big")
    assert isinstance(insert, selat.Query)
    assert insert.wait().rows_out == ROWS
    (path,) = {Path(relation.bindings[0].options["path"]) for relation in client.sinks()}
    files = sorted(path.glob("*.parquet"))
    assert len(files) > 1
    assert sum(pq.read_metadata(file).num_rows for file in files) == ROWS
    assert sums(pq.read_table(files)) == counted


def test_sorted_rows_come_in_order(client: selat.Client) -> None:
    """A single task sorts all of them."""
    sizes, rows = read(client, "SELECT k, id, v FROM big ORDER BY id DESC, v")
    assert sum(sizes) == ROWS
    ids = rows.column("id").to_pylist()
    assert ids == sorted(ids, reverse=True)


@pytest.mark.parametrize("where", ["", "WHERE id % 3 = 0"])
def test_columns_of_files_are_the_same_whoever_reads_them(client: selat.Client, where: str) -> None:
    """The agent, or Spark where rows are filtered."""
    root = Path(client.sinks()[0].bindings[0].options["path"]).parent
    files = root / ("filtered" if where else "whole")
    files.mkdir()
    with duckdb.connect() as session:
        stored = "SELECT i AS id, md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS k, i / 7 AS v FROM range(400000) AS n(i)"
        session.execute(f"COPY ({stored}) TO '{files}/0.parquet' (FORMAT parquet, ROW_GROUP_SIZE 50000)")
        wanted = session.sql(f"SELECT v, id, k FROM '{files}/*.parquet' {where}").to_arrow_table()
    with selat.connect(client.address) as own:
        table = (
            f"(id BIGINT, k STRING, v DOUBLE) WITH ('connector' = 'files', 'format' = 'parquet', 'path' = '{files}')"
        )
        list(own.script(f"SET split_size = 64; CREATE TABLE {files.name} {table} AT us;"))
        _, rows = read(own, f"SELECT v, id, k FROM {files.name} {where}")
    assert rows.schema.names == ["v", "id", "k"]
    assert sums(rows) == sums(wanted)
