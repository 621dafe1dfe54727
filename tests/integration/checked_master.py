"""A master that checks who calls, with a token of every role."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine.bearer import Metadata, metadata_of
from master.access.audit import AuditOptions
from master.access.config import AccessConfig
from planner.access.limits import Limits, LimitTable
from planner.access.principal import Kind
from selat.v1 import access_pb2, access_pb2_grpc, query_pb2
from tests.fakes.agent import FakeAgent
from tests.integration.master_cluster import CONFIG, FILTER, NAMES, Cluster, analyze, refusal

LIMITS = Limits(calls_per_s=1000, burst_calls=100_000)
ROLES = ("reader", "submitter", "operator", "functions", "admin")


class Checked:
    """A cluster whose master checks who calls, and the tokens of everybody."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self.directory = directory
        self.audit_log = directory / "audit.log"
        self.cluster = Cluster(directory / "master", stack)
        self.tokens: dict[str, str] = {}

    async def start(self, limits: Limits = LIMITS) -> None:
        """With a token of each role, named as the role, and agents that show theirs."""
        access = AccessConfig(
            on=True,
            bootstrap_token_file=self.directory / "admin.token",
            audit=AuditOptions(self.audit_log),
            limits=LimitTable({**LimitTable().kinds, Kind.PERSON: limits}),
        )
        self.config = replace(CONFIG, access=access)
        await self.cluster.start_master(self.config)
        await self.cluster.connect()
        self.access = access_pb2_grpc.AccessServiceStub(self.cluster.channel)
        self.tokens["admin"] = (self.directory / "admin.token").read_text().strip()
        for role in ROLES[:-1]:
            await self.create(role, role)
        await self.create("sites", "site", bound_to=NAMES)
        await self.create("nightly", "framework", bound_to=("nightly",))

    async def start_again(self) -> None:
        """The master, after it was stopped, with what it kept."""
        await self.cluster.start_master(self.config)
        await self.cluster.connect()

    async def start_agents(self) -> None:
        for site in NAMES:
            agent = FakeAgent(site, self.cluster.address, analyze=analyze, metadata=self.shown("sites"))
            await agent.start()
            self.cluster.stack.push_async_callback(agent.stop)
            self.cluster.agents[site] = agent

    async def create(self, name: str, *roles: str, bound_to: tuple[str, ...] = (), lifetime_s: int = 0) -> str:
        """Id of a new token."""
        request = access_pb2.CreateTokenRequest(name=name, roles=roles, bound_to=bound_to, lifetime_s=lifetime_s)
        answer = await self.access.CreateToken(request, metadata=self.shown("admin"))
        self.tokens[name] = answer.secret
        return answer.token.id

    def shown(self, name: str) -> Metadata:
        return metadata_of(self.tokens[name])

    async def execute(self, name: str, text: str) -> list[query_pb2.ExecuteResponse]:
        request = query_pb2.ExecuteRequest(text=text)
        return [r async for r in self.cluster.queries.Execute(request, metadata=self.shown(name))]

    async def submit(self, name: str, sql: str = FILTER) -> str:
        return (await self.execute(name, sql))[-1].query.id

    async def refused(self, name: str, text: str) -> str:
        """Code of the error of a statement."""
        return (await refusal(self.execute(name, text)))[1].code

    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit_log.read_text().splitlines()]

    async def listed(self, name: str) -> list[query_pb2.Query]:
        request = query_pb2.ListQueriesRequest(all=True)
        return list((await self.cluster.queries.ListQueries(request, metadata=self.shown(name))).queries)
