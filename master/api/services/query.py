"""QueryService."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc.aio

from master.access.ownership import own
from master.api.convert.queries import (
    STATES_BACK,
    epoch_to_proto,
    explanation_to_proto,
    outcome_to_proto,
    query_summary,
    query_to_proto,
    shared_operator_to_proto,
)
from master.api.paging import Wanted, page
from master.api.watch import Watches
from master.queries.registry import QueryRegistry
from master.queries.sharing import deployment_of
from master.reconcile.jobs import JobManager
from master.records.model import QueryRecord
from master.results.fetch import FetchStart, ResultFetcher
from master.statements.runner import StatementRunner, explained
from master.views.outcomes import Outcome
from master.views.queries import QueryViews
from selat.v1 import query_pb2, query_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class QueryParts:
    """The parts that the service calls."""

    statements: StatementRunner
    queries: QueryRegistry
    views: QueryViews
    jobs: JobManager
    watches: Watches
    results: ResultFetcher


class QueryServicer(query_pb2_grpc.QueryServiceServicer):
    def __init__(self, parts: QueryParts) -> None:
        self._parts = parts

    async def Execute(  # noqa: N802
        self, request: query_pb2.ExecuteRequest, context: Context
    ) -> AsyncIterator[query_pb2.ExecuteResponse]:
        async with aclosing(self._run(request)) as outcomes:
            async for line, outcome in outcomes:
                yield outcome_to_proto(outcome, line=line)

    def _run(self, request: query_pb2.ExecuteRequest) -> AsyncGenerator[tuple[int, Outcome], None]:
        return self._parts.statements.run(
            request.text,
            query_name=request.query_name,
            files=dict(sorted(request.files.items())),
            settings=dict(sorted(request.settings.items())),
        )

    async def ListQueries(  # noqa: N802
        self, request: query_pb2.ListQueriesRequest, context: Context
    ) -> query_pb2.ListQueriesResponse:
        states = frozenset(STATES_BACK[s] for s in request.states if s in STATES_BACK)
        wanted = Wanted(ended=request.all, states=states, text=request.text)
        found = [record for record in self._parts.queries.all() if wanted.has(record)]
        records, token = page(found, request.page_size, request.page_token)
        summary = request.detail == query_pb2.QUERY_DETAIL_SUMMARY
        views = (self._parts.views.of(record, summary=summary) for record in records)
        told = query_summary if summary else query_to_proto
        return query_pb2.ListQueriesResponse(queries=map(told, views), next_page_token=token)

    async def GetQuery(  # noqa: N802
        self, request: query_pb2.GetQueryRequest, context: Context
    ) -> query_pb2.GetQueryResponse:
        record = self._parts.queries.find(request.query)
        return query_pb2.GetQueryResponse(query=query_to_proto(self._parts.views.of(record)))

    async def ExplainQuery(  # noqa: N802
        self, request: query_pb2.ExplainQueryRequest, context: Context
    ) -> query_pb2.ExplainQueryResponse:
        if request.analyze:
            answer = self._parts.statements.analyzed(request.query)
        else:
            record = self._parts.queries.find(request.query)
            queries = self._parts.queries
            answer = explained(queries.snapshots.plan_of(record), deployment_of(record), queries.snapshots.placement)
        return query_pb2.ExplainQueryResponse(explanation=explanation_to_proto(answer))

    async def ListSharing(  # noqa: N802
        self, request: query_pb2.ListSharingRequest, context: Context
    ) -> query_pb2.ListSharingResponse:
        return query_pb2.ListSharingResponse(operators=map(shared_operator_to_proto, self._parts.views.shared()))

    async def WatchQuery(  # noqa: N802
        self, request: query_pb2.WatchQueryRequest, context: Context
    ) -> AsyncIterator[query_pb2.WatchQueryResponse]:
        interval = timedelta(milliseconds=request.interval_ms)
        async with aclosing(self._parts.watches.query(request.query, interval)) as views:
            async for view in views:
                yield query_pb2.WatchQueryResponse(query=query_to_proto(view))

    async def CancelQuery(  # noqa: N802
        self, request: query_pb2.CancelQueryRequest, context: Context
    ) -> query_pb2.CancelQueryResponse:
        record = self._parts.jobs.cancel(self._own(request.query).id)
        return query_pb2.CancelQueryResponse(query=query_to_proto(self._parts.views.of(record)))

    async def PauseQuery(  # noqa: N802
        self, request: query_pb2.PauseQueryRequest, context: Context
    ) -> query_pb2.PauseQueryResponse:
        record = self._parts.jobs.pause(self._own(request.query).id)
        return query_pb2.PauseQueryResponse(query=query_to_proto(self._parts.views.of(record)))

    async def ResumeQuery(  # noqa: N802
        self, request: query_pb2.ResumeQueryRequest, context: Context
    ) -> query_pb2.ResumeQueryResponse:
        record = self._parts.jobs.resume(self._own(request.query).id)
        return query_pb2.ResumeQueryResponse(query=query_to_proto(self._parts.views.of(record)))

    async def FetchResults(  # noqa: N802
        self, request: query_pb2.FetchResultsRequest, context: Context
    ) -> AsyncIterator[query_pb2.FetchResultsResponse]:
        query = self._own(request.query).id
        start = FetchStart(
            {c.channel: c.epoch for c in request.cursor}, request.from_epoch, request.from_first, request.compressed
        )
        async with aclosing(self._parts.results.fetch(query, start, follow=request.follow)) as epochs:
            async for epoch in epochs:
                yield epoch_to_proto(epoch)
        view = self._parts.views.of(self._parts.queries.get(query))
        yield query_pb2.FetchResultsResponse(query=query_to_proto(view))

    def _own(self, reference: str) -> QueryRecord:
        """The query, if the caller may manage it. Raises UnknownQueryError, AmbiguousQueryError, NotOwnerError."""
        return own(self._parts.queries.find(reference))
