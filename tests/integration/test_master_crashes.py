"""`python -m master` dies by SIGKILL at each step, and is started again: nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest

from contract.tasks import TaskState
from machine.faults import FAULT_VARIABLE
from master.base.faults import FaultPoint
from master.records.model import ResultStatus, TaskStatus
from planner.graph.ids import TaskId
from selat.v1 import handover_pb2, handover_pb2_grpc, lease_pb2, lease_pb2_grpc, query_pb2, query_pb2_grpc, site_pb2
from tests.e2e.faults import free_port
from tests.fakes.agent import FakeAgent
from tests.integration.master_cluster import COUNT, FILTER, NAMES, analyze
from tests.integration.test_master_process import Process

pytestmark = pytest.mark.timeout(300)

T = TypeVar("T")

TOPOLOGY = "gateway: hub\nsites: {hub: {}, us: {}, eu: {}}\n"
CREATE = (
    "CREATE STREAM IF NOT EXISTS clicks (user_id BIGINT, page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts)\n"
    "WITH ('connector' = 'generator', 'rows_per_second' = '100') AT us, AT eu;"
)
TEXTS = (
    "CREATE TABLE IF NOT EXISTS texts (page STRING) WITH ('connector' = 'files', 'format' = 'json')\n"
    "AT us WITH ('path' = '/data/us'), AT eu WITH ('path' = '/data/eu');"
)
SECOND_PASSAGE = {FaultPoint.QUERY_STORED, FaultPoint.VERSIONS_STORED}
"""Those that are also died at when they are passed again: by then there is more to lose."""
KEPT = {(FaultPoint.QUERY_STORED, 1), (FaultPoint.VERSIONS_STORED, 2), (FaultPoint.LEASES_STORED, 1)}
"""Simulated masters die at each of the points; of real ones these are in `make test`."""
_OWN = (FaultPoint.BATCH_STORED, FaultPoint.HANDOVER_STORED)
"""Points that no query of streams passes by itself."""
_ALL = [(point, 1) for point in FaultPoint if point not in _OWN] + [
    (point, 2) for point in FaultPoint if point in SECOND_PASSAGE
]
_LONG = (pytest.mark.long, pytest.mark.kills)
CASES = [case if case in KEPT else pytest.param(*case, marks=_LONG) for case in _ALL]


@contextmanager
def broken_connections() -> Iterator[None]:
    """Calls in the block may fail because the master is dead."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise


@dataclass
class Survivor:
    """A master that is started again when it dies, and what clients and agents see of it."""

    process: Process
    address: str
    queries: query_pb2_grpc.QueryServiceAsyncStub
    agents: dict[str, FakeAgent] = field(default_factory=dict)
    deaths: int = 0

    async def persistently(self, step: Callable[[], Awaitable[T]], done: Callable[[], Awaitable[T | None]]) -> T:
        """Do a step; when the master dies of it, see in its successor whether it is done, else do it again.

        A connection may break more than once of one death.
        """
        while True:
            with broken_connections():
                return await step()
            with broken_connections():
                found = await done()
                if found is not None:
                    return found

    async def watch_over(self) -> None:
        """Start it again, without faults, when it dies; until cancelled."""
        while True:
            _, log = await self.process.process.communicate()
            assert self.process.process.returncode == -signal.SIGKILL, log.decode()
            assert b"Traceback" not in log, log.decode()
            self.deaths += 1
            await self.process.start(self.address)

    async def execute(self, text: str, name: str = "") -> list[query_pb2.ExecuteResponse]:
        request = query_pb2.ExecuteRequest(text=text, query_name=name)
        return [r async for r in self.queries.Execute(request, wait_for_ready=True, timeout=60)]

    async def named(self, name: str) -> query_pb2.Query | None:
        request = query_pb2.ListQueriesRequest(all=True)
        list_all = partial(self.queries.ListQueries, request, wait_for_ready=True, timeout=60)
        listed = await self.persistently(list_all, not_known)
        found = [query for query in listed.queries if query.name == name]
        assert len(found) <= 1
        return found[0] if found else None

    async def declare(self) -> None:
        async def step() -> bool:
            return bool(await self.execute(CREATE))

        await self.persistently(step, not_known)

    async def submit(self, sql: str, name: str) -> str:
        async def step() -> query_pb2.Query:
            return (await self.execute(sql, name))[-1].query

        return (await self.persistently(step, lambda: self.named(name))).id

    async def cancel(self, name: str) -> None:
        async def step() -> query_pb2.Query:
            response = await self.queries.CancelQuery(
                query_pb2.CancelQueryRequest(query=name), wait_for_ready=True, timeout=60
            )
            return response.query

        async def done() -> query_pb2.Query | None:
            query = await self.named(name)
            over = (query_pb2.QUERY_STATE_CANCELLING, query_pb2.QUERY_STATE_CANCELLED)
            return query if query is not None and query.state in over else None

        await self.persistently(step, done)

    async def report(self, state: TaskState) -> None:
        for name, agent in self.agents.items():
            tasks = agent.assignments[-1].tasks if agent.assignments else ()
            statuses = [TaskStatus(TaskId.parse(t.task_id), t.query_id, t.stage_id, name, state) for t in tasks]
            with broken_connections():
                await agent.report(*statuses, tasks=tuple(statuses))

    async def until(self, name: str, state: query_pb2.QueryState.ValueType) -> None:
        # Longer than a master takes to start on a machine with other work.
        async with asyncio.timeout(200):
            while (query := await self.named(name)) is None or query.state != state:
                await self.report(TaskState.RUNNING)
                await asyncio.sleep(0.02)


