"""Readiness of a site's agent, by the gRPC health service at its port.

Ready means: it serves, Spark is warm, the master knows it, and its disk takes what it writes. An agent stays ready when
the master goes away, since it goes on then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

import grpc.aio
from grpc_health.v1 import health as health_service
from grpc_health.v1 import health_pb2, health_pb2_grpc

logger = logging.getLogger(__name__)

SERVICES = ("", *(f"selat.v1.{name}Service" for name in ("Exchange", "Ingest", "Slot", "Probe", "Member")))
"""The empty name is the agent as a whole."""

INTERVAL_S = 1.0
DISK_INTERVAL_S = 10.0


class Registered(Protocol):
    """The part of an agent that its readiness depends on."""

    @property
    def registered(self) -> bool:
        """Whether the master has accepted the agent's registration since the agent started."""
        ...


class Health:
    """Serves NOT_SERVING until it follows an agent, and again after that agent has ended."""

    def __init__(self) -> None:
        self._servicer = health_service.aio.HealthServicer()  # type: ignore[attr-defined]  # not in the stubs
        self._ready: bool | None = None

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server that does not run yet."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    @property
    def ready(self) -> bool:
        """The readiness that was published last."""
        return bool(self._ready)

    async def set(self, ready: bool) -> None:
        """Publish the readiness to everybody who asks from now on."""
        if ready is self._ready:
            return
        self._ready = ready
        status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in SERVICES:
            await self._servicer.set(name, status)

    @asynccontextmanager
    async def following(self, site: str, agent: Registered, directory: Path) -> AsyncIterator[None]:
        """Within the block, the agent is ready once it is registered and as long as its directory is writable."""
        task = asyncio.create_task(self._follow(site, agent, directory))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self._servicer.enter_graceful_shutdown()

    async def _follow(self, site: str, agent: Registered, directory: Path) -> None:
        looked_s, problem = -DISK_INTERVAL_S, ""
        clock = asyncio.get_running_loop().time
        while True:
            if clock() - looked_s >= DISK_INTERVAL_S:
                found, looked_s = await asyncio.to_thread(_unwritable, directory), clock()
                if found and not problem:
                    logger.warning("not ready site=%s: nothing can be written to %s: %s", site, directory, found)
                problem = found
            await self.set(agent.registered and not problem)
            await asyncio.sleep(INTERVAL_S)


def _unwritable(directory: Path) -> str:
    """The reason why nothing can be written to the directory; empty when it is writable."""
    try:
        with TemporaryFile(dir=directory) as file:
            file.write(b"ready")
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""
