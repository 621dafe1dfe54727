"""Disks without room: of a site while it publishes, checkpoints, copies and is told its tasks, and of the master."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import grpc.aio
import pytest

from selat.v1 import query_pb2, query_pb2_grpc, site_pb2
from tests.integration.crash_site import HELD_AFTER, HOLD
from tests.integration.master_cluster import CREATE, FILTER, NAMES, Cluster, refusal
from tests.integration.small_disk import half_files, small_disk
from tests.integration.two_sites import MERGE, SOURCES, Orders, expected, stored_results, two_sites

pytestmark = pytest.mark.timeout(120)

RETRYING = site_pb2.TASK_STATE_RETRYING


async def begun(orders: Orders, site: str) -> None:
    """All that is not held back is published."""

    def published() -> int:
        statuses = orders.reports[site].tasks if site in orders.reports else ()
        return max((s.next_epoch for s in statuses if s.task_id == SOURCES[site]), default=0)

    async with orders.changed:
        await orders.changed.wait_for(lambda: published() >= HELD_AFTER)


@pytest.mark.parametrize(
    ("small", "task"),
    [("ewr", SOURCES["ewr"]), ("jfk", SOURCES["jfk"]), ("jfk/tasks", MERGE)],
    ids=["source", "source-beside-a-merge", "checkpoints-of-the-merge"],
)
async def test_a_site_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    tmp_path: Path, small: str, task: str
) -> None:
    """jfk merges and copies the other's rows; ewr publishes, and copies the results."""
    site, hold = small.partition("/")[0], tmp_path / HOLD
    hold.touch()
    with small_disk(tmp_path / small) as disk:
        async with two_sites(tmp_path) as (orders, mortals), asyncio.timeout(100):
            await begun(orders, site)
            disk.fill()
            # Only now there is something to write that finds no room.
            hold.unlink()
            reason = await orders.told(site, task, RETRYING)
            assert reason.startswith("the disk is full: cannot write ")
            assert reason.endswith("(free some space; the task continues by itself)")
            # Whoever tries again has a file for a moment; what is left behind stays.
            while half_files(disk.root):
                await asyncio.sleep(0.01)
            disk.free()
            await orders.complete()
        assert mortals.deaths == []
        assert stored_results(tmp_path) == expected()


async def test_a_site_that_cannot_store_what_it_is_told_is_told_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "jfk") as disk:
        (tmp_path / "jfk" / "channels").mkdir()
        disk.fill()
        async with two_sites(tmp_path) as (orders, mortals), asyncio.timeout(100):
            async with orders.changed:
                await orders.changed.wait_for(lambda: "jfk" in orders.reports)
            log = tmp_path / "jfk.log"
            while "assignment not applied site=jfk version=1: [Errno 28] No space left" not in log.read_text():
                await asyncio.sleep(0.05)
            assert orders.reports["jfk"].assignment_version == 0
            disk.free()
            await orders.complete()
        assert mortals.deaths == []
        assert stored_results(tmp_path) == expected()


async def test_a_master_whose_disk_is_full_refuses_and_keeps_what_it_accepted(tmp_path: Path) -> None:
    with small_disk(tmp_path / "master") as disk:
        async with AsyncExitStack() as stack:
            cluster = Cluster(tmp_path / "master", stack)
            await cluster.start_master()
            stack.push_async_callback(cluster.stop_master)
            await cluster.connect()
            for name in NAMES:
                await cluster.agent(name)
            await cluster.execute(CREATE)
            kept = await cluster.run(FILTER)
            disk.fill()

            refused = await fill_store(cluster)
            assert refused == (grpc.StatusCode.RESOURCE_EXHAUSTED, "STORE_FULL")
            names = {q.name for q in await listed(cluster)}
            assert await cluster.state(kept) == "RUNNING"

            disk.free()
            await cluster.stop_master()
            await cluster.start_master()
            assert {q.name for q in await listed(cluster)} == names
            assert await cluster.state(kept) == "RUNNING"
            again = await cluster.submit(FILTER, "again")
            await cluster.agents["us"].assigned(lambda a: {kept, again} <= {t.query_id for t in a.tasks})


async def fill_store(cluster: Cluster) -> tuple[grpc.StatusCode, str]:
    """Submit queries until one is refused, for the write-ahead log has some room; no part of that one is accepted."""
    for number in range(1000):
        before = {q.name for q in await listed(cluster)}
        stub = query_pb2_grpc.QueryServiceStub(cluster.channel)
        request = query_pb2.ExecuteRequest(text=FILTER, query_name=f"n{number}")
        call = stub.Execute(request)
        try:
            async for _ in call:
                pass
        except grpc.aio.AioRpcError:
            code, described = await refusal(first_of(stub.Execute(request)))
            assert {q.name for q in await listed(cluster)} == before
            return code, described.code
    raise AssertionError("the disk was never full")


async def first_of(call: grpc.aio.UnaryStreamCall[query_pb2.ExecuteRequest, query_pb2.ExecuteResponse]) -> object:
    return [response async for response in call]


async def listed(cluster: Cluster) -> list[query_pb2.Query]:
    answer = await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(all=True), wait_for_ready=True, timeout=10)
    return list(answer.queries)
