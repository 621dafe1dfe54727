"""How a query runs among others: which tasks it runs itself, and which tasks of others stand for its vertices.

What is decided by `schedule.share` becomes a value that can be stored with the query, and changed when an operator that
was to be shared turns out to be out of reach: `taken_back` lets the query run its own instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import PhysicalPlan
from planner.sharing.explain import sharing_notes
from planner.sharing.forms import digest
from planner.sharing.modes import Sharing
from planner.sharing.plans import Action, SharingPlan
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import RESULTS, Vertex, VertexKind

_KINDS = frozenset(kind.value for kind in VertexKind)


class Start(Enum):
    """Where a query may begin to read an operator that ran before it."""

    HISTORY = "history"
    """At the task's first row; a task that has evicted its first rows is not shared."""
    NEXT_WINDOW = "next-window"
    """At the first window that is complete; without windows, at the first row that is kept."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What one query runs and shares."""

    sharing: Sharing
    vertices: tuple[Vertex, ...]
    """All of the query, each behind those it reads, without forms."""
    deployed: tuple[Deployed, ...]
    """The vertices that it runs itself, its results included, each behind those it reads."""
    stands: Mapping[VertexId, TaskId] = field(default_factory=dict)
    """Tasks of other queries, by the vertex that each stands for."""
    wanted: Mapping[VertexId, str] = field(default_factory=dict)
    """Where each vertex was to run when this was decided; for a task, its placement counts."""
    start: Start = Start.HISTORY
    notes: Mapping[VertexId, str] = field(default_factory=dict)
    """By vertex, what became of it and why, for people."""
    wan_bytes_per_s: float = 0.0
    """What the query was expected to add to all links."""
    held: tuple[TaskId, ...] = ()
    """Tasks of others that have to stay because a handover needs them."""

    @property
    def used(self) -> tuple[TaskId, ...]:
        """Ids of the tasks of others that its own read; sorted."""
        own = {one.id for one in self.deployed}
        return tuple(sorted({name for one in self.deployed for name in one.inputs} - own))


@dataclass(frozen=True, slots=True)
class Change:
    """What a query is to run from now on, decided on one version of what runs."""

    version: int
    """Of the `Running` that it was decided on."""
    plan: PhysicalPlan
    deployment: Deployment | None
    """None: the query shares nothing."""
    placement: Mapping[TaskId, str]
    """The sites of the query's own tasks."""
    reason: str = ""
    """For people; empty for a query that is new."""
    anew: frozenset[TaskId] = frozenset()
    """Places in which other tasks go on with the work of those that ran: what these have counted stays."""


def told_apart(vertices: Sequence[Vertex], query: str) -> tuple[Vertex, ...]:
    """Vertices whose fingerprints are equal only where one channel can be read in the place of the other as it is.

    `vertices_of` takes columns of other names, or in another order, for the same. Results are each query's own: the
    gateway's router receives a channel once, whoever keeps it.
    """
    return tuple(replace(vertex, fingerprint=_exact(vertex, query)) for vertex in vertices)


def _exact(vertex: Vertex, query: str) -> str:
    if vertex.kind in (VertexKind.RESULTS, VertexKind.SINK):
        return digest([vertex.fingerprint, query])
    terms = [(name, term.label) for name, term in vertex.form.columns] if vertex.form is not None else []
    return digest([vertex.fingerprint, *vertex.columns, *vertex.types, *(part for term in terms for part in term)])


def deployment_of(
    plan: SharingPlan, vertices: Sequence[Vertex], running: Running, *, start: Start = Start.HISTORY
) -> Deployment:
    """What a plan comes to; results that would miss rows of a running task have the query run its own.

    Args:
        plan: how the vertices are shared.
        vertices: those that were planned.
        running: what they were planned among.
        start: where the query may begin.
    """
    foreign = {name for one in plan.deployed for name in one.inputs if name.query != plan.query}
    deployment = Deployment(
        sharing=plan.sharing,
        vertices=tuple(_stored(vertex) for vertex in vertices),
        deployed=tuple(replace(one, vertex=_stored(one.vertex)) for one in plan.deployed),
        stands=_standing(plan, running.with_inputs(foreign), running),
        wanted={decision.vertex: decision.site for decision in plan.decisions},
        start=start,
        notes=sharing_notes(plan),
        wan_bytes_per_s=plan.wan_bytes_per_s,
    )
    if start is Start.HISTORY:
        missed = _without_results(deployment, running)
        deployment = taken_back(deployment, plan.query, missed, why="no gateway keeps all of its results")
    shareable = start is Start.HISTORY and plan.sharing.rules.operators
    return deployment if shareable else _kept_apart(deployment, plan.query)


