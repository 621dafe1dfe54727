"""Every method of every service has a rule, and the rules hold callers to their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

import selat.v1
from selat.v1 import (
    access_pb2,
    adaptation_pb2,
    catalog_pb2,
    event_pb2,
    exchange_pb2,
    handover_pb2,
    ingest_pb2,
    lease_pb2,
    member_pb2,
    query_pb2,
    site_pb2,
    wan_pb2,
)
from wire.names import MASTER, MemberName, Role, site
from wire.rules import RULES

FILES: tuple[FileDescriptor, ...] = (
    access_pb2.DESCRIPTOR,
    catalog_pb2.DESCRIPTOR,
    adaptation_pb2.DESCRIPTOR,
    event_pb2.DESCRIPTOR,
    exchange_pb2.DESCRIPTOR,
    handover_pb2.DESCRIPTOR,
    ingest_pb2.DESCRIPTOR,
    lease_pb2.DESCRIPTOR,
    member_pb2.DESCRIPTOR,
    query_pb2.DESCRIPTOR,
    site_pb2.DESCRIPTOR,
    wan_pb2.DESCRIPTOR,
    health_pb2.DESCRIPTOR,
)
US = site("us")
BATCH = MemberName(Role.FRAMEWORK, "batch")
ORDERS = MemberName(Role.PRODUCER, "orders")


def methods() -> Iterator[str]:
    for file in FILES:
        for service in file.services_by_name.values():
            yield from (f"/{service.full_name}/{method.name}" for method in service.methods)


def test_every_method_has_a_rule_and_every_rule_a_method() -> None:
    assert set(RULES) == set(methods())


def test_every_file_with_a_service_is_looked_at() -> None:
    (directory,) = selat.v1.__path__
    stubs = sorted(Path(directory).glob("*_pb2_grpc.py"))
    serving = {path.name.removesuffix("_pb2_grpc.py") for path in stubs if "Servicer" in path.read_text()}
    assert serving == {file.name.removeprefix("selat/v1/").removesuffix(".proto") for file in FILES[:-1]}


OPENING = exchange_pb2.OpenChannel(channel="c", consumer="us")
PUSH = ingest_pb2.OpenPush(stream="s", site="us", producer="orders/7")


@pytest.mark.parametrize(
    ("method", "caller", "said"),
    [
        ("SiteService/Register", US, site_pb2.RegisterRequest(site="us")),
        ("SiteService/Report", US, site_pb2.ReportRequest(site="us")),
        ("SiteService/WatchAssignment", US, site_pb2.WatchAssignmentRequest(site="us")),
        ("SiteService/Deregister", US, site_pb2.DeregisterRequest(site="us")),
        ("LeaseService/Watch", US, lease_pb2.WatchSlotsRequest(site="us")),
        ("LeaseService/Acquire", BATCH, lease_pb2.AcquireRequest(framework="batch")),
        ("LeaseService/Renew", BATCH, lease_pb2.RenewRequest(framework="batch")),
        ("LeaseService/Release", BATCH, lease_pb2.ReleaseRequest(framework="batch")),
        ("LeaseService/WaitFor", BATCH, lease_pb2.WaitForRequest(framework="batch")),
        ("LeaseService/RegisterFramework", BATCH, lease_pb2.RegisterFrameworkRequest(name="batch")),
        ("ExchangeService/Pull", US, exchange_pb2.PullRequest(open=OPENING)),
        ("ExchangeService/Pull", MASTER, exchange_pb2.PullRequest(open=exchange_pb2.OpenChannel(consumer="client"))),
        ("IngestService/Push", ORDERS, ingest_pb2.PushRequest(open=PUSH)),
        ("IngestService/GetProducer", ORDERS, ingest_pb2.GetProducerRequest(producer="orders")),
    ],
)
def test_a_member_speaks_in_its_own_name_only(method: str, caller: MemberName, said: Message) -> None:
    claim = RULES[f"/selat.v1.{method}"][caller.role]
    assert claim is not None
    assert claim.refused(said, caller) == ""
    if caller.role is Role.MASTER:
        assert "'client'" in claim.refused(exchange_pb2.PullRequest(open=OPENING), caller)
    else:
        other = MemberName(caller.role, "eu")
        assert "may say only" in claim.refused(said, other)


def test_a_name_that_only_begins_like_it_is_another() -> None:
    claim = RULES["/selat.v1.IngestService/Push"][Role.PRODUCER]
    assert claim is not None
    opening = ingest_pb2.OpenPush(producer="orders2")
    assert claim.refused(ingest_pb2.PushRequest(open=opening), ORDERS)


@pytest.mark.parametrize("method", ["ExchangeService/Analyze", "ExchangeService/ListSplits", "ProbeService/Measure"])
def test_agents_take_orders_from_the_master_alone(method: str) -> None:
    assert set(RULES[f"/selat.v1.{method}"]) == {Role.MASTER}


def test_no_client_pulls_from_a_site() -> None:
    assert set(RULES["/selat.v1.ExchangeService/Pull"]) == {Role.SITE, Role.MASTER}
