"""Finds the place of a task by the names that people give to stages."""

from __future__ import annotations

from master.base.errors import HandoverRefusedError
from master.queries.sharing import deployment_of, is_task
from master.records.model import QueryRecord
from planner.graph.ids import TaskId
from planner.sharing.forking import shared_by
from planner.sharing.running import Running


def place_in(record: QueryRecord, stage: str, running: Running) -> TaskId:
    """Return the place of a stage of a query, or of one of its tasks: `m1`, `m1.p2`, or `s1.d0` of a derived one.

    Raises:
        HandoverRefusedError: there is none of that name, or it has several parts.
    """
    needed = running.needed_by(record.id) if record.id in running.queries else ()
    own = [name for name in needed if name.query == record.id and is_task(running.task(name))]
    found = [place for place in own if stage in (str(place.vertex), place.stage, _name(place))]
    if len(found) == 1:
        return found[0]
    ids = {"query": record.id, "stage": stage}
    if found:
        parts = ", ".join(sorted(map(_name, found)))
        told = f"stage {stage} of query {record.id} has several tasks"
        raise HandoverRefusedError(told, hint=f"name one of them: {parts}", ids=ids)
    names = ", ".join(sorted(map(_name, own))) or "none, for it does not run"
    told = f"query {record.id} has no task of its own for stage {stage!r}"
    raise HandoverRefusedError(told, hint=f"its tasks: {names}", ids=ids)


def shared_place(record: QueryRecord, stage: str, running: Running) -> TaskId:
    """Return the place of another query's task that is shared for a stage of a query, or for one of its tasks.

    Raises:
        HandoverRefusedError: none does, or several do; or the query shares nothing.
    """
    deployment = deployment_of(record) if record.id in running.queries else None
    shared = shared_by(deployment, record.id, running) if deployment is not None else {}
    found = {task for vertex, task in shared.items() if stage in (str(vertex), vertex.stage)}
    if len(found) == 1:
        return found.pop()
    ids = {"query": record.id, "stage": stage}
    names = ", ".join(sorted(map(str, shared))) or "none"
    told = f"query {record.id} shares {'several tasks' if found else 'no task of another query'} for {stage!r}"
    raise HandoverRefusedError(told, hint=f"it shares: {names}; what is its own moves without --alone", ids=ids)


def _name(place: TaskId) -> str:
    """The place's name within its query."""
    return str(place).partition(".")[2]
