"""Queries that share what runs, as the master decides it."""

from __future__ import annotations

from master.queries.registry import QueryRegistry
from planner.graph.plan import PhysicalPlan
from planner.sharing.deployment import Change, deployment_of, sites_of, told_apart
from planner.sharing.modes import Sharing
from planner.sharing.plans import Setting
from planner.sharing.schedule import share
from planner.sharing.vertices import vertices_of
from planner.sharing.wan import Wan
from tests.unit.master.build import CATALOG, TOPOLOGY

RATES = {("clicks", "us"): 100.0, ("clicks", "eu"): 50.0, ("merge", ""): 10.0}


def shared(queries: QueryRegistry, plan: PhysicalPlan, query: str) -> Change:
    """Return what a new query runs and shares of that plan."""
    running = queries.snapshots.live
    vertices = told_apart(vertices_of(plan, CATALOG.relations, RATES, owner=query, gateway="hub"), query)
    setting = Setting(running, Wan(TOPOLOGY), frozenset(TOPOLOGY.sites), Sharing.SANA, placed=plan.sites)
    deployment = deployment_of(share(query, vertices, setting), vertices, running)
    return Change(running.version, plan, deployment, sites_of(deployment, {}))
