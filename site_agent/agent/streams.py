"""Which streams clients can push to at the site, and which tasks read them, by the assignment."""

from __future__ import annotations

from site_agent.ingest import PUSH_CONNECTOR, PushedStream
from site_agent.tasks.spec import Assignment, RelationSpec, StageKind, TaskSpec


def pushed_streams(assignment: Assignment) -> tuple[PushedStream, ...]:
    """The assignment's streams, each with its readers."""
    return tuple(
        PushedStream(s.name, s.columns, s.options, s.created_at, _readers(assignment, s)) for s in assignment.streams
    )


def reads_pushed(spec: TaskSpec) -> bool:
    """Whether the task reads or writes a relation of the connector `push`."""
    return spec.relation is not None and spec.relation.options.get("connector") == PUSH_CONNECTOR


def _readers(assignment: Assignment, stream: RelationSpec) -> tuple[str, ...]:
    return tuple(
        task.task_id
        for task in assignment.tasks
        if task.kind is StageKind.SOURCE and reads_pushed(task) and task.relation and _same(task.relation, stream)
    )


def _same(one: RelationSpec, other: RelationSpec) -> bool:
    """A stream that is dropped and created anew is another."""
    return one.name.lower() == other.name.lower() and one.created_at == other.created_at
