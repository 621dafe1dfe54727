"""Events and summaries of queries over real gRPC."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result

import selat
from selat.cli import cli
from selat.client.events import Event, EventKind
from selat.v1 import event_pb2 as pb
from selat.v1 import event_pb2_grpc, query_pb2
from tests.fakes.agent import PATIENCE_S
from tests.integration.master_cluster import CREATE, Cluster, refusal, running_cluster

pytestmark = pytest.mark.timeout(180)


def stub(cluster: Cluster) -> event_pb2_grpc.EventServiceAsyncStub:
    return event_pb2_grpc.EventServiceStub(cluster.channel)


async def listed(cluster: Cluster, **wanted: object) -> list[pb.Event]:
    request = pb.ListEventsRequest(filter=pb.EventFilter(**wanted))  # type: ignore[arg-type]
    return list((await stub(cluster).ListEvents(request)).events)


async def test_events_of_a_query_by_its_name(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.execute(CREATE)
        query = await cluster.submit("SELECT user_id FROM clicks", "visits")
        found = await listed(cluster, query_id="visits")
        assert [(e.query_id, e.kind) for e in found] == [
            (query, pb.EVENT_KIND_QUERY),
            (query, pb.EVENT_KIND_PLACEMENT),
        ]
        assert "source clicks at" in found[1].message
        sites = await listed(cluster, kinds=[pb.EVENT_KIND_SITE])
        assert {e.site for e in sites} == {"hub", "us", "eu"}
        asked = stub(cluster).ListEvents(pb.ListEventsRequest(filter=pb.EventFilter(query_id="q-9")))
        assert (await refusal(asked))[0] is grpc.StatusCode.NOT_FOUND


async def test_a_watcher_is_told_what_comes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        last = (await listed(cluster))[-1].number
        call = stub(cluster).WatchEvents(pb.WatchEventsRequest(after=last, filter=pb.EventFilter(site="us")))
        cluster.master.jobs.set_draining("eu", True)
        cluster.master.jobs.set_draining("us", True)
        async with asyncio.timeout(PATIENCE_S):
            event = (await anext(aiter(call))).event
        assert (event.site, event.message, event.count) == ("us", "site is draining", 1)
        call.cancel()


async def test_summaries_come_in_pages_and_without_tasks(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.execute(CREATE)
        ids = [await cluster.submit("SELECT user_id FROM clicks") for _ in range(3)]
        request = query_pb2.ListQueriesRequest(detail=query_pb2.QUERY_DETAIL_SUMMARY, page_size=2)
        first = await cluster.queries.ListQueries(request)
        assert [q.id for q in first.queries] == ids[:2]
        assert not any(q.tasks or q.links or q.columns for q in first.queries)
        assert first.queries[0].sql == "SELECT user_id FROM clicks"
        request.page_token = first.next_page_token
        rest = await cluster.queries.ListQueries(request)
        assert [q.id for q in rest.queries] == ids[2:]
        assert not rest.next_page_token
        whole = await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(text=ids[1]))
        assert [q.id for q in whole.queries] == [ids[1]]
        assert whole.queries[0].tasks
        failed = query_pb2.ListQueriesRequest(states=[query_pb2.QUERY_STATE_FAILED])
        assert not (await cluster.queries.ListQueries(failed)).queries


async def test_the_client_and_the_command_list_and_follow(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        cluster.master.jobs.set_draining("us", True)
        listed, followed = await asyncio.to_thread(_client, cluster.address)
        assert [(e.kind, e.site, e.message) for e in listed] == [
            (EventKind.SITE, "us", "site is alive"),
            (EventKind.SITE, "us", "site is draining"),
        ]
        assert followed == listed[-1]
        done = await asyncio.to_thread(_command, "--master", cluster.address, "events", "--site", "us", "--json")
        assert [json.loads(line)["message"] for line in done.stdout.splitlines()] == [e.message for e in listed]
        done = await asyncio.to_thread(_command, "--master", cluster.address, "-o", "table", "events", "--kind", "site")
        assert "site is draining" in done.stdout
        done = await asyncio.to_thread(_command, "--master", cluster.address, "events", "--query", "q-9")
        assert done.exit_code == 4


def _client(address: str) -> tuple[list[Event], Event]:
    with selat.connect(address) as client:
        listed = client.events(site="us", kinds=[EventKind.SITE])
        with client.watch_events(site="us", after=listed[0].number) as watch:
            return listed, next(watch)


def _command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="selat")
