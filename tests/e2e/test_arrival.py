"""Streams by arrival while agents are killed: windows close by the clock, no row is late, and no time changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import selat
from selat.dev.processes import AGENTS
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import Scene, kill
from tests.e2e.oracle import Answer, assert_same, expected, rows_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.kills, pytest.mark.timeout(600)]

DDL = """
CREATE STREAM hits (id BIGINT, WATERMARK FOR arrived)
  WITH ('connector' = 'push', 'idle_timeout' = '1 hour') AT us, AT eu, AT asia;
CREATE STREAM drops (id BIGINT, WATERMARK FOR arrived)
  WITH ('connector' = 'files', 'path' = '{}', 'format' = 'csv', 'idle_timeout' = '1 hour') AT us
"""
LISTED = "SELECT id, arrived, site FROM hits"
COUNTED = "SELECT window.start AS s, id % 3 AS k, count(*) AS n FROM hits GROUP BY window(arrived, '2 seconds'), id % 3"
ORACLE = "SELECT time_bucket(INTERVAL '2 seconds', arrived) AS s, id % 3 AS k, count(*) AS n FROM hits GROUP BY ALL"
WINDOW = timedelta(seconds=2)
BATCH_ROWS = 30


class Producers:
    """Batches at two of three sites, with ids that go up; files of rows beside them."""

    def __init__(self, client: selat.Client, directory: Path) -> None:
        self._client = client
        self._directory = directory
        self.rows = 0
        self.filed = 0

    def push(self) -> None:
        for site in ("us", "eu"):
            with self._client.push("hits", site) as producer:
                for _ in range(3):
                    producer.send(pa.table({"id": pa.array(range(self.rows, self.rows + BATCH_ROWS), pa.int64())}))
                    self.rows += BATCH_ROWS

    def write(self) -> None:
        path = self._directory / f"{self.filed:06}.csv"
        path.with_suffix(".tmp").write_text("".join(f"{self.filed + i}\n" for i in range(10)))
        path.with_suffix(".tmp").rename(path)
        self.filed += 10


def submitted(client: selat.Client, sql: str) -> selat.Query:
    query = client.sql(sql)
    assert isinstance(query, selat.Query)
    return query


def windows_of_files(query: selat.Query, rows: int) -> Iterator[dict[str, object]]:
    """Result rows of a query that goes on, until they are of so many rows."""
    seen = 0
    for row in query.results().rows():
        seen += int(row["n"])
        yield dict(row)
        if seen >= rows:
            return


def test_windows_close_by_the_clock_and_no_time_changes(
    frail: Scene, frail_client: selat.Client, tmp_path: Path
) -> None:
    client, begun = frail_client, datetime.now(UTC)
    list(client.script(DDL.format(tmp_path)))
    producers = Producers(client, tmp_path)
    listed, counted = submitted(client, LISTED), submitted(client, COUNTED)
    filed = submitted(
        client,
        "SELECT window.start AS s, count(*) AS n, min(arrived) AS first, max(arrived) AS last "
        "FROM drops GROUP BY window(arrived, '2 seconds')",
    )
    producers.push()
    producers.write()
    # Nobody pushes any more, and nothing has ever come at asia: the clocks alone close the windows.
    wait_until(lambda: counted.info().rows_out >= 3 and filed.info().rows_out >= 1)
    for _ in range(2):
        kill(frail.cluster, AGENTS)
        producers.push()
        producers.write()
    wait_until(lambda: listed.info().rows_in == producers.rows)

    windows = list(windows_of_files(filed, producers.filed))
    assert sum(client.push("hits", site).finish() for site in SITES) == producers.rows
    rows, counts = (rows_of(query.results().arrow()) for query in (listed, counted))
    for query in (listed, counted):
        info = query.wait()
        assert (info.state, info.rows_in, info.rows_late) == (selat.QueryState.FINISHED, producers.rows, 0)
    assert filed.info().rows_late == 0
    filed.cancel()

    assert_same(counts, _windowed(rows), "counted")
    assert_same(rows_of(submitted(client, LISTED).results().arrow()), rows, "read again")
    _check_times(rows, begun)
    assert sum(int(str(row["n"])) for row in windows) == producers.filed
    assert all(row["s"] <= row["first"] <= row["last"] < row["s"] + WINDOW for row in windows)  # type: ignore[operator]
    filed.wait()
    list(client.script("DROP STREAM hits; DROP STREAM drops"))


def _windowed(rows: Answer) -> Answer:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    ids, times, _ = zip(*rows, strict=True)
    db.register("hits", pa.table({"id": pa.array(ids, pa.int64()), "arrived": pa.array(times)}))
    return expected(db, ORACLE)


def _check_times(rows: Answer, begun: datetime) -> None:
    """Within the test, and in the order in which each site was given the rows."""
    for site in SITES:
        times = [time for _, time in sorted((int(str(i)), time) for i, time, at in rows if at == site)]
        assert all(isinstance(time, datetime) and begun <= time <= datetime.now(UTC) for time in times)
        assert all(one <= following for one, following in pairwise(times))  # type: ignore[operator]
