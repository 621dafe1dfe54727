"""Plans of an unchanged Spark client that read tables: queries of Selat, with stand-ins for the agents."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect import proto as pb
from pyspark.sql.connect.session import SparkSession

from master.records.model import ResultStatus
from selat.v1 import common_pb2, exchange_pb2, query_pb2
from tests.fakes.agent import FakeChannel
from tests.integration.master_cluster import Cluster, analyze, running_cluster
from tests.integration.test_master_batch import TABLES, end, given
from tests.integration.test_spark_connect import answers, served

pytestmark = pytest.mark.timeout(60)

COUNTS = pa.table({"page": ["a", "b"], "n": [3, 2]})


def analyse(request: exchange_pb2.AnalyzeRequest) -> exchange_pb2.AnalyzeResponse:
    """Analyse a client's plan, which reads the table's one column."""
    if not request.HasField("plan"):
        return analyze(request)
    columns = [common_pb2.Column(name="page", type="STRING"), common_pb2.Column(name="n", type="BIGINT")]
    scans = exchange_pb2.TableScans(scans=[exchange_pb2.TableScan(table="texts", columns=["page"])])
    return exchange_pb2.AnalyzeResponse(analyses=[exchange_pb2.Analysis(columns=columns, scans=scans)])


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await cluster.execute(TABLES)
        cluster.agents["us"].exchange.split_bytes["texts"] = (100, 60)
        cluster.agents["eu"].exchange.split_bytes["texts"] = (40,)
        cluster.agents["hub"].exchange.analyze_with(analyse)
        answers(cluster.agents["hub"], COUNTS)
        yield cluster


@pytest.fixture
async def spark(cluster: Cluster) -> AsyncIterator[SparkSession]:
    async with AsyncExitStack() as stack:
        port = await served(cluster, stack)
        session = await asyncio.to_thread(SparkSession, f"sc://localhost:{port}")
        yield session
        await asyncio.to_thread(session.stop)


def counted(spark: Any) -> Any:
    return spark.table("texts").groupBy("page").count()


async def query_of(cluster: Cluster) -> query_pb2.Query:
    """The one query that there is."""
    while True:
        found = (await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(all=True))).queries
        if found:
            return found[0]
        await asyncio.sleep(0.01)


async def test_a_plan_is_a_query_whose_last_task_runs_it(cluster: Cluster, spark: SparkSession) -> None:
    asked = asyncio.create_task(asyncio.to_thread(lambda: counted(spark).collect()))
    query = await query_of(cluster)
    assert query.sql == "-- a Spark client's plan: aggregate < read; reads texts"
    maps = await given(cluster, "us", "map.p1", "map.p2")
    assert maps["map.p1"].sql == "SELECT page FROM input"
    await end(cluster, "us", "map.p1", "map.p2", bytes_out=50)
    await end(cluster, "eu", "map.p0", bytes_out=10)
    reduce = (await given(cluster, "us", "reduce.p0"))["reduce.p0"]
    assert reduce.sql == ""
    plan = reduce.client_plan
    assert [(view.name, view.sql) for view in plan.views] == [("texts", "SELECT page FROM input")]
    assert pb.Relation.FromString(base64.b64decode(plan.relation)).WhichOneof("rel_type") == "aggregate"
    rows = COUNTS.to_batches()[0]
    cluster.agents["hub"].exchange.channels[f"{query.id}.reduce.p0"] = FakeChannel([rows], ended=True)
    await end(cluster, "us", "map.p1", "map.p2", "reduce.p0")
    await cluster.agents["hub"].report(results=(ResultStatus(query.id, rows=2, complete=True),))
    assert [tuple(row) for row in await asked] == [("a", 3), ("b", 2)]
    assert await cluster.state(query.id) == "FINISHED"


async def test_a_text_alone_is_planned_as_one_of_selats(cluster: Cluster, spark: SparkSession) -> None:
    text = "SELECT page, count(*) AS n FROM texts GROUP BY page"
    asked = asyncio.create_task(asyncio.to_thread(lambda: spark.sql(text).collect()))
    query = await query_of(cluster)
    assert query.sql == text
    maps = await given(cluster, "us", "map.p1")
    assert "count(*)" in maps["map.p1"].sql.lower()
    await cluster.queries.CancelQuery(query_pb2.CancelQueryRequest(query=query.id))
    with pytest.raises(PySparkException, match=f"query {query.id} was cancelled"):
        await asked


async def test_an_interrupt_cancels_the_query(cluster: Cluster, spark: SparkSession) -> None:
    asked = asyncio.create_task(asyncio.to_thread(lambda: counted(spark).collect()))
    query = await query_of(cluster)
    await given(cluster, "us", "map.p1")
    assert len(await asyncio.to_thread(spark.interruptAll)) == 1
    with pytest.raises(PySparkException, match="cancelled"):
        await asked
    while await cluster.state(query.id) not in ("CANCELLING", "CANCELLED"):
        await asyncio.sleep(0.01)


async def test_a_plan_runs_at_the_site_of_its_session(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        port = await served(cluster, stack)
        answers(cluster.agents["eu"], COUNTS)
        spark = await asyncio.to_thread(SparkSession, f"sc://localhost:{port}/;site=eu")
        asked = asyncio.create_task(asyncio.to_thread(lambda: counted(spark).collect()))
        query = await query_of(cluster)
        await end(cluster, "us", "map.p1", "map.p2", bytes_out=50)
        await end(cluster, "eu", "map.p0", bytes_out=10)
        await given(cluster, "eu", "reduce.p0")
        await cluster.queries.CancelQuery(query_pb2.CancelQueryRequest(query=query.id))
        with pytest.raises(PySparkException):
            await asked
        await asyncio.to_thread(spark.stop)


async def test_a_session_whose_site_goes_away_is_told(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        port = await served(cluster, stack)
        answers(cluster.agents["eu"], COUNTS)
        spark = await asyncio.to_thread(SparkSession, f"sc://localhost:{port}/;site=eu")
        asked = asyncio.create_task(asyncio.to_thread(lambda: counted(spark).collect()))
        query = await query_of(cluster)
        await cluster.agents["eu"].stop()
        cluster.clock.advance(timedelta(seconds=60))
        with pytest.raises(PySparkException, match="site eu, where this session's plans run, is away"):
            await asked
        while await cluster.state(query.id) not in ("CANCELLING", "CANCELLED"):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(spark.stop)
