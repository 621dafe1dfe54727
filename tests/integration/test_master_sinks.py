"""INSERT INTO at the master, with stand-ins for the agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from contract.tasks import TaskState
from master.records.model import TaskStatus
from planner.graph.ids import TaskId
from selat.v1 import catalog_pb2, common_pb2, query_pb2, site_pb2
from tests.integration.master_cluster import COUNT, CREATE, FILTER, NAMES, Cluster, refusal, running_cluster

pytestmark = pytest.mark.timeout(60)

SINK = "CREATE SINK daily AT us WITH ('connector' = 'parquet', 'path' = '/data/out')"
TYPED = "CREATE SINK typed (who STRING, page STRING) AT us WITH ('connector' = 'parquet', 'path' = '/data/typed')"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await cluster.execute(f"{CREATE} {SINK}; {TYPED}")
        yield cluster


async def insert(cluster: Cluster, text: str = f"INSERT INTO daily {FILTER}") -> str:
    """A query whose tasks are all reported as running."""
    query = await cluster.submit(text)
    for site in ("us", "eu"):
        await cluster.agents[site].assigned(lambda a: query in [t.query_id for t in a.tasks])
        await cluster.report(site, TaskState.RUNNING)
    assert await cluster.state(query) == "RUNNING"
    return query


PARTS = {("s1", "eu"): 0, ("s1", "us"): 1, ("sink", "us"): 0}
"""The numbers of tasks at their sites."""


def task(query: str, stage: str, site: str, state: TaskState, **counts: int) -> TaskStatus:
    return TaskStatus(TaskId(query, stage, PARTS[stage, site]), query, stage, site, state, **counts)  # type: ignore[arg-type]


async def test_results_go_to_the_sinks_site_and_nowhere_else(cluster: Cluster) -> None:
    query = await insert(cluster)

    (spec,) = (t for t in cluster.agents["us"].assignments[-1].tasks if t.kind == site_pb2.STAGE_KIND_SINK)
    assert spec.task_id == f"{query}.sink.p0"
    assert dict(spec.relation.bindings[0].options)["path"] == "/data/out"
    assert {(i.channel, i.site) for i in spec.inputs} == {(f"{query}.s1.p1", "us"), (f"{query}.s1.p0", "eu")}
    (source,) = cluster.agents["eu"].assignments[-1].tasks
    assert list(source.consumers) == ["us"]
    for site in NAMES:
        assert not [a for a in cluster.agents[site].assignments if a.results]
    found = await cluster.get(query)
    assert (found.sink, found.sink_site, found.sql) == ("daily", "us", f"INSERT INTO daily {FILTER}")


async def test_it_is_finished_when_the_sink_has_written_all(cluster: Cluster) -> None:
    query = await insert(cluster)
    ended = task(query, "s1", "us", TaskState.ENDED)
    await cluster.agents["eu"].report(task(query, "s1", "eu", TaskState.ENDED, rows_in=9))
    await cluster.agents["us"].report(ended, task(query, "sink", "us", TaskState.RETRYING, rows_out=3, watermark_us=5))
    found = await cluster.get(query)
    assert (found.state, found.rows_in, found.rows_out) == (query_pb2.QUERY_STATE_RUNNING, 9, 3)
    assert found.watermark_us == 5

    await cluster.agents["us"].report(ended, task(query, "sink", "us", TaskState.ENDED, rows_out=7))
    found = await cluster.get(query)
    assert (found.state, found.rows_out) == (query_pb2.QUERY_STATE_FINISHED, 7)
    await cluster.agents["us"].assigned(lambda a: not a.tasks)


async def test_there_are_no_results_to_fetch(cluster: Cluster) -> None:
    query = await insert(cluster)
    fetching = cluster.queries.FetchResults(query_pb2.FetchResultsRequest(query=query))
    code, detail = await refusal(anext(aiter(fetching)))
    assert (code, detail.code) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_RESULTS")
    assert f"selat query show {query}" in detail.hint


async def test_a_sink_that_is_written_is_kept(cluster: Cluster) -> None:
    query = await insert(cluster)
    code, detail = await refusal(cluster.execute("DROP SINK daily"))
    assert (code, detail.code) == (grpc.StatusCode.FAILED_PRECONDITION, "RELATION_IN_USE")
    assert f"is written by {query}" in detail.message
    await cluster.execute("ALTER SINK daily SET ('roll_interval' = '5 s')")

    def changed(assignment: site_pb2.Assignment) -> bool:
        sinks = [t for t in assignment.tasks if t.kind == site_pb2.STAGE_KIND_SINK]
        return sinks[0].relation.bindings[0].options["roll_interval"] == "5 s"

    await cluster.agents["us"].assigned(changed)
    await cluster.queries.CancelQuery(query_pb2.CancelQueryRequest(query=query))
    for site in NAMES:
        await cluster.agents[site].assigned(lambda a: not a.tasks)
        await cluster.agents[site].report()
    assert await cluster.state(query) == "CANCELLED"
    assert (await cluster.execute("DROP SINK daily"))[0].done == "daily dropped"


async def test_declared_columns_are_what_the_query_gives(cluster: Cluster) -> None:
    query = await insert(cluster, f"INSERT INTO typed {FILTER}")
    (source,) = cluster.agents["eu"].assignments[-1].tasks
    assert source.sql.startswith("SELECT CAST(user_id AS STRING) AS who, page FROM (")
    found = await cluster.get(query)
    assert [(c.name, c.type) for c in found.columns] == [("who", "STRING"), ("page", "STRING")]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        (f"INSERT INTO typed {COUNT}", "INVALID_DEFINITION", (1, 13)),
        (f"INSERT INTO dayly {FILTER}", "UNKNOWN_RELATION", (1, 13)),
        (f"INSERT INTO clicks {FILTER}", "UNSUPPORTED_SQL", (1, 13)),
        ("SHOW SINKS;\nSELECT * FROM daily", "UNSUPPORTED_SQL", (2, 15)),
        ("INSERT INTO daily SELECT nope(page) FROM clicks", "INVALID_EXPRESSION", (1, 26)),
        ("CREATE TABLE daily (a INT) AT us WITH ('connector' = 'other')", "RELATION_EXISTS", (1, 1)),
        ("DROP TABLE daily", "UNKNOWN_RELATION", (1, 1)),
    ],
)
async def test_refusals(cluster: Cluster, text: str, code: str, place: tuple[int, int]) -> None:
    _, detail = await refusal(cluster.execute(text))
    assert (detail.code, (detail.line, detail.column)) == (code, place)
    assert detail.hint


async def test_explain_and_listings(cluster: Cluster) -> None:
    (explained,) = await cluster.execute(f"EXPLAIN INSERT INTO daily {COUNT}")
    assert "sink: sink of daily at us" in explained.explanation.text
    shown, described = await cluster.execute("SHOW SINKS; DESCRIBE SINK typed")
    assert [row.values[:2] for row in shown.rows.rows] == [["daily", "us"], ["typed", "us"]]
    assert ["column", "who", "STRING"] in [list(row.values) for row in described.rows.rows]
    assert not (await cluster.queries.ListQueries(query_pb2.ListQueriesRequest())).queries


async def test_the_catalog_service_has_sinks_too(cluster: Cluster) -> None:
    request = catalog_pb2.ListRelationsRequest(kind=common_pb2.RELATION_KIND_SINK)
    listed = (await cluster.catalog.ListRelations(request)).relations
    assert [r.name for r in listed] == ["daily", "typed"]
    options = {"connector": "parquet", "path": "/data/other"}
    other = common_pb2.Relation(
        name="other",
        kind=common_pb2.RELATION_KIND_SINK,
        bindings=[common_pb2.Binding(site="eu", options=options)],
    )
    created = await cluster.catalog.CreateRelation(catalog_pb2.CreateRelationRequest(relation=other))
    assert created.created
    assert created.relation.kind == common_pb2.RELATION_KIND_SINK
    other.name = "both"
    other.bindings.add(site="us", options=options)
    _, detail = await refusal(cluster.catalog.CreateRelation(catalog_pb2.CreateRelationRequest(relation=other)))
    assert "at one site" in detail.message
    assert await cluster.submit(f"INSERT INTO other {FILTER}", name="copy")


async def test_a_restarted_master_knows_where_rows_go(cluster: Cluster) -> None:
    query = await insert(cluster)
    await cluster.stop_master()
    await cluster.start_master()
    assert (await cluster.get(query)).sink == "daily"
    await cluster.agents["us"].report(
        task(query, "s1", "us", TaskState.ENDED), task(query, "sink", "us", TaskState.ENDED)
    )
    await cluster.agents["eu"].report(task(query, "s1", "eu", TaskState.ENDED))
    assert await cluster.state(query) == "FINISHED"
