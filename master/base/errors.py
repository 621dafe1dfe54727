"""Errors of the master: one root, ids as attributes; docs/errors.md lists every code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from planner.values.errors import Position


class MasterError(Exception):
    """Root. `code` is the stable name listed in docs/errors.md; `hint` says what would be right."""

    code = "MASTER_ERROR"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        ids: Mapping[str, str] | None = None,
        position: Position | None = None,
        found: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.ids = dict(ids or {})
        self.position = position
        self.found = found

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.ids, self.position, self.found))


def _rebuild(*parts: object) -> MasterError:
    kind, message, hint, ids, position, found = parts
    return kind(message, hint=hint, ids=ids, position=position, found=found)  # type: ignore[operator, no-any-return]


class InvalidRequestError(MasterError):
    """A request lacks something or contradicts itself."""

    code = "INVALID_REQUEST"


class StatementTooLongError(MasterError):
    """The submitted text is longer than the limit."""

    code = "STATEMENT_TOO_LONG"


class FunctionsRefusedError(MasterError):
    """This master was told to refuse Python functions: they would run with the rights of the agents."""

    code = "PYTHON_FUNCTIONS_REFUSED"


class UnauthenticatedError(MasterError):
    """The caller has not shown who it is: no token, or one that is unknown, revoked, expired or not believed."""

    code = "UNAUTHENTICATED"


class PermissionDeniedError(MasterError):
    """None of the caller's roles carries the right, or it is bound to another site or framework."""

    code = "PERMISSION_DENIED"


class NotOwnerError(MasterError):
    """The query or relation is another's, and the caller does not manage those of others."""

    code = "NOT_OWNER"


class NotGrantedError(MasterError):
    """A relation is neither the caller's own nor granted to its roles; or below a view, not to those of its owner."""

    code = "NOT_GRANTED"


class LimitExceededError(MasterError):
    """The caller asks for more than its limits allow; the message says which."""

    code = "LIMIT_EXCEEDED"


class AccessOffError(MasterError):
    """Tokens and grants are of no use at a master that checks nobody, and whoever reaches it could make them."""

    code = "ACCESS_OFF"


class UnknownTokenError(MasterError):
    code = "UNKNOWN_TOKEN"


class LastAdminError(MasterError):
    """The last token of an admin cannot be revoked."""

    code = "LAST_ADMIN_TOKEN"


class KeySetError(MasterError):
    """The keys of an issuer cannot be had, or are none. A master does not start then."""

    code = "KEY_SET_ERROR"


class AuditError(MasterError):
    """The audit log cannot be written. A master does not start then."""

    code = "AUDIT_ERROR"


class RelationExistsError(MasterError):
    """Streams, tables and sinks share one namespace, and the name is taken."""

    code = "RELATION_EXISTS"


class RelationInUseError(MasterError):
    """A live query reads the relation, or writes into it."""

    code = "RELATION_IN_USE"


class CatalogChangedError(MasterError):
    """The relations of a query changed, again and again, while the query was being checked."""

    code = "CATALOG_CHANGED"


class StaleChangeError(MasterError):
    """A change of what runs was decided on an earlier version of it."""

    code = "STALE_CHANGE"


class UnknownQueryError(MasterError):
    code = "UNKNOWN_QUERY"


class QueryPurgedError(MasterError):
    """The query was over for so long, or so many ended after it, that it is no longer known."""

    code = "QUERY_PURGED"


class AmbiguousQueryError(MasterError):
    """A prefix that several query ids share."""

    code = "AMBIGUOUS_QUERY"


class QueryNameTakenError(MasterError):
    """A live query has the name."""

    code = "QUERY_NAME_TAKEN"


class ProbeFailedError(MasterError):
    """The sites could not measure their link."""

    code = "PROBE_FAILED"


class QueryOverError(MasterError):
    """The query is over, or being cancelled; there is nothing to cancel, to pause or to resume."""

    code = "QUERY_OVER"


class QueryNotPausableError(MasterError):
    """A batch query: its tasks run once and end."""

    code = "QUERY_NOT_PAUSABLE"


class QueryNotPausedError(MasterError):
    """The query is not paused; there is nothing to resume."""

    code = "QUERY_NOT_PAUSED"


class HandoverRefusedError(MasterError):
    """The task cannot be moved there, or not now."""

    code = "HANDOVER_REFUSED"


class NotSettledError(MasterError):
    """The state was restored from a backup, and the sites have not said yet which of its queries still run."""

    code = "NOT_SETTLED"

    @classmethod
    def asking(cls) -> Self:
        """The error to raise meanwhile."""
        return cls(
            "the master was restored from a backup, and asks the sites what still runs",
            hint="try again in some seconds: it waits one heartbeat timeout at most",
        )


class IllegalTransitionError(MasterError):
    """An event came in a state that knows no move for it: a defect of the master."""

    code = "ILLEGAL_TRANSITION"


class NoSiteAvailableError(MasterError):
    """No site can check a query now."""

    code = "NO_SITE_AVAILABLE"


class SplitsUnavailableError(MasterError):
    """A site could not say how a table's data there can be cut."""

    code = "SPLITS_UNAVAILABLE"


class SiteNotRegisteredError(MasterError):
    """A report from an agent that the master has no registration of; it has to register first."""

    code = "SITE_NOT_REGISTERED"


class SiteDisplacedError(MasterError):
    """A newer agent of the same site has registered; the older one has to stop."""

    code = "SITE_DISPLACED"


class ResultsUnavailableError(MasterError):
    """The gateway that keeps the results does not answer."""

    code = "RESULTS_UNAVAILABLE"


class ResultsExpiredError(MasterError):
    """The results are no longer kept."""

    code = "RESULTS_EXPIRED"


class ResultsGoneError(MasterError):
    """The requested epoch is gone: of a query that is not over, only the newest results are kept."""

    code = "RESULTS_GONE"


class NoResultsError(MasterError):
    """The query writes into a sink; there is nothing to fetch."""

    code = "NO_RESULTS"


class CorruptResultsError(MasterError):
    """An epoch from the gateway does not match its checksum."""

    code = "CORRUPT_RESULTS"


class StoreError(MasterError):
    """The state file cannot be used: held by another master, written by a newer version, damaged, or not writable."""

    code = "STORE_ERROR"


class FunctionExistsError(MasterError):
    """A Python function has the name, and OR REPLACE was not said."""

    code = "FUNCTION_EXISTS"


class FunctionInUseError(MasterError):
    """A live query or a view calls the Python function."""

    code = "FUNCTION_IN_USE"


class StoreFullError(StoreError):
    """The state cannot be stored, because the disk is full; nothing of it is."""

    code = "STORE_FULL"


class OperationCancelledError(MasterError):
    """Something that a Spark client waited for was ended: by the client, or by whoever cancelled its query."""

    code = "OPERATION_CANCELLED"


class UnknownHandleError(MasterError):
    """A session, or an operation of one, that a Spark client speaks of is not here any more."""

    code = "UNKNOWN_HANDLE"


class PlanFailedError(MasterError):
    """A Spark client's plan was possible, and failed while it ran."""

    code = "PLAN_FAILED"
