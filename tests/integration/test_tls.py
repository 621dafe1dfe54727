"""Who may connect to a master and to an agent with TLS, and what each may say there: everything crosses gRPC."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509

from contract.trailers import received_detail, refuse
from machine.clock import SystemClock
from master.server import Master, Surroundings, serving
from master.store.sqlite import SqliteStore
from master.wan.sqlite_history import SqliteLinkHistory
from selat.v1 import (
    exchange_pb2,
    exchange_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    lease_pb2,
    lease_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    site_pb2,
    site_pb2_grpc,
    wan_pb2,
    wan_pb2_grpc,
)
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import connector
from site_agent.host import Guests, start_exchange
from site_agent.ingest.streams import PushStreams
from site_agent.slots.guard import SlotGuard, SlotLease
from tests.certificates import Certificates, ago
from tests.fakes import CountingHex, VirtualClock
from tests.integration.master_cluster import CONFIG, TOPOLOGY
from tests.unit.site_agent.fakes import TableEngine
from wire import callers, servers
from wire.callers import CallerInterceptor
from wire.channels import aio_channel
from wire.files import CA, KEY, MEMBER, read_material
from wire.names import MASTER, MemberName, member_name, site
from wire.security import PLAIN, Security

pytestmark = pytest.mark.timeout(60)

ANSWER_S = 20.0
ALICE = ("client", "alice")
UNREACHED = ("UNAVAILABLE", "")


@dataclass
class Members:
    """A master and the agent of `us`, both with TLS, and the certificates of everybody."""

    certificates: Certificates
    master: str
    us: str
    guard: SlotGuard
    stack: AsyncExitStack
    opened: dict[tuple[str, MemberName], grpc.aio.Channel] = field(default_factory=dict)

    def at_master(self, role: str, name: str) -> grpc.aio.Channel:
        return self.channel(self.master, MASTER, role, name)

    def at_us(self, role: str, name: str) -> grpc.aio.Channel:
        return self.channel(self.us, site("us"), role, name)

    def channel(self, address: str, peer: MemberName, role: str, name: str) -> grpc.aio.Channel:
        key = (address, member_name(role, name))
        if key not in self.opened:
            self.opened[key] = aio_channel(address, peer, self.certificates.of(role, name))
            self.stack.push_async_callback(self.opened[key].close, None)
        return self.opened[key]


@asynccontextmanager
async def master_with(security: Security, data: Path) -> AsyncIterator[str]:
    store = SqliteStore.open(data)
    around = Surroundings(VirtualClock(), CountingHex(), SqliteLinkHistory.in_memory(), security=security)
    try:
        master = Master(store, TOPOLOGY, config=CONFIG, around=around)
        async with serving(master, "127.0.0.1:0") as address:
            yield address
    finally:
        store.close()


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[Members]:
    certificates = Certificates.create(tmp_path / "tls")
    async with AsyncExitStack() as stack:
        running = master_with(certificates.of("master", "master"), tmp_path / "master")
        master = await stack.enter_async_context(running)
        (tmp_path / "us").mkdir()
        guard = SlotGuard("us", 2, tmp_path / "us")
        streams = PushStreams("us", tmp_path / "us", clock=SystemClock())
        stack.push_async_callback(streams.close)
        guests = Guests("us", streams, guard, security=certificates.of("site", "us"))
        store = ChannelStore(tmp_path / "us" / "channels")
        us = await start_exchange("127.0.0.1:0", store, TableEngine({}), stack, guests=guests)
        yield Members(certificates, master, us, guard, stack)


async def outcome(call: Awaitable[Any]) -> tuple[str, str]:
    """Status, and the code of the error; of an answer, OK and nothing."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        detail = received_detail(error)
        return error.code().name, detail.code if detail is not None else ""
    return "OK", ""


async def list_queries(channel: grpc.aio.Channel) -> Any:
    return await query_pb2_grpc.QueryServiceStub(channel).ListQueries(query_pb2.ListQueriesRequest(), timeout=ANSWER_S)


async def register(channel: grpc.aio.Channel, name: str) -> Any:
    request = site_pb2.RegisterRequest(site=name, address="127.0.0.1:1", incarnation="x", slots=2, version="t")
    return await site_pb2_grpc.SiteServiceStub(channel).Register(request, timeout=ANSWER_S)


async def echo(channel: grpc.aio.Channel) -> Any:
    return await wan_pb2_grpc.ProbeServiceStub(channel).Echo(wan_pb2.EchoRequest(payload=b"x"), timeout=ANSWER_S)


