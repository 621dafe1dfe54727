"""TPC-DS: every text that plain Spark runs, unchanged, over tables whose rows lie at three sites; equal to DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp, parse_one

import selat
from benchmarks.tpcds import queries
from benchmarks.tpcds.data import load, schema, write_shards
from benchmarks.tpch.answers import difference, differing
from tests.e2e.cluster import running_cluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

SITES = ("us", "eu", "asia")
LEAST_WITH_ROWS = 70
"""Texts that have a value in their result over these data."""


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    return load()


@pytest.fixture(scope="module")
def client(db: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[selat.Client]:
    root = tmp_path_factory.mktemp("tpcds")
    declarations = write_shards(db, root / "input", SITES)
    with running_cluster(root / "cluster", heartbeat_timeout_s=60) as cluster, selat.connect(cluster.address) as client:
        list(client.script(f"{declarations} SET key_filters = 'bytes'"))
        yield client


@pytest.fixture(scope="module")
def plain_spark() -> Iterator[SparkSession]:
    """Spark by itself, over the same tables without rows."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    for table, columns in schema().items():
        declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        spark.createDataFrame([], declared).createOrReplaceTempView(table)
    yield spark
    spark.stop()


def test_most_texts_have_something_to_prove(db: duckdb.DuckDBPyConnection) -> None:
    results = [db.execute(text).fetchall() for text in queries().values()]
    assert sum(any(value for row in rows for value in row) for rows in results) >= LEAST_WITH_ROWS


@pytest.mark.parametrize("name", queries())
def test_a_text_as_it_is(
    client: selat.Client, db: duckdb.DuckDBPyConnection, request: pytest.FixtureRequest, name: str
) -> None:
    text = queries()[name]
    query = _submitted(client, text)
    if query is None:
        spark = request.getfixturevalue("plain_spark")
        with pytest.raises(PySparkException):
            spark.sql(text).collect()
        return
    rows = [tuple(row.values()) for row in query.results().arrow().to_pylist()]
    assert query.wait().state is selat.QueryState.FINISHED
    assert _wrong(db, text, rows) is None


def _submitted(client: selat.Client, text: str) -> selat.Query | None:
    """None: it was refused."""
    try:
        query = client.sql(text)
    except selat.SelatError:
        return None
    assert isinstance(query, selat.Query)
    return query


def _wrong(db: duckdb.DuckDBPyConnection, text: str, rows: Sequence[Sequence[object]]) -> str | None:
    """Return how rows differ from DuckDB's; LIMIT may choose among those that are equal in ORDER BY."""
    wanted = db.execute(text).fetchall()
    found = difference(rows, wanted)
    tree = parse_one(text, read="duckdb")
    if found is None or len(rows) != len(wanted) or tree.args.get("limit") is None:
        return found
    tree.set("limit", None)
    cursor = db.execute(tree.sql("duckdb"))
    names = [column[0].lower() for column in cursor.description or ()]
    if unknown := differing(rows, cursor.fetchall()):
        return f"{len(unknown)} rows are not in the whole result, as {unknown[0]}"
    order = tree.args["order"].expressions if tree.args.get("order") else []
    keys = [names.index(key.this.name.lower()) for key in order if key.this.name.lower() in names]
    keys += [int(key.this.this) - 1 for key in order if isinstance(key.this, exp.Literal)]
    return difference([[row[key] for key in keys] for row in rows], [[row[key] for key in keys] for row in wanted])
