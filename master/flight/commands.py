"""The commands of Flight SQL: each is a message in a `google.protobuf.Any`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from master.base.errors import InvalidRequestError
from master.flight.protocol import flight_pb2 as flight
from master.flight.protocol import flight_sql_pb2 as sql
from planner.values.errors import UnsupportedSqlError

METADATA = (
    sql.CommandGetSqlInfo,
    sql.CommandGetXdbcTypeInfo,
    sql.CommandGetCatalogs,
    sql.CommandGetDbSchemas,
    sql.CommandGetTables,
    sql.CommandGetTableTypes,
    sql.CommandGetPrimaryKeys,
    sql.CommandGetExportedKeys,
    sql.CommandGetImportedKeys,
    sql.CommandGetCrossReference,
)
"""Questions about what there is."""
STATEMENTS = (sql.CommandStatementQuery, sql.CommandPreparedStatementQuery)
"""They have rows."""
UPDATES = (sql.CommandStatementUpdate, sql.CommandPreparedStatementUpdate)
ACTIONS = (sql.ActionCreatePreparedStatementRequest, sql.ActionClosePreparedStatementRequest)


def _by_name(kinds: Iterable[type[Any]]) -> Mapping[str, type[Any]]:
    return {kind.DESCRIPTOR.full_name: kind for kind in kinds}


_KNOWN = _by_name((*METADATA, *STATEMENTS, *UPDATES, *ACTIONS, sql.TicketStatementQuery))


def command_of(descriptor: flight.FlightDescriptor) -> Any:
    """Return the command that a descriptor holds. Raises as `unpacked`, and InvalidRequestError for a path."""
    if descriptor.type != flight.FlightDescriptor.CMD:
        raise InvalidRequestError("a flight is named by a command of Flight SQL", hint="use a client of Flight SQL")
    return unpacked(descriptor.cmd)


def unpacked(packed: bytes) -> Any:
    """Return the message that an Any holds.

    Raises:
        InvalidRequestError: it is none, or not readable.
        UnsupportedSqlError: a command that is not possible.
    """
    try:
        found = AnyMessage.FromString(packed)
        name = found.type_url.rpartition("/")[2]
        kind = _KNOWN.get(name)
        if kind is not None:
            return _without_transaction(kind.FromString(found.value))
    except DecodeError as error:
        raise InvalidRequestError(f"the command cannot be read: {error}", hint="use a client of Flight SQL") from error
    raise UnsupportedSqlError(
        f"{name.rpartition('.')[2] or 'the command'} is not possible",
        found=name,
        hint="queries, statements and questions about what there is are: docs/flight-sql.md",
    )


def packed(message: Any) -> bytes:
    """Return the message in an Any."""
    found = AnyMessage()
    found.Pack(message)
    return bytes(found.SerializeToString())


def _without_transaction(message: Any) -> Any:
    if getattr(message, "transaction_id", b""):
        raise UnsupportedSqlError("there are no transactions", hint="each statement takes effect by itself: autocommit")
    return message
