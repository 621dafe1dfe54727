"""Rows pushed at three sites by several producers while agents and producers die: each is counted once."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta

import duckdb
import pyarrow as pa
import pytest

import selat
from selat.dev.cluster import AGENTS
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, kill

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

SITES = ("us", "eu", "asia")
PATIENCE = timedelta(minutes=5)
"""The start of an agent takes minutes on a machine that is busy."""
BATCHES = 40
BATCH_ROWS = 250
START_US = 1_767_225_600_000_000

DDL = """
CREATE STREAM pushed (id BIGINT, amount DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 hour')
  WITH ('connector' = 'push') AT us, AT eu, AT asia;
"""
WINDOWED = """
SELECT window.start AS s, id % 7 AS k, count(*) AS n, sum(id) AS total
FROM pushed GROUP BY window(ts, '10 seconds'), id % 7
"""
WINDOWED_ORACLE = """
SELECT time_bucket(INTERVAL '10 seconds', ts) AS s, id % 7 AS k, count(*) AS n, sum(id)::BIGINT AS total
FROM pushed GROUP BY ALL
"""
PROJECTED = "SELECT id, site FROM pushed WHERE id % 10 = 3"


def batch(writer: int, number: int) -> pa.Table:
    """The same rows for the same numbers; no two batches share one."""
    first = (writer * BATCHES + number) * BATCH_ROWS
    ids = list(range(first, first + BATCH_ROWS))
    instants = [START_US + (number * BATCH_ROWS + i) * 5_000 for i in range(BATCH_ROWS)]
    return pa.table({"id": ids, "amount": [i / 4 for i in ids], "ts": pa.array(instants, pa.timestamp("us", tz="UTC"))})


@dataclass
class Writer:
    """Pushes its batches, one after the other; `crashes` it goes away in the middle and begins again."""

    address: str
    number: int
    site: str
    crashes: bool = False
    duplicates: int = 0
    failure: BaseException | None = None
    go_on: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            with selat.connect(self.address, reconnect=PATIENCE) as client:
                if self.crashes:
                    self._push(client, upto=BATCHES // 2, crash=True)
                self.duplicates = self._push(client, upto=BATCHES, crash=False)
        except BaseException as error:
            self.failure = error
            raise

    def _push(self, client: selat.Client, *, upto: int, crash: bool) -> int:
        producer = client.push("pushed", self.site, producer_id=f"writer-{self.number}", first_sequence=1)
        for number in range(upto):
            producer.send(batch(self.number, number))
            if number == BATCHES // 4:
                producer.flush()
                # The rest waits until the faults have begun.
                self.go_on.wait(PATIENCE.total_seconds())
        if not crash:
            producer.close()
        return producer.totals.duplicates


def expected(sql: str, writers: list[Writer]) -> list[tuple[object, ...]]:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    pushed = pa.concat_tables(
        batch(w.number, n).append_column("site", pa.array([w.site] * BATCH_ROWS))
        for w in writers
        for n in range(BATCHES)
    )
    db.register("pushed", pushed)
    return sorted(db.execute(sql).fetchall())


def test_what_is_pushed_is_counted_once_whoever_dies(frail: Scene, frail_client: selat.Client) -> None:
    client = frail_client
    writers = [Writer(frail.cluster.address, n, SITES[n % 3], crashes=n == 5) for n in range(6)]
    threads = [threading.Thread(target=w.run, daemon=True) for w in writers]
    list(client.script(DDL))
    for thread in threads:
        thread.start()
    windowed, projected = client.sql(WINDOWED), client.sql(PROJECTED)
    assert isinstance(windowed, selat.Query)
    assert isinstance(projected, selat.Query)
    wait_until(lambda: windowed.info().rows_in >= BATCH_ROWS, timeout_s=PATIENCE.total_seconds())
    for writer in writers:
        writer.go_on.set()
    kill(frail.cluster, AGENTS)
    for thread in threads:
        thread.join(timeout=PATIENCE.total_seconds())
    assert [w.failure for w in writers] == [None] * len(writers)
    assert not any(thread.is_alive() for thread in threads)

    sent = len(writers) * BATCHES * BATCH_ROWS
    rows = [client.push("pushed", site).finish() for site in SITES]
    counts = [(r["s"], r["k"], r["n"], r["total"]) for r in windowed.results().rows()]
    listed = [(r["id"], r["site"]) for r in projected.results().rows()]
    info = windowed.wait()

    assert sum(rows) == sent
    assert (info.state, info.rows_in, info.rows_late) == (selat.QueryState.FINISHED, sent, 0)
    assert sorted(counts) == expected(WINDOWED_ORACLE, writers)
    assert sorted(listed) == expected(PROJECTED, writers)
    assert writers[5].duplicates >= BATCHES // 4

    # A query that comes later reads what is retained.
    later = client.sql("SELECT count(*) AS n FROM pushed GROUP BY window(ts, '1 hour')")
    assert isinstance(later, selat.Query)
    assert [row["n"] for row in later.results().rows()] == [sent]
    client.drop("pushed")
    logs = frail.cluster.data.root
    wait_until(lambda: not list(logs.glob("**/ingest/pushed-*")))
