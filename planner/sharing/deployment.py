"""How a query runs among others: what it runs of its own, and which operators of others stand for its vertices.

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
from planner.sharing.running import Operator, Running
from planner.sharing.schedule import Action, SharingPlan
from planner.sharing.vertices import RESULTS, Vertex, VertexKind

_KINDS = frozenset(kind.value for kind in VertexKind)


class Start(Enum):
    """Where a query may begin to read an operator that ran before it."""

    HISTORY = "history"
    """At the operator's first row; one that has let go of its first rows is not shared."""
    NEXT_WINDOW = "next-window"
    """At the first window that is still whole; without windows, at the first rows that are still there."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One query's part of all that runs."""

    sharing: Sharing
    vertices: tuple[Vertex, ...]
    """All of the query, each behind those it reads, without forms."""
    operators: tuple[Operator, ...]
    """What it runs of its own, its results included, each behind those it reads."""
    stands: Mapping[VertexId, TaskId] = field(default_factory=dict)
    """Operators of other queries, by the vertex that each stands for."""
    sites: Mapping[VertexId, str] = field(default_factory=dict)
    """Of each vertex."""
    foreign: Mapping[TaskId, str] = field(default_factory=dict)
    """Sites of the operators of others."""
    start: Start = Start.HISTORY
    notes: Mapping[VertexId, str] = field(default_factory=dict)
    """By vertex, what became of it and why, for people."""
    wan_bytes_per_s: float = 0.0
    """What the query was expected to add to all links."""

    @property
    def used(self) -> tuple[TaskId, ...]:
        """Ids of the operators of others that its own read; sorted."""
        own = {operator.id for operator in self.operators}
        return tuple(sorted({name for operator in self.operators for name in operator.inputs} - own))


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
    """What a plan comes to; results that would miss rows of a running operator have the query run its own.

    Args:
        plan: how the vertices are shared.
        vertices: those that were planned.
        running: what they were planned among.
        start: where the query may begin.
    """
    foreign = {name for operator in plan.operators for name in operator.inputs if name.query != plan.query}
    stands = _standing(plan, running.with_inputs(foreign), running)
    deployment = Deployment(
        sharing=plan.sharing,
        vertices=tuple(_stored(vertex) for vertex in vertices),
        operators=tuple(replace(operator, vertex=_stored(operator.vertex)) for operator in plan.operators),
        stands=stands,
        sites={decision.vertex: decision.site for decision in plan.decisions},
        foreign={name: running.operator(name).site for name in sorted(foreign | set(stands.values()))},
        start=start,
        notes=sharing_notes(plan),
        wan_bytes_per_s=plan.wan_bytes_per_s,
    )
    if start is Start.HISTORY:
        missed = _without_results(deployment, running)
        deployment = taken_back(deployment, plan.query, missed, why="no gateway keeps all of its results")
    whole = start is Start.HISTORY and plan.sharing.rules.operators
    return deployment if whole else _kept_apart(deployment, plan.query)


def _standing(plan: SharingPlan, needed: Collection[TaskId], running: Running) -> dict[VertexId, TaskId]:
    """Operators of others by the vertex that each stands for, of those that the query really needs.

    Where nobody of the query reads a shared vertex, one of those that do may read another operator in its place.
    """
    found = {}
    for decision in plan.decisions:
        if decision.operator is not None and decision.action is Action.SHARED:
            same = (decision.operator, *running.same(running.operator(decision.operator).fingerprint))
            name = next((name for name in same if name in needed), None)
            if name is not None:
                found[decision.vertex] = name
    return found


def _stored(vertex: Vertex) -> Vertex:
    return replace(vertex, form=None)


def _without_results(deployment: Deployment, running: Running) -> frozenset[TaskId]:
    """Operators of others that results are made of, although no gateway has kept all of their output."""
    names: set[TaskId] = set()
    for operator in deployment.operators:
        if operator.vertex.kind is VertexKind.RESULTS:
            names |= {name for name in operator.inputs if name in deployment.foreign}
    kept = {
        name
        for other in running.operators
        if other.vertex.kind is VertexKind.RESULTS and not is_apart(other)
        for name in other.inputs
    }
    return frozenset(names - kept)


def _kept_apart(deployment: Deployment, query: str) -> Deployment:
    """Nobody shares with a query that shares nothing, or that began somewhere in the middle."""
    vertices = {v.id: replace(v, fingerprint=_apart(query, v.id)) for v in deployment.vertices}
    operators = tuple(replace(operator, vertex=vertices[operator.vertex.id]) for operator in deployment.operators)
    return replace(deployment, vertices=tuple(vertices.values()), operators=operators)


def _apart(query: str, vertex: VertexId) -> str:
    """A fingerprint that no other vertex has."""
    return digest([query, str(vertex)])


def is_apart(operator: Operator) -> bool:
    """Whether nobody may share an operator, nor make anything of its output."""
    return operator.fingerprint == _apart(operator.id.query, operator.vertex.id)


