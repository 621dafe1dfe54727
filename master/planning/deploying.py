"""Deploys a new query beside those that run: what it shares with them, and where its merges go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from master.planning.settings import Settings, check_start
from master.planning.submission import Planned
from master.queries.forms import KnownForms
from master.queries.registry import QueryRegistry
from master.relations.catalog import CatalogManager
from master.sites.status import Sites
from planner.sharing.deployment import Change, deployment_of, known, placed_alone, sites_of, told_apart
from planner.sharing.modes import Sharing
from planner.sharing.plans import Setting
from planner.sharing.running import as_measured
from planner.sharing.schedule import share
from planner.sharing.vertices import vertices_of
from planner.sharing.wan import wan_of
from planner.values.topology import Topology
from planner.wan.snapshot import WanSnapshot

NEW = "new"
"""Stands for the id of a query that is only explained."""


@dataclass(frozen=True, slots=True)
class DeployingParts:
    """What the deployer reads."""

    queries: QueryRegistry
    catalog: CatalogManager
    sites: Sites
    topology: Topology
    wan: Callable[[], WanSnapshot]


class Deployer:
    """Decides synchronously, so that nothing starts or ends between the decision and the submission."""

    def __init__(self, parts: DeployingParts) -> None:
        self._parts = parts
        self._forms = KnownForms()

    def deploy(self, query: str, planned: Planned, settings: Settings) -> Change:
        """What the query will run, at which sites, and what it shares.

        Raises:
            PlacementError: no site that is alive can take a task.
            InvalidRequestError: as `check_start`.
        """
        check_start(settings, planned.plan)
        parts, plan = self._parts, planned.plan
        if settings.sharing is Sharing.NET or not known(plan):
            return Change(parts.queries.snapshots.version, plan, None, placed_alone(plan, query))
        running = parts.queries.snapshots.measured()
        vertices = vertices_of(plan, planned.relations, planned.rates, owner=query, gateway=plan.destination.site)
        vertices = told_apart(vertices, query)
        reads = {vertex.reads for vertex in vertices if vertex.form is not None}
        running = running.described(self._forms.of(running, parts.queries.all(), parts.catalog.snapshot, reads))
        vertices = as_measured(vertices, running)
        setting = Setting(
            running=running,
            wan=wan_of(parts.topology, parts.wan()),
            alive=parts.sites.able(),
            sharing=settings.sharing,
            placed=plan.sites,
        )
        shared = share(query, vertices, setting)
        deployment = deployment_of(shared, vertices, running, start=settings.start)
        sites = {d.vertex: d.site for d in shared.decisions if d.vertex in plan.sites}
        if planned.settled is not None and sites != plan.sites:
            plan = replace(planned.settled(sites), adapting=plan.adapting, degrading=plan.degrading)
        return Change(running.version, replace(plan, sites=sites), deployment, sites_of(deployment, {}))
