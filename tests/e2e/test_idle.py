"""An idle source holds up neither a merge whose agent was killed nor a query that shares it later."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, epoch_files, kill
from tests.e2e.oracle import Answer, assert_same, expected, rows_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.kills, pytest.mark.timeout(600)]

START = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE_S = 120.0
DDL = """
CREATE STREAM taps (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second')
  WITH ('connector' = 'push', 'idle_timeout' = '3 seconds') AT us, AT eu
"""
COUNTS = "SELECT window.start AS s, id % 3 AS k, count(*) AS n FROM taps GROUP BY window(ts, '5 seconds'), id % 3"
ORACLE = "SELECT time_bucket(INTERVAL '5 seconds', ts) AS s, id % 3 AS k, count(*) AS n FROM taps GROUP BY ALL"
HAVING = " HAVING count(*) > 3"


def taps(seconds: Iterable[int]) -> pa.Table:
    """Ten rows in each of these seconds of event time."""
    ids = [second * 10 + i for second in seconds for i in range(10)]
    times = [START + timedelta(milliseconds=100 * number) for number in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "ts": pa.array(times, pa.timestamp("us", tz="UTC"))})


class Taps:
    """Pushes rows at both sites, and keeps them for the oracle."""

    def __init__(self, client: selat.Client) -> None:
        self._client = client
        self.pushed: list[pa.Table] = []

    def push(self, site: str, seconds: Iterable[int]) -> None:
        rows = taps(seconds)
        with self._client.push("taps", site) as producer:
            producer.send(rows)
        self.pushed.append(rows)

    def oracle(self, sql: str) -> Answer:
        db = duckdb.connect()
        db.execute("SET TimeZone = 'UTC'")
        db.register("taps", pa.concat_tables(self.pushed))
        return expected(db, sql)


def submitted(client: selat.Client, sql: str) -> selat.Query:
    query = client.sql(sql)
    assert isinstance(query, selat.Query)
    return query


def merge_of(query: selat.Query) -> selat.TaskStatus:
    """The query's own merge; one that it shares is among its tasks, too."""

    def own() -> list[selat.TaskStatus]:
        return [task for task in query.info().tasks if task.stage_id == "m1" and task.query_id == query.id]

    wait_until(lambda: bool(own()))
    (merge,) = own()
    return merge


def reaches(query: selat.Query, second: int) -> None:
    """Wait until the windows up to this second are out."""
    until = START + timedelta(seconds=second)

    def there() -> bool:
        assert not query.info().over, query.info().reason
        return (merge_of(query).watermark or START) >= until

    wait_until(there, timeout_s=PATIENCE_S)


def has_checkpoint_of_all(scene: Scene, query: selat.Query, merge: str, source: str) -> bool:
    """True when a checkpoint of the merge has passed the newest epoch of the source at this site."""
    ids = {(task.stage_id, task.site): task.task_id for task in query.info().tasks}
    task, channel = ids["m1", merge], ids["s1", source]
    checkpoint = scene.cluster.data.root / "sites" / merge / "tasks" / task / "checkpoint.json"
    newest = int(epoch_files(scene.cluster, source, channel)[-1].stem)
    return checkpoint.exists() and json.loads(checkpoint.read_text())["cursors"].get(channel, 0) > newest


def test_an_idle_source_holds_up_neither_a_restarted_merge_nor_who_shares_it_later(
    isolated: Scene, isolated_client: selat.Client
) -> None:
    client, made = isolated_client, Taps(isolated_client)
    client.sql(DDL)
    client.sql("SET sharing = 'sana'")
    query = submitted(client, COUNTS)
    made.push("us", range(10))
    made.push("eu", range(10))
    reaches(query, 5)
    merge = merge_of(query).site
    silent = "eu" if merge == "us" else "us"
    live = "us" if silent == "eu" else "eu"

    made.push(live, range(10, 30))
    reaches(query, 25)
    # The other source is idle; a checkpoint passes the epoch that says so.
    wait_until(lambda: has_checkpoint_of_all(isolated, query, merge, silent))
    kill(isolated.cluster, f"agent-{merge}")
    made.push(live, range(30, 50))
    reaches(query, 45)

    client.sql("SET sharing_start = 'next-window'")
    late = submitted(client, COUNTS + HAVING)
    assert {task.query_id for task in late.info().tasks if task.stage_id == "s1"} == {query.id}, late.explain().text
    made.push(live, range(50, 70))
    reaches(query, 65)
    reaches(late, 65)

    # It wakes, and the other one goes on behind it: no row is late, whichever of them fell idle meanwhile.
    before = merge_of(query).rows_in
    made.push(silent, range(70, 80))
    wait_until(lambda: merge_of(query).rows_in >= before + 6, timeout_s=PATIENCE_S)
    made.push(live, range(80, 90))
    for site in (silent, live):
        client.push("taps", site).finish()
    info = query.wait(timeout=timedelta(seconds=PATIENCE_S))
    assert (info.state, info.rows_late) == (selat.QueryState.FINISHED, 0)
    assert_same(rows_of(query.results().arrow()), made.oracle(ORACLE), "the query whose merge was killed")
    ended = late.wait(timeout=timedelta(seconds=PATIENCE_S))
    starts_at = ended.sharing.starts_at if ended.sharing else None
    wanted = made.oracle(ORACLE + HAVING)
    if starts_at is not None:
        wanted = wanted.since(starts_at)
    assert_same(rows_of(late.results().arrow()), wanted, "the query that came late")
    assert len(wanted) > 3
    client.drop("taps")
