"""Clients of Arrow Flight SQL, unchanged, over three sites: equal to DuckDB's results over the same rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from adbc_driver_flightsql.dbapi import connect
from adbc_driver_manager import Error

import selat
from selat.dev.cluster import DevCluster
from tests.e2e.cluster import running_cluster, wait_until
from tests.e2e.shards import places, write_shards

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = 30_000


def orders(site: int) -> pa.Table:
    numbers = range(site, ROWS, 3)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "product": [None if number % 11 == 0 else f"p{number % 7}" for number in numbers],
            "price": [number * 0.25 for number in numbers],
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rows")
    write_shards(root, orders)
    return root


@pytest.fixture(scope="module")
def cluster(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    directory = tmp_path_factory.mktemp("flight")
    with running_cluster(directory, master_arguments=("--flight-port", "0")) as cluster:
        with selat.connect(cluster.address) as client:
            list(
                client.script(
                    f"""CREATE TABLE orders (id BIGINT, product STRING, price DOUBLE) {places(files)};
                    CREATE STREAM clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' =
                      'generator', 'rows_per_second' = '50') AT us, AT eu;"""
                )
            )
        yield cluster


@pytest.fixture
def connection(cluster: DevCluster) -> Iterator[Any]:
    (address,) = (process.flight for process in cluster.data.serving() if process.flight)
    with connect(f"grpc://{address}", autocommit=True) as found:
        yield found


@pytest.fixture(scope="module")
def db(files: Path) -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute(f"CREATE VIEW orders AS SELECT * FROM read_parquet('{files}/*/shard.parquet')")
    return found


def test_queries_and_values(connection: Any, db: duckdb.DuckDBPyConnection) -> None:
    totals = (
        "SELECT product, count(*) AS n, sum(price) AS total FROM orders GROUP BY product ORDER BY product NULLS FIRST"
    )
    with connection.cursor() as cursor:
        cursor.execute(totals)
        assert cursor.fetch_arrow_table().schema.names == ["product", "n", "total"]
        cursor.execute(totals)
        assert cursor.fetchall() == db.execute(totals).fetchall()
        bound = "SELECT id FROM orders WHERE price > ? AND product = ? ORDER BY id"
        for least, product in ((7000.5, "p3"), (7400.0, "p1")):
            cursor.execute(bound, (least, product))
            assert cursor.fetchall() == db.execute(bound, (least, product)).fetchall()
        cursor.execute("SELECT * FROM orders WHERE id < 0")
        assert cursor.fetch_arrow_table().schema == pa.schema(
            [("id", pa.int64()), ("product", pa.string()), ("price", pa.float64())]
        )
        cursor.execute("SELECT * FROM orders")
        assert cursor.fetch_arrow_table().num_rows == ROWS


def test_statements_and_what_there_is(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE VIEW dear AS SELECT * FROM orders WHERE price > 7000")
        assert cursor.fetchall() == [("view dear created",)]
        cursor.execute("SHOW VIEWS")
        assert "dear" in [row[0] for row in cursor.fetchall()]
        cursor.execute("SET key_filters = 'never'; SELECT count(*) AS n FROM dear")
        assert cursor.fetchone() == (1999,)
    found = connection.adbc_get_objects(depth="columns", table_name_filter="ord%").read_all().to_pylist()
    (table,) = found[0]["catalog_db_schemas"][0]["db_schema_tables"]
    assert (table["table_name"], table["table_type"]) == ("orders", "TABLE")
    assert [column["column_name"] for column in table["table_columns"]] == ["id", "product", "price"]
    assert connection.adbc_get_table_types() == ["SINK", "STREAM", "TABLE", "VIEW"]
    assert connection.adbc_get_info()["vendor_name"] == "Selat"
    assert connection.adbc_get_table_schema("orders").names == ["id", "product", "price"]


def test_refusals_say_where_and_what_would_be_right(connection: Any) -> None:
    with connection.cursor() as cursor:
        with pytest.raises(Error, match=r"UNKNOWN_COLUMN.*pirce.*line 1, column 8.*price"):
            cursor.execute("SELECT pirce FROM orders")
        with pytest.raises(Error, match="no value for question mark 1"):
            cursor.execute("SELECT id FROM orders WHERE id = ?")
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchall() == [(1,)]


def test_a_stream_is_read_until_the_client_has_enough(connection: Any, cluster: DevCluster) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT page FROM clicks")
        assert len([cursor.fetchone() for _ in range(100)]) == 100
        with selat.connect(cluster.address) as client:
            (query,) = client.queries(text="SELECT page FROM clicks")
    with selat.connect(cluster.address) as client:
        wait_until(lambda: client.query(query.id).info().state is selat.QueryState.CANCELLED, timeout_s=60)


def test_a_client_that_vanishes_leaves_no_query(connection: Any, cluster: DevCluster) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT ts FROM clicks")
    cursor.fetchone()
    ending = threading.Thread(target=connection.close)
    ending.start()
    ending.join(30)
    with selat.connect(cluster.address) as client:
        running = [selat.QueryState.RUNNING, selat.QueryState.DEPLOYING]
        wait_until(lambda: not list(client.queries(text="SELECT ts FROM clicks", states=running)), timeout_s=60)
