"""`spark.connect.SparkConnectService`: every method of it, for clients that nothing was changed in."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pyspark
from pyspark.sql.connect import proto as pb

from contract.trailers import Context
from master.base.errors import InvalidRequestError
from master.connect.configs import configured
from master.connect.errors import ErrorBook, class_of, condition_of, message_of
from master.connect.executions import Executions
from master.connect.operations import Operation
from master.connect.plans import checked
from master.connect.sessions import Session, Sessions
from planner.connect.allowed import ANALYSES
from planner.values.errors import UnsupportedSqlError
from wire.guests import Methods, add_service

SERVICE = "spark.connect.SparkConnectService"
SITE = "site"
"""The parameter of a connection string that names a site; clients send it with each call."""


_ID = re.compile(r"[0-9a-fA-F-]{32,36}")


class SparkConnectServicer:
    """Answers calls; sessions and operations hold what is between them."""

    def __init__(self, sessions: Sessions, executions: Executions, errors: ErrorBook) -> None:
        self._sessions = sessions
        self._executions = executions
        self._errors = errors

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server that does not run yet."""
        unary: Methods = {
            "AnalyzePlan": (self.analyze_plan, pb.AnalyzePlanRequest),
            "Config": (self.config, pb.ConfigRequest),
            # A stream of requests, of which the first is read: it is refused whatever follows.
            "AddArtifacts": (self.add_artifacts, pb.AddArtifactsRequest),
            "ArtifactStatus": (self.artifact_status, pb.ArtifactStatusesRequest),
            "Interrupt": (self.interrupt, pb.InterruptRequest),
            "ReleaseExecute": (self.release_execute, pb.ReleaseExecuteRequest),
            "ReleaseSession": (self.release_session, pb.ReleaseSessionRequest),
            "FetchErrorDetails": (self.fetch_error_details, pb.FetchErrorDetailsRequest),
            "CloneSession": (self.clone_session, pb.CloneSessionRequest),
            "GetStatus": (self.get_status, pb.GetStatusRequest),
        }
        streams: Methods = {
            "ExecutePlan": (self.execute_plan, pb.ExecutePlanRequest),
            "ReattachExecute": (self.reattach_execute, pb.ReattachExecuteRequest),
        }
        add_service(server, SERVICE, unary=unary, streams=streams)

    async def execute_plan(self, request: Any, context: Context) -> AsyncIterator[Any]:
        """Run a plan, and send what comes of it."""
        session = self._session(request, context)
        reattachable = any(option.reattach_options.reattachable for option in request.request_options)
        operation = Operation(
            request.operation_id or self._sessions.new_id(),
            frozenset(request.tags),
            reattachable,
            self._sessions.new_id,
        )
        if operation.id in session.operations:
            raise InvalidRequestError(
                f"there is an operation {operation.id[:80]} already",
                ids={"condition": "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"},
            )
        session.begin(operation)

        def put_ids(response: Any, number: str) -> Any:
            response.session_id, response.server_side_session_id = session.id, session.server_id
            response.operation_id, response.response_id = operation.id, number
            return response

        operation.start(self._executions.run(request.plan, session, operation), put_ids)
        try:
            async for response in operation.follow():
                yield response
        finally:
            if not reattachable:
                session.operations.pop(operation.id, None)
                operation.cancel()

    async def reattach_execute(self, request: Any, context: Context) -> AsyncIterator[Any]:
        """Send the responses of an operation that goes on, after the last one that the client has."""
        operation = self._session(request, context).operation(request.operation_id)
        async for response in operation.follow(request.last_response_id):
            yield response

    async def release_execute(self, request: Any, context: Context) -> Any:
        """Forget responses that the client has, or the whole operation."""
        session = self._session(request, context)
        operation = session.operations.get(request.operation_id)
        if operation is not None and request.HasField("release_until"):
            operation.release(request.release_until.response_id)
        elif operation is not None:
            del session.operations[operation.id]
            await operation.close()
        return pb.ReleaseExecuteResponse(
            session_id=session.id, server_side_session_id=session.server_id, operation_id=request.operation_id
        )

    async def interrupt(self, request: Any, context: Context) -> Any:
        """End operations: all, those with a tag, or one."""
        session = self._session(request, context)
        kind = pb.InterruptRequest.InterruptType.Name(request.interrupt_type)
        ended = [
            operation.id
            for operation in list(session.operations.values())
            if (
                kind == "INTERRUPT_TYPE_ALL"
                or (kind == "INTERRUPT_TYPE_TAG" and request.operation_tag in operation.tags)
                or (kind == "INTERRUPT_TYPE_OPERATION_ID" and request.operation_id == operation.id)
            )
            and operation.cancel()
        ]
        return pb.InterruptResponse(
            session_id=session.id, server_side_session_id=session.server_id, interrupted_ids=ended
        )

    async def analyze_plan(self, request: Any, context: Context) -> Any:
        """Answer a question about a plan, which does not run."""
        session = self._session(request, context)
        kind = request.WhichOneof("analyze") or ""
        if kind not in ANALYSES:
            raise UnsupportedSqlError(f"analysis {kind} is not possible", found=kind)
        answer = pb.AnalyzePlanResponse()
        if kind == "spark_version":
            answer.spark_version.version = pyspark.__version__
        elif kind == "is_streaming":
            answer.is_streaming.is_streaming = False
        elif kind == "persist":
            session.persist(request.persist.relation)
            answer.persist.SetInParent()
        elif kind == "unpersist":
            session.unpersist(request.unpersist.relation)
            answer.unpersist.SetInParent()
        elif kind == "get_storage_level":
            level = answer.get_storage_level.storage_level
            level.use_disk, level.replication = session.is_persisted(request.get_storage_level.relation), 1
        else:
            answer = await self._asked(request, kind, session)
        answer.session_id, answer.server_side_session_id = session.id, session.server_id
        return answer

    async def _asked(self, request: Any, kind: str, session: Session) -> Any:
        """Spark's answer about the plans of a question, with the session's views in them."""
        question = pb.AnalyzePlanRequest()
        getattr(question, kind).CopyFrom(getattr(request, kind))
        asked, relations = getattr(question, kind), []
        for name in ("plan", "target_plan", "other_plan"):
            if name not in asked.DESCRIPTOR.fields_by_name or not asked.HasField(name):
                continue
            plan = getattr(asked, name)
            if plan.WhichOneof("op_type") != "root":
                raise UnsupportedSqlError("only plans of relations can be asked about", found=name)
            plan.root.CopyFrom(checked(plan.root, session.views))
            relations.append(plan.root)
        return await self._executions.ask(question, relations, session)

    async def config(self, request: Any, context: Context) -> Any:
        """Read or change the session's settings."""
        session = self._session(request, context)
        answer = pb.ConfigResponse(session_id=session.id, server_side_session_id=session.server_id)
        for key, value in configured(request.operation, session):
            answer.pairs.add(key=key, value=value)
        return answer

    async def add_artifacts(self, request: Any, context: Context) -> Any:
        """Refused: nothing of a client's runs or lies at the sites but its plans."""
        raise UnsupportedSqlError(
            "files, modules and classes cannot be added",
            hint="make a function of Selat (CREATE FUNCTION), and declare files as tables (CREATE TABLE)",
        )

    async def artifact_status(self, request: Any, context: Context) -> Any:
        """No artifact is there."""
        session = self._session(request, context)
        statuses = {name: pb.ArtifactStatusesResponse.ArtifactStatus(exists=False) for name in request.names}
        return pb.ArtifactStatusesResponse(
            session_id=session.id, server_side_session_id=session.server_id, statuses=statuses
        )

    async def release_session(self, request: Any, context: Context) -> Any:
        """End a session and what runs in it."""
        await self._sessions.end(request.session_id)
        return pb.ReleaseSessionResponse(session_id=request.session_id)

    async def clone_session(self, request: Any, context: Context) -> Any:
        """Make a session with the names and settings of this one."""
        session = self._session(request, context)
        made = self._sessions.clone(session, request.new_session_id or self._sessions.new_id())
        return pb.CloneSessionResponse(
            session_id=session.id,
            server_side_session_id=session.server_id,
            new_session_id=made.id,
            new_server_side_session_id=made.server_id,
        )

    async def fetch_error_details(self, request: Any, context: Context) -> Any:
        """The whole message of an error, of which the call that failed had room for a part."""
        answer = pb.FetchErrorDetailsResponse(session_id=request.session_id)
        told = self._errors.get(request.error_id)
        if told is not None:
            answer.root_error_idx = 0
            error = answer.errors.add(error_type_hierarchy=[class_of(told)], message=message_of(told))
            error.spark_throwable.error_class = condition_of(told)
        return answer

    async def get_status(self, request: Any, context: Context) -> Any:
        """The states of operations: those that are named, else all of the session."""
        session = self._session(request, context)
        answer = pb.GetStatusResponse(session_id=session.id, server_side_session_id=session.server_id)
        for name in request.operation_status.operation_ids or sorted(session.operations):
            found = session.operations.get(name)
            state = found.state if found is not None else "UNKNOWN"
            kinds = pb.GetStatusResponse.OperationStatus.OperationState
            answer.operation_statuses.add(operation_id=name, state=kinds.Value(f"OPERATION_STATE_{state}"))
        return answer

    def _session(self, request: Any, context: Context) -> Session:
        if _ID.fullmatch(request.session_id) is None:
            raise InvalidRequestError("a session's id must be a UUID", ids={"condition": "INVALID_HANDLE.FORMAT"})
        site = next((str(value) for key, value in context.invocation_metadata() or () if key == SITE), "")
        return self._sessions.get(request.session_id, request.client_observed_server_side_session_id, site)
