"""Spark's own client, unchanged, against a cluster of three sites: equal to DuckDB's results over the same rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.sql.connect.functions as sf
import pytest
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.window import Window

import selat
from selat.dev.cluster import DevCluster
from tests.e2e.cluster import running_cluster, wait_until
from tests.e2e.shards import places, write_shards
from tests.e2e.sinks import files as sink_files

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

COUNTRIES = pa.table({"site_id": [0, 1, 2], "country": ["US", "DE", "SG"]})


def orders(site: int) -> pa.Table:
    numbers = range(site, 3000, 3)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "site_id": [site] * len(numbers),
            "product": [f"p{number % 7}" for number in numbers],
            "price": [number * 0.25 for number in numbers],
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rows")
    write_shards(root, orders)
    pq.write_table(COUNTRIES, root / "countries.parquet")
    return root


@pytest.fixture(scope="module")
def cluster(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    directory = tmp_path_factory.mktemp("connect")
    with running_cluster(directory, master_arguments=("--connect-port", "0")) as cluster:
        with selat.connect(cluster.address) as client:
            list(
                client.script(
                    f"""CREATE TABLE orders (id BIGINT, site_id BIGINT, product STRING, price DOUBLE) {places(files)};
                    CREATE TABLE countries (site_id BIGINT, country STRING) AT us WITH ('connector' = 'files',
                      'format' = 'parquet', 'path' = '{files}/countries.parquet');
                    CREATE VIEW dear AS SELECT * FROM orders WHERE price > 700;
                    CREATE STREAM clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
                      AT us WITH ('connector' = 'push');"""
                )
            )
        yield cluster


@contextmanager
def session_of(cluster: DevCluster, parameters: str = "") -> Iterator[SparkSession]:
    """A session, which ends: what a client still has to say keeps its process alive."""
    (address,) = (process.connect for process in cluster.data.serving() if process.connect)
    port = address.rpartition(":")[2]
    session = SparkSession(f"sc://localhost:{port}/;user_id=tester{parameters}")
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="module")
def spark(cluster: DevCluster) -> Iterator[SparkSession]:
    with session_of(cluster) as session:
        yield session


@pytest.fixture(scope="module")
def db(files: Path) -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute(f"CREATE VIEW orders AS SELECT * FROM read_parquet('{files}/*/shard.parquet')")
    found.execute(f"CREATE VIEW countries AS SELECT * FROM read_parquet('{files}/countries.parquet')")
    return found


def test_a_page_of_what_people_type(spark: SparkSession, db: duckdb.DuckDBPyConnection, cluster: DevCluster) -> None:
    assert [row.one for row in spark.sql("SELECT 1 AS one").collect()] == [1]
    rich = (
        spark.table("orders")
        .where(sf.col("price") > 100)
        .join(spark.table("countries"), "site_id")
        .groupBy("country")
        .agg(sf.sum("price").alias("sum"), sf.count("*").alias("n"))
        .orderBy("country")
    )
    expected = """SELECT country, sum(price), count(*) FROM orders JOIN countries USING (site_id) WHERE price > 100
        GROUP BY country ORDER BY country"""
    assert [tuple(row) for row in rich.collect()] == db.execute(expected).fetchall()
    assert rich.toPandas().columns.tolist() == ["country", "sum", "n"]
    assert rich.toArrow().num_rows == 3
    assert [field.dataType.simpleString() for field in rich.schema.fields] == ["string", "double", "bigint"]
    assert spark.table("orders").count() == 3000
    newest = Window.partitionBy("product").orderBy(sf.desc("id"))
    first = spark.table("orders").withColumn("place", sf.row_number().over(newest)).where("place = 1")
    assert {row.id for row in first.collect()} == {2993, 2994, 2995, 2996, 2997, 2998, 2999}
    assert spark.table("orders").where("id < 0").toPandas().empty
    with cluster.connect() as client:
        queries = client.queries(all=True)
    assert any(query.last.sql.startswith("-- a Spark client's plan: sort") for query in queries)


def test_views_text_and_show(spark: SparkSession, db: duckdb.DuckDBPyConnection, capsys: Any) -> None:
    spark.table("dear").where("product = 'p1'").createOrReplaceTempView("mine")
    found = spark.sql("SELECT count(*) AS n, max(price) AS most FROM mine").collect()
    expected = "SELECT count(*), max(price) FROM orders WHERE price > 700 AND product = 'p1'"
    assert [tuple(row) for row in found] == db.execute(expected).fetchall()
    spark.sql("SELECT product FROM mine GROUP BY product").show()
    assert "|     p1|" in capsys.readouterr().out
    spark.table("mine").where("id > 10").explain()
    assert "Filter" in capsys.readouterr().out
    assert spark.catalog.dropTempView("mine")
    with pytest.raises(AnalysisException, match="mine"):
        spark.table("mine").collect()


def test_arguments(spark: SparkSession, db: duckdb.DuckDBPyConnection, cluster: DevCluster) -> None:
    text = "SELECT product, count(*) AS n FROM orders WHERE price > {} AND product <> {} GROUP BY product ORDER BY 1"
    expected = db.execute(text.format("?", "?"), [100.5, "p'1"]).fetchall()
    named = spark.sql(text.format(":price", ":product"), args={"price": 100.5, "product": "p'1"})
    assert [tuple(row) for row in named.collect()] == expected
    positions: Any = spark.sql(text.format("?", "?"), args=[sf.lit(100.5), "p'1"])
    assert [tuple(row) for row in positions.where("n > 0").collect()] == expected
    joined = spark.sql(
        "SELECT country FROM countries JOIN orders USING (site_id) WHERE id = :id OR array_contains(:ids, id)",
        args={"id": 2, "ids": sf.array(sf.lit(2**40), sf.lit(3))},
    )
    assert sorted(row.country for row in joined.collect()) == ["SG", "US"]
    assert "9.75" in str(spark.sql("EXPLAIN SELECT id FROM orders WHERE price = ?", args=[9.75]).collect())
    with cluster.connect() as client:
        listed = [query.last.sql for query in client.queries(all=True)]
    assert text.format("CAST('100.5' AS DOUBLE)", "'p\\'1'") in listed
    with pytest.raises(AnalysisException, match=r"UNBOUND_SQL_PARAMETER.*:price"):
        spark.sql("SELECT * FROM orders WHERE price = :price", args={"prize": 1})


def test_the_catalog_is_selats(spark: SparkSession) -> None:
    kinds = {table.name: table.tableType for table in spark.catalog.listTables()}
    assert kinds == {"orders": "MANAGED", "countries": "MANAGED", "dear": "VIEW", "clicks": "STREAM"}
    assert [column.name for column in spark.catalog.listColumns("countries")] == ["site_id", "country"]
    assert "orders" in str(spark.sql("SHOW TABLES").collect())
    with pytest.raises(UnsupportedOperationException, match=r"clicks is a stream.*selat sql"):
        spark.table("clicks").collect()


@pytest.mark.filterwarnings("ignore:'verifySchema' is ignored")
def test_ibis(spark: SparkSession, db: duckdb.DuckDBPyConnection) -> None:
    """Its backend for PySpark, over the endpoint: tables, expressions, views and rows in memory."""
    backend = ibis.pyspark.connect(spark)
    assert {"orders", "countries", "dear"} <= set(backend.list_tables())
    assert (backend.list_catalogs(), backend.list_databases()) == (["spark_catalog"], ["default"])
    orders, countries = backend.table("orders"), backend.table("countries")
    words = ibis.memtable({"site_id": [0, 2], "word": ["zero", "two"]})
    found = (
        orders.filter(orders.price > 100)
        .join(countries, "site_id")
        .join(words, "site_id")
        .group_by("country", "word")
        .agg(n=ibis._.count(), sum=ibis._.price.sum())
        .order_by("country")
    )
    expected = """SELECT country, word, count(*), sum(price) FROM orders JOIN countries USING (site_id)
        JOIN (VALUES (0, 'zero'), (2, 'two')) AS w(site_id, word) USING (site_id)
        WHERE price > 100 GROUP BY ALL ORDER BY 1"""
    assert [tuple(row.values()) for row in found.to_pyarrow().to_pylist()] == db.execute(expected).fetchall()
    backend.create_view("large", orders.filter(orders.price > 700))
    assert (
        backend.table("large").count().execute()
        == db.execute("SELECT count(*) FROM orders WHERE price > 700").fetchall()[0][0]
    )
    # ibis 12 with this sqlglot makes a DROP VIEW without a name.
    spark.sql("DROP VIEW large")
    assert "large" not in backend.list_tables()


def test_rows_of_the_client(spark: SparkSession) -> None:
    local = spark.createDataFrame([(0, "zero"), (2, "two")], ["site_id", "word"])
    found = spark.table("countries").join(local, "site_id").orderBy("site_id").collect()
    assert [tuple(row) for row in found] == [(0, "US", "zero"), (2, "SG", "two")]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda spark: spark.read.csv("/etc/passwd").collect(), "data_source"),
        (lambda spark: spark.sql("CREATE TABLE x AS SELECT 1").collect(), "UNSUPPORTED|syntax|SYNTAX"),
        (lambda spark: spark.range(3).write.parquet("/tmp/nothing"), "write_operation"),
        (lambda spark: spark.sql("SELECT reflect('java.lang.System', 'getenv')").collect(), "reflect"),
        (
            lambda spark: spark.range(3).select(sf.udf(lambda x: x)("id")).collect(),
            "common_inline_user_defined_function",
        ),
        (lambda spark: spark.conf.set("spark.sql.warehouse.dir", "/tmp"), "cannot be changed"),
        (lambda spark: spark.addArtifact(__file__, file=True), "cannot be added"),
        (lambda spark: spark.table("nowhere").collect(), "nowhere"),
        (lambda spark: spark.table("orders").select("nothing").collect(), "nothing"),
    ],
)
def test_what_is_refused(ask: Any, said: str, spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=said):
        ask(spark)


def test_sessions_do_not_see_each_other(spark: SparkSession, cluster: DevCluster) -> None:
    with session_of(cluster) as other:
        other.range(3).createOrReplaceTempView("numbers")
        other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert other.sql("SELECT sum(id) AS s FROM numbers").collect()[0].s == 3
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        with pytest.raises(PySparkException, match="numbers"):
            spark.table("numbers").collect()


def test_an_interrupt_ends_the_query(spark: SparkSession, cluster: DevCluster) -> None:
    spark.addTag("slow")
    failed: list[Exception] = []

    def run() -> None:
        spark.addTag("slow")
        try:
            spark.range(0, 10**13, 1, 2).where("id % 7 = 8").count()
        except Exception as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: spark.interruptTag("slow"))
    thread.join(60)
    spark.removeTag("slow")
    assert failed
    assert "cancelled" in str(failed[0])


def test_a_session_at_a_site(cluster: DevCluster) -> None:
    with session_of(cluster, ";site=eu") as there:
        assert there.table("orders").groupBy("product").count().count() == 7
    with session_of(cluster, ";site=mars") as nowhere, pytest.raises(PySparkException, match="mars"):
        nowhere.range(1).collect()


def test_plans_of_a_session_that_caches_take_rows_again(cluster: DevCluster) -> None:
    with session_of(cluster) as spark, selat.connect(cluster.address) as client:

        def reuses() -> bool:
            newest = max(client.queries(all=True), key=lambda query: query.last.submitted_at)
            return bool(json.loads(newest.explain().json)["batch"]["options"]["reuse"])

        frame = spark.table("orders").groupBy("product").count().orderBy("product")
        wanted = frame.collect()
        assert not reuses()
        frame.cache()
        assert frame.collect() == frame.collect() == wanted
        assert reuses()
        frame.unpersist()
        assert frame.collect() == wanted
        assert not reuses()


@pytest.fixture
def sinks(cluster: DevCluster, tmp_path: Path) -> Iterator[Path]:
    """The sink `totals` declares its columns, and `free` does not."""
    parquet = "WITH ('connector' = 'parquet', 'path' = '{}')".format
    totals = f"totals (product STRING, n BIGINT, `total of it` DOUBLE) AT us {parquet(tmp_path / 'totals')}"
    with cluster.connect() as client:
        list(client.script(f"CREATE SINK {totals}; CREATE SINK free AT eu {parquet(tmp_path / 'free')}"))
        yield tmp_path
        list(client.script("DROP SINK totals; DROP SINK free"))


def rows_in(directory: Path, db: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    found = [str(path) for path in sink_files(directory)]
    return sorted(db.execute(f"SELECT * FROM read_parquet({found})").fetchall())


def test_rows_go_into_sinks_once(
    spark: SparkSession, db: duckdb.DuckDBPyConnection, sinks: Path, cluster: DevCluster
) -> None:
    grouped = spark.table("orders").groupBy("product")
    totals = grouped.agg(sf.count("*").alias("n"), sf.sum("price").alias("total of it"))
    totals.select("total of it", "N", "product").writeTo("totals").append()
    totals.select("product", sf.col("n").cast("int").alias("x"), "total of it").write.insertInto("default.totals")
    spark.sql("INSERT INTO totals SELECT product, :n, sum(price) FROM orders GROUP BY product", args={"n": 7})
    wanted = db.execute("SELECT product, count(*), sum(price) FROM orders GROUP BY product").fetchall()
    assert rows_in(sinks / "totals", db) == sorted([*wanted, *wanted, *((p, 7, total) for p, _, total in wanted)])

    spark.range(3).withColumn("half", sf.col("id") / 2).write.mode("append").insertInto("free")
    assert rows_in(sinks / "free", db) == [(0, 0.0), (1, 0.5), (2, 1.0)]
    with cluster.connect() as client:
        listed = [query.last.sql for query in client.queries(all=True)]
    assert any(text.startswith("-- into totals\n-- a Spark client's plan: ") for text in listed)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda rows: rows.writeTo("totals").overwritePartitions(), "to append rows"),
        (lambda rows: rows.writeTo("totals").createOrReplace(), "to append rows"),
        (lambda rows: rows.writeTo("totals").option("x", "y").append(), "with options"),
        (lambda rows: rows.write.insertInto("totals", overwrite=True), "to append rows"),
        (lambda rows: rows.write.mode("append").saveAsTable("totals"), "to append rows"),
        (lambda rows: rows.writeTo("nothing").append(), "no sink nothing"),
        (lambda rows: rows.writeTo("orders").append(), "orders is a table"),
        (lambda rows: rows.writeTo("totals").append(), "no column total of it is written"),
        (lambda rows: rows.drop("n").write.insertInto("totals"), "2 columns are written"),
        (lambda rows: rows.withColumn("n", sf.lit("x")).write.insertInto("totals"), "n is STRING, and cannot go into"),
    ],
)
def test_writes_that_are_refused(spark: SparkSession, sinks: Path, write: Any, message: str) -> None:
    rows = spark.table("orders").select("product", sf.lit(1).alias("n"), "price")
    with pytest.raises(PySparkException, match=message):
        write(rows)
    assert not (sinks / "totals").exists() or not list(sink_files(sinks / "totals"))
