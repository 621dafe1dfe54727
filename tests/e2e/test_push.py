"""Rows pushed at three sites by several producers while agents and producers die: each is counted once."""

from __future__ import annotations

import threading

import pytest

import selat
from selat.dev.processes import AGENTS
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, kill
from tests.e2e.oracle import assert_same, rows_of
from tests.e2e.pushing import BATCH_ROWS, BATCHES, PATIENCE, WINDOWED_ORACLE, Writer, ddl, expected, windowed

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(600)]

SITES = ("us", "eu", "asia")
PROJECTED = "SELECT id, site FROM {} WHERE id % 10 = 3"
LOGS = "sites/*/ingest/pushed-*"


@pytest.mark.long
def test_what_is_pushed_is_counted_once_whoever_dies(frail: Scene, frail_client: selat.Client) -> None:
    client, address = frail_client, frail.cluster.address
    writers = [Writer(address, n, SITES[n % 3], stream="pushed", crashes=n == 5) for n in range(6)]
    threads = [threading.Thread(target=w.run, daemon=True) for w in writers]
    client.sql(ddl("pushed"))
    for thread in threads:
        thread.start()
    counted, projected = client.sql(windowed("pushed")), client.sql(PROJECTED.format("pushed"))
    assert isinstance(counted, selat.Query)
    assert isinstance(projected, selat.Query)
    wait_until(lambda: counted.info().rows_in >= BATCH_ROWS, timeout_s=PATIENCE.total_seconds())
    for writer in writers:
        writer.go_on.set()
    kill(frail.cluster, AGENTS)
    for thread in threads:
        thread.join(timeout=PATIENCE.total_seconds())
    assert [w.failure for w in writers] == [None] * len(writers)
    assert not any(thread.is_alive() for thread in threads)

    sent = len(writers) * BATCHES * BATCH_ROWS
    rows = [client.push("pushed", site).finish() for site in SITES]
    counts, listed = (rows_of(query.results().arrow()) for query in (counted, projected))
    info = counted.wait()

    assert sum(rows) == sent
    assert (info.state, info.rows_in, info.rows_late) == (selat.QueryState.FINISHED, sent, 0)
    assert_same(counts, expected(WINDOWED_ORACLE, writers), "counted")
    assert_same(listed, expected(PROJECTED.format("orders"), writers), "projected")
    assert writers[5].duplicates >= BATCHES // 4

    # A query that comes later reads what is retained.
    later = client.sql("SELECT count(*) AS n FROM pushed GROUP BY window(ts, '1 hour')")
    assert isinstance(later, selat.Query)
    assert [row["n"] for row in later.results().rows()] == [sent]
    logs = frail.cluster.data.root
    assert list(logs.glob(LOGS))
    client.drop("pushed")
    wait_until(lambda: not list(logs.glob(LOGS)))
