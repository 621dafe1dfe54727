"""CatalogService."""

from __future__ import annotations

from typing import Any

import grpc.aio

from master.access.caller import note_relations
from master.access.rights import check_right
from master.base.errors import InvalidRequestError
from master.convert.functions import function_from_proto, function_to_proto
from master.convert.relations import kind_from_proto, relation_from_proto, relation_to_proto
from master.planning.definitions import ViewDefinitions
from master.reconcile.jobs import JobManager
from master.relations.catalog import CatalogManager
from master.relations.functions import FunctionManager
from planner.access.roles import Right
from planner.relations.catalog import RelationKind
from selat.v1 import catalog_pb2, catalog_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    def __init__(
        self, catalog: CatalogManager, jobs: JobManager, functions: FunctionManager, definitions: ViewDefinitions
    ) -> None:
        self._catalog = catalog
        self._definitions = definitions
        self._jobs = jobs
        self._functions = functions

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
        note_relations([declared.name])
        if declared.kind is not RelationKind.VIEW:
            check_right(Right.DECLARE)
        if declared.kind is RelationKind.VIEW:
            relation, created = await self._definitions.declare(
                declared, or_replace=request.or_replace, if_not_exists=request.if_not_exists
            )
        elif request.or_replace:
            raise InvalidRequestError("only a view can be replaced", hint="leave CreateRelationRequest.or_replace out")
        else:
            relation, created = self._jobs.create_relation(declared, if_not_exists=request.if_not_exists)
        return catalog_pb2.CreateRelationResponse(relation=relation_to_proto(relation), created=created)

    async def DropRelation(  # noqa: N802
        self, request: catalog_pb2.DropRelationRequest, context: Context
    ) -> catalog_pb2.DropRelationResponse:
        dropped = self._jobs.drop_relation(request.name, kind_from_proto(request.kind), if_exists=request.if_exists)
        return catalog_pb2.DropRelationResponse(dropped=dropped)

    async def AlterBinding(  # noqa: N802
        self, request: catalog_pb2.AlterBindingRequest, context: Context
    ) -> catalog_pb2.AlterBindingResponse:
        relation = self._jobs.alter_binding(
            request.name, dict(sorted(request.options.items())), site=request.site or None
        )
        return catalog_pb2.AlterBindingResponse(relation=relation_to_proto(relation))

    async def ListFunctions(  # noqa: N802
        self, request: catalog_pb2.ListFunctionsRequest, context: Context
    ) -> catalog_pb2.ListFunctionsResponse:
        return catalog_pb2.ListFunctionsResponse(functions=[function_to_proto(f) for f in self._functions.all()])

    async def GetFunction(  # noqa: N802
        self, request: catalog_pb2.GetFunctionRequest, context: Context
    ) -> catalog_pb2.GetFunctionResponse:
        return catalog_pb2.GetFunctionResponse(function=function_to_proto(self._functions.get(request.name)))

    async def CreateFunction(  # noqa: N802
        self, request: catalog_pb2.CreateFunctionRequest, context: Context
    ) -> catalog_pb2.CreateFunctionResponse:
        function, created = await self._functions.create(
            function_from_proto(request.function), or_replace=request.or_replace, if_not_exists=request.if_not_exists
        )
        return catalog_pb2.CreateFunctionResponse(function=function_to_proto(function), created=created)

    async def DropFunction(  # noqa: N802
        self, request: catalog_pb2.DropFunctionRequest, context: Context
    ) -> catalog_pb2.DropFunctionResponse:
        dropped = self._functions.drop(request.name, if_exists=request.if_exists)
        return catalog_pb2.DropFunctionResponse(dropped=dropped)
