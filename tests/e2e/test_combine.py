"""Queries whose sites combine their partials: results equal DuckDB's, each group of a window leaves its site once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import selat
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.faults import Scene, epoch_files, in_the_middle, kill
from tests.e2e.queries import CASES, Case
from tests.jvm import AGENT_ARGUMENTS

BATCH = 16

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.fixture
def combining(calm: Scene) -> Iterator[selat.Client]:
    """A client whose queries combine."""
    with selat.connect(calm.cluster.address) as client:
        client.sql("SET combine = on")
        yield client


def combined_cases(client: selat.Client) -> tuple[Case, ...]:
    """Those with a COMBINE."""
    found = []
    for case in CASES:
        plan = client.sql(f"EXPLAIN {case.sql}")
        assert isinstance(plan, selat.Explanation), case.name
        stages = json.loads(plan.json)["stages"]
        if any(stage["kind"] == "combine" for stage in stages):
            found.append(case)
    return tuple(found)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_results_equal_the_oracle(calm: Scene, combining: selat.Client, every: int) -> None:
    cases = combined_cases(combining)
    assert len(cases) > 20
    cases = cases[::every]
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        check_against_oracle(calm.dataset, batch, submit(combining, batch))


@pytest.mark.long
@pytest.mark.kills
def test_results_equal_the_oracle_after_kills(isolated: Scene, isolated_client: selat.Client) -> None:
    """Of sites that hold partials, and of the merge's; one query reads what the other's sites combine."""
    list(isolated_client.script("SET combine = on; SET sharing = 'sana'"))
    cases = combined_cases(isolated_client)[:3]
    queries = submit(isolated_client, cases)
    again = submit(isolated_client, cases[:1])
    own = {task.task_id for query in again.values() for task in query.info().tasks if task.query_id == query.id}
    assert not any(".c1." in task for task in own)
    in_the_middle(queries, rows_in=1500)
    kill(isolated.cluster, "agent-asia")
    in_the_middle(queries, rows_in=3000)
    kill(isolated.cluster, "master", "agent-us", "agent-eu")
    check_against_oracle(isolated.dataset, cases, queries)
    check_against_oracle(isolated.dataset, cases[:1], again)


NARROW = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}}
default_link: {bandwidth: 256kbit/s, latency: 20ms}
"""
WINDOW_S, ROWS_PER_S = 10, 2000


@pytest.mark.long
@pytest.mark.kills
def test_groups_that_left_early_count_once_after_kills(tmp_path: Path) -> None:
    """A window has more groups than the link carries between its end and its watermark."""
    (tmp_path / "topology.yaml").write_text(NARROW)
    options = ClusterOptions(
        isolated=True,
        emulate_links=True,
        master_arguments=("--epoch-interval", "1000"),
        agent_arguments=AGENT_ARGUMENTS,
    )
    windows = f"GROUP BY window(ts, '{WINDOW_S} seconds')"
    sql = f"SELECT window.start AS w, k, count(*) AS n, sum(v) AS s FROM clicks {windows}, k"
    with (
        DevCluster(tmp_path / "topology.yaml", tmp_path / "data", options) as cluster,
        selat.connect(cluster.address) as client,
    ):
        list(
            client.script(
                "CREATE STREAM clicks (k INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 seconds') WITH "
                f"('connector' = 'generator', 'rows_per_second' = '{ROWS_PER_S}', 'startup' = 'latest', "
                "'column.k' = 'uniform(1, 200000)', 'column.v' = 'uniform(0, 1000)') AT us, AT eu; "
                "SET sharing = 'no-share';"
            )
        )
        written = client.sql(sql)
        client.sql("SET combine = on")
        combined = client.sql(sql)
        assert isinstance(written, selat.Query)
        assert isinstance(combined, selat.Query)
        with written.results() as rows, combined.results() as other_rows:
            ways = Windows(rows), Windows(other_rows)
            for killed in (("agent-eu",), ("agent-us", "agent-eu")):
                seen = len(ways[1].ends)
                wait_until(lambda seen=seen: len(ways[1].ends) >= seen + 2)
                # In the middle of a window, some of whose groups have left.
                time.sleep(0.8 * WINDOW_S)
                kill(cluster, *killed)
            wait_until(lambda: all(len(one.ends) >= len(ways[1].ends) - 1 >= 5 for one in ways))
            # Both read all of the windows that end after the first one that either has.
            first, last = max(min(one.ends) for one in ways), min(max(one.ends) for one in ways)
            channels = (cluster.data.root / "sites" / "eu" / "channels").glob(f"{combined.id}.c1.*")
            newest = max(int(path.stem) for one in channels for path in epoch_files(cluster, "eu", one.name))
        for query in (written, combined):
            query.cancel()
        found = [one.table(first, last) for one in ways]
    assert newest > len(ways[1].ends) + 4, "groups left before their windows closed"
    with duckdb.connect() as db:
        for name, table in zip(("written", "combined"), found, strict=True):
            db.register(name, table)
        differ = "(FROM written EXCEPT ALL FROM combined) UNION ALL (FROM combined EXCEPT ALL FROM written)"
        assert db.sql(differ).fetchall() == []
        counts = db.sql("SELECT sum(n) FROM combined GROUP BY w").fetchall()
    assert counts == [(2 * WINDOW_S * ROWS_PER_S,)] * len(counts)
    assert len(counts) >= 4


class Windows:
    """The rows of a query, as they come."""

    def __init__(self, results: selat.Results) -> None:
        self._batches: list[pa.RecordBatch] = []
        self.ends: set[datetime] = set()
        threading.Thread(target=self._read, args=(results,), daemon=True).start()

    def _read(self, results: selat.Results) -> None:
        for batch in results:
            self._batches.append(batch.batch)
            self.ends.update(batch.batch.column("w").unique().to_pylist())

    def table(self, after: datetime, until: datetime) -> pa.Table:
        """Of the windows after one and up to another."""
        rows = pa.Table.from_batches(list(self._batches))
        kind = rows.schema.field("w").type
        within = pc.and_(
            pc.greater(rows["w"], pa.scalar(after, kind)), pc.less_equal(rows["w"], pa.scalar(until, kind))
        )
        return rows.filter(within)
