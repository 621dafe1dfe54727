"""Batch queries at the master, with stand-ins for the agents; everything crosses gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from contract.tasks import TaskState
from master.records.model import ResultStatus, TaskStatus
from planner.graph.ids import TaskId
from selat.v1 import lease_pb2, query_pb2, site_pb2
from tests.fakes.agent import FakeChannel
from tests.integration.master_cluster import Cluster, eventually, refusal, running_cluster

pytestmark = pytest.mark.timeout(60)

TABLES = """
CREATE TABLE texts (page STRING) WITH ('connector' = 'files', 'format' = 'json')
AT us WITH ('path' = '/data/us/t'), AT eu WITH ('path' = '/data/eu/t');
CREATE SINK counts AT us WITH ('connector' = 'parquet', 'path' = '/data/out');
"""
COUNT = "SELECT page, count(*) AS n FROM texts GROUP BY page ORDER BY n DESC LIMIT 3"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await cluster.execute(TABLES)
        cluster.agents["us"].exchange.split_bytes["texts"] = (100, 60)
        cluster.agents["eu"].exchange.split_bytes["texts"] = (40,)
        yield cluster


async def given(cluster: Cluster, site: str, *stages: str) -> dict[str, site_pb2.TaskSpec]:
    """The site's tasks by their vertices, once these are among them."""

    def named(assignment: site_pb2.Assignment) -> dict[str, site_pb2.TaskSpec]:
        return {str(TaskId.parse(task.task_id).vertex): task for task in assignment.tasks}

    return named(await cluster.agents[site].assigned(lambda a: set(stages) <= named(a).keys()))


async def described(cluster: Cluster) -> str:
    (answer,) = await cluster.execute("DESCRIBE TABLE texts")
    return str(answer)


async def end(cluster: Cluster, site: str, *stages: str, **counts: int) -> None:
    """These tasks of the site have ended, as those before them."""
    specs = await given(cluster, site, *stages)
    ended = [
        TaskStatus(TaskId.parse(t.task_id), t.query_id, t.stage_id, site, TaskState.ENDED, **counts)  # type: ignore[arg-type]
        for name, t in specs.items()
        if name in stages
    ]
    await cluster.agents[site].report(*ended)


async def test_what_analyze_table_found_is_kept_until_the_table_changes(cluster: Cluster) -> None:
    query = await cluster.submit("ANALYZE TABLE texts COMPUTE STATISTICS FOR COLUMNS page")
    for site, *stages in (("us", "map.p1", "map.p2"), ("eu", "map.p0")):
        await end(cluster, site, *stages, bytes_out=50)
    await end(cluster, "us", "map.p1", "map.p2", "reduce.p0")
    await cluster.agents["hub"].report(results=(ResultStatus(query, rows=1, complete=True),))
    assert await cluster.state(query) == "FINISHED"
    # The master is killed before it has read the result.
    await cluster.stop_master()
    counts = pa.RecordBatch.from_pydict({"rows": [40], "distinct_page": [3]})
    cluster.agents["hub"].exchange.channels[f"{query}.reduce.p0"] = FakeChannel([counts], ended=True)
    await cluster.start_master()
    for site in ("hub", "us", "eu"):
        await cluster.agents[site].register()

    async def counted() -> bool:
        return "about 3" in await described(cluster)

    await eventually(counted)
    await cluster.execute("ALTER TABLE texts AT us SET ('format' = 'csv')")
    assert not await counted()


async def test_a_query_over_a_table_runs_on_its_splits_and_ends(cluster: Cluster) -> None:
    query = await cluster.submit(COUNT)
    tasks = await given(cluster, "us", "map.p1", "map.p2")
    assert [(p.path, p.offset, p.length) for p in tasks["map.p2"].split.parts] == [("/data/us/t/1", 0, 60)]
    assert tasks["map.p1"].kind == site_pb2.STAGE_KIND_TABLE
    found = (await cluster.get(query)).batch
    assert (found.tasks, found.running, found.waiting, found.local) == (4, 3, 1, 3)
    assert (found.size_bytes, found.done_bytes, found.scheduler) == (200, 0, "lease-aware")

    await end(cluster, "us", "map.p1", "map.p2", bytes_out=50, rows_in=4)
    await end(cluster, "eu", "map.p0", bytes_out=10, rows_in=1)
    reduce = (await given(cluster, "us", "reduce.p0"))["reduce.p0"]
    assert reduce.kind == site_pb2.STAGE_KIND_REDUCE
    assert {i.channel for i in reduce.inputs} == {f"{query}.map.p0", f"{query}.map.p1", f"{query}.map.p2"}
    hub = await cluster.agents["hub"].assigned(lambda a: bool(a.results))
    assert [i.channel for i in hub.results[0].inputs] == [f"{query}.reduce.p0"]

    rows = pa.RecordBatch.from_pydict({"page": ["a", "b"], "n": [3, 2]})
    cluster.agents["hub"].exchange.channels[f"{query}.reduce.p0"] = FakeChannel([rows], ended=True)
    await end(cluster, "us", "map.p1", "map.p2", "reduce.p0", rows_in=4)
    await cluster.agents["hub"].report(results=(ResultStatus(query, rows=2, complete=True),))
    assert await cluster.state(query) == "FINISHED"
    assert "9, as last read" in await described(cluster)
    request = query_pb2.FetchResultsRequest(query=query, follow=True)
    fetched = [r async for r in cluster.queries.FetchResults(request)]
    table = pa.ipc.open_stream(fetched[0].arrow_stream).read_all()
    assert table.to_pydict() == {"page": ["a", "b"], "n": [3, 2]}
    assert (await cluster.get(query)).batch.done == 4
    analyzed = (await cluster.execute(f"EXPLAIN ANALYZE QUERY {query}"))[-1].explanation.text
    assert "map" in analyzed
    assert "reduce" in analyzed


