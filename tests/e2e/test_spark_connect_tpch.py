"""TPC-H's 22 texts by Spark's own client over three sites: alone, and as DataFrames; results equal DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from pyspark.sql.connect.session import SparkSession

import selat
from benchmarks.tpch import queries
from benchmarks.tpch.__main__ import analyse
from benchmarks.tpch.answers import difference
from benchmarks.tpch.data import declarations, load, write_shards
from tests.e2e.cluster import running_cluster
from tests.e2e.test_spark_connect import session_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

SITES = ("us", "eu", "asia")


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    return load(0.01)


@pytest.fixture(scope="module")
def spark(db: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("tpch")
    write_shards(db, root / "input", SITES)
    arguments = ("--connect-port", "0")
    with running_cluster(root / "cluster", heartbeat_timeout_s=60, master_arguments=arguments) as cluster:
        with selat.connect(cluster.address) as client:
            list(client.script(declarations(root / "input", SITES)))
            analyse(client)
        with session_of(cluster) as session:
            yield session


@pytest.mark.parametrize("name", queries())
def test_a_text_as_a_frame(spark: SparkSession, db: duckdb.DuckDBPyConnection, name: str) -> None:
    wanted = db.execute(queries()[name]).fetchall()
    frame: Any = spark.sql(queries()[name])
    rows = [tuple(row) for row in frame.select("*").collect()]
    assert difference(rows, wanted) is None


@pytest.mark.parametrize("name", ["Q1", "Q6", "Q13", "Q18"])
def test_a_text_alone(spark: SparkSession, db: duckdb.DuckDBPyConnection, name: str) -> None:
    wanted = db.execute(queries()[name]).fetchall()
    assert difference([tuple(row) for row in spark.sql(queries()[name]).collect()], wanted) is None
