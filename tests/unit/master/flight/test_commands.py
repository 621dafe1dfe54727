"""Tests the commands of clients, by what arrives of them."""

from __future__ import annotations

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from master.base.errors import InvalidRequestError
from master.flight.commands import METADATA, command_of, packed, unpacked
from master.flight.protocol import flight_pb2 as flight
from master.flight.protocol import flight_sql_pb2 as sql
from planner.values.errors import UnsupportedSqlError


def descriptor(command: bytes) -> flight.FlightDescriptor:
    return flight.FlightDescriptor(type=flight.FlightDescriptor.CMD, cmd=command)


@pytest.mark.parametrize("kind", [*METADATA, sql.CommandStatementQuery, sql.TicketStatementQuery])
def test_a_command_is_known_by_its_name(kind: type) -> None:
    assert isinstance(command_of(descriptor(packed(kind()))), kind)


def test_a_name_is_the_protocols() -> None:
    found = AnyMessage.FromString(packed(sql.CommandGetTables(include_schema=True)))
    assert found.type_url == "type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables"


def test_other_commands_paths_and_transactions_are_refused() -> None:
    other = AnyMessage(type_url="type.googleapis.com/arrow.flight.protocol.sql.CommandStatementIngest")
    with pytest.raises(UnsupportedSqlError, match="CommandStatementIngest is not possible"):
        unpacked(other.SerializeToString())
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        unpacked(b"\xff\xff")
    with pytest.raises(InvalidRequestError, match="named by a command"):
        command_of(flight.FlightDescriptor(type=flight.FlightDescriptor.PATH, path=["orders"]))
    with pytest.raises(UnsupportedSqlError, match="no transactions"):
        unpacked(packed(sql.CommandStatementQuery(query="SELECT 1", transaction_id=b"t")))
