"""Readiness that means it, and an end in order: of the master with stand-ins for agents, and of an agent's health."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from machine.description import Description, describe
from master.server import AT_ONCE, SERVICES
from selat.v1 import member_pb2, member_pb2_grpc, site_pb2
from site_agent.agent import health as agent_health
from site_agent.agent.health import Health
from tests.integration.master_cluster import CONFIG, CREATE, Cluster, eventually, refusal, running_cluster

pytestmark = pytest.mark.timeout(60)

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        yield cluster


async def status(channel: grpc.aio.Channel, service: str = "") -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=service)
    return int((await stub.Check(request, wait_for_ready=True, timeout=20)).status)


async def test_a_new_master_is_ready_and_a_restarted_one_once_its_sites_have_reported(cluster: Cluster) -> None:
    async def ready() -> bool:
        return bool(await status(cluster.channel) == SERVING)

    await eventually(ready)
    for agent in cluster.agents.values():
        await agent.stop()
    await cluster.stop_master()
    await cluster.start_master()
    assert [await status(cluster.channel, name) for name in AT_ONCE] == [SERVING, SERVING]
    assert await status(cluster.channel) == await status(cluster.channel, "selat.v1.QueryService") == NOT_SERVING
    cluster.clock.advance(CONFIG.heartbeat_timeout)
    await eventually(ready)
    assert {await status(cluster.channel, name) for name in SERVICES} == {SERVING}


async def test_a_site_whose_agent_says_that_it_ends_is_unreachable_at_once(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    eu = cluster.agents["eu"]
    await cluster.sites.Deregister(site_pb2.DeregisterRequest(site="eu", incarnation=eu.incarnation))
    assert await cluster.site_state("eu") == "UNREACHABLE"
    _, detail = await refusal(cluster.execute("SELECT user_id FROM clicks"))
    assert (detail.code, detail.ids["site"]) == ("NO_PLACEMENT", "eu")
    _, detail = await refusal(cluster.sites.Deregister(site_pb2.DeregisterRequest(site="us", incarnation="nobody")))
    assert detail.code == "SITE_NOT_REGISTERED"
    assert await cluster.site_state("us") == "ALIVE"


async def test_a_call_under_way_is_answered_when_the_master_ends_and_a_new_one_is_not(cluster: Cluster) -> None:
    await cluster.stop_master()
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> Description:
        begun.set()
        go_on.wait(30)
        return describe()

    cluster.describe = slowly
    await cluster.start_master()
    stub = member_pb2_grpc.MemberServiceStub(cluster.channel)
    asking = asyncio.ensure_future(stub.DescribeMember(member_pb2.DescribeMemberRequest(), wait_for_ready=True))
    await asyncio.to_thread(begun.wait, 30)
    stopping = asyncio.create_task(cluster.stop_master())
    await asyncio.sleep(0.2)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.DescribeMember(member_pb2.DescribeMemberRequest(), timeout=20)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not stopping.done()
    go_on.set()
    assert (await asking).member.python
    await stopping
    await cluster.start_master()


@dataclass
class Agent:
    registered: bool = False


async def test_an_agent_is_ready_when_it_is_registered_and_its_disk_takes_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_health, "INTERVAL_S", 0.01)
    monkeypatch.setattr(agent_health, "DISK_INTERVAL_S", 0.02)
    health, agent, server = Health(), Agent(), grpc.aio.server()
    health.add_to(server)
    await health.set(False)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:

        async def serving() -> bool:
            return bool(await status(channel, "selat.v1.ExchangeService") == SERVING)

        async def not_serving() -> bool:
            return bool(await status(channel) == NOT_SERVING)

        directory = tmp_path / "data"
        directory.mkdir()
        async with health.following("eu", agent, directory):
            assert await not_serving()
            agent.registered = True
            await eventually(serving)
            directory.rename(tmp_path / "gone")
            await eventually(not_serving)
            (tmp_path / "gone").rename(directory)
            await eventually(serving)
        assert await not_serving()
    await server.stop(None)