async def first(call: Any) -> Any:
    return await call.read()


async def pull(channel: grpc.aio.Channel, consumer: str) -> Any:
    call = exchange_pb2_grpc.ExchangeServiceStub(channel).Pull(None, timeout=ANSWER_S)
    await call.write(exchange_pb2.PullRequest(open=exchange_pb2.OpenChannel(channel="none", consumer=consumer)))
    await call.done_writing()
    return await call.read()


async def push(channel: grpc.aio.Channel, producer: str) -> Any:
    call = ingest_pb2_grpc.IngestServiceStub(channel).Push(None, timeout=ANSWER_S)
    opening = ingest_pb2.OpenPush(stream="none", site="us", producer=producer)
    await call.write(ingest_pb2.PushRequest(open=opening))
    await call.done_writing()
    return await call.read()


async def undisturbed(members: Members) -> None:
    """Whoever may do so is answered, as if nothing had been tried."""
    assert await outcome(list_queries(members.at_master(*ALICE))) == ("OK", "")
    assert await outcome(echo(members.at_us("site", "eu"))) == ("OK", "")


def raw(directory: Path, address: str, peer: MemberName, *, certificate: bool = True) -> grpc.aio.Channel:
    """A channel with what is in the files, whatever it is worth."""
    roots, chain, key = ((directory / name).read_bytes() for name in (CA, MEMBER, KEY))
    credentials = grpc.ssl_channel_credentials(roots, *((key, chain) if certificate else ()))
    return grpc.aio.secure_channel(address, credentials, options=(("grpc.ssl_target_name_override", peer.host),))


async def test_members_are_answered(members: Members) -> None:
    assert await outcome(register(members.at_master("site", "us"), "us")) == ("OK", "")
    await undisturbed(members)


def without_certificate(members: Members, monkeypatch: pytest.MonkeyPatch) -> Path:
    return members.certificates.issue("client", "bob")


def of_another_authority(members: Members, monkeypatch: pytest.MonkeyPatch) -> Path:
    other = Certificates.create(members.certificates.root / "other").issue("client", "bob")
    (other / CA).write_bytes((members.certificates.root / "authority" / CA).read_bytes())
    return other


