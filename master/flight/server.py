"""Serves clients of Arrow Flight SQL at a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import grpc

from contract.trailers import ERROR_TRAILER, Context
from master.api.interceptors import ErrorInterceptor
from master.base.pending import PendingCalls
from master.flight.executions import Executions
from master.flight.parts import FlightParts
from master.flight.service import FlightServicer
from selat.v1.common_pb2 import ErrorDetail
from wire.guests import Certificate, guest_server, listen_for_guests

_STOP_S = 1.0


@asynccontextmanager
async def serving_flights(parts: FlightParts, listen: str, certificate: Certificate | None) -> AsyncIterator[str]:
    """Serve until the block ends; returns the bound address (host:port).

    Raises:
        RuntimeError: the address cannot be bound.
        OSError: the certificate cannot be read.
    """
    failing = ErrorInterceptor(parts.random_hex, PendingCalls(), end=_abort)
    server = guest_server((failing, *parts.checks))
    FlightServicer(Executions(parts), parts.catalog).add_to(server)
    port = listen_for_guests(server, listen, certificate)
    await server.start()
    try:
        yield f"{listen.rpartition(':')[0]}:{port}"
    finally:
        await server.stop(_STOP_S)


async def _abort(context: Context, status: grpc.StatusCode, told: ErrorDetail) -> NoReturn:
    """End a call with a message that has all that is told: clients show nothing else."""
    place = f" (line {told.line}, column {told.column})" if told.line else ""
    hint = f" Hint: {told.hint}" if told.hint else ""
    message = f"[{told.code}] {told.message}{place}{hint}"
    await context.abort(status, message, ((ERROR_TRAILER, told.SerializeToString()),))