async def test_explain_shows_splits_by_site(cluster: Cluster) -> None:
    explanation = (await cluster.execute(f"EXPLAIN {COUNT}"))[-1].explanation
    assert "map: map of texts, a task for each split, at eu, us" in explanation.text
    assert "  us: 2, 160 B" in explanation.text.splitlines()
    assert '"splits": [{"stage": "map", "site": "eu", "splits": 1, "size_bytes": 40, ' in explanation.json


async def test_a_site_that_cannot_list_splits_is_told(cluster: Cluster) -> None:
    del cluster.agents["eu"].exchange.split_bytes["texts"]
    code, detail = await refusal(cluster.execute(COUNT))
    assert (code, detail.code) == (grpc.StatusCode.UNAVAILABLE, "SPLITS_UNAVAILABLE")
    assert detail.message == "site eu cannot list the splits of table texts: there is no data of texts"


async def test_inserts_end_in_their_sink(cluster: Cluster) -> None:
    query = await cluster.submit(f"INSERT INTO counts {COUNT}")
    await end(cluster, "us", "map.p1", "map.p2", bytes_out=1)
    await end(cluster, "eu", "map.p0", bytes_out=9)
    reduce = (await given(cluster, "eu", "reduce.p0"))["reduce.p0"]
    assert list(reduce.consumers) == ["us"]
    sink = (await given(cluster, "us", "sink.p0"))["sink.p0"]
    assert [i.channel for i in sink.inputs] == [f"{query}.reduce.p0"]
    await end(cluster, "eu", "map.p0", "reduce.p0")
    await end(cluster, "us", "map.p1", "map.p2", "sink.p0", rows_out=3)
    assert await cluster.state(query) == "FINISHED"
    assert (await cluster.get(query)).rows_out == 3


async def test_slots_of_another_framework_are_waited_for(cluster: Cluster) -> None:
    await cluster.leases.RegisterFramework(lease_pb2.RegisterFrameworkRequest(name="nightly"))
    slots = [lease_pb2.Slot(site=site, index=index) for site in ("hub", "us", "eu") for index in (0, 1)]
    wishes = [lease_pb2.Wish(slot=slot, duration_us=3_600_000_000) for slot in slots]
    answer = await cluster.leases.Acquire(lease_pb2.AcquireRequest(framework="nightly", wishes=wishes))
    query = await cluster.submit(COUNT)
    found = await cluster.get(query)
    assert (found.batch.waiting, found.batch.running) == (4, 0)
    assert any("is nightly's until" in wait.reason for wait in found.batch.waits)
    held = [outcome.granted for outcome in answer.outcomes if outcome.granted.slot.site != "hub"]
    refs = [lease_pb2.LeaseRef(slot=lease.slot, fencing=lease.fencing) for lease in held]
    await cluster.leases.Release(lease_pb2.ReleaseRequest(framework="nightly", leases=refs))
    await given(cluster, "us", "map.p1", "map.p2")
    await given(cluster, "eu", "map.p0")


async def test_a_restarted_master_goes_on_with_the_tasks_it_gave_out(cluster: Cluster) -> None:
    query = await cluster.submit(COUNT)
    await end(cluster, "us", "map.p1", bytes_out=5)
    await cluster.stop_master()
    await cluster.start_master()
    for site in ("hub", "us", "eu"):
        await cluster.agents[site].register()
        await cluster.agents[site].report()

    async def taken_up() -> bool:
        found = (await cluster.get(query)).batch
        return (found.done, found.running) == (1, 2)

    await eventually(taken_up)
    cluster.clock.advance(timedelta(seconds=1))
    await end(cluster, "us", "map.p1", "map.p2", bytes_out=5)
    await end(cluster, "eu", "map.p0", bytes_out=5)
    await given(cluster, "us", "reduce.p0")


async def test_a_batch_query_is_not_paused(cluster: Cluster) -> None:
    query = await cluster.submit(COUNT)
    code, said = await refusal(cluster.execute(f"PAUSE QUERY `{query}`"))
    assert (code, said.code, dict(said.ids)) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "QUERY_NOT_PAUSABLE",
        {"query": query},
    )
    code, said = await refusal(cluster.execute(f"RESUME QUERY `{query}`"))
    assert said.code == "QUERY_NOT_PAUSED"
