"""Rows for push streams: batches by number, producers that may go away, and DuckDB's answer over all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import duckdb
import pyarrow as pa

import selat
from tests.e2e import oracle
from tests.e2e.oracle import Answer

PATIENCE = timedelta(minutes=5)
"""The start of an agent takes minutes on a machine that is busy."""
BATCHES = 40
BATCH_ROWS = 250
START_US = 1_767_225_600_000_000


def ddl(stream: str) -> str:
    return f"""
    CREATE STREAM {stream} (id BIGINT, amount DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 hour')
      WITH ('connector' = 'push') AT us, AT eu, AT asia
    """


def windowed(stream: str) -> str:
    return f"""
    SELECT window.start AS s, id % 7 AS k, count(*) AS n, sum(id) AS total
    FROM {stream} GROUP BY window(ts, '10 seconds'), id % 7
    """


WINDOWED_ORACLE = """
SELECT time_bucket(INTERVAL '10 seconds', ts) AS s, id % 7 AS k, count(*) AS n, sum(id)::BIGINT AS total
FROM orders GROUP BY ALL
"""


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
    stream: str = "orders"
    crashes: bool = False
    pause_s: float = 0.0
    """After each batch."""
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
        producer = client.push(self.stream, self.site, producer_id=f"writer-{self.number}", first_sequence=1)
        for number in range(upto):
            producer.send(batch(self.number, number))
            time.sleep(self.pause_s)
            if number == BATCHES // 4:
                producer.flush()
                # The rest waits until the faults have begun.
                self.go_on.wait(PATIENCE.total_seconds())
        if not crash:
            producer.close()
        return producer.totals.duplicates


def expected(sql: str, writers: Iterable[Writer]) -> Answer:
    """The answer over everything that the writers were to push, as a table `orders` with its site."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    orders = pa.concat_tables(
        batch(w.number, n).append_column("site", pa.array([w.site] * BATCH_ROWS))
        for w in writers
        for n in range(BATCHES)
    )
    db.register("orders", orders)
    return oracle.expected(db, sql)


ORDERS_AT = ("us", "eu")
"""The sites at which tests push the orders of the dataset."""


def declare_pushed(client: selat.Client, name: str) -> None:
    """Declare a stream for the orders of these sites, which are waited for however long they are silent."""
    client.sql(
        f"CREATE STREAM {name} (id BIGINT, ts TIMESTAMP, product STRING, quantity INT, express BOOLEAN,"
        " WATERMARK FOR ts AS ts - INTERVAL '5 seconds')"
        " WITH ('connector' = 'push', 'idle_timeout' = '10 minutes') AT us, AT eu"
    )


def orders_of(db: duckdb.DuckDBPyConnection, site: str) -> pa.Table:
    """Return the orders of a site as they are pushed, by time."""
    found = db.sql(f"SELECT id, ts, product, quantity, express FROM orders WHERE site = '{site}' ORDER BY ts")
    return found.to_arrow_table()


def only_pushed(db: duckdb.DuckDBPyConnection) -> None:
    """Have the oracle see the orders of these sites alone."""
    sites = ", ".join(f"'{site}'" for site in ORDERS_AT)
    db.execute(f"CREATE OR REPLACE TEMP VIEW orders AS SELECT * FROM memory.orders WHERE site IN ({sites})")