def sites_of(deployment: Deployment, placement: Mapping[TaskId, str]) -> Mapping[TaskId, str]:
    """The site of each of the query's own tasks: as placed, or where a new one has to be or is wanted."""
    return {one.id: placement.get(one.id) or _site(one, deployment) for one in deployment.deployed}


def _site(one: Deployed, deployment: Deployment) -> str:
    """Where a new task goes; what it makes of another task's output does not have to be where the data is."""
    pinned = None if one.residual else one.vertex.pinned
    return pinned or deployment.wanted[one.vertex.id]


def _standing(plan: SharingPlan, needed: Collection[TaskId], running: Running) -> dict[VertexId, TaskId]:
    """Operators of others by the vertex that each stands for, of those that the query really needs.

    Where nobody of the query reads a shared vertex, one of those that do may read another operator in its place.
    """
    found = {}
    for decision in plan.decisions:
        if decision.operator is not None and decision.action is Action.SHARED:
            same = (decision.operator, *running.same(running.task(decision.operator).fingerprint))
            name = next((name for name in same if name in needed), None)
            if name is not None:
                found[decision.vertex] = name
    return found


def _stored(vertex: Vertex) -> Vertex:
    return replace(vertex, form=None)


def _without_results(deployment: Deployment, running: Running) -> frozenset[TaskId]:
    """Tasks of others that results are made of, although no gateway has kept all of their output."""
    names = {
        name
        for one in deployment.deployed
        if one.vertex.kind is VertexKind.RESULTS
        for name in one.inputs
        if name.query != one.id.query
    }
    kept = {
        name
        for other in running.deployed
        if other.vertex.kind is VertexKind.RESULTS and not is_apart(other)
        for name in other.inputs
    }
    return frozenset(names - kept)


def _kept_apart(deployment: Deployment, query: str) -> Deployment:
    """Gives vertices fingerprints of their own, for a query that shares nothing or does not begin at the first row."""
    vertices = {v.id: replace(v, fingerprint=apart(query, v.id)) for v in deployment.vertices}
    deployed = tuple(replace(one, vertex=vertices[one.vertex.id]) for one in deployment.deployed)
    return replace(deployment, vertices=tuple(vertices.values()), deployed=deployed)


def apart(query: str, vertex: VertexId) -> str:
    """A fingerprint that no other vertex can have."""
    return digest([query, str(vertex)])


def is_apart(one: Deployed) -> bool:
    """Whether no query may share a task of that fingerprint, or compute anything from its output."""
    return one.fingerprint == apart(one.id.query, one.vertex.id)


def taken_back(deployment: Deployment, query: str, late: Collection[TaskId], *, why: str) -> Deployment:
    """The query runs its own tasks in the place of these tasks of others, and of what it makes of their output.

    What these read is shared on: where that is out of reach as well, it is taken back in its turn. `why` is for people.
    """
    if not late:
        return deployment
    vertices = {vertex.id: vertex for vertex in deployment.vertices}
    stands = {vertex: name for vertex, name in deployment.stands.items() if name not in late}
    derived = [one for one in deployment.deployed if one.residual and set(late) & set(one.inputs)]
    gone = {*late, *(one.id for one in derived)}
    own = {
        one.vertex.id: _with_own(one, vertices[one.vertex.id], gone, query)
        for one in deployment.deployed
        if one.id not in gone
    }
    suppliers = {**stands, **{vertex: one.id for vertex, one in own.items()}}
    own |= {one.vertex.id: _whole(one.vertex, suppliers, query) for one in derived}
    todo = list(own.values())
    while todo:
        for name in todo.pop().inputs:
            vertex = name.vertex
            if name.query == query and vertex not in own:
                own[vertex] = _whole(vertices[vertex], suppliers, query)
                todo.append(own[vertex])
    notes = {
        vertex: f"{vertex} at {vertices[vertex].pinned or deployment.wanted[vertex]}: not shared with {name}, {why}"
        for vertex, name in (*deployment.stands.items(), *((one.vertex.id, one.inputs[0]) for one in derived))
        if name in late
    }
    whole = tuple(own[name] for name in vertices if name in own)
    return replace(deployment, deployed=whole, stands=stands, notes={**deployment.notes, **notes})


