"""A real master in this process, on port 0, with stand-ins for the agents: everything crosses gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
import sqlglot

from contract.tasks import TaskState
from contract.trailers import ERROR_TRAILER
from machine.description import describe
from master.adaptation.journal import Journal
from master.config.values import MasterConfig
from master.records.model import TaskStatus
from master.server import Master, Surroundings, serving
from master.sites.members import Describe
from master.store.sqlite import SqliteStore
from master.wan.sqlite_history import SqliteLinkHistory
from planner.graph.ids import TaskId
from planner.values.topology import Link, Site, Topology
from selat.v1 import (
    catalog_pb2_grpc,
    common_pb2,
    exchange_pb2,
    lease_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    site_pb2,
    site_pb2_grpc,
)
from tests.fakes import CountingHex, VirtualClock
from tests.fakes.agent import PATIENCE_S, FakeAgent

NAMES = ("hub", "us", "eu")
LINK = timedelta(milliseconds=40)
TOPOLOGY = Topology(
    sites={name: Site(name, slots=2) for name in NAMES},
    links={(a, b): Link(a, b, 2_500_000.0, LINK) for a in NAMES for b in NAMES if a != b},
    gateway="hub",
)
CONFIG = MasterConfig(probes=False)

CREATE = (
    "CREATE STREAM clicks (user_id BIGINT, page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')\n"
    "WITH ('connector' = 'generator', 'rows_per_second' = '100') AT us, AT eu;"
)
FILTER = "SELECT user_id, page FROM clicks WHERE user_id > 5"
COUNT = "SELECT window(ts, '10 seconds') AS w, page, count(*) AS n FROM clicks GROUP BY page, window(ts, '10 seconds')"

TYPES = {"page": "STRING", "_k0": "STRING", "_window_start": "TIMESTAMP", "w": "STRUCT<start:TIMESTAMP,end:TIMESTAMP>"}


def analyze(request: exchange_pb2.AnalyzeRequest) -> exchange_pb2.AnalyzeResponse:
    """Refuses `nope`, wherever it stands; types of output columns by their names."""
    (statement,) = request.statements
    if (at := statement.find("nope")) >= 0:
        line = statement.count("\n", 0, at) + 1
        column = at - statement.rfind("\n", 0, at)
        error = common_pb2.ErrorDetail(
            code="UNRESOLVED_ROUTINE", message="nope is not possible", line=line, column=column, found="nope"
        )
        return exchange_pb2.AnalyzeResponse(analyses=[exchange_pb2.Analysis(error=error)])
    names = sqlglot.parse_one(statement, read="spark", into=sqlglot.exp.Select).named_selects
    columns = [common_pb2.Column(name=name, type=TYPES.get(name, "BIGINT")) for name in names]
    return exchange_pb2.AnalyzeResponse(analyses=[exchange_pb2.Analysis(columns=columns)])


@dataclass
class Cluster:
    """A master that can be restarted, its agents, and a client's stubs."""

    data: Path
    stack: AsyncExitStack
    clock: VirtualClock = field(default_factory=VirtualClock)
    random_hex: CountingHex = field(default_factory=CountingHex)
    agents: dict[str, FakeAgent] = field(default_factory=dict)
    address: str = "127.0.0.1:0"
    describe: Describe = describe

    async def start_master(self, config: MasterConfig = CONFIG) -> None:
        self._running = AsyncExitStack()
        store = SqliteStore.open(self.data)
        self._running.callback(store.close)
        self.master = Master(
            store,
            TOPOLOGY,
            config=config,
            around=Surroundings(
                self.clock,
                self.random_hex,
                SqliteLinkHistory.in_memory(),
                self.describe,
                journal=Journal.open(self.data),
            ),
        )
        self.address = await self._running.enter_async_context(serving(self.master, self.address))

    async def stop_master(self) -> None:
        await self._running.aclose()

    async def connect(self) -> None:
        options = (("grpc.max_reconnect_backoff_ms", 200), ("grpc.max_send_message_length", -1))
        self.channel = await self.stack.enter_async_context(grpc.aio.insecure_channel(self.address, options=options))
        self.queries = query_pb2_grpc.QueryServiceStub(self.channel)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(self.channel)
        self.sites = site_pb2_grpc.SiteServiceStub(self.channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(self.channel)

    async def agent(self, site: str, incarnation: str = "a") -> FakeAgent:
        agent = await FakeAgent(site, self.address, analyze=analyze, incarnation=incarnation).start()
        self.stack.push_async_callback(agent.stop)
        self.agents[site] = agent
        return agent

    async def execute(self, text: str, name: str = "") -> list[query_pb2.ExecuteResponse]:
        return [r async for r in self.queries.Execute(query_pb2.ExecuteRequest(text=text, query_name=name))]

    async def submit(self, sql: str = FILTER, name: str = "") -> str:
        return (await self.execute(sql, name))[-1].query.id

    async def get(self, query: str) -> query_pb2.Query:
        return (await self.queries.GetQuery(query_pb2.GetQueryRequest(query=query), wait_for_ready=True)).query

    async def state(self, query: str) -> str:
        return query_pb2.QueryState.Name((await self.get(query)).state).removeprefix("QUERY_STATE_")

    async def site_state(self, site: str) -> str:
        found = (await self.sites.GetSite(site_pb2.GetSiteRequest(name=site))).site
        return site_pb2.SiteState.Name(found.state).removeprefix("SITE_STATE_")

    def site_of(self, task: str) -> str:
        """The site that was given the task last."""
        (site,) = (
            name
            for name, agent in self.agents.items()
            if agent.assignments and any(given.task_id == task for given in agent.assignments[-1].tasks)
        )
        return site

    async def report(self, site: str, state: TaskState, **values: Any) -> None:
        """A heartbeat in which all tasks that the site is assigned are in that state."""
        agent = self.agents[site]
        tasks = agent.assignments[-1].tasks
        statuses = [
            TaskStatus(TaskId.parse(t.task_id), t.query_id, t.stage_id, site, state, rows_in=values.get("rows_in", 0))
            for t in tasks
        ]
        values.pop("rows_in", None)
        await agent.report(tasks=tuple(statuses), **values)

    async def run(self, sql: str = FILTER) -> str:
        """A query whose tasks are all reported as running."""
        query = await self.submit(sql)
        for site in NAMES:
            agent = self.agents[site]
            await agent.assigned(lambda a: query in [t.query_id for t in a.tasks] + [r.query_id for r in a.results])
            await self.report(site, TaskState.RUNNING)
        assert await self.state(query) == "RUNNING"
        return query


async def refusal(call: Awaitable[Any]) -> tuple[grpc.StatusCode, common_pb2.ErrorDetail]:
    """Status and detail of a call that has to fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), detail(caught.value)


def detail(error: grpc.aio.AioRpcError) -> common_pb2.ErrorDetail:
    metadata = cast("Iterable[tuple[str, bytes]]", error.trailing_metadata() or ())
    return common_pb2.ErrorDetail.FromString(dict(metadata)[ERROR_TRAILER])


async def eventually(test: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await test():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running_cluster(data: Path, config: MasterConfig = CONFIG) -> AsyncIterator[Cluster]:
    """A master and one agent for each site."""
    async with AsyncExitStack() as stack:
        cluster = Cluster(data, stack)
        await cluster.start_master(config)
        stack.push_async_callback(cluster.stop_master)
        await cluster.connect()
        for site in NAMES:
            await cluster.agent(site)
        yield cluster