def out_of_date(members: Members, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patch:
        ago(patch, timedelta(days=40))
        return members.certificates.issue("client", "bob", timedelta(days=30))


@pytest.mark.parametrize("make", [without_certificate, of_another_authority, out_of_date])
async def test_nobody_connects_without_a_good_certificate(
    members: Members, monkeypatch: pytest.MonkeyPatch, make: Callable[[Members, pytest.MonkeyPatch], Path]
) -> None:
    directory = make(members, monkeypatch)
    for address, peer, call in ((members.master, MASTER, list_queries), (members.us, site("us"), echo)):
        async with raw(directory, address, peer, certificate=make is not without_certificate) as channel:
            assert await outcome(call(channel)) == UNREACHED
    await undisturbed(members)


async def test_plain_text_is_not_answered_at_a_port_with_tls(members: Members) -> None:
    async with aio_channel(members.master, MASTER, PLAIN) as channel:
        assert await outcome(list_queries(channel)) == UNREACHED
    async with connector(PLAIN)(members.us, "us") as channel:
        assert await outcome(echo(channel)) == UNREACHED
    await undisturbed(members)


async def test_tls_does_not_fall_back_to_plain_text(members: Members, tmp_path: Path) -> None:
    async with master_with(PLAIN, tmp_path / "plain") as address:
        channel = members.channel(address, MASTER, *ALICE)
        assert await outcome(list_queries(channel)) == UNREACHED


async def test_no_member_is_taken_for_another(members: Members) -> None:
    """The address may lead anywhere; whoever is there has to be who is meant."""
    alice = members.certificates.of(*ALICE)
    for address, meant in ((members.us, site("eu")), (members.us, MASTER), (members.master, site("us"))):
        async with aio_channel(address, meant, alice) as channel:
            assert await outcome(list_queries(channel)) == UNREACHED


async def test_a_revoked_certificate_is_refused_from_then_on(members: Members) -> None:
    channel = members.at_master(*ALICE)
    assert await outcome(list_queries(channel)) == ("OK", "")
    members.certificates.revoke(*ALICE, members.certificates.root / "master-master")
    assert await outcome(list_queries(channel)) == ("UNAUTHENTICATED", "CALLER_UNKNOWN")
    assert await outcome(list_queries(members.at_master("client", "bob"))) == ("OK", "")


REFUSED = ("PERMISSION_DENIED", "CALLER_REFUSED")


async def test_a_site_speaks_for_itself_alone(members: Members) -> None:
    stub = site_pb2_grpc.SiteServiceStub(members.at_master("site", "us"))
    assert await outcome(register(members.at_master("site", "eu"), "eu")) == ("OK", "")
    report = site_pb2.ReportRequest(site="eu", incarnation="x")
    watch = site_pb2.WatchAssignmentRequest(site="eu", incarnation="x")
    leave = site_pb2.DeregisterRequest(site="eu", incarnation="x")
    assert await outcome(register(members.at_master("site", "us"), "eu")) == REFUSED
    assert await outcome(stub.Report(report, timeout=ANSWER_S)) == REFUSED
    assert await outcome(stub.Deregister(leave, timeout=ANSWER_S)) == REFUSED
    assert await outcome(first(stub.WatchAssignment(watch, timeout=ANSWER_S))) == REFUSED
    assert await outcome(pull(members.at_us("site", "eu"), "asia")) == REFUSED
    assert (await outcome(pull(members.at_us("site", "eu"), "eu")))[1] == "UNKNOWN_CHANNEL"
    # The real one has not noticed.
    own = site_pb2_grpc.SiteServiceStub(members.at_master("site", "eu"))
    assert await outcome(own.Report(report, timeout=ANSWER_S)) == ("OK", "")


async def test_a_producer_pushes_under_its_own_name_alone(members: Members) -> None:
    orders = members.at_us("producer", "orders")
    assert await outcome(push(orders, "clicks")) == REFUSED
    assert await outcome(push(orders, "orders2")) == REFUSED
    assert (await outcome(push(orders, "orders/1")))[1] == "UNKNOWN_STREAM"
    assert await outcome(push(members.at_us(*ALICE), "orders")) == REFUSED
    assert (await outcome(push(members.at_us(*ALICE), "alice")))[1] == "UNKNOWN_STREAM"


async def test_a_framework_leases_in_its_own_name_alone(members: Members) -> None:
    stub = lease_pb2_grpc.LeaseServiceStub(members.at_master("framework", "storm"))
    name = lease_pb2.RegisterFrameworkRequest(name="storm")
    assert await outcome(stub.RegisterFramework(name, timeout=ANSWER_S)) == ("OK", "")
    for framework, expected in (("storm", ("OK", "")), ("flink", REFUSED)):
        request = lease_pb2.AcquireRequest(framework=framework)
        assert (await outcome(stub.Acquire(request, timeout=ANSWER_S)))[0] in (expected[0], "INVALID_ARGUMENT")
    other = lease_pb2.ReleaseRequest(framework="flink")
    assert await outcome(stub.Release(other, timeout=ANSWER_S)) == REFUSED


async def test_a_framework_works_in_slots_that_it_holds(members: Members) -> None:
    members.guard.observe_all([SlotLease(0, "storm", 7, 10, 30)], told=7)
    request = lease_pb2.OccupyRequest(slot=lease_pb2.Slot(site="us", index=0), fencing=7)

    async def occupy(name: str) -> tuple[str, str]:
        call = lease_pb2_grpc.SlotServiceStub(members.at_us("framework", name)).Occupy(request, timeout=ANSWER_S)
        found = await outcome(first(call))
        call.cancel()
        return found

    assert await occupy("flink") == ("PERMISSION_DENIED", "NOT_HOLDER")
    assert await occupy("storm") == ("OK", "")


async def test_agents_take_work_from_the_master_alone(members: Members) -> None:
    analyze = exchange_pb2.AnalyzeRequest()
    for role, name in (("site", "eu"), ALICE, ("producer", "orders")):
        stub = exchange_pb2_grpc.ExchangeServiceStub(members.at_us(role, name))
        assert await outcome(stub.Analyze(analyze, timeout=ANSWER_S)) == REFUSED
    stub = exchange_pb2_grpc.ExchangeServiceStub(members.at_us("master", "master"))
    assert await outcome(stub.Analyze(analyze, timeout=ANSWER_S)) == ("OK", "")
    assert await outcome(pull(members.at_us(*ALICE), "client")) == REFUSED
    assert (await outcome(pull(members.at_us("master", "master"), "client")))[1] == "UNKNOWN_CHANNEL"
    assert await outcome(pull(members.at_us("master", "master"), "eu")) == REFUSED


async def test_bytes_that_are_no_message_are_refused_as_without_tls(members: Members) -> None:
    method = members.at_us("site", "eu").stream_stream("/selat.v1.ExchangeService/Pull", None, None)
    call = method(None, timeout=ANSWER_S)
    await call.write(b"\xff\xff\xff")
    await call.done_writing()
    assert await outcome(first(call)) == ("INVALID_ARGUMENT", "INVALID_CHANNEL_REQUEST")


async def serial_at(address: str, directory: Path, peer: MemberName) -> int:
    """The number of the certificate that a server shows to those who connect now."""
    context = ssl.create_default_context(cafile=str(directory / CA))
    context.load_cert_chain(directory / MEMBER, directory / KEY)
    host, port = address.rsplit(":", 1)
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=peer.host)
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    assert found.version() == "TLSv1.3"
    der = found.getpeercert(binary_form=True)
    writer.transport.abort()
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


