"""EventService."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc.aio

from master.api.convert.events import event_to_proto, filter_from_proto
from master.events import EventFilter
from master.events.log import EventLog
from selat.v1 import event_pb2 as pb
from selat.v1 import event_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]

_DEFAULT_LIMIT = 100


class EventServicer(event_pb2_grpc.EventServiceServicer):
    def __init__(self, log: EventLog, query_id: Callable[[str], str]) -> None:
        """`query_id` returns the id of the query that a text names; it raises errors for callers."""
        self._log = log
        self._query_id = query_id

    async def ListEvents(self, request: pb.ListEventsRequest, context: Context) -> pb.ListEventsResponse:  # noqa: N802
        events = self._log.newest(self._wanted(request.filter), request.limit or _DEFAULT_LIMIT)
        return pb.ListEventsResponse(events=map(event_to_proto, events))

    async def WatchEvents(  # noqa: N802
        self, request: pb.WatchEventsRequest, context: Context
    ) -> AsyncIterator[pb.WatchEventsResponse]:
        async with aclosing(self._log.watch(self._wanted(request.filter), request.after)) as events:
            async for event in events:
                yield pb.WatchEventsResponse(event=event_to_proto(event))

    def _wanted(self, message: pb.EventFilter) -> EventFilter:
        wanted = filter_from_proto(message)
        return replace(wanted, query=self._query_id(wanted.query)) if wanted.query else wanted
