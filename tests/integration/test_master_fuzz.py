"""Requests of every kind, odd ones above all, against a real master: each is answered as documented."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from master.base.status import STATUS_CODES
from master.convert.reports import LARGEST_COUNT
from selat.v1 import catalog_pb2, common_pb2, query_pb2, site_pb2
from tests.integration.master_cluster import COUNT, CREATE, FILTER, Cluster, detail, refusal, running_cluster

pytestmark = pytest.mark.timeout(240)

DOCUMENTED = frozenset(STATUS_CODES.values()) - {grpc.StatusCode.INTERNAL}
STREAMED_S = 0.2
"""How long a stream is listened to; those that follow something never end."""

FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))

METHODS: tuple[MethodDescriptor, ...] = tuple(
    method
    for module in (query_pb2, catalog_pb2, site_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
)

TEXTS = st.one_of(
    st.sampled_from(["", "clicks", "us", "eu", "hub", "a", "q-0001", "q-", "s1", "page", "ts", "STRING", "generator"]),
    st.sampled_from([CREATE, FILTER, COUNT, f"EXPLAIN {COUNT}", "SHOW QUERIES", "SHOW SITES", "DROP STREAM clicks"]),
    st.sampled_from(["\x00", "a\nb", "\u202e", "\ufffd\ufffe", "../../etc", "'; --", "\U0010ffff", "(" * 500, "%s%n"]),
    st.sampled_from(["x" * 20_000, "é" * 9_000, "SELECT " + "1+" * 3_000 + "1", "127.0.0.1:0", "nowhere:99999", ":::"]),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
LARGE = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**31), -(2**63)]
REALS = st.sampled_from([0.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan")])


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await cluster.execute(CREATE)
        await cluster.run(COUNT)
        yield cluster


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.sampled_from([n for n in LARGE if low <= n <= high])


SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: TEXTS,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: REALS,
    FieldDescriptor.TYPE_UINT32: integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_INT64: integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_ENUM: st.sampled_from([0, 1, 2, 5, 6, 99, 2**31 - 1, -1]),
}


def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is None:
        one = SCALARS[field.type]
    elif field.message_type.GetOptions().map_entry:
        key, value = (values(part) for part in field.message_type.fields)
        return st.dictionaries(key, value, max_size=3)
    else:
        one = messages(field.message_type)
    return st.lists(one, max_size=3) if field.is_repeated else one


def messages(descriptor: Descriptor) -> st.SearchStrategy[Message]:
    """Messages of that type with any of their fields set."""
    kind = GetMessageClass(descriptor)
    fields = {field.name: values(field) for field in descriptor.fields}
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: kind(**given))


@dataclass(frozen=True, slots=True)
class Call:
    method: MethodDescriptor
    request: Message | bytes

    @property
    def path(self) -> str:
        return f"/{self.method.containing_service.full_name}/{self.method.name}"


CALLS = st.sampled_from(METHODS).flatmap(
    lambda method: messages(method.input_type).map(lambda request: Call(method, request))
)
BROKEN = st.sampled_from(METHODS).flatmap(
    lambda method: st.one_of(
        st.just(b"\x0a\x02\xff\xfe"), st.just(b"\x0a\xff"), st.binary(min_size=1, max_size=30)
    ).map(lambda request: Call(method, request))
)


def serialized(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


async def answer(cluster: Cluster, call: Call) -> grpc.aio.AioRpcError | None:
    """What the call ends with; None when it is answered, or goes on."""
    parse = GetMessageClass(call.method.output_type).FromString
    try:
        if call.method.server_streaming:
            stream: Any = cluster.channel.unary_stream(call.path, serialized, parse)(call.request)
            try:
                async with asyncio.timeout(STREAMED_S):
                    async for _ in stream:
                        pass
            except TimeoutError:
                return None
            finally:
                stream.cancel()
        else:
            unary: Any = cluster.channel.unary_unary(call.path, serialized, parse)
            await unary(call.request, timeout=10)
    except grpc.aio.AioRpcError as error:
        return error
    return None


async def check(cluster: Cluster, call: Call) -> None:
    error = await answer(cluster, call)
    if error is not None:
        assert error.code() in DOCUMENTED, (call.path, error.code(), error.details(), call.request)
        described = detail(error)
        assert described.code, call.path
        assert described.message, call.path
    await still_serves(cluster)


async def still_serves(cluster: Cluster) -> None:
    await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(all=True), timeout=10)
    await cluster.catalog.ListRelations(catalog_pb2.ListRelationsRequest(), timeout=10)
    await cluster.sites.ListSites(site_pb2.ListSitesRequest(), timeout=10)


@FUZZ
@given(call=CALLS)
async def test_every_request_is_answered_as_documented(cluster: Cluster, call: Call) -> None:
    await check(cluster, call)


@FUZZ
@given(request=messages(site_pb2.ReportRequest.DESCRIPTOR), site=st.sampled_from(["us", "eu", "hub"]))
async def test_whatever_an_agent_reports_the_master_serves_on(
    cluster: Cluster, request: site_pb2.ReportRequest, site: str
) -> None:
    """As the agent that speaks for the site, about a query that runs."""
    request.site, request.incarnation = site, cluster.agents[site].incarnation
    query = next(q for q in (await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(all=True))).queries)
    for task in request.tasks:
        task.task_id, task.query_id = f"{query.id}.s1.{site}", query.id
    for result in request.results:
        result.query_id = query.id
    for use in request.channels:
        use.query_id = query.id
    await check(cluster, Call(site_pb2.DESCRIPTOR.services_by_name["SiteService"].methods_by_name["Report"], request))
    await cluster.execute("SHOW QUERIES; SHOW SITES")
    await cluster.get(query.id)


@settings(FUZZ, max_examples=60)
@given(call=BROKEN)
async def test_bytes_that_are_no_message_are_refused_or_understood(cluster: Cluster, call: Call) -> None:
    await check(cluster, call)


async def test_numbers_at_the_limit_are_taken_stored_and_loaded(cluster: Cluster) -> None:
    large = site_pb2.ReportRequest(
        site="us",
        incarnation=cluster.agents["us"].incarnation,
        assignment_version=LARGEST_COUNT,
        channels=[
            site_pb2.ChannelUse(channel="c", query_id="q", from_site="eu", bytes=LARGEST_COUNT, epochs=LARGEST_COUNT)
        ],
        memory_bytes=LARGEST_COUNT,
    )
    await cluster.sites.Report(large)
    await cluster.stop_master()
    await cluster.start_master()
    await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(all=True), wait_for_ready=True, timeout=10)
    await still_serves(cluster)


def method(service: str, name: str) -> MethodDescriptor:
    return next(m for m in METHODS if m.containing_service.name == service and m.name == name)


FOUND = [
    Call(method("QueryService", "GetQuery"), query_pb2.GetQueryRequest(query="x" * 20_000)),
    Call(method("QueryService", "Execute"), b"\x0a\x02\xff\xfe"),
    Call(method("CatalogService", "AlterBinding"), b"\x0a\xff"),
    Call(
        method("CatalogService", "CreateRelation"),
        catalog_pb2.CreateRelationRequest(
            relation=common_pb2.Relation(name="r", kind=common_pb2.RELATION_KIND_TABLE, created_at_us=2**63 - 1)
        ),
    ),
]


@pytest.mark.parametrize("call", FOUND, ids=lambda call: call.method.name)
async def test_what_was_once_answered_wrongly(cluster: Cluster, call: Call) -> None:
    await check(cluster, call)


async def test_more_slots_than_a_site_can_have_are_refused(cluster: Cluster) -> None:
    request = site_pb2.RegisterRequest(site="us", address="127.0.0.1:1", incarnation="i", slots=2**31 - 1)

    code, described = await refusal(cluster.sites.Register(request))

    assert (code, described.code) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert described.message == "site us cannot have 2147483647 slots"


async def test_counts_that_cannot_be_are_refused(cluster: Cluster) -> None:
    agent = cluster.agents["us"]
    use = site_pb2.ChannelUse(channel="c", query_id="q", from_site="eu", bytes=2**64 - 1)
    request = site_pb2.ReportRequest(site="us", incarnation=agent.incarnation, channels=[use])

    code, described = await refusal(cluster.sites.Report(request))

    assert (code, described.code) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert described.message == "ChannelUse.bytes of site us is 18446744073709551615"