def taken_back(deployment: Deployment, query: str, late: Collection[TaskId], *, why: str) -> Deployment:
    """The query runs its own in the place of these operators of others, and of what it makes of their output.

    What these read is shared on: where that is out of reach as well, it is taken back in its turn. `why` is for people.
    """
    if not late:
        return deployment
    vertices = {vertex.id: vertex for vertex in deployment.vertices}
    stands = {vertex: name for vertex, name in deployment.stands.items() if name not in late}
    derived = [operator for operator in deployment.operators if operator.residual and set(late) & set(operator.inputs)]
    gone = {*late, *(operator.id for operator in derived)}
    own = {
        operator.vertex.id: _with_own(operator, vertices[operator.vertex.id], gone, query)
        for operator in deployment.operators
        if operator.id not in gone
    }
    sites = {**deployment.sites, **{v.id: v.site for v in vertices.values() if v.site is not None and v.id not in own}}
    sites |= {operator.vertex.id: operator.site for operator in own.values()}
    suppliers = {**stands, **{operator.vertex.id: operator.id for operator in own.values()}}
    own |= {operator.vertex.id: _whole(operator.vertex, suppliers, sites, query) for operator in derived}
    todo = list(own.values())
    while todo:
        for name in todo.pop().inputs:
            vertex = name.vertex
            if name.query == query and vertex not in own:
                own[vertex] = _whole(vertices[vertex], suppliers, sites, query)
                todo.append(own[vertex])
    notes = {
        vertex: f"{vertex} at {sites[vertex]}: not shared with {name}, {why}"
        for vertex, name in (*deployment.stands.items(), *((o.vertex.id, o.inputs[0]) for o in derived))
        if name in late
    }
    operators = tuple(own[name] for name in vertices if name in own)
    return replace(deployment, operators=operators, stands=stands, sites=sites, notes={**deployment.notes, **notes})


def _with_own(operator: Operator, vertex: Vertex, gone: Collection[TaskId], query: str) -> Operator:
    """An operator that reads the query's own in the place of these."""
    if operator.residual:
        return operator
    pairs = zip(vertex.inputs, operator.inputs, strict=True)
    return replace(operator, inputs=tuple(TaskId.of(query, own) if name in gone else name for own, name in pairs))


def _whole(vertex: Vertex, suppliers: Mapping[VertexId, TaskId], sites: Mapping[VertexId, str], query: str) -> Operator:
    """The query's own operator for all of a vertex; suppliers give what other vertices would, where that is known."""
    inputs = tuple(suppliers.get(name, TaskId.of(query, name)) for name in vertex.inputs)
    return Operator(TaskId.of(query, vertex.id), vertex, sites[vertex.id], inputs)


def deployment_lines(deployment: Deployment) -> tuple[str, ...]:
    """For people: what became of each vertex, and the SQL of what is made of others' output."""
    head = f"Sharing ({deployment.sharing.value}): {deployment.wan_bytes_per_s:.0f} bytes/s more over the WAN"
    if deployment.start is Start.NEXT_WINDOW and deployment.used:
        head += "; begins in the middle, with the first window that is whole"
    residuals = {o.vertex.id: f"\n  by {o.residual}" for o in deployment.operators if o.residual}
    notes = (note + residuals.get(vertex, "") for vertex, note in deployment.notes.items())
    return (head, *(f"  {line}" for note in notes for line in note.splitlines()))


def deployment_json(deployment: Deployment) -> dict[str, Any]:
    """The same as plain values for JSON; rates are bytes per second."""
    own = {operator.vertex.id: operator for operator in deployment.operators}
    derived = {name: operator for name, operator in own.items() if operator.residual}
    others = {**deployment.stands, **{name: operator.inputs[0] for name, operator in derived.items()}}
    return {
        "mode": deployment.sharing.value,
        "start": deployment.start.value,
        "wan_bytes_per_s": deployment.wan_bytes_per_s,
        "operators": [
            {
                "operator": str(vertex),
                "site": deployment.sites[vertex],
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
    """All of its stages are of kinds that run as operators: a task at each site, which others may use."""
    return all(stage.kind.value in _KINDS for stage in plan.stages)


def alone(plan: PhysicalPlan, query: str) -> tuple[Operator, ...]:
    """The operators of a query that shares nothing, each behind those it reads; none where not all are `known`."""
    operators: list[Operator] = []
    if not known(plan):
        return ()
    for stage in plan.stages:
        for number, site in enumerate(stage.sites):
            inputs = tuple(
                made.id
                for item in stage.inputs
                for made in operators
                if made.id.stage == item.stage and (not item.same_site or made.site == site)
            )
            operators.append(_alone(query, VertexId(stage.id, number), VertexKind(stage.kind.value), site, inputs))
    if plan.sink is None:
        for number, stage_id in enumerate(plan.result_stages):
            made = tuple(operator.id for operator in operators if operator.id.stage == stage_id)
            operators.append(_alone(query, VertexId(RESULTS, number), VertexKind.RESULTS, plan.gateway, made))
    return tuple(operators)


def _alone(query: str, name: VertexId, kind: VertexKind, site: str, inputs: tuple[TaskId, ...]) -> Operator:
    vertex = Vertex(name, kind, _apart(query, name), tuple(task.vertex for task in inputs), site=site)
    return Operator(TaskId.of(query, name), vertex, site, inputs)
