"""What an agent tells the master, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import cast

import grpc
import grpc.aio

from machine.bearer import Metadata
from machine.clock import SystemClock
from selat.v1 import site_pb2, site_pb2_grpc
from site_agent.agent.disk_use import DiskUse
from site_agent.agent.loops import AgentIdentity, SiteAgent
from site_agent.agent.measures import Measures
from site_agent.agent.memory import HeapUse, MemoryUse
from site_agent.agent.results import ResultStatus
from site_agent.agent.runtime import SiteRuntime
from site_agent.base.errors import NoSpaceError
from site_agent.ingest import StreamLog
from site_agent.port import InputRead
from site_agent.router import LinkTransfer, Router
from site_agent.tasks.spec import Assignment

PATIENCE_S = 10.0
NO_REPORT_BY_TIME_S = 3600.0


class Results:
    def statuses(self) -> tuple[ResultStatus, ...]:
        return ()

    def reads(self) -> tuple[tuple[str, InputRead], ...]:
        return ()


class Runtime:
    """Has no tasks, and whatever version it was last given."""

    def __init__(self) -> None:
        self.version = 0
        self.confirmed: bool | None = None
        self.runners: Mapping[str, object] = {}
        self.results = Results()
        self.news = asyncio.Event()
        self.clock = SystemClock()

    def expect_confirmation(self) -> None:
        self.confirmed = False

    def confirm(self) -> None:
        self.confirmed = True

    async def apply(self, assignment: Assignment) -> None:
        self.version = assignment.version


class NoLinks:
    def usage(self) -> tuple[object, ...]:
        return ()

    def link_bytes(self) -> Mapping[str, object]:
        return {}

    def take_transfers(self) -> tuple[LinkTransfer, ...]:
        return (LinkTransfer("us", 3_000_000, 1.5, 1.25, link_bound=True),)


class Stub:
    """Hands out what is reported."""

    def __init__(self) -> None:
        self.reports: asyncio.Queue[site_pb2.ReportRequest] = asyncio.Queue()

    async def Report(self, request: site_pb2.ReportRequest, *, timeout: float, metadata: Metadata) -> None:
        assert metadata == ()
        await self.reports.put(request)


async def test_an_assignment_in_force_is_reported_at_once_and_with_it_the_memory(tmp_path: Path) -> None:
    memory = MemoryUse(10, 20, HeapUse(1, 2, 3), sites=2)
    runtime = Runtime()
    agent = SiteAgent(
        AgentIdentity.new("eu", "127.0.0.1:1", 1),
        runtime=cast(SiteRuntime, runtime),
        router=cast(Router, NoLinks()),
        directory=tmp_path,
        measures=Measures(
            lambda: memory,
            lambda: (StreamLog("orders", 100, 7, 2, 9, 1000, ended=True),),
            lambda: DiskUse({"q1": 10, "q2": 20}, 30, 40, 50, 60),
        ),
    )
    agent._report_interval_s = NO_REPORT_BY_TIME_S
    agent._registered.set()
    stub = Stub()
    reporting = asyncio.create_task(agent._report(cast("site_pb2_grpc.SiteServiceAsyncStub", stub)))
    first = await stub.reports.get()
    await agent._take(site_pb2.Assignment(version=7))
    second = await stub.reports.get()
    runtime.news.set()
    await stub.reports.get()
    reporting.cancel()

    assert (first.assignment_version, second.assignment_version) == (0, 7)
    assert second.memory_bytes == 30
    assert list(second.transfers) == [
        site_pb2.LinkTransfer(from_site="us", bytes=3_000_000, duration_s=1.5, age_s=1.25, link_bound=True)
    ]
    assert second.memory == site_pb2.MemoryUse(
        agent_bytes=10, jvm_bytes=20, heap_used_bytes=1, heap_committed_bytes=2, heap_max_bytes=3, sites=2
    )
    assert second.disk == site_pb2.DiskUse(
        query_bytes={"q1": 10, "q2": 20}, replay_bytes=30, stream_log_bytes=40, budget_bytes=50, free_bytes=60
    )
    assert list(second.stream_logs) == [
        site_pb2.StreamLog(
            stream="orders", size_bytes=100, rows=7, batches=2, rows_stored=9, limit_bytes=1000, ended=True
        )
    ]


async def test_news_wait_for_no_measurement(tmp_path: Path) -> None:
    measured = threading.Semaphore(1)

    def memory() -> MemoryUse:
        measured.acquire()
        return MemoryUse()

    runtime = Runtime()
    agent = SiteAgent(
        AgentIdentity.new("eu", "127.0.0.1:1", 1),
        runtime=cast(SiteRuntime, runtime),
        router=cast(Router, NoLinks()),
        directory=tmp_path,
        measures=Measures(memory),
    )
    agent._report_interval_s = NO_REPORT_BY_TIME_S
    agent._registered.set()
    stub = Stub()
    reporting = asyncio.create_task(agent._report(cast("site_pb2_grpc.SiteServiceAsyncStub", stub)))
    async with asyncio.timeout(PATIENCE_S):
        await stub.reports.get()
        runtime.news.set()
        await stub.reports.get()
    reporting.cancel()
    measured.release()


async def test_after_its_start_an_agent_waits_for_the_master_to_confirm_what_it_has(tmp_path: Path) -> None:
    for version in (7, 7, 8):
        runtime = Runtime()
        agent = SiteAgent(
            AgentIdentity.new("eu", "127.0.0.1:1", 1),
            runtime=cast(SiteRuntime, runtime),
            router=cast(Router, NoLinks()),
            directory=tmp_path,
        )
        await agent.resume()
        assert runtime.confirmed is False
        # The same again confirms, too.
        await agent._take(site_pb2.Assignment(version=version))
        assert (runtime.version, runtime.confirmed) == (version, True)


class FullRuntime(Runtime):
    """On a disk that is full until it has refused twice."""

    refusals = 2

    async def apply(self, assignment: Assignment) -> None:
        if self.refusals:
            self.refusals -= 1
            raise NoSpaceError("the disk is full")
        await super().apply(assignment)


class Away:
    """A master that cannot be reached."""

    async def Register(self, request: site_pb2.RegisterRequest, *, timeout: float, metadata: Metadata) -> None:
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "", None)


class Breaking:
    """A master whose connection breaks after one assignment."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def Register(self, *_: object, **__: object) -> site_pb2.RegisterResponse:
        return site_pb2.RegisterResponse()

    async def WatchAssignment(self, *_: object, **__: object) -> AsyncIterator[site_pb2.WatchAssignmentResponse]:
        if self.asked.is_set():
            await asyncio.Event().wait()
        yield site_pb2.WatchAssignmentResponse(assignment=site_pb2.Assignment(version=7))
        self.asked.set()


