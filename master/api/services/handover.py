"""HandoverService."""

from __future__ import annotations

from typing import Any

import grpc.aio

from master.access.ownership import own
from master.api.convert.handover import move_to_proto, query_of
from master.planning.recombining import Recombiner
from master.planning.settings import checked_setting, tree_of
from master.queries.lineages import Lineages
from master.queries.registry import QueryRegistry
from master.reconcile.handovers import Handovers
from master.reconcile.places import place_in
from planner.graph.ids import TaskId
from planner.values.trees import AUTO
from selat.v1 import handover_pb2 as pb
from selat.v1 import handover_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class HandoverServicer(handover_pb2_grpc.HandoverServiceServicer):
    def __init__(
        self, handovers: Handovers, lineages: Lineages, queries: QueryRegistry, recombiner: Recombiner
    ) -> None:
        self._handovers = handovers
        self._recombiner = recombiner
        self._lineages = lineages
        self._queries = queries

    async def MoveTask(self, request: pb.MoveTaskRequest, context: Context) -> pb.MoveTaskResponse:  # noqa: N802
        if request.alone:
            record = own(self._queries.find(request.query))
            lineage = self._handovers.fork(record, request.stage, request.to_site, "asked for")
            return pb.MoveTaskResponse(move=move_to_proto(lineage))
        if request.together:
            record = own(self._queries.find(request.query))
            lineage = self._handovers.join(record, request.stage, request.to_site, "asked for")
            return pb.MoveTaskResponse(move=move_to_proto(lineage))
        place = self._place(request.query, request.stage)
        lineage = self._handovers.begin(place, request.to_site, "asked for", without_state=request.without_state)
        return pb.MoveTaskResponse(move=move_to_proto(lineage))

    async def ScaleStage(self, request: pb.ScaleStageRequest, context: Context) -> pb.ScaleStageResponse:  # noqa: N802
        record = own(self._queries.find(request.query))
        lineage = self._handovers.scale(record.id, request.stage, request.parts, request.sites, "asked for")
        return pb.ScaleStageResponse(move=move_to_proto(lineage))

    async def CombineQuery(self, request: pb.CombineQueryRequest, context: Context) -> pb.CombineQueryResponse:  # noqa: N802
        record = own(self._queries.find(request.query))
        _, text = checked_setting("combine_tree", request.tree or AUTO)
        wanted = await self._recombiner.planned(record, tree_of(text))
        # It may have changed meanwhile.
        lineage = self._handovers.swap(self._queries.get(record.id), wanted, "asked for")
        return pb.CombineQueryResponse(move=move_to_proto(lineage))

    async def CallOffMove(self, request: pb.CallOffMoveRequest, context: Context) -> pb.CallOffMoveResponse:  # noqa: N802
        place = self._changing(request.query, request.stage) or self._place(request.query, request.stage)
        lineage = self._handovers.call_off(place, "called off")
        return pb.CallOffMoveResponse(move=move_to_proto(lineage))

    async def ListMoves(self, request: pb.ListMovesRequest, context: Context) -> pb.ListMovesResponse:  # noqa: N802
        query = self._queries.find(request.query).id if request.query else ""
        running = self._queries.snapshots.held.placement
        found = [one for _, one in sorted(self._lineages.all.items()) if not query or query_of(one) == query]
        moves = (move_to_proto(one, runs=one.place in running) for one in found)
        return pb.ListMovesResponse(moves=filter(None, moves))

    def _changing(self, query: str, stage: str) -> TaskId | None:
        """Return the FINAL behind a merge that is to have other parts, or the task that a query is to share no more."""
        record = own(self._queries.find(query))
        for one in self._handovers.under_way:
            scaling = one.handover.scaling if one.handover is not None else None
            if one.place.query == record.id and scaling is not None and scaling.stage == stage:
                return one.place
            fork = one.handover.fork if one.handover is not None else None
            if fork is not None and fork.query == record.id and stage in (fork.task.stage, str(fork.task.vertex)):
                return one.place
        return None

    def _place(self, query: str, stage: str) -> TaskId:
        """Raises UnknownQueryError, AmbiguousQueryError, NotOwnerError, HandoverRefusedError."""
        record = own(self._queries.find(query))
        return place_in(record, stage, self._queries.snapshots.held)