async def test_certificates_are_renewed_while_calls_run(members: Members) -> None:
    certificates, alice = members.certificates, members.certificates.issue(*ALICE)
    channel = members.at_master(*ALICE)
    sites = members.at_master("site", "us")
    assert await outcome(register(sites, "us")) == ("OK", "")
    watch = site_pb2.WatchAssignmentRequest(site="us", incarnation="x")
    running = site_pb2_grpc.SiteServiceStub(sites).WatchAssignment(watch)
    assert isinstance(await running.read(), site_pb2.WatchAssignmentResponse)
    assert await outcome(list_queries(channel)) == ("OK", "")

    for role, name in (("master", "master"), ("site", "us"), ALICE):
        certificates.issue(role, name)
    renewed = read_material(certificates.root / "master-master").certificate.serial
    assert await serial_at(members.master, alice, MASTER) == renewed
    # The old certificate is not taken any more: the channel has another connection, with the new one.
    old = [i.serial for i in certificates.authority.issued() if i.member == member_name(*ALICE)][:-1]
    certificates.authority.revoke(old)
    certificates.authority.hand_out(certificates.root / "master-master")
    assert await outcome(list_queries(channel)) == ("OK", "")
    assert not running.done()
    running.cancel()


@pytest.mark.parametrize("renewed", [False, True])
async def test_a_call_that_goes_on_ends_when_its_certificate_is_revoked(tmp_path: Path, renewed: bool) -> None:
    """Whoever has another certificate by then comes again with it; nobody else is answered again."""
    certificates = Certificates.create(tmp_path / "tls")
    security = certificates.of("site", "us")
    at = [0.0]
    more = asyncio.Event()

    async def numbers(request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"1"
        yield b"2"
        await more.wait()
        yield b"3"

    handler = grpc.unary_stream_rpc_method_handler(numbers)
    server = grpc.aio.server(interceptors=(CallerInterceptor(security, refuse, clock=lambda: at[0]),))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Watch": handler}),)
    )
    address = f"127.0.0.1:{servers.listen(server, '127.0.0.1:0', security)}"
    await server.start()
    async with aio_channel(address, site("us"), certificates.of(*ALICE)) as channel:
        call = channel.unary_stream("/grpc.health.v1.Health/Watch", None, None)(b"")
        assert [await call.read(), await call.read()] == [b"1", b"2"]
        certificates.revoke(*ALICE, tmp_path / "tls" / "site-us")
        if renewed:
            certificates.issue(*ALICE)
        at[0] += 2 * callers.LOOK_S
        more.set()
        assert await outcome(call.read()) == ("UNAVAILABLE", "CALLER_UNKNOWN")
        again = channel.unary_stream("/grpc.health.v1.Health/Watch", None, None)(b"")
        assert await outcome(again.read()) == (("OK", "") if renewed else ("UNAUTHENTICATED", "CALLER_UNKNOWN"))
    await server.stop(None)


async def test_a_method_without_a_rule_is_nobodys(tmp_path: Path) -> None:
    certificates = Certificates.create(tmp_path / "tls")
    security = certificates.of("site", "us")

    async def answer(request: bytes, context: Any) -> bytes:
        return request

    server = servers.aio_server(security, refuse)
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("new.Service", {"Do": handler}),))
    address = f"127.0.0.1:{servers.listen(server, '127.0.0.1:0', security)}"
    await server.start()
    async with aio_channel(address, site("us"), certificates.of("master", "master")) as channel:
        assert await outcome(channel.unary_unary("/new.Service/Do", None, None)(b"x")) == REFUSED
    await server.stop(None)
