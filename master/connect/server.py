"""Serves Spark's clients at a port of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from master.api.interceptors import ErrorInterceptor
from master.base.logs import line
from master.base.pending import PendingCalls
from master.connect.catalog import ClientCatalog
from master.connect.errors import ErrorBook
from master.connect.executions import ExecutionParts, Executions
from master.connect.parts import ClientParts
from master.connect.service import SparkConnectServicer
from master.connect.sessions import Sessions
from master.connect.sparks import Sparks
from wire.guests import Certificate, guest_server, listen_for_guests

logger = logging.getLogger(__name__)

TICK_S = 5.0
"""The time between looks for what nobody uses any more."""
_STOP_S = 1.0


@asynccontextmanager
async def serving_clients(parts: ClientParts, listen: str, certificate: Certificate | None) -> AsyncIterator[str]:
    """Serve until the block ends; returns the bound address (host:port).

    Raises:
        RuntimeError: the address cannot be bound.
        OSError: the certificate cannot be read.
    """
    sessions, errors = Sessions(parts.clock.monotonic, parts.random_hex), ErrorBook(parts.random_hex)
    failing = ErrorInterceptor(parts.random_hex, PendingCalls(), end=errors.abort)
    server = guest_server((failing, *parts.checks))
    SparkConnectServicer(sessions, _executions(parts), errors).add_to(server)
    port = listen_for_guests(server, listen, certificate)
    await server.start()
    looking = asyncio.create_task(_look_forever(sessions))
    try:
        yield f"{listen.rpartition(':')[0]}:{port}"
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        await sessions.close()
        await server.stop(_STOP_S)


def _executions(parts: ClientParts) -> Executions:
    sparks = Sparks(parts.sites, parts.peers, gateway=parts.gateway, timeout=parts.timeout)
    return Executions(
        ExecutionParts(
            planner=parts.planner,
            deployer=parts.deployer,
            jobs=parts.jobs,
            queries=parts.queries,
            views=parts.views,
            results=parts.results,
            statements=parts.statements,
            sparks=sparks,
            catalog=ClientCatalog(parts.catalog),
            defaults=parts.defaults,
        )
    )


async def _look_forever(sessions: Sessions) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        try:
            await sessions.tick()
        except Exception:
            logger.exception(line("looking for what nobody uses failed"))
