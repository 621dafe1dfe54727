"""Ends a query together with whoever reads its rows."""

from __future__ import annotations

from master.base.errors import MasterError, OperationCancelledError, PlanFailedError
from master.queries.registry import QueryRegistry
from master.reconcile.jobs import JobManager
from master.records.model import QueryState


def check_finished(queries: QueryRegistry, query: str) -> None:
    """Raises PlanFailedError or OperationCancelledError unless a query, which is over, has finished."""
    record = queries.get(query)
    if record.state is QueryState.FAILED:
        raise PlanFailedError(
            f"query {query} failed: {record.reason}", hint=f"selat query show {query}", ids={"query": query}
        )
    if record.state is not QueryState.FINISHED:
        raise cancelled(query)


def cancelled(query: str) -> OperationCancelledError:
    """Return the error of a query that was cancelled, under Spark's name for it."""
    ids = {"query": query, "condition": "OPERATION_CANCELED"}
    return OperationCancelledError(f"query {query} was cancelled", ids=ids)


def give_up(queries: QueryRegistry, jobs: JobManager, query: str) -> None:
    """Cancel a query, if it is not over: whoever asked for its rows is gone."""
    if not queries.get(query).state.over:
        try:
            jobs.cancel(query)
        except MasterError:
            return
