"""A query while its vertices are decided one by one, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import networkx

from planner.graph import operators as graph
from planner.graph.ids import TaskId, VertexId
from planner.sharing.candidates import Asked
from planner.sharing.plans import Action, Decision, Setting, SharingPlan
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import Vertex
from planner.text.spark import spark_sql
from planner.values.links import Pair


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided for a vertex, before unread vertices are removed."""

    decision: Decision
    supplier: TaskId
    """The operator that gives its output."""
    reads: tuple[TaskId, ...] = ()
    """Ids of its inputs' suppliers, or of the operator that contains it; none for a shared one."""
    residual: graph.Operator | None = None


@dataclass(slots=True)
class Draft:
    """The vertices of a new query, and what was decided for them so far."""

    query: str
    vertices: Mapping[VertexId, Vertex]
    """Each behind those it reads."""
    readers: dict[VertexId, list[VertexId]] = field(default_factory=dict)
    """By vertex; a vertex that takes results has none."""
    choices: dict[VertexId, Choice] = field(default_factory=dict)
    taken: set[TaskId] = field(default_factory=set)
    """Running operators that stand for a vertex already."""
    compared: int = 0
    """Running operators that were looked at."""

    def __post_init__(self) -> None:
        for vertex in self.vertices.values():
            for name in vertex.inputs:
                self.readers.setdefault(name, []).append(vertex.id)

    def asked(self, vertex: Vertex) -> Asked:
        """The vertex, with the rates of its inputs and the fingerprints of its readers."""
        inputs = {self.vertices[name].fingerprint: self.vertices[name].output_bytes_per_s for name in vertex.inputs}
        readers = frozenset(self.vertices[name].fingerprint for name in self.readers.get(vertex.id, ()))
        return Asked(vertex, inputs, readers)

    def inputs(self, vertex: Vertex) -> list[tuple[str, float]]:
        """Site and bytes per second of each vertex that it reads; these are decided."""
        return [(self.choices[name].decision.site, self.vertices[name].output_bytes_per_s) for name in vertex.inputs]

    def has_moved(self, vertex: Vertex) -> bool:
        """Whether an input is made elsewhere than the caller thought when it placed the vertex."""
        made = [(self.vertices[name].pinned, self.choices[name].decision.site) for name in vertex.inputs]
        return any(home is not None and home != site for home, site in made)

    def ends(self) -> list[str]:
        """The sites where the results are wanted."""
        ends = [v.pinned for v in self.vertices.values() if v.id not in self.readers and v.pinned is not None]
        return sorted(set(ends))


def plan_of(draft: Draft, setting: Setting) -> SharingPlan:
    """The plan of a query whose vertices are all decided, without the vertices that nothing reads."""
    needed = _needed(draft)
    decisions, deployed, used = [], [], set()
    for name, choice in draft.choices.items():
        decision, vertex = choice.decision, draft.vertices[name]
        if name not in needed and decision.action is Action.SHARED:
            decision = replace(decision, edges=())
        elif name not in needed:
            reason = "nothing reads it: all that would is shared, or has it from another"
            decision = replace(decision, action=Action.UNNEEDED, operator=None, reason=reason, edges=())
        elif choice.reads or decision.action is not Action.SHARED:
            residual = "" if choice.residual is None else spark_sql(choice.residual)
            deployed.append(Deployed(choice.supplier, vertex, choice.reads, residual))
            used |= {read for read in choice.reads if read.query != draft.query}
        else:
            used.add(choice.supplier)
        decisions.append(decision)
    return SharingPlan(
        query=draft.query,
        sharing=setting.sharing,
        decisions=tuple(decisions),
        deployed=tuple(deployed),
        used=tuple(sorted(used)),
        traffic=_traffic(draft, deployed, setting.running),
        compared=draft.compared,
    )


def _needed(draft: Draft) -> set[VertexId]:
    """Vertices whose output is read, from the results back."""
    own = {choice.supplier: name for name, choice in draft.choices.items()}
    flow = networkx.DiGraph()
    flow.add_nodes_from(draft.vertices)
    for name, choice in draft.choices.items():
        flow.add_edges_from((own[read], name) for read in choice.reads if read in own)
    ends = {name for name in draft.vertices if name not in draft.readers}
    return ends.union(*(networkx.ancestors(flow, end) for end in ends))


def _traffic(draft: Draft, deployed: Sequence[Deployed], running: Running) -> dict[Pair, float]:
    """Each channel once for each site that does not receive it already."""
    new = {one.id: one for one in deployed}
    pulled: set[tuple[TaskId, str]] = set()
    traffic: dict[Pair, float] = {}
    for one in deployed:
        site = draft.choices[one.vertex.id].decision.site
        for name in one.inputs:
            home = draft.choices[name.vertex].decision.site if name in new else running.site(name)
            if home == site or (name, site) in pulled or (name not in new and running.arrives(name, site)):
                continue
            pulled.add((name, site))
            sent = new[name].vertex.output_bytes_per_s if name in new else running.output_bytes_per_s(name)
            traffic[home, site] = traffic.get((home, site), 0.0) + sent
    return traffic
