"""How a new query runs among those that run: what it shares, and where its merges go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from master.planning.settings import Settings
from master.planning.submission import Planned
from master.queries.forms import KnownForms
from master.queries.registry import QueryRegistry
from master.relations.catalog import CatalogManager
from master.sites.registry import SiteRegistry
from planner.graph.ids import VertexId
from planner.graph.plan import PhysicalPlan, StageKind
from planner.sharing.deployment import Deployment, deployment_of, known, told_apart
from planner.sharing.modes import Sharing
from planner.sharing.running import as_measured
from planner.sharing.schedule import Setting, SharingPlan, share
from planner.sharing.vertices import vertices_of
from planner.sharing.wan import wan_of
from planner.values.topology import Topology
from planner.wan.snapshot import WanSnapshot

NEW = "new"
"""Stands for the id of a query that is only explained."""


@dataclass(frozen=True, slots=True)
class DeployingParts:
    """What is known of all that runs."""

    queries: QueryRegistry
    catalog: CatalogManager
    sites: SiteRegistry
    topology: Topology
    wan: Callable[[], WanSnapshot]


class Deployer:
    """Decides at once, so that nothing ends or begins between the decision and the submission."""

    def __init__(self, parts: DeployingParts) -> None:
        self._parts = parts
        self._forms = KnownForms()

    def deploy(self, query: str, planned: Planned, settings: Settings) -> tuple[PhysicalPlan, Deployment | None]:
        """The plan with its merges where they are to run, and what is shared; None: nothing is, nor can be.

        Raises:
            PlacementError: no site that is alive can take a task.
        """
        if settings.sharing is Sharing.NET or not known(planned.plan):
            return planned.plan, None
        parts, running = self._parts, self._parts.queries.measured()
        vertices = vertices_of(
            planned.plan, planned.relations, planned.rates, owner=query, gateway=planned.plan.gateway
        )
        vertices = told_apart(vertices, query)
        reads = {vertex.reads for vertex in vertices if vertex.form is not None}
        self._forms.describe(running, parts.queries.all(), parts.catalog.snapshot, reads)
        vertices = as_measured(vertices, running)
        setting = Setting(
            running=running,
            wan=wan_of(parts.topology, parts.wan()),
            alive=parts.sites.able(),
            sharing=settings.sharing,
            placed={VertexId(s.id): s.sites[0] for s in planned.plan.stages if s.kind is StageKind.MERGE},
        )
        shared = share(query, vertices, setting)
        return _with_sites(planned.plan, shared), deployment_of(shared, vertices, running, start=settings.start)


def _with_sites(plan: PhysicalPlan, shared: SharingPlan) -> PhysicalPlan:
    sites = {decision.vertex: decision.site for decision in shared.decisions}
    stages = tuple(
        replace(stage, sites=(sites[VertexId(stage.id)],)) if stage.kind is StageKind.MERGE else stage
        for stage in plan.stages
    )
    return replace(plan, stages=stages)
