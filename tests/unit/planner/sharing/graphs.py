"""Queries as graphs of vertices with rates given by hand, for the tests of the algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.graph.ids import VertexId
from planner.sharing.modes import Goal, Sharing
from planner.sharing.plans import Setting, SharingPlan
from planner.sharing.running import MutableRunning
from planner.sharing.schedule import deploy, share
from planner.sharing.vertices import Vertex, VertexKind
from planner.sharing.wan import Wan
from planner.values.topology import Topology

MB = 1e6


def vertex(
    name: str,
    rate: float,
    *inputs: str | VertexId,
    site: str | None = None,
    kind: VertexKind = VertexKind.MERGE,
    as_: str = "",
) -> Vertex:
    """A vertex whose fingerprint is its name, or `as_`, with rates in MB/s."""
    reads = tuple(VertexId(name) if isinstance(name, str) else name for name in inputs)
    return Vertex(VertexId(name), kind, as_ or name, reads, rate * MB, site)


@dataclass
class World:
    """Queries that come one after the other."""

    topology: Topology
    spare: Mapping[tuple[str, str], float]
    sharing: Sharing = Sharing.SANA
    goal: Goal = Goal.BYTES

    def __post_init__(self) -> None:
        self.running = MutableRunning()

    def plan(self, query: str, *vertices: Vertex) -> SharingPlan:
        wan = Wan(self.topology, dict(self.spare))
        setting = Setting(self.running, wan, frozenset(self.topology.sites), self.sharing, self.goal)
        return share(query, vertices, setting)

    def submit(self, query: str, *vertices: Vertex) -> SharingPlan:
        plan = self.plan(query, *vertices)
        deploy(plan, self.running)
        return plan

    @property
    def wan_mb_per_s(self) -> float:
        return sum(self.running.traffic().values()) / MB


def sites_of(plan: SharingPlan) -> dict[str, str]:
    """Where the vertices went that are deployed, by stage."""
    return {one.vertex.stage: plan.placement[one.id] for one in plan.deployed}
