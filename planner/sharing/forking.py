"""One query goes on with a task of its own in the place of one that it shares: what it runs then. Pure.

Its task reads what the shared one reads, so both have the same rows. Nobody shares it: it does not have the first rows
of the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.graph.ids import TaskId, VertexId
from planner.sharing.deployment import Deployment, apart
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import Vertex


def shared_by(deployment: Deployment, query: str, running: Running) -> Mapping[VertexId, TaskId]:
    """Return the tasks of other queries that are the same as a vertex of a query, and stand or are read for it."""
    known = {vertex.id: vertex.fingerprint for vertex in deployment.vertices}
    found = dict(deployment.stands)
    for one in deployment.deployed:
        if not one.residual:
            found |= zip(one.vertex.inputs, one.inputs, strict=True)
    return {
        vertex: task
        for vertex, task in found.items()
        if task.query != query and task in running.placement and running.task(task).fingerprint == known.get(vertex)
    }


def own_task(deployment: Deployment, query: str, place: TaskId, running: Running) -> Deployed | None:
    """Return the query's own task in the place of one that it shares; its inputs are in the order of its vertex's.

    None: the task is shared for no vertex of the query, or for several; or reads something else than the vertex does.
    """
    shared_for = shared_by(deployment, query, running)
    found = [vertex for vertex in deployment.vertices if shared_for.get(vertex.id) == place]
    if len(found) != 1:
        return None
    vertex = replace(found[0], fingerprint=apart(query, found[0].id))
    name, shared = TaskId.of(query, vertex.id), running.task(place)
    if shared.residual:
        return Deployed(name._replace(derived=True), vertex, shared.inputs, shared.residual)
    suppliers = _suppliers(deployment, vertex, shared, running)
    if suppliers.keys() != set(vertex.inputs):
        return None
    return Deployed(name, vertex, tuple(suppliers[name] for name in vertex.inputs))


def forked(deployment: Deployment, place: TaskId, own: Deployed, site: str) -> Deployment:
    """Return what a query runs once it has its own task, at that site, in the place of one that it shares.

    Args:
        deployment: what it runs now.
        place: of the shared task.
        own: by `own_task`.
        site: where it is.
    """
    vertex, query = own.vertex, own.id.query
    suppliers = {} if own.residual else dict(zip(vertex.inputs, own.inputs, strict=True))
    stands = {name: task for name, task in suppliers.items() if task.query != query}
    stands |= {name: task for name, task in deployment.stands.items() if task != place}
    readers = (_reading(one, place, own.id) for one in deployment.deployed)
    note = f"{vertex.id} at {site}: runs in the place of {place}, which was shared before"
    return replace(
        deployment,
        vertices=tuple(vertex if one.id == vertex.id else one for one in deployment.vertices),
        deployed=_behind_inputs(own, tuple(readers)),
        stands=stands,
        wanted={**deployment.wanted, vertex.id: site},
        notes={**deployment.notes, vertex.id: note},
    )


def _suppliers(deployment: Deployment, vertex: Vertex, shared: Deployed, running: Running) -> Mapping[VertexId, TaskId]:
    """The tasks that the shared one reads, by the vertices of the query that are the same."""
    read = {running.task(name).fingerprint: name for name in shared.inputs}
    known = {one.id: one.fingerprint for one in deployment.vertices}
    return {name: read[known[name]] for name in vertex.inputs if known.get(name) in read}


def _reading(one: Deployed, gone: TaskId, own: TaskId) -> Deployed:
    return replace(one, inputs=tuple(own if name == gone else name for name in one.inputs))


def _behind_inputs(own: Deployed, others: tuple[Deployed, ...]) -> tuple[Deployed, ...]:
    """All of them, each behind those it reads."""
    read = {one.id for one in others} & set(own.inputs)
    at = max((number + 1 for number, one in enumerate(others) if one.id in read), default=0)
    return (*others[:at], own, *others[at:])
