"""The methods of `arrow.flight.protocol.FlightService` that clients of Flight SQL call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa

from contract.trailers import Context
from master.access.rights import check_right
from master.base.errors import InvalidRequestError
from master.flight import metadata
from master.flight.commands import METADATA, STATEMENTS, UPDATES, command_of, packed, unpacked
from master.flight.executions import Executions
from master.flight.handles import Handle
from master.flight.messages import batch_messages, rows_of, schema_bytes, schema_message
from master.flight.protocol import flight_pb2 as flight
from master.flight.protocol import flight_sql_pb2 as sql
from master.relations.catalog import CatalogManager
from planner.access.roles import Right
from planner.relations.catalog import Relation
from planner.values.errors import PlannerError
from wire.guests import Methods, add_service

SERVICE = "arrow.flight.protocol.FlightService"
VALUES_BYTES = 1024 * 1024
"""The most that the values of a prepared statement may take."""
_ACTIONS = {
    "CreatePreparedStatement": "the handle of a statement, and the columns of its rows and parameters",
    "ClosePreparedStatement": "nothing: handles hold their statements",
}


class FlightServicer:
    """Answers calls. Nothing of a client is kept between them."""

    def __init__(self, executions: Executions, catalog: CatalogManager) -> None:
        self._executions = executions
        self._catalog = catalog

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server that does not run yet."""
        unary: Methods = {
            "GetFlightInfo": (self.get_flight_info, flight.FlightDescriptor),
            "GetSchema": (self.get_schema, flight.FlightDescriptor),
        }
        streams: Methods = {
            "ListFlights": (self.list_flights, flight.Criteria),
            "DoGet": (self.do_get, flight.Ticket),
            "DoAction": (self.do_action, flight.Action),
            "ListActions": (self.list_actions, flight.Empty),
        }
        both: Methods = {
            "Handshake": (self.handshake, flight.HandshakeRequest),
            "DoPut": (self.do_put, flight.FlightData),
        }
        add_service(server, SERVICE, unary=unary, streams=streams, both=both)

    async def handshake(
        self, messages: AsyncIterator[flight.HandshakeRequest], context: Context
    ) -> AsyncIterator[flight.HandshakeResponse]:
        """Refuse names with passwords."""
        for _ in ():
            yield flight.HandshakeResponse()
        raise InvalidRequestError(
            "callers have no passwords here", hint="send a token with each call: authorization: Bearer TOKEN"
        )

    async def list_flights(self, request: flight.Criteria, context: Context) -> AsyncIterator[flight.FlightInfo]:
        """Yield nothing: flights are named by commands."""
        for _ in ():
            yield flight.FlightInfo()

    async def get_schema(self, descriptor: flight.FlightDescriptor, context: Context) -> flight.SchemaResult:
        """Return the columns of what a command gives."""
        return flight.SchemaResult(schema=schema_bytes(await self._schema(command_of(descriptor))))

    async def get_flight_info(self, descriptor: flight.FlightDescriptor, context: Context) -> flight.FlightInfo:
        """Return the columns of what a command gives, and the ticket with which it is run."""
        command = command_of(descriptor)
        ticket = descriptor.cmd
        if isinstance(command, STATEMENTS):
            ticket = packed(sql.TicketStatementQuery(statement_handle=_handle(command).data))
        return flight.FlightInfo(
            schema=schema_bytes(await self._schema(command)),
            flight_descriptor=descriptor,
            endpoint=[flight.FlightEndpoint(ticket=flight.Ticket(ticket=ticket))],
            total_records=-1,
            total_bytes=-1,
            ordered=True,
        )

    async def do_get(self, ticket: flight.Ticket, context: Context) -> AsyncIterator[flight.FlightData]:
        """Run what a ticket stands for, and send its rows."""
        command = unpacked(ticket.ticket)
        if isinstance(command, METADATA):
            table = metadata.answer(command, self._relations)
            yield schema_message(table.schema)
            for batch in table.to_batches():
                for message in batch_messages(batch):
                    yield message
            return
        if not isinstance(command, sql.TicketStatementQuery):
            raise InvalidRequestError("that is no ticket of this server", hint="ask for one: GetFlightInfo")
        text = Handle.of(command.statement_handle).text
        schema = await self._executions.schema(text)
        yield schema_message(schema)
        async with aclosing(self._executions.rows(text, schema)) as batches:
            async for batch in batches:
                for message in batch_messages(batch):
                    yield message

    async def do_put(
        self, messages: AsyncIterator[flight.FlightData], context: Context
    ) -> AsyncIterator[flight.PutResult]:
        """Run a statement that has no rows, once or with each of several values; or give a statement its values."""
        first = await anext(aiter(messages), flight.FlightData())
        command = command_of(first.flight_descriptor)
        values = await _values(first, messages)
        if isinstance(command, UPDATES):
            handle = _handle(command)
            for row in values or [()]:
                await self._executions.update((handle.with_values(row) if row else handle).text)
            result = sql.DoPutUpdateResult(record_count=-1)
            yield flight.PutResult(app_metadata=result.SerializeToString())
            return
        if not isinstance(command, sql.CommandPreparedStatementQuery):
            raise InvalidRequestError("rows cannot be put there", hint="INSERT INTO a sink, or push them")
        if len(values) != 1:
            raise InvalidRequestError(
                f"{len(values)} rows of values are given for a query", hint="give one, and execute it again for others"
            )
        handle = _handle(command).with_values(values[0])
        made = sql.DoPutPreparedStatementResult(prepared_statement_handle=handle.data)
        yield flight.PutResult(app_metadata=made.SerializeToString())

    async def do_action(self, action: flight.Action, context: Context) -> AsyncIterator[flight.Result]:
        """Prepare a statement, or close one."""
        request = unpacked(action.body)
        if isinstance(request, sql.ActionCreatePreparedStatementRequest):
            yield flight.Result(body=packed(await self._prepared(request.query)))
        elif not isinstance(request, sql.ActionClosePreparedStatementRequest):
            raise InvalidRequestError(f"there is no action {action.type[:80]}", hint=f"{', '.join(_ACTIONS)} are")

    async def list_actions(self, request: flight.Empty, context: Context) -> AsyncIterator[flight.ActionType]:
        """Yield the actions that there are."""
        for name, description in _ACTIONS.items():
            yield flight.ActionType(type=name, description=description)

    async def _prepared(self, text: str) -> sql.ActionCreatePreparedStatementResult:
        handle = Handle(text)
        made = sql.ActionCreatePreparedStatementResult(prepared_statement_handle=handle.data)
        if not handle.marks:
            schema = await self._executions.columns(text)
        else:
            schema = await self._columns_before_values(handle)
            # The types are not known before the values are: they become literals.
            parameters = pa.schema([(str(number), pa.string()) for number in range(1, handle.marks + 1)])
            made.parameter_schema = schema_bytes(parameters)
        if schema is not None:
            made.dataset_schema = schema_bytes(schema)
        return made

    async def _columns_before_values(self, handle: Handle) -> pa.Schema | None:
        try:
            return await self._executions.columns(handle.with_values([None] * handle.marks).text)
        except PlannerError:
            # NULL is not possible everywhere; with its values, the statement is checked again.
            return pa.schema([])

    async def _schema(self, command: Any) -> pa.Schema:
        if isinstance(command, STATEMENTS):
            return await self._executions.schema(_handle(command).text)
        if isinstance(command, METADATA):
            return metadata.schema_of(command)
        raise InvalidRequestError("the command has no rows", hint="send it by DoPut")

    def _relations(self) -> tuple[Relation, ...]:
        check_right(Right.LOOK)
        return self._catalog.relations()


def _handle(command: Any) -> Handle:
    """Return the handle of a command that holds one, or a statement."""
    if hasattr(command, "query"):
        return Handle(command.query)
    return Handle.of(command.prepared_statement_handle)


async def _values(first: flight.FlightData, messages: AsyncIterator[flight.FlightData]) -> list[tuple[object, ...]]:
    """Return the rows of values that a client sent. Raises InvalidRequestError."""
    found = [first] if first.data_header else []
    size_bytes = first.ByteSize()
    async for message in messages:
        size_bytes += message.ByteSize()
        if size_bytes > VALUES_BYTES:
            raise InvalidRequestError(
                f"values may take {VALUES_BYTES} bytes", hint="push rows, or write a file of them"
            )
        found.append(message)
    return [tuple(row) for batch in rows_of(found) for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
