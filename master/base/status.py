"""The table from error classes to gRPC status codes, and the details that are sent with errors."""

from __future__ import annotations

import grpc

from contract.trailers import detail
from master.base import errors
from master.base.errors import MasterError
from planner.values import errors as planner_errors
from planner.values.errors import PlannerError
from selat.v1 import common_pb2

StatusCode = grpc.StatusCode

STATUS_CODES: dict[type[Exception], grpc.StatusCode] = {
    PlannerError: StatusCode.INVALID_ARGUMENT,
    planner_errors.SqlSyntaxError: StatusCode.INVALID_ARGUMENT,
    planner_errors.UnsupportedSqlError: StatusCode.INVALID_ARGUMENT,
    planner_errors.UnknownRelationError: StatusCode.NOT_FOUND,
    planner_errors.UnknownColumnError: StatusCode.INVALID_ARGUMENT,
    planner_errors.UnknownSiteError: StatusCode.NOT_FOUND,
    planner_errors.InvalidDefinitionError: StatusCode.INVALID_ARGUMENT,
    planner_errors.InvalidExpressionError: StatusCode.INVALID_ARGUMENT,
    planner_errors.PlacementError: StatusCode.FAILED_PRECONDITION,
    planner_errors.UnknownFunctionError: StatusCode.NOT_FOUND,
    planner_errors.InvalidFunctionError: StatusCode.INVALID_ARGUMENT,
    planner_errors.UnknownFrameworkError: StatusCode.NOT_FOUND,
    planner_errors.IllegalSlotMoveError: StatusCode.INTERNAL,
    planner_errors.IllegalTaskMoveError: StatusCode.INTERNAL,
    MasterError: StatusCode.INTERNAL,
    errors.FunctionsRefusedError: StatusCode.PERMISSION_DENIED,
    errors.UnauthenticatedError: StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: StatusCode.PERMISSION_DENIED,
    errors.NotOwnerError: StatusCode.PERMISSION_DENIED,
    errors.NotGrantedError: StatusCode.PERMISSION_DENIED,
    errors.LimitExceededError: StatusCode.RESOURCE_EXHAUSTED,
    errors.AccessOffError: StatusCode.FAILED_PRECONDITION,
    errors.UnknownTokenError: StatusCode.NOT_FOUND,
    errors.LastAdminError: StatusCode.FAILED_PRECONDITION,
    errors.KeySetError: StatusCode.INTERNAL,
    errors.AuditError: StatusCode.INTERNAL,
    errors.FunctionExistsError: StatusCode.ALREADY_EXISTS,
    errors.InvalidRequestError: StatusCode.INVALID_ARGUMENT,
    errors.StatementTooLongError: StatusCode.INVALID_ARGUMENT,
    errors.RelationExistsError: StatusCode.ALREADY_EXISTS,
    errors.RelationInUseError: StatusCode.FAILED_PRECONDITION,
    errors.FunctionInUseError: StatusCode.FAILED_PRECONDITION,
    errors.CatalogChangedError: StatusCode.ABORTED,
    errors.StaleChangeError: StatusCode.ABORTED,
    errors.UnknownQueryError: StatusCode.NOT_FOUND,
    errors.QueryPurgedError: StatusCode.NOT_FOUND,
    errors.AmbiguousQueryError: StatusCode.INVALID_ARGUMENT,
    errors.QueryNameTakenError: StatusCode.ALREADY_EXISTS,
    errors.QueryOverError: StatusCode.FAILED_PRECONDITION,
    errors.QueryNotPausableError: StatusCode.FAILED_PRECONDITION,
    errors.QueryNotPausedError: StatusCode.FAILED_PRECONDITION,
    errors.HandoverRefusedError: StatusCode.FAILED_PRECONDITION,
    errors.NotSettledError: StatusCode.UNAVAILABLE,
    errors.IllegalTransitionError: StatusCode.INTERNAL,
    errors.NoSiteAvailableError: StatusCode.UNAVAILABLE,
    errors.ProbeFailedError: StatusCode.UNAVAILABLE,
    errors.SplitsUnavailableError: StatusCode.UNAVAILABLE,
    errors.SiteNotRegisteredError: StatusCode.FAILED_PRECONDITION,
    errors.SiteDisplacedError: StatusCode.ABORTED,
    errors.ResultsUnavailableError: StatusCode.UNAVAILABLE,
    errors.ResultsExpiredError: StatusCode.NOT_FOUND,
    errors.ResultsGoneError: StatusCode.OUT_OF_RANGE,
    errors.NoResultsError: StatusCode.FAILED_PRECONDITION,
    errors.CorruptResultsError: StatusCode.DATA_LOSS,
    errors.OperationCancelledError: StatusCode.ABORTED,
    errors.UnknownHandleError: StatusCode.NOT_FOUND,
    errors.PlanFailedError: StatusCode.INTERNAL,
    errors.StoreError: StatusCode.INTERNAL,
    errors.StoreFullError: StatusCode.RESOURCE_EXHAUSTED,
}
"""Every error class; docs/errors.md is checked against it."""


def status_of(error: MasterError | PlannerError) -> grpc.StatusCode:
    """The code of the class, or of its nearest listed ancestor."""
    return next(STATUS_CODES[kind] for kind in type(error).__mro__ if kind in STATUS_CODES)


def detail_of(error: MasterError | PlannerError) -> common_pb2.ErrorDetail:
    """The detail of an error, as it is sent."""
    told = detail(error.code, error.message, hint=error.hint, found=error.found, ids=error.ids)
    if error.position:
        told.line, told.column = error.position.line, error.position.column
    return told


def unexpected(error_id: str) -> common_pb2.ErrorDetail:
    """The detail of an unexpected error: an id by which it is found in the log."""
    return common_pb2.ErrorDetail(
        code="INTERNAL",
        message=f"the master failed unexpectedly (error {error_id})",
        hint=f"the master's log has the details under {error_id}",
        ids={"error": error_id},
    )
