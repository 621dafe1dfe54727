"""The client of a simulated cluster: declares relations, submits queries, and follows their results through faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa

from selat.v1 import query_pb2, query_pb2_grpc
from tests.simulation.loop import Process
from tests.simulation.workload import QUERIES, Rows, declarations
from tests.simulation.world import MASTER_ADDRESS, World
from wire.channels import aio_channel
from wire.names import MASTER

CALL_TIMEOUT_S = 60.0
RETRY_S = 0.5
_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_UNHEARD = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""The master may not have heard the call, or the client not its answer."""
_PASSING = _UNHEARD | {grpc.StatusCode.FAILED_PRECONDITION}
"""What a client tries again after: a site that a query needs may be away, too."""


@dataclass(slots=True)
class Followed:
    """What the client was given of one query."""

    name: str
    epochs: dict[tuple[str, int], bytes] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    """The next epoch, by channel."""
    query: Any = None
    """The query as it was told last; it is over then."""

    def take(self, message: Any) -> None:
        """Raises AssertionError when an epoch that is known comes with another content."""
        if message.HasField("query"):
            self.query = message.query
            return
        key = message.channel, message.epoch
        known = self.epochs.setdefault(key, message.arrow_stream)
        assert known == message.arrow_stream, f"{self.name}: epoch {key} has two contents"
        self.cursors[message.channel] = message.epoch + 1

    def rows(self) -> Rows:
        """All rows, sorted."""
        tables = [pa.ipc.open_stream(data).read_all() for data in self.epochs.values() if data]
        found = [tuple(row.values()) for table in tables for row in table.to_pylist()]
        return sorted(found, key=repr)


class Client:
    """One user, at a machine that never fails."""

    def __init__(self, world: World, process: Process) -> None:
        self.process = process
        self._world = world
        self._channel = aio_channel(MASTER_ADDRESS, MASTER, world.security, _OPTIONS)
        self._stub: Any = query_pb2_grpc.QueryServiceStub(self._channel)
        self._calls: list[Any] = []
        self.followed: dict[str, Followed] = {}

    async def run(self) -> None:
        """Do what the plan has the user do; returns once every query is over and its results are here."""
        plan = self._world.plan
        settings = "SET combine = on; " if plan.combine else ""
        for statement in declarations(plan.sites, plan.rows):
            await self._until_done(lambda statement=statement: self._execute(statement))  # type: ignore[misc]
        async with asyncio.TaskGroup() as group:
            for name in plan.queries:
                await self._until_done(lambda name=name: self._execute(settings + QUERIES[name].sql, name))  # type: ignore[misc]
                self._world.tell("submitted", query=name)
                group.create_task(self._follow(name))

    def leave(self) -> None:
        """Drop what is being followed; it is taken up again."""
        for call in self._calls:
            call.cancel()

    async def pause(self, query: str, seconds: float) -> None:
        """Pause a query, if it runs, and resume it after a while."""
        await self._order("PauseQuery", query_pb2.PauseQueryRequest(query=query))
        await asyncio.sleep(seconds)
        await self._order("ResumeQuery", query_pb2.ResumeQueryRequest(query=query))

    async def cancel(self, query: str) -> None:
        """Cancel a query, if it is there and not over."""
        await self._order("CancelQuery", query_pb2.CancelQueryRequest(query=query))

    async def _order(self, method: str, request: Any) -> None:
        while True:
            try:
                await getattr(self._stub, method)(request, timeout=CALL_TIMEOUT_S)
                self._world.tell("ordered", order=method, query=request.query)
                return
            except grpc.aio.AioRpcError as error:
                if error.code() not in _UNHEARD:
                    self._world.tell("refused", order=method, query=request.query, details=error.details())
                    return
            await asyncio.sleep(RETRY_S)

    async def _until_done(self, attempt: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await attempt()
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.ALREADY_EXISTS:
                    # An attempt before this one was accepted, and its answer was lost.
                    return None
                if error.code() not in _PASSING:
                    raise
                self._world.tell("again", code=error.code().name, details=error.details())
            await asyncio.sleep(RETRY_S)

    async def _execute(self, text: str, query_name: str = "") -> None:
        request = query_pb2.ExecuteRequest(text=text, query_name=query_name)
        async for _ in self._stub.Execute(request, timeout=CALL_TIMEOUT_S):
            pass

    async def _follow(self, name: str) -> None:
        followed = self.followed[name] = Followed(name)
        while followed.query is None:
            try:
                await self._until_done(lambda: self._fetch(followed))
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                    raise
                # The call was dropped, not this task.
                await asyncio.sleep(RETRY_S)
        self._world.tell("over", query=name, state=followed.query.state)

    async def _fetch(self, followed: Followed) -> None:
        cursor = [query_pb2.ChannelCursor(channel=c, epoch=e) for c, e in sorted(followed.cursors.items())]
        request = query_pb2.FetchResultsRequest(query=followed.name, cursor=cursor, follow=True)
        call = self._stub.FetchResults(request)
        self._calls.append(call)
        try:
            async for message in call:
                followed.take(message)
        finally:
            self._calls.remove(call)
