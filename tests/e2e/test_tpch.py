"""TPC-H: the 22 texts unchanged over tables whose rows lie at three sites; results equal DuckDB's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import selat
from benchmarks.tpch import queries
from benchmarks.tpch.__main__ import analyse
from benchmarks.tpch.answers import difference
from benchmarks.tpch.data import declarations, load, write_shards
from tests.e2e.cluster import running_cluster, wait_until
from tests.e2e.sinks import files, insert

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

SCALE = 0.01
SITES = ("us", "eu", "asia")


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    return load(SCALE)


@pytest.fixture(scope="module")
def client(db: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[selat.Client]:
    root = tmp_path_factory.mktemp("tpch")
    write_shards(db, root / "input", SITES)
    with running_cluster(root / "cluster", heartbeat_timeout_s=60) as cluster, selat.connect(cluster.address) as client:
        # The data are too few for filters by keys to save time.
        list(client.script(f"{declarations(root / 'input', SITES)} SET key_filters = 'bytes'"))
        yield client


@pytest.mark.parametrize("name", queries())
def test_a_text_as_it_is(client: selat.Client, db: duckdb.DuckDBPyConnection, name: str) -> None:
    text = queries()[name]
    wanted = db.execute(text).fetchall()
    assert any(value is not None for row in wanted for value in row), "a result that proves nothing"

    query = client.sql(text)

    assert isinstance(query, selat.Query)
    rows = [tuple(row.values()) for row in query.results().arrow().to_pylist()]
    assert query.wait().state is selat.QueryState.FINISHED
    assert difference(rows, wanted) is None
    # In their order, too; sums are not compared for that.
    assert [row[0] for row in rows if isinstance(row[0], str | int)] == [
        row[0] for row in wanted if isinstance(row[0], str | int)
    ]


def test_what_analyze_table_found_is_shown_and_counts(client: selat.Client, db: duckdb.DuckDBPyConnection) -> None:
    query = client.sql("ANALYZE TABLE orders COMPUTE STATISTICS FOR COLUMNS o_custkey, o_orderdate")
    assert isinstance(query, selat.Query)
    (found,) = query.results().arrow().to_pylist()
    rows, *distinct = db.execute(
        "SELECT count(*), count(DISTINCT o_custkey), count(DISTINCT o_orderdate) FROM orders"
    ).fetchall()[0]
    assert found["rows"] == rows
    assert [found["distinct_o_custkey"], found["distinct_o_orderdate"]] == pytest.approx(distinct, rel=0.2)

    def described() -> bool:
        shown = client.sql("DESCRIBE TABLE orders")
        assert isinstance(shown, selat.Rows)
        return any(row["value"] == f"about {found['distinct_o_custkey']}" for row in shown)

    wait_until(described)


def test_views_sinks_and_explain(client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    view = (
        "CREATE VIEW revenue (supplier_no, total) AS SELECT l_suppkey, sum(l_quantity) FROM lineitem "
        "WHERE EXISTS (SELECT 1 FROM part WHERE p_partkey = l_partkey AND p_brand = 'Brand#23') GROUP BY l_suppkey"
    )
    best = "SELECT s_name, total FROM supplier, revenue WHERE s_suppkey = supplier_no AND total > 1000"
    list(client.script(f"{view}; CREATE SINK best AT eu WITH ('connector' = 'parquet', 'path' = '{tmp_path}/best')"))
    db.execute(view)
    wanted = db.execute(best).fetchall()
    assert wanted

    query = insert(client, "best", best)

    assert query.wait().state is selat.QueryState.FINISHED
    rows = db.execute(f"SELECT * FROM read_parquet({[str(path) for path in files(tmp_path / 'best')]})").fetchall()
    assert difference(rows, wanted) is None
    plan = query.explain()
    assert "(it runs whole: in parts, " in plan.text
    assert "part in map3: sends p_partkey, each row once\n      where NOT p_brand IS NULL" in plan.text
    scans = {scan["table"]: scan for scan in json.loads(plan.json)["batch"]["scans"]}
    assert scans["supplier"]["columns"] == ["s_suppkey", "s_name"]
    assert "p_brand = 'Brand#23'" in scans["part"]["pushed"]
    filters = {(f["table"], f["giver"]): f for f in json.loads(plan.json)["batch"]["key_filters"]}
    assert filters["lineitem", "part"]["taken"]
    with pytest.raises(selat.SelatError, match="revenue"):
        client.sql("DROP TABLE part")
    list(client.script("DROP VIEW revenue; DROP SINK best"))


def test_rows_of_analysed_tables_are_sent_with_their_number(
    client: selat.Client, db: duckdb.DuckDBPyConnection
) -> None:
    analyse(client)
    rolled = (
        "SELECT l_returnflag, l_shipmode, sum(l_quantity) AS quantity, avg(l_discount) AS discount, count(*) AS n "
        "FROM lineitem GROUP BY ROLLUP (l_returnflag, l_shipmode)"
    )
    # In parts, each site of customer would get a copy of orders.
    for text, table in ((queries()["Q13"], "orders"), (rolled, "lineitem")):
        query = client.sql(text)
        assert isinstance(query, selat.Query)
        rows = [tuple(row.values()) for row in query.results().arrow().to_pylist()]
        assert difference(rows, db.execute(text).fetchall()) is None
        (scan,) = (s for s in json.loads(query.explain().json)["batch"]["scans"] if s["table"] == table)
        assert scan["counted"]
        query.wait()
        sent = next(stage.rows_out for stage in query.info().stages if stage.stage_id == scan["stage"])
        assert 0 < sent < db.execute(f"SELECT count(*) / 2 FROM {table}").fetchall()[0][0]
