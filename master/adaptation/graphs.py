"""Running queries as the graphs that adaptation is decided on. Pure."""

from __future__ import annotations

from master.records.model import QueryRecord
from planner.adapt.model import Graph, Node, Role
from planner.graph.ids import TaskId
from planner.graph.plan import Stage
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import RESULTS, VertexKind
from planner.values.names import BINS

_ROLES = {
    VertexKind.SOURCE: Role.SOURCE,
    # It reads the channel of the source at its site.
    VertexKind.COMBINE: Role.SOURCE,
    VertexKind.MERGE: Role.OPERATOR,
    VertexKind.FINAL: Role.OPERATOR,
    VertexKind.SINK: Role.SINK,
}
_COMBINED = (VertexKind.COMBINE, VertexKind.MERGE, VertexKind.FINAL)


def graph_of(record: QueryRecord, running: Running) -> Graph:
    """A query's tasks, those of other queries that it needs included. Tables are sent once, and left out."""
    needed = [one for one in map(running.task, running.needed_by(record.id)) if one.vertex.kind is not VertexKind.TABLE]
    tasks = tuple(_node(record, running, one) for one in needed if one.vertex.kind is not VertexKind.RESULTS)
    copies = [one for one in needed if one.vertex.kind is VertexKind.RESULTS]
    if not copies:
        return Graph(record.id, tasks)
    # Agents report all copies of a query's results as one reader.
    inputs = tuple(dict.fromkeys(name for one in copies for name in one.inputs))
    reader = Node(TaskId(record.id, RESULTS), Role.SINK, running.site(copies[0].id), inputs)
    return Graph(record.id, (*tasks, reader))


def _node(record: QueryRecord, running: Running, one: Deployed) -> Node:
    kind = one.vertex.kind
    stage = None
    if one.id.query == record.id and not one.residual:
        stage = record.plan.stage(one.vertex.stage)
    return Node(
        one.id,
        # What makes its rows of another task's has no data of its own.
        Role.OPERATOR if one.residual else _ROLES[kind],
        running.site(one.id),
        tuple(name for name in one.inputs if running.task(name).vertex.kind is not VertexKind.TABLE),
        combined=kind in _COMBINED and not one.residual,
        partials=stage is not None and _takes_partials(stage),
        most=BINS if stage is not None and stage.parts > 1 else 1,
        late_s=_late_s(stage, running, one),
    )


def _late_s(stage: Stage | None, running: Running, one: Deployed) -> float | None:
    """Return how long the windows of a merge are open; None where it cannot begin in the middle of its inputs."""
    if stage is None or stage.merge is None or one.vertex.kind is not VertexKind.MERGE:
        return None
    if stage.merge.takes_again or running.reads(one.id, VertexKind.TABLE):
        return None
    return stage.merge.window.total_seconds()


def _takes_partials(stage: Stage) -> bool:
    merge = stage.merge
    if merge is None or merge.sessions is not None:
        return False
    return all(view.combine_sql for view in merge.views) if merge.views else bool(merge.combine_sql)
