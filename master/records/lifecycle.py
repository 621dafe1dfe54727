"""State machines of queries and sites: states, events, and a table of legal moves for each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from master.base.errors import IllegalTransitionError
from master.records.model import QueryState, SiteState


class QueryEvent(Enum):
    TASKS_RUNNING = "tasks_running"
    """Every task has been seen running."""
    RESULTS_COMPLETE = "results_complete"
    """The gateway holds every result."""
    TASK_FAILED = "task_failed"
    CANCEL_REQUESTED = "cancel_requested"
    PAUSE_REQUESTED = "pause_requested"
    RESUME_REQUESTED = "resume_requested"
    LEFT_BEHIND = "left_behind"
    """It is further behind in a shared channel than the channel retains."""
    NOT_CONFIRMED = "not_confirmed"
    """The master's state was restored, and sites do not run the query as the backup has it."""
    TASKS_GONE = "tasks_gone"
    """No reachable site runs a task of it any more."""


class SiteEvent(Enum):
    REGISTERED = "registered"
    REPORTED = "reported"
    HEARTBEAT_OVERDUE = "heartbeat_overdue"
    DEREGISTERED = "deregistered"
    """Its agent has announced that it ends."""


QUERY_MOVES: Mapping[tuple[QueryState, QueryEvent], QueryState] = MappingProxyType(
    {
        (QueryState.DEPLOYING, QueryEvent.TASKS_RUNNING): QueryState.RUNNING,
        (QueryState.DEPLOYING, QueryEvent.RESULTS_COMPLETE): QueryState.FINISHED,
        (QueryState.DEPLOYING, QueryEvent.TASK_FAILED): QueryState.FAILED,
        (QueryState.DEPLOYING, QueryEvent.CANCEL_REQUESTED): QueryState.CANCELLING,
        (QueryState.RUNNING, QueryEvent.RESULTS_COMPLETE): QueryState.FINISHED,
        (QueryState.RUNNING, QueryEvent.TASK_FAILED): QueryState.FAILED,
        (QueryState.RUNNING, QueryEvent.CANCEL_REQUESTED): QueryState.CANCELLING,
        (QueryState.DEPLOYING, QueryEvent.PAUSE_REQUESTED): QueryState.PAUSED,
        (QueryState.RUNNING, QueryEvent.PAUSE_REQUESTED): QueryState.PAUSED,
        (QueryState.DEPLOYING, QueryEvent.LEFT_BEHIND): QueryState.FAILED,
        (QueryState.RUNNING, QueryEvent.LEFT_BEHIND): QueryState.FAILED,
        (QueryState.RESUMING, QueryEvent.LEFT_BEHIND): QueryState.FAILED,
        (QueryState.PAUSED, QueryEvent.LEFT_BEHIND): QueryState.FAILED,
        (QueryState.DEPLOYING, QueryEvent.NOT_CONFIRMED): QueryState.FAILED,
        (QueryState.RUNNING, QueryEvent.NOT_CONFIRMED): QueryState.FAILED,
        (QueryState.RESUMING, QueryEvent.NOT_CONFIRMED): QueryState.FAILED,
        (QueryState.PAUSED, QueryEvent.NOT_CONFIRMED): QueryState.FAILED,
        (QueryState.PAUSED, QueryEvent.RESUME_REQUESTED): QueryState.RESUMING,
        (QueryState.PAUSED, QueryEvent.CANCEL_REQUESTED): QueryState.CANCELLING,
        (QueryState.RESUMING, QueryEvent.TASKS_RUNNING): QueryState.RUNNING,
        (QueryState.RESUMING, QueryEvent.RESULTS_COMPLETE): QueryState.FINISHED,
        (QueryState.RESUMING, QueryEvent.TASK_FAILED): QueryState.FAILED,
        (QueryState.RESUMING, QueryEvent.PAUSE_REQUESTED): QueryState.PAUSED,
        (QueryState.RESUMING, QueryEvent.CANCEL_REQUESTED): QueryState.CANCELLING,
        (QueryState.CANCELLING, QueryEvent.TASKS_GONE): QueryState.CANCELLED,
    }
)

SITE_MOVES: Mapping[tuple[SiteState, SiteEvent], SiteState] = MappingProxyType(
    {
        (SiteState.EXPECTED, SiteEvent.REGISTERED): SiteState.ALIVE,
        (SiteState.ALIVE, SiteEvent.REGISTERED): SiteState.ALIVE,
        (SiteState.ALIVE, SiteEvent.REPORTED): SiteState.ALIVE,
        (SiteState.ALIVE, SiteEvent.HEARTBEAT_OVERDUE): SiteState.UNREACHABLE,
        (SiteState.ALIVE, SiteEvent.DEREGISTERED): SiteState.UNREACHABLE,
        (SiteState.UNREACHABLE, SiteEvent.DEREGISTERED): SiteState.UNREACHABLE,
        (SiteState.UNREACHABLE, SiteEvent.REGISTERED): SiteState.ALIVE,
        (SiteState.UNREACHABLE, SiteEvent.REPORTED): SiteState.ALIVE,
    }
)


def next_query_state(query_id: str, state: QueryState, event: QueryEvent) -> QueryState:
    """The state after the event.

    Raises:
        IllegalTransitionError: the state knows no move for the event.
    """
    target = QUERY_MOVES.get((state, event))
    if target is None:
        raise IllegalTransitionError(
            f"query {query_id} is {state.value}: no move for {event.value}",
            ids={"query": query_id, "state": state.value, "event": event.value},
        )
    return target


def next_site_state(site: str, state: SiteState, event: SiteEvent) -> SiteState:
    """The state after the event.

    Raises:
        IllegalTransitionError: the state knows no move for the event.
    """
    target = SITE_MOVES.get((state, event))
    if target is None:
        raise IllegalTransitionError(
            f"site {site} is {state.value}: no move for {event.value}",
            ids={"site": site, "state": state.value, "event": event.value},
        )
    return target
