"""Results on their way from the gateway to a client."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pyarrow as pa
import pytest

from contract.tasks import TaskState
from master.records.model import ChannelUse, ResultStatus
from master.results.decode import EndOfChannel, SentEpoch, arrow_stream
from master.results.pull import ChannelAbsentError, EpochGoneError, PullTarget, pull
from master.sites.peers import Peers
from planner.graph.ids import TaskId
from selat.v1 import (
    exchange_pb2,
    query_pb2,
    site_pb2,
)
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import SERVER_OPTIONS
from site_agent.exchange.server import ExchangeServicer
from tests.fakes.agent import FakeChannel
from tests.integration.master_cluster import (
    CREATE,
    FILTER,
    NAMES,
    Cluster,
    eventually,
    refusal,
    running_cluster,
)

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        yield cluster


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"user_id": pa.array(numbers, pa.int64()), "page": [f"page-{n}" * 20 for n in numbers]})


def numbers(messages: list[query_pb2.FetchResultsResponse]) -> dict[str, list[int]]:
    """User ids by channel; the last message is the query."""
    found: dict[str, list[int]] = {}
    for message in messages[:-1]:
        with pa.ipc.open_stream(message.arrow_stream) as reader:
            found.setdefault(message.channel, []).extend(reader.read_all()["user_id"].to_pylist())
    return found


async def fetch(
    cluster: Cluster, query: str, *, follow: bool, cursor: dict[str, int] | None = None
) -> list[query_pb2.FetchResultsResponse]:
    marks = [query_pb2.ChannelCursor(channel=c, epoch=e) for c, e in (cursor or {}).items()]
    request = query_pb2.FetchResultsRequest(query=query, follow=follow, cursor=marks)
    return [m async for m in cluster.queries.FetchResults(request)]


async def test_a_query_from_submission_to_its_end(cluster: Cluster) -> None:
    created, answer = await cluster.execute(CREATE + "\n" + FILTER, name="big")
    assert created.done == "stream clicks created at us, eu"
    assert (answer.line, answer.query.name, answer.query.state) == (3, "big", query_pb2.QUERY_STATE_DEPLOYING)
    assert [(c.name, c.type) for c in answer.query.columns] == [("user_id", "BIGINT"), ("page", "STRING")]
    query = answer.query.id
    assert query.startswith("q-0001-")

    assignment = await cluster.agents["us"].assigned(lambda a: bool(a.tasks))
    (task,) = assignment.tasks
    assert task.task_id == f"{query}.s1.p1"
    assert (task.kind, list(task.consumers)) == (site_pb2.STAGE_KIND_SOURCE, ["hub"])
    assert [b.site for b in task.relation.bindings] == ["us"]
    assert assignment.site_addresses["eu"] == cluster.agents["eu"].address
    kept = await cluster.agents["hub"].assigned(lambda a: bool(a.results))
    assert [i.channel for i in kept.results[0].inputs] == [f"{query}.s1.p0", f"{query}.s1.p1"]
    await cluster.agents["eu"].assigned(lambda a: bool(a.tasks))

    await cluster.report("us", TaskState.RUNNING, rows_in=10)
    assert await cluster.state(query) == "DEPLOYING"
    await cluster.report("eu", TaskState.RUNNING, rows_in=5)
    assert await cluster.state(query) == "RUNNING"

    exchange = cluster.agents["hub"].exchange
    for part in ("p1", "p0"):
        exchange.channels[f"{query}.s1.{part}"] = channel = FakeChannel()
        channel.publish(batch(6, 7) if part == "p1" else None, batch(8), end=True)
    use = ChannelUse(TaskId(query, "s1", 1), query, "us", 1234, 2)
    for site, rows in (("us", 12), ("eu", 7)):
        await cluster.report(site, TaskState.ENDED, rows_in=rows)
    result = ResultStatus(query, rows=4, complete=True, watermark_us=99)
    await cluster.agents["hub"].report(results=(result,), channels=(use,))

    found = await cluster.get("big")
    assert found.state == query_pb2.QUERY_STATE_FINISHED
    assert (found.rows_in, found.rows_out, found.watermark_us) == (19, 4, 99)
    assert [(x.from_site, x.to_site, x.bytes, x.epochs) for x in found.links] == [("us", "hub", 1234, 2)]
    await cluster.agents["us"].assigned(lambda a: not a.tasks)

    messages = await fetch(cluster, query, follow=True)
    assert numbers(messages) == {f"{query}.s1.p1": [6, 7, 8], f"{query}.s1.p0": [8]}
    assert messages[-1].query.state == query_pb2.QUERY_STATE_FINISHED
    (last,) = [m for m in messages[:-1] if m.channel.endswith("p0")]
    assert (last.epoch, last.rows, last.watermark_us) == (1, 1, 1)


async def test_results_are_followed_over_a_break_of_the_gateway(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    hub = cluster.agents["hub"]
    us, eu = f"{query}.s1.p1", f"{query}.s1.p0"
    hub.exchange.channels[us] = channel = FakeChannel()
    channel.publish(batch(6), batch(7, 8))
    received: list[query_pb2.FetchResultsResponse] = []

    async def follow() -> None:
        async for message in cluster.queries.FetchResults(query_pb2.FetchResultsRequest(query=query, follow=True)):
            received.append(message)  # noqa: PERF401 - one by one, as they come

    following = asyncio.create_task(follow())

    async def has(count: int) -> bool:
        return len(received) >= count

    await eventually(lambda: has(2))
    await hub.stop_serving()
    channel.publish(batch(9), end=True)
    hub.exchange.channels[eu] = FakeChannel()
    hub.exchange.channels[eu].publish(end=True)
    await hub.serve_again()
    await eventually(lambda: has(3))
    assert [o.from_epoch for o in hub.exchange.opened if o.channel == us] == [0, 2]
    for site in ("us", "eu"):
        await cluster.report(site, TaskState.ENDED)
    await hub.report(results=(ResultStatus(query, rows=4, complete=True),))
    async with asyncio.timeout(10):
        await following
    assert numbers(received) == {us: [6, 7, 8, 9]}
    assert received[-1].query.state == query_pb2.QUERY_STATE_FINISHED


async def test_results_resume_at_a_cursor_and_without_follow_end_with_what_is_there(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    us = f"{query}.s1.p1"
    channels = cluster.agents["hub"].exchange.channels
    channels[us] = FakeChannel()
    channels[us].publish(batch(6), batch(7), batch(8))
    messages = await fetch(cluster, query, follow=False, cursor={us: 1})
    assert numbers(messages) == {us: [7, 8]}
    assert messages[-1].query.state == query_pb2.QUERY_STATE_RUNNING
    code, said = await refusal(fetch(cluster, query, follow=False, cursor={"q-9.s1.us": 1}))
    assert (code, said.code) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


async def test_whoever_comes_for_results_that_are_gone_is_told_what_is_there(cluster: Cluster, tmp_path: Path) -> None:
    """A real exchange, whose first epochs were trimmed, answers at the fake agent's address."""
    await cluster.execute(CREATE)
    query = await cluster.run()
    us = f"{query}.s1.p1"
    log = ChannelStore(tmp_path / "channels").open(us)
    log.set_consumers(["hub"])
    for epoch in range(5):
        log.publish(epoch, pa.table(batch(epoch)), watermark_us=None)
    log.acknowledge("hub", 2)
    agent = cluster.agents["hub"]
    await agent.stop_serving()
    async with real_exchange(ChannelStore(tmp_path / "channels"), agent.address):
        for cursor in ({}, {us: 1}):
            code, said = await refusal(fetch(cluster, query, follow=True, cursor=cursor))
            assert (code, said.code) == (grpc.StatusCode.OUT_OF_RANGE, "RESULTS_GONE")
            wanted = str(cursor.get(us, 0))
            assert dict(said.ids) == {"query": query, "channel": us, "epoch": wanted, "first_epoch": "3"}
            assert "--from-epoch first" in said.hint
        first = query_pb2.FetchResultsRequest(query=query, from_first=True)
        assert numbers([m async for m in cluster.queries.FetchResults(first)]) == {us: [3, 4]}
        assert numbers(await fetch(cluster, query, follow=False, cursor={us: 4})) == {us: [4]}