async def test_an_agent_that_has_lost_the_master_does_not_say_which_channels_there_are(tmp_path: Path) -> None:
    confirmed: list[bool | None] = []

    class Told(Runtime):
        def confirm(self) -> None:
            super().confirm()
            confirmed.append(self.confirmed)

        def expect_confirmation(self) -> None:
            super().expect_confirmation()
            confirmed.append(self.confirmed)
            lost.set()

    lost, runtime = asyncio.Event(), Told()
    agent = SiteAgent(
        AgentIdentity.new("eu", "127.0.0.1:1", 1),
        runtime=cast(SiteRuntime, runtime),
        router=cast(Router, NoLinks()),
        directory=tmp_path,
    )
    following = asyncio.create_task(agent._follow(cast("site_pb2_grpc.SiteServiceAsyncStub", Breaking())))
    await asyncio.wait_for(lost.wait(), PATIENCE_S)
    following.cancel()
    assert confirmed == [True, False]


async def test_a_full_disk_keeps_no_agent_from_starting_and_the_tasks_start_once_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "assignment.pb").write_bytes(site_pb2.Assignment(version=7).SerializeToString())
    runtime = FullRuntime()
    agent = SiteAgent(
        AgentIdentity.new("eu", "127.0.0.1:1", 1),
        runtime=cast(SiteRuntime, runtime),
        router=cast(Router, NoLinks()),
        directory=tmp_path,
    )
    await agent.resume()
    assert runtime.version == 0
    following = asyncio.create_task(agent._follow(cast("site_pb2_grpc.SiteServiceAsyncStub", Away())))
    await asyncio.wait_for(runtime.news.wait(), PATIENCE_S)
    following.cancel()
    assert runtime.version == 7
    # A message that comes from the master again changes nothing.
    await agent._take(site_pb2.Assignment(version=7))
    assert runtime.confirmed