async def not_known() -> None:
    """Whether a step is done; it may be done twice."""


@asynccontextmanager
async def surviving(directory: Path, fault: str) -> AsyncIterator[Survivor]:
    process = Process(directory, TOPOLOGY)
    # Known from the start: it may die before it can say where it is.
    address = f"127.0.0.1:{free_port()}"
    await process.start(address, environment={FAULT_VARIABLE: fault})
    agents = {name: FakeAgent(name, address, analyze=analyze) for name in NAMES}
    options = (("grpc.max_reconnect_backoff_ms", 200),)
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        survivor = Survivor(process, address, query_pb2_grpc.QueryServiceStub(channel), agents)
        watching = asyncio.create_task(survivor.watch_over())
        try:
            for agent in agents.values():
                await survivor.persistently(agent.start, not_known)
            yield survivor
        finally:
            watching.cancel()
            for agent in agents.values():
                await agent.stop()
            if process.process.returncode is None:
                process.process.kill()
            await process.process.wait()
            (end,) = await asyncio.gather(watching, return_exceptions=True)
            # Why the master did not come back says more than that something waited for it in vain.
            if isinstance(end, Exception):
                raise end


@pytest.mark.parametrize(("point", "passage"), CASES, ids=lambda value: getattr(value, "value", str(value)))
async def test_a_master_that_dies_there_goes_on_after_it(tmp_path: Path, point: FaultPoint, passage: int) -> None:
    async with surviving(tmp_path, f"{point.value}:{passage}") as master:
        await master.declare()
        lasting = await master.submit(COUNT, "lasting")
        await master.until("lasting", query_pb2.QUERY_STATE_RUNNING)
        await master.submit(FILTER, "passing")
        await master.until("passing", query_pb2.QUERY_STATE_RUNNING)
        await master.cancel("passing")
        await master.until("passing", query_pb2.QUERY_STATE_CANCELLED)

        assert master.deaths == 1
        lives = await master.named("lasting")
        assert lives is not None
        assert (lives.id, lives.state) == (lasting, query_pb2.QUERY_STATE_RUNNING)
        for name, agent in master.agents.items():
            await agent.assigned(partial(runs_only, lasting if name != "hub" else ""))
            versions = [a.version for a in agent.assignments]
            assert versions == sorted(versions)
            by_version: dict[int, site_pb2.Assignment] = {}
            assert all(by_version.setdefault(a.version, a) == a for a in agent.assignments)


def runs_only(query: str, assignment: site_pb2.Assignment) -> bool:
    """Whether the site runs tasks of that query (empty: of whichever) and of none that was cancelled."""
    running = {task.query_id for task in assignment.tasks}
    return running == {query} if query else len(running) <= 1