async def test_results_without_a_gateway_say_so(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    await cluster.agents["hub"].stop_serving()
    code, said = await refusal(fetch(cluster, query, follow=False))
    assert (code, said.code, said.ids["site"]) == (grpc.StatusCode.UNAVAILABLE, "RESULTS_UNAVAILABLE", "hub")


async def test_following_a_query_that_is_cancelled_ends_with_what_was_there(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    us = f"{query}.s1.p1"
    channels = cluster.agents["hub"].exchange.channels
    channels[us] = FakeChannel()
    channels[us].publish(batch(6))
    following = asyncio.create_task(fetch(cluster, query, follow=True))

    async def opened() -> bool:
        return any(o.channel == us for o in cluster.agents["hub"].exchange.opened)

    await eventually(opened)
    (answer,) = await cluster.execute(f"CANCEL QUERY {query}")
    assert answer.query.state == query_pb2.QUERY_STATE_CANCELLING
    for site in NAMES:
        agent = cluster.agents[site]
        await agent.assigned(lambda a: not a.tasks)
        await agent.report(tasks=())
    assert await cluster.state(query) == "CANCELLED"
    async with asyncio.timeout(10):
        messages = await following
    assert numbers(messages) == {us: [6]}
    assert messages[-1].query.state == query_pb2.QUERY_STATE_CANCELLED
    again = await cluster.queries.CancelQuery(query_pb2.CancelQueryRequest(query=query))
    assert again.query.state == query_pb2.QUERY_STATE_CANCELLED


async def _no_analysis(request: exchange_pb2.AnalyzeRequest) -> exchange_pb2.AnalyzeResponse:
    return exchange_pb2.AnalyzeResponse()


@asynccontextmanager
async def real_exchange(store: ChannelStore, listen: str = "127.0.0.1:0") -> AsyncIterator[grpc.aio.Channel]:
    """An agent's own exchange over that store, and a connection to it as the master makes it."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    servicer = ExchangeServicer(store, _no_analysis)
    servicer.add_to(server)
    port = server.add_insecure_port(listen)
    await server.start()
    peers = Peers()
    try:
        yield peers.channel("hub", f"127.0.0.1:{port}")
    finally:
        await peers.close()
        await server.stop(None)
        servicer.close()


async def forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("follow", [False, True])
async def test_the_master_reads_what_the_real_exchange_sends(tmp_path: Path, follow: bool) -> None:
    store = ChannelStore(tmp_path)
    log = store.open("q-0001-a1b2c3.s1.us")
    big = pa.table(
        {"n": pa.array(range(400_000), pa.int64()), "noise": [secrets.token_hex(16) for _ in range(400_000)]}
    )
    small = pa.table({"n": pa.array([1], pa.int64()), "noise": ["x"]})
    for epoch, rows in enumerate((None, small, big, None)):
        log.publish(epoch, rows, watermark_us=7)
    if follow:
        log.finish()
    async with real_exchange(store) as connection:
        items = [item async for item in pull(connection, PullTarget(log.id, 0, follow), until=forever)]
    epochs = [item for item in items if isinstance(item, SentEpoch)]
    assert [(e.epoch, e.rows, e.watermark_us) for e in epochs] == [(0, 0, 7), (1, 1, 7), (2, 400_000, 7), (3, 0, 7)]
    assert [isinstance(item, EndOfChannel) for item in items] == [False] * 4 + [True] * follow
    assert epochs[0].schema == b""
    with pa.ipc.open_stream(arrow_stream(epochs[2])) as reader:
        assert reader.read_all() == big


async def test_the_real_exchange_begins_at_what_is_kept_when_it_may(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    log = store.open("q-0001-a1b2c3.s1.us")
    log.set_consumers(["hub"])
    for epoch in range(4):
        log.publish(epoch, pa.table({"n": [epoch]}), watermark_us=None)
    log.acknowledge("hub", 1)
    async with real_exchange(store) as connection:
        with pytest.raises(EpochGoneError) as gone:
            await anext(pull(connection, PullTarget(log.id, 1, follow=True), until=forever))
        first = PullTarget(log.id, 0, follow=False, from_first=True)
        items = [item async for item in pull(connection, first, until=forever)]
    assert gone.value.first_epoch == 2
    assert [item.epoch for item in items if isinstance(item, SentEpoch)] == [2, 3]


async def test_the_real_exchange_knows_no_such_channel(tmp_path: Path) -> None:
    async with real_exchange(ChannelStore(tmp_path)) as connection:
        with pytest.raises(ChannelAbsentError):
            await anext(pull(connection, PullTarget("q-0009-000000.s1.us", 0, follow=True), until=forever))