def _with_own(one: Deployed, vertex: Vertex, gone: Collection[TaskId], query: str) -> Deployed:
    """The vertex, reading the query's own tasks instead of these."""
    if one.residual:
        return one
    pairs = zip(vertex.inputs, one.inputs, strict=True)
    return replace(one, inputs=tuple(TaskId.of(query, own) if name in gone else name for own, name in pairs))


def _whole(vertex: Vertex, suppliers: Mapping[VertexId, TaskId], query: str) -> Deployed:
    """The query's own task for a whole vertex; it reads the known suppliers of its inputs."""
    inputs = tuple(suppliers.get(name, TaskId.of(query, name)) for name in vertex.inputs)
    return Deployed(TaskId.of(query, vertex.id), vertex, inputs)


def deployment_lines(deployment: Deployment) -> tuple[str, ...]:
    """Lines for people: what became of each vertex, and the SQL of each residual."""
    head = f"Sharing ({deployment.sharing.value}): {deployment.wan_bytes_per_s:.0f} bytes/s more over the WAN"
    if deployment.start is Start.NEXT_WINDOW and deployment.used:
        head += "; begins in the middle, with the first window that is whole"
    residuals = {o.vertex.id: f"\n  by {o.residual}" for o in deployment.deployed if o.residual}
    notes = (note + residuals.get(vertex, "") for vertex, note in deployment.notes.items())
    return (head, *(f"  {line}" for note in notes for line in note.splitlines()))


def deployment_json(deployment: Deployment, placement: Mapping[TaskId, str]) -> dict[str, Any]:
    """The same as plain values for JSON; rates are bytes per second.

    Args:
        deployment: what a query runs and shares.
        placement: where its own tasks are, and those of others.
    """
    own = {one.vertex.id: one for one in deployment.deployed}
    derived = {name: one for name, one in own.items() if one.residual}
    others = {**deployment.stands, **{name: one.inputs[0] for name, one in derived.items()}}
    tasks = {**deployment.stands, **{name: one.id for name, one in own.items()}}
    sites = {**deployment.wanted, **{name: placement[task] for name, task in tasks.items() if task in placement}}
    return {
        "mode": deployment.sharing.value,
        "start": deployment.start.value,
        "wan_bytes_per_s": deployment.wan_bytes_per_s,
        "operators": [
            {
                "operator": str(vertex),
                "site": sites[vertex],
                "runs": vertex in own,
                "with": str(others[vertex]) if vertex in others else None,
                "query": others[vertex].query if vertex in others else None,
                "residual": derived[vertex].residual if vertex in derived else None,
                "reason": note,
            }
            for vertex, note in deployment.notes.items()
        ],
    }


def known(plan: PhysicalPlan) -> bool:
    """Whether all of its stages are of kinds whose tasks other queries may use."""
    return all(stage.kind.value in _KINDS for stage in plan.stages)


def alone(plan: PhysicalPlan, query: str) -> tuple[Deployed, ...]:
    """What runs of a query that shares nothing, each behind those it reads; none where not all are `known`."""
    deployed: list[Deployed] = []
    if not known(plan):
        return ()
    for stage in plan.stages:
        for name, site in zip(stage.vertices, stage.homes, strict=True):
            inputs = tuple(
                made.id
                for item in stage.inputs
                for made in deployed
                if made.id.stage == item.stage and (not item.same_site or made.vertex.pinned == site)
            )
            deployed.append(_alone(query, name, VertexKind(stage.kind.value), site, inputs))
    if plan.destination.sink is None:
        for number, stage_id in enumerate(plan.result_stages):
            made = tuple(one.id for one in deployed if one.id.stage == stage_id)
            name = VertexId(RESULTS, number)
            deployed.append(_alone(query, name, VertexKind.RESULTS, plan.destination.site, made))
    return tuple(deployed)


def _alone(query: str, name: VertexId, kind: VertexKind, site: str | None, inputs: tuple[TaskId, ...]) -> Deployed:
    vertex = Vertex(name, kind, apart(query, name), tuple(task.vertex for task in inputs), pinned=site)
    return Deployed(TaskId.of(query, name), vertex, inputs)


def placed_alone(plan: PhysicalPlan, query: str) -> Mapping[TaskId, str]:
    """Where what runs of a query that shares nothing is, as its plan wants it.

    Raises:
        KeyError: the plan was accepted before, and says no more where it is.
    """
    return {one.id: one.vertex.pinned or plan.sites[one.vertex.id] for one in alone(plan, query)}
