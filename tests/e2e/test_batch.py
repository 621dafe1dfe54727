"""Batch queries over tables at three sites, in three formats: results equal DuckDB's over the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import selat
from tests.e2e import oracle
from tests.e2e.dataset import FORMATS, HEADER
from tests.e2e.faults import Scene
from tests.e2e.oracle import assert_same, expected, rows_of
from tests.e2e.sinks import insert, written

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

WORDS = ("to be or not to be", "that is the question", "to sleep", "to dream")

QUERIES = {
    "filter": (
        "SELECT id, product, fee, site FROM sold WHERE express AND quantity > 3 AND site <> 'asia'",
        "SELECT id, product, fee, site FROM orders WHERE express AND quantity > 3 AND site <> 'asia'",
    ),
    "no table": (
        "SELECT 1 AS n, 'x' AS s UNION ALL SELECT n, NULL FROM VALUES (2), (3) AS t(n) WHERE n > 2",
        "SELECT 1 AS n, 'x' AS s UNION ALL SELECT n, NULL FROM (VALUES (2), (3)) AS t(n) WHERE n > 2",
    ),
    "all rows": (
        "SELECT count(*) AS n, sum(fee) AS fees, avg(price) AS p, max(ts) AS latest FROM sold",
        "SELECT count(*) AS n, CAST(sum(fee) AS DECIMAL(20,2)) AS fees, avg(price) AS p, max(ts) AS latest FROM orders",
    ),
    "groups": (
        "SELECT product, count(*) AS n, avg(price) AS a, stddev(price) AS d, count(DISTINCT quantity) AS q FROM sold "
        "GROUP BY product HAVING count(*) > 2",
        "SELECT product, count(*) AS n, avg(price) AS a, stddev(price) AS d, count(DISTINCT quantity) AS q FROM orders "
        "GROUP BY product HAVING count(*) > 2",
    ),
    "join": (
        "SELECT p.category, count(*) AS n, sum(s.quantity) AS q FROM sold AS s JOIN products AS p "
        "ON s.product = p.product GROUP BY p.category",
        "SELECT p.category, count(*) AS n, sum(s.quantity) AS q FROM orders AS s JOIN products AS p "
        "ON s.product = p.product GROUP BY p.category",
    ),
    "layers": (
        "SELECT n, count(*) AS times FROM (SELECT product, count(*) AS n FROM sold GROUP BY product) AS c GROUP BY n",
        "SELECT n, count(*) AS times FROM (SELECT product, count(*) AS n FROM orders GROUP BY product) AS c GROUP BY n",
    ),
    "union": (
        "SELECT product AS what, count(*) AS n FROM sold WHERE express GROUP BY product UNION ALL "
        "SELECT line, 0 FROM texts WHERE line LIKE 'to%'",
        "SELECT product AS what, count(*) AS n FROM orders WHERE express GROUP BY product UNION ALL "
        "SELECT line, 0 FROM texts WHERE line LIKE 'to%'",
    ),
    "aggregate of a union": (
        "SELECT x, count(*) AS n, sum(CAST(y AS BIGINT)) AS s, avg(y) AS a FROM (SELECT product AS x, quantity AS y "
        "FROM sold UNION ALL SELECT line, length(line) / 2 FROM texts) AS u GROUP BY x",
        "SELECT x, count(*) AS n, sum(CAST(trunc(y) AS BIGINT)) AS s, avg(y) AS a FROM (SELECT product AS x, "
        "CAST(quantity AS DOUBLE) AS y FROM orders UNION ALL SELECT line, length(line) / 2 FROM texts) AS u GROUP BY x",
    ),
    "joined aggregate": (
        "SELECT s.id, s.price, m.top FROM sold AS s JOIN (SELECT product, max(price) AS top, median(quantity) AS q "
        "FROM sold GROUP BY product) AS m ON s.product = m.product AND s.price = m.top WHERE s.site <> 'asia'",
        "SELECT s.id, s.price, m.top FROM orders AS s JOIN (SELECT product, max(price) AS top FROM orders "
        "GROUP BY product) AS m ON s.product = m.product AND s.price = m.top WHERE s.site <> 'asia'",
    ),
    "first of each group": (
        "SELECT product, id FROM sold QUALIFY row_number() OVER (PARTITION BY product ORDER BY price DESC, id) <= 2",
        "SELECT product, id FROM orders QUALIFY row_number() OVER (PARTITION BY product ORDER BY price DESC, id) <= 2",
    ),
    "words": (
        "SELECT word, count(*) AS n FROM (SELECT explode(split(line, ' ')) AS word FROM texts) GROUP BY word",
        "SELECT word, count(*) AS n FROM (SELECT unnest(string_split(line, ' ')) AS word FROM texts) GROUP BY word",
    ),
}


@pytest.fixture
def client(calm: Scene, calm_client: selat.Client, tmp_path: Path) -> selat.Client:
    bindings = ", ".join(
        f"AT {site} WITH ('path' = '{calm.dataset.root}/{site}/orders', 'format' = '{FORMATS[site]}'"
        f"{HEADER.get(site, '')})"
        for site in FORMATS
    )
    for site in ("us", "eu"):
        (tmp_path / f"{site}.csv").write_text("".join(f'"{line}"\n' for line in WORDS))
    texts = ", ".join(f"AT {site} WITH ('path' = '{tmp_path}/{site}.csv', 'format' = 'csv')" for site in ("us", "eu"))
    list(
        calm_client.script(
            f"""CREATE TABLE sold (id BIGINT, ts TIMESTAMP, product STRING, quantity INT, price DOUBLE,
              fee DECIMAL(10,2), express BOOLEAN) WITH ('connector' = 'files') {bindings};
            CREATE TABLE texts (line STRING) WITH ('connector' = 'files') {texts};
            CREATE TABLE numbers (n BIGINT, s STRING) WITH ('connector' = 'generator', 'rows' = '3000') AT us, AT asia;
            CREATE SINK best AT eu WITH ('connector' = 'parquet', 'path' = '{tmp_path}/best');"""
        )
    )
    return calm_client


def drop(client: selat.Client) -> None:
    list(client.script("DROP TABLE sold; DROP TABLE texts; DROP TABLE numbers; DROP SINK best;"))


def test_results_are_those_of_the_oracle(calm: Scene, client: selat.Client, tmp_path: Path) -> None:
    db = oracle.connect(calm.dataset)
    db.execute("CREATE TABLE texts (line VARCHAR)")
    db.executemany("INSERT INTO texts VALUES (?)", [[line] for line in WORDS * 2])
    queries = {name: client.sql(sql) for name, (sql, _) in QUERIES.items()}
    best = "SELECT product, sum(quantity) AS q FROM sold GROUP BY product ORDER BY q DESC, product LIMIT 3"
    sink = insert(client, "best", best)
    ordered = client.sql(best)
    count = "SELECT count(*) AS n, count(DISTINCT site) AS s FROM numbers"
    *_, small = client.script(f"SET split_size = 0.05; SET batch_scheduler = 'random'; {count}")
    list(client.script("SET split_size = 64; SET batch_scheduler = 'lease-aware'"))
    for name, query in queries.items():
        assert isinstance(query, selat.Query)
        table = query.results().arrow()
        info = query.wait()
        assert info.state is selat.QueryState.FINISHED, f"{name}: {info.reason}"
        assert info.batch is not None
        assert info.batch.done == info.batch.tasks > (0 if name == "no table" else 2)
        assert_same(rows_of(table), expected(db, QUERIES[name][1]), name)
    assert isinstance(small, selat.Query)
    assert small.results().arrow().to_pylist() == [{"n": 6000, "s": 2}]
    cut = small.wait().batch
    assert cut is not None
    assert (cut.scheduler, cut.tasks) == ("random", 5)
    top = best.replace("FROM sold", "FROM orders")
    wanted = db.execute(top).fetchall()
    assert isinstance(ordered, selat.Query)
    assert [tuple(row.values()) for row in ordered.results().arrow().to_pylist()] == wanted
    assert sink.wait().state is selat.QueryState.FINISHED
    assert_same(written(db, tmp_path / "best", "product, q"), expected(db, top), "sink")
    drop(client)


def test_a_partitioned_sink_is_a_table_of_which_only_what_can_match_is_read(
    calm: Scene, client: selat.Client, tmp_path: Path
) -> None:
    root = tmp_path / "by-product"
    columns = "id BIGINT, quantity INT, product STRING, fast BOOLEAN"
    list(
        client.script(
            f"""CREATE SINK by_product ({columns}) AT eu
              WITH ('connector' = 'parquet', 'path' = '{root}', 'partition_by' = 'product, fast');
            CREATE TABLE again ({columns}) AT eu WITH ('connector' = 'files', 'path' = '{root}', 'format' = 'parquet',
              'partition_by' = 'product, fast');"""
        )
    )
    sink = insert(client, "by_product", "SELECT id, quantity, product, express FROM sold WHERE id % 7 > 0")
    assert sink.wait().state is selat.QueryState.FINISHED
    db = oracle.connect(calm.dataset)
    db.execute(
        f"CREATE VIEW again AS SELECT id, quantity, product, CAST(fast AS BOOLEAN) AS fast FROM "
        f"read_parquet('{root}/*/*/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
    )
    (product, many), *_ = db.execute("SELECT product, count(*) FROM again GROUP BY 1 ORDER BY 2 DESC, 1").fetchall()
    assert many > 0
    for text in (
        "SELECT product, fast, count(*) AS n, sum(quantity) AS q FROM again GROUP BY product, fast",
        f"SELECT id, quantity, product FROM again WHERE product = '{product}' AND quantity > 2",
        f"SELECT a.id FROM again AS a, again AS b WHERE a.id = b.id AND b.product = '{product}' AND a.id IN "
        "(SELECT max(id) FROM again GROUP BY product)",
        "SELECT count(*) AS n FROM again WHERE product = 'none of them'",
    ):
        query = client.sql(text)
        assert isinstance(query, selat.Query)
        assert_same(rows_of(query.results().arrow()), expected(db, text), text)
        plan = json.loads(query.explain().json)["batch"]["splits"]
        assert (plan[0]["left_out_bytes"] > 0) == ("WHERE product" in text), text
    list(client.script("DROP TABLE again; DROP SINK by_product"))
    drop(client)
