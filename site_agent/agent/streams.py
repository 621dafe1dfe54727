"""The streams that clients can push to at the site, and the tasks that read them, according to the assignment."""

from __future__ import annotations

from planner.relations.connectors.table import traits_of
from planner.values.stages import StageKind
from site_agent.ingest import PushedStream
from site_agent.tasks.spec import Assignment, RelationSpec, TaskSpec


def pushed_streams(assignment: Assignment) -> tuple[PushedStream, ...]:
    """The assignment's streams, each with its readers."""
    return tuple(
        PushedStream(s.name, s.columns, s.options, s.created_at, _readers(assignment, s), s.by_arrival)
        for s in assignment.streams
    )


def reads_pushed(spec: TaskSpec) -> bool:
    """Whether the task reads a stream that clients push to."""
    return spec.relation is not None and traits_of(spec.relation.options).has_log


def _readers(assignment: Assignment, stream: RelationSpec) -> tuple[str, ...]:
    return tuple(
        task.task_id
        for task in assignment.tasks
        if task.kind is StageKind.SOURCE and reads_pushed(task) and task.relation and _same(task.relation, stream)
    )


def _same(one: RelationSpec, other: RelationSpec) -> bool:
    """Whether two relations are the same stream: one that was dropped and created again is another."""
    return one.name.lower() == other.name.lower() and one.created_at == other.created_at
