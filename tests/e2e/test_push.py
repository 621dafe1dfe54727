"""Rows pushed at three sites by several producers while agents and producers die: each is counted once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import selat
from selat.dev.cluster import AGENTS, DevCluster
from tests.e2e.cluster import running_cluster, wait_until
from tests.e2e.faults import kill
from tests.e2e.pushing import BATCH_ROWS, BATCHES, PATIENCE, WINDOWED_ORACLE, Writer, ddl, expected, windowed

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

SITES = ("us", "eu", "asia")
PROJECTED = "SELECT id, site FROM orders WHERE id % 10 = 3"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with running_cluster(tmp_path_factory.mktemp("push") / "cluster") as running:
        yield running


def test_what_is_pushed_is_counted_once_whoever_dies(cluster: DevCluster) -> None:
    writers = [Writer(cluster.address, n, SITES[n % 3], crashes=n == 5) for n in range(6)]
    threads = [threading.Thread(target=w.run, daemon=True) for w in writers]
    with selat.connect(cluster.address) as client:
        client.sql(ddl("orders"))
        for thread in threads:
            thread.start()
        counted, projected = client.sql(windowed("orders")), client.sql(PROJECTED)
        assert isinstance(counted, selat.Query)
        assert isinstance(projected, selat.Query)
        wait_until(lambda: counted.info().rows_in >= BATCH_ROWS, timeout_s=PATIENCE.total_seconds())
        for writer in writers:
            writer.go_on.set()
        kill(cluster, AGENTS)
        for thread in threads:
            thread.join(timeout=PATIENCE.total_seconds())
        assert [w.failure for w in writers] == [None] * len(writers)
        assert not any(thread.is_alive() for thread in threads)

        sent = len(writers) * BATCHES * BATCH_ROWS
        rows = [client.push("orders", site).finish() for site in SITES]
        counts = [(r["s"], r["k"], r["n"], r["total"]) for r in counted.results().rows()]
        listed = [(r["id"], r["site"]) for r in projected.results().rows()]
        info = counted.wait()

    assert sum(rows) == sent
    assert (info.state, info.rows_in, info.rows_late) == (selat.QueryState.FINISHED, sent, 0)
    assert sorted(counts) == expected(WINDOWED_ORACLE, writers)
    assert sorted(listed) == expected(PROJECTED, writers)
    assert writers[5].duplicates >= BATCHES // 4


def test_a_query_that_comes_later_reads_what_is_retained(cluster: DevCluster, tmp_path: Path) -> None:
    with selat.connect(cluster.address) as client:
        later = client.sql("SELECT count(*) AS n FROM orders GROUP BY window(ts, '1 hour')")
        assert isinstance(later, selat.Query)
        assert [row["n"] for row in later.results().rows()] == [6 * BATCHES * BATCH_ROWS]
        client.drop("orders")
    logs = cluster.data.root
    wait_until(lambda: not list(logs.glob("**/ingest/orders-*")))
