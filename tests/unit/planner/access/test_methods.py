"""Every method of the master is in the table of rights, and every role may call what this page says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from grpc_health.v1 import health_pb2_grpc
from pyspark.sql.connect import proto as pb

from master.connect.service import SERVICE
from master.flight.service import SERVICE as FLIGHTS
from master.flight.service import FlightServicer
from planner.access.methods import METHODS, Effect
from planner.access.principal import EVERYBODY, NOBODY, Kind, Principal
from planner.access.roles import PERSONS, RIGHTS, Right, rights_of, roles_with
from selat.v1 import (
    access_pb2_grpc,
    adaptation_pb2_grpc,
    catalog_pb2_grpc,
    event_pb2_grpc,
    handover_pb2_grpc,
    lease_pb2_grpc,
    member_pb2_grpc,
    query_pb2_grpc,
    site_pb2_grpc,
    wan_pb2_grpc,
)


class Methods:
    """Stands in for a server, and notes what is added to it."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Older stubs call this."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.names |= {f"/{service}/{name}" for name in handlers}


def served() -> set[str]:
    """The methods of all services that a master adds to its server."""
    server: Any = Methods()
    none: Any = type("Servicer", (), {"__getattr__": lambda self, name: None})()
    first = (access_pb2_grpc, adaptation_pb2_grpc, catalog_pb2_grpc, event_pb2_grpc, handover_pb2_grpc)
    then = (lease_pb2_grpc, member_pb2_grpc)
    for module in (*first, *then, query_pb2_grpc, site_pb2_grpc, wan_pb2_grpc, health_pb2_grpc):
        _add(module, none, server)
    spark = (
        f"/{SERVICE}/{method.name}" for method in pb.base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
    )
    return {*server.names, *spark, *_flights(none)}


def _flights(none: Any) -> set[str]:
    """The methods in the table that the service of Flight SQL answers."""
    found: list[Any] = []
    server: Any = SimpleNamespace(add_generic_rpc_handlers=found.extend)
    FlightServicer(none, none).add_to(server)
    named = [name for name in METHODS if name.startswith(f"/{FLIGHTS}/")]
    return {name for name in named for handler in found if handler.service(SimpleNamespace(method=name)) is not None}


def _add(module: Any, servicer: Any, server: Any) -> None:
    for name in dir(module):
        # The agents serve these, not the master.
        if name.startswith("add_") and "SlotService" not in name and "ProbeService" not in name:
            getattr(module, name)(servicer, server)


def test_every_method_has_a_row_and_every_row_a_method() -> None:
    assert served() <= set(METHODS)
    # Newer versions of the health service have it.
    assert set(METHODS) - served() <= {"/grpc.health.v1.Health/List"}


def test_health_alone_is_for_everybody() -> None:
    assert {name.split("/")[1] for name, rule in METHODS.items() if rule.right is None} == {"grpc.health.v1.Health"}


def test_every_right_is_some_roles_and_the_admin_has_all_but_those_of_sites() -> None:
    assert all(roles_with(right) for right in Right)
    assert rights_of(["admin"]) == frozenset(Right) - {Right.SPEAK_FOR_SITE}


def test_roles_of_people_grow_and_functions_stand_beside_them() -> None:
    reader, submitter, operator = (RIGHTS[role] for role in ("reader", "submitter", "operator"))
    assert reader < submitter < operator < RIGHTS["admin"]
    assert roles_with(Right.CREATE_FUNCTION) == ("functions", "admin")
    assert set(PERSONS) | {"site", "framework"} == set(RIGHTS)


def test_groups_carry_nothing() -> None:
    assert rights_of(["analysts"]) == frozenset()


def test_what_changes_data_is_audited_and_heartbeats_are_not() -> None:
    effects = {name.rpartition("/")[2]: rule.effect for name, rule in METHODS.items()}
    assert effects["Execute"] is effects["CreateRelation"] is effects["Register"] is Effect.CHANGES
    assert effects["FetchResults"] is Effect.READS
    assert effects["Report"] is effects["Renew"] is effects["ListQueries"] is Effect.LOOKS


@pytest.mark.parametrize(
    ("principal", "name", "speaks"),
    [
        (Principal(Kind.SITE, "a", frozenset({"site"}), frozenset({"eu"})), "eu", True),
        (Principal(Kind.SITE, "a", frozenset({"site"}), frozenset({"eu"})), "us", False),
        (Principal(Kind.FRAMEWORK, "f", frozenset({"framework"}), frozenset({"nightly"})), "batch", False),
        (Principal(Kind.PERSON, "ann", frozenset({"operator"})), "nightly", True),
        (NOBODY, "", False),
    ],
)
def test_members_speak_for_what_they_are_bound_to(principal: Principal, name: str, speaks: bool) -> None:
    assert principal.speaks_for(name) is speaks


def test_everybody_may_do_everything_where_nobody_is_checked_and_nobody_nothing() -> None:
    assert EVERYBODY.may(Right.ADMINISTER)
    assert not any(NOBODY.may(right) for right in Right)
