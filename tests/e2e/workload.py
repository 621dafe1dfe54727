"""Queries over rows that keep coming until a test says so; what they give and write equals DuckDB's answer."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.oracle import assert_same, rows_of
from tests.e2e.pushing import BATCH_ROWS, BATCHES, PATIENCE, WINDOWED_ORACLE, Writer, ddl, expected, windowed
from tests.e2e.sinks import insert, written

STREAM = "pushed"
PROJECTED = "SELECT id, site FROM {} WHERE id % 10 = 3"


class Workload:
    """A producer at each site, a query with windows whose results a client reads, and one that writes into a sink."""

    def __init__(self, address: str, sink: Path) -> None:
        """`address` is the master's."""
        self._writers = [Writer(address, n, site, STREAM, pause_s=1.0) for n, site in enumerate(SITES)]
        self._threads = [threading.Thread(target=writer.run, daemon=True) for writer in self._writers]
        self._sink = sink
        self._counted = self._kept = ""

    def begin(self, client: selat.Client) -> None:
        """Return when both queries have read rows; more come from then on."""
        client.sql(ddl(STREAM))
        client.sql(
            f"CREATE SINK kept AT eu WITH ('connector' = 'parquet', 'path' = '{self._sink}', 'roll_interval' = '1 s')"
        )
        counted = client.sql(windowed(STREAM))
        assert isinstance(counted, selat.Query)
        kept = insert(client, "kept", PROJECTED.format(STREAM))
        for thread in self._threads:
            thread.start()
        for query in (counted, kept):
            wait_until(lambda query=query: query.info().rows_in >= BATCH_ROWS, PATIENCE.total_seconds())
        self._counted, self._kept = counted.id, kept.id
        for writer in self._writers:
            writer.go_on.set()

    def states(self, client: selat.Client) -> set[selat.QueryState]:
        """The states of both queries."""
        return {client.query(query).state() for query in (self._counted, self._kept)}

    def finish(self, client: selat.Client) -> None:
        """Have the producers end the stream; compare what the queries made of all rows."""
        for thread in self._threads:
            thread.join(timeout=PATIENCE.total_seconds())
        assert [writer.failure for writer in self._writers] == [None] * len(SITES)
        assert not any(thread.is_alive() for thread in self._threads)
        sent = len(SITES) * BATCHES * BATCH_ROWS
        assert sum(client.push(STREAM, site).finish() for site in SITES) == sent
        counts = rows_of(client.query(self._counted).results().arrow())
        for query in (self._counted, self._kept):
            info = client.query(query).wait()
            assert (info.state, info.rows_in, info.rows_late) == (selat.QueryState.FINISHED, sent, 0), info.reason
        assert_same(counts, expected(WINDOWED_ORACLE, self._writers), "counted")
        rows = written(duckdb.connect(), self._sink)
        assert_same(rows, expected(PROJECTED.format("orders"), self._writers), "kept")
