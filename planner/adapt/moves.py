"""Decides which task of an operator goes where when its tasks are re-assigned, or its query is planned anew. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.adapt.mapping import Held, map_state
from planner.adapt.model import Graph, Links, Seen
from planner.adapt.options import Action, Option
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import PhysicalPlan


def task_moves(graph: Graph, option: Option, seen: Seen, links: Links) -> Mapping[TaskId, str]:
    """The tasks that have to move, each with its new site; none, where something else has to be done.

    Args:
        graph: the query's.
        option: what is to be done.
        seen: what the tasks' states were at last.
        links: what states are sent over; the slowest transfer is as fast as can be.
    """
    if option.action not in (Action.REASSIGN, Action.REPLAN) or option.tree is not None:
        return {}
    moves: dict[TaskId, str] = {}
    for change in option.changes:
        by_name = {str(node.id): node.id for node in graph.tasks(change.group)}
        held = [Held(name, graph.node(task).site, _state_bytes(seen, task)) for name, task in by_name.items()]
        moves |= {by_name[name]: site for name, site in map_state(held, change.after, links).moves.items()}
    return moves


def with_sites(plan: PhysicalPlan, option: Option) -> PhysicalPlan:
    """Return a plan in which operators of one task that are not pinned are where an option has them."""
    chosen = {
        VertexId(change.group[1]): next(iter(change.after)) for change in option.changes if len(change.after) == 1
    }
    return replace(plan, sites={vertex: chosen.get(vertex, site) for vertex, site in plan.sites.items()})


def _state_bytes(seen: Seen, task: TaskId) -> float:
    known = seen.tasks.get(task)
    return 0.0 if known is None else known.counters.state_bytes
