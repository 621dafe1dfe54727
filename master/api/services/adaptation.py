"""AdaptationService."""

from __future__ import annotations

from typing import Any

import grpc.aio

from master.adaptation.journal import KEPT, Journal
from master.api.convert.adaptation import MODES, decision_to_proto, moments
from master.queries.registry import QueryRegistry
from selat.v1 import adaptation_pb2 as pb
from selat.v1 import adaptation_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]

_DEFAULT_LIMIT = 100


class AdaptationServicer(adaptation_pb2_grpc.AdaptationServiceServicer):
    def __init__(self, journal: Journal, queries: QueryRegistry) -> None:
        self._journal = journal
        self._queries = queries

    async def ListDecisions(  # noqa: N802
        self, request: pb.ListDecisionsRequest, context: Context
    ) -> pb.ListDecisionsResponse:
        query = self._queries.find(request.query).id if request.query else ""
        entries = self._journal.newest(query, request.limit or _DEFAULT_LIMIT)
        return pb.ListDecisionsResponse(decisions=map(decision_to_proto, entries))

    async def GetQueryHistory(  # noqa: N802
        self, request: pb.GetQueryHistoryRequest, context: Context
    ) -> pb.GetQueryHistoryResponse:
        record = self._queries.find(request.query)
        found = moments(self._queries.history(record.id), tuple(self._journal.newest(record.id, KEPT)))
        return pb.GetQueryHistoryResponse(query_id=record.id, mode=MODES[record.plan.adapting], moments=found)