@pytest.mark.long
@pytest.mark.kills
async def test_a_master_that_dies_when_a_move_is_stored_goes_on_with_it(tmp_path: Path) -> None:
    async with surviving(tmp_path, f"{FaultPoint.HANDOVER_STORED.value}:1") as master:
        await master.declare()
        await master.submit(COUNT, "lasting")
        await master.until("lasting", query_pb2.QUERY_STATE_RUNNING)
        query = await master.named("lasting")
        assert query is not None
        here = next(task.site for task in query.tasks if task.stage_id == "m1")
        there = next(name for name in NAMES if name != here)
        async with grpc.aio.insecure_channel(master.address) as channel:
            handovers: Any = handover_pb2_grpc.HandoverServiceStub(channel)

            async def step() -> Any:
                request = handover_pb2.MoveTaskRequest(query="lasting", stage="m1", to_site=there)
                return (await handovers.MoveTask(request, wait_for_ready=True)).move

            async def done() -> Any:
                answer = await handovers.ListMoves(handover_pb2.ListMovesRequest(), wait_for_ready=True)
                return answer.moves[0] if answer.moves else None

            move = await master.persistently(step, done)
        assert (master.deaths, move.from_site, move.to_site) == (1, here, there)


@pytest.mark.parametrize("passage", [2, pytest.param(1, marks=_LONG), pytest.param(4, marks=_LONG)])
async def test_a_master_that_dies_in_the_middle_of_a_batch_query_goes_on_with_it(tmp_path: Path, passage: int) -> None:
    """It dies when maps were placed, when one has ended, and when the last task has."""
    async with surviving(tmp_path, f"{FaultPoint.BATCH_STORED.value}:{passage}") as master:
        for site in ("us", "eu"):
            master.agents[site].exchange.split_bytes["texts"] = (100, 100)
        await master.persistently(lambda: master.execute(TEXTS), not_known)
        query = await master.submit("SELECT page, count(*) AS n FROM texts GROUP BY page", "counted")
        async with asyncio.timeout(200):
            while (found := await master.named("counted")) is None or found.state != query_pb2.QUERY_STATE_FINISHED:
                await end_tasks(master, query)
                await asyncio.sleep(0.02)
        assert master.deaths == 1
        assert (found.batch.done, found.batch.tasks) == (5, 5)
        # Wherever a task was given out, it stayed.
        agents = master.agents.items()
        given = {(name, t.task_id) for name, agent in agents for a in agent.assignments for t in a.tasks}
        assert len(given) == len({task for _, task in given}) == 5
        async with grpc.aio.insecure_channel(master.address) as channel:
            watch = lease_pb2_grpc.LeaseServiceStub(channel).Watch(lease_pb2.WatchSlotsRequest(), wait_for_ready=True)
            first = await anext(aiter(watch))
            watch.cancel()
        assert not [status for status in first.slots if status.lease.holder == "batch"]


async def end_tasks(master: Survivor, query: str) -> None:
    """Whatever sites were told to do is done."""
    for name, agent in master.agents.items():
        latest = agent.assignments[-1] if agent.assignments else site_pb2.Assignment()
        ended = tuple(
            TaskStatus(TaskId.parse(t.task_id), query, t.stage_id, name, TaskState.ENDED) for t in latest.tasks
        )
        results = (ResultStatus(query, rows=1, complete=True),) if latest.results else ()
        with broken_connections():
            await agent.report(*ended, tasks=ended, results=results)


async def forever(call: Callable[[], Awaitable[object]]) -> None:
    """Slots are refused for as long as their site is not heard."""
    while True:
        await call()
        await asyncio.sleep(0.02)


async def test_a_lease_that_was_stored_is_held_although_nobody_was_told(tmp_path: Path) -> None:
    async with (
        surviving(tmp_path, f"{FaultPoint.LEASES_STORED.value}:1") as master,
        grpc.aio.insecure_channel(master.address) as channel,
    ):
        leases = lease_pb2_grpc.LeaseServiceStub(channel)
        await leases.RegisterFramework(lease_pb2.RegisterFrameworkRequest(name="nightly"), wait_for_ready=True)
        wish = lease_pb2.Wish(slot=lease_pb2.Slot(site="us", index=0), duration_us=60_000_000)
        request = lease_pb2.AcquireRequest(framework="nightly", wishes=[wish])
        with pytest.raises(grpc.aio.AioRpcError):
            await forever(partial(leases.Acquire, request))
        again = partial(leases.Acquire, request, wait_for_ready=True)
        (outcome,) = (await master.persistently(again, not_known)).outcomes
        assert master.deaths == 1
        # It is its own: the client sees that the first request was granted after all.
        assert (outcome.busy.lease.holder, outcome.busy.lease.fencing) == ("nightly", 1)
