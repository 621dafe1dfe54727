"""Migrates stored queries whose plans hold the sites of their tasks: moves the sites to the placement."""

from __future__ import annotations

import json
from typing import Any

from planner.graph.ids import TaskId, VertexId
from planner.sharing.vertices import RESULTS

_ANYWHERE = ("merge", "reduce")
"""Kinds of stages whose data is not at a site of its own."""


def placed(query: str, plan: str, deployment: str) -> str:
    """The site of each task of a query, and of each task of others that it reads or that stands for one of its own.

    Args:
        query: its id.
        plan: as it was stored.
        deployment: likewise; empty where the query shares nothing.

    Returns:
        A JSON object from ids of tasks to sites; empty for a batch query.
    """
    stored = json.loads(plan)
    if stored.get("batch") is not None:
        return "{}"
    if deployment:
        shared = json.loads(deployment)
        return json.dumps(shared.get("foreign", {}) | {one["id"]: one["site"] for one in shared["operators"]})
    sites = {
        str(TaskId(query, stage["id"], number)): site
        for stage in stored["stages"]
        for number, site in enumerate(stage["sites"])
    }
    results = (stored["result_stage"], *stored.get("more_results", ()))
    if _sink(stored) is None:
        sites |= {str(TaskId(query, RESULTS, number)): stored["gateway"] for number in range(len(results))}
    return json.dumps(sites)


def plan_beside_placement(plan: str) -> str:
    """A stored plan without the sites of its tasks, except those that their data pins."""
    stored = json.loads(plan)
    stored["destination"] = {"site": stored.pop("gateway"), "sink": _sink(stored)}
    for stage in stored["stages"]:
        sites = stage.pop("sites")
        stage["pinned"] = [] if stage["kind"] in _ANYWHERE else sites
    batch = stored.pop("batch", None)
    if batch is not None:
        stored["sites"] = {str(VertexId(stored["result_stage"])): batch.pop("reduce_site")}
        stored |= batch
    return json.dumps(stored)


def deployment_beside_placement(deployment: str) -> str:
    """The same for a stored deployment; an empty one stays empty."""
    if not deployment:
        return ""
    stored = json.loads(deployment)
    operators = stored.pop("operators")
    for one in operators:
        del one["site"]
    for vertex in (*stored["vertices"], *(one["vertex"] for one in operators)):
        vertex["pinned"] = vertex.pop("site")
    stored.pop("foreign", None)
    return json.dumps(stored | {"deployed": operators, "wanted": stored.pop("sites")})


def _sink(plan: dict[str, Any]) -> str | None:
    return next((stage["relation"] for stage in plan["stages"] if stage["kind"] == "sink"), None)
