"""CatalogService."""

from __future__ import annotations

from typing import Any

import grpc.aio

from master.catalog import CatalogManager
from master.convert.relations import kind_from_proto, relation_from_proto, relation_to_proto
from master.jobs import JobManager
from selat.v1 import catalog_pb2, catalog_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    def __init__(self, catalog: CatalogManager, jobs: JobManager) -> None:
        self._catalog = catalog
        self._jobs = jobs

    async def ListRelations(  # noqa: N802
        self, request: catalog_pb2.ListRelationsRequest, context: Context
    ) -> catalog_pb2.ListRelationsResponse:
        relations = self._catalog.relations(kind_from_proto(request.kind))
        return catalog_pb2.ListRelationsResponse(relations=[relation_to_proto(r) for r in relations])

    async def GetRelation(  # noqa: N802
        self, request: catalog_pb2.GetRelationRequest, context: Context
    ) -> catalog_pb2.GetRelationResponse:
        return catalog_pb2.GetRelationResponse(relation=relation_to_proto(self._catalog.get(request.name)))

    async def CreateRelation(  # noqa: N802
        self, request: catalog_pb2.CreateRelationRequest, context: Context
    ) -> catalog_pb2.CreateRelationResponse:
        declared = relation_from_proto(request.relation)
        relation, created = self._catalog.create(declared, if_not_exists=request.if_not_exists)
        return catalog_pb2.CreateRelationResponse(relation=relation_to_proto(relation), created=created)

    async def DropRelation(  # noqa: N802
        self, request: catalog_pb2.DropRelationRequest, context: Context
    ) -> catalog_pb2.DropRelationResponse:
        dropped = self._catalog.drop(request.name, kind_from_proto(request.kind), if_exists=request.if_exists)
        return catalog_pb2.DropRelationResponse(dropped=dropped)

    async def AlterBinding(  # noqa: N802
        self, request: catalog_pb2.AlterBindingRequest, context: Context
    ) -> catalog_pb2.AlterBindingResponse:
        relation = self._jobs.alter_binding(request.name, dict(request.options), site=request.site or None)
        return catalog_pb2.AlterBindingResponse(relation=relation_to_proto(relation))
