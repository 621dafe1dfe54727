"""Decides about a query whose way leads through an operator that it shares: all queries go on with the operator
elsewhere (*keep*), or this one alone with a task of its own (*split*).

Nako, section 5.4 of the source: keeping costs the overhead of every query that shares it; splitting costs that of one
query, a slot, and inputs that cross links twice from then on. The cheaper one is taken. Where the source suspends
queries, here the overhead is the time of the handover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.adapt.assign import Demand, assign, flows_of, overload
from planner.adapt.costs import Cost
from planner.adapt.cures import Cure
from planner.adapt.diagnose import Cause, Finding
from planner.adapt.model import Graph, Group, Node, Role
from planner.adapt.options import Action, Change, Option
from planner.adapt.rates import Rates
from planner.adapt.situation import Considered, View
from planner.adapt.traffic import Look, demand_of
from planner.graph.ids import TaskId


def shared_target(graph: Graph, finding: Finding) -> Group | None:
    """Return the other query's operator at an end of the link; None: there is none, or it is no link."""
    if finding.cause is not Cause.LINK:
        return None
    node = graph.node(finding.task)
    ends = (node, *(graph.node(writer) for writer in node.inputs))
    link = (finding.site, finding.to_site)
    for end in ends:
        beside = end is node or (end.site, node.site) == link
        if beside and end.role is Role.OPERATOR and end.id.query != graph.query:
            return end.group
    return None


def users(looks: Sequence[Look], group: Group) -> tuple[Look, ...]:
    """Return the queries that need an operator."""
    return tuple(look for look in looks if group in look.graph.groups)


def united(looks: Sequence[Look], group: Group) -> Look:
    """Return one look at all these queries, which counts as that of the operator's own query."""
    nodes: dict[TaskId, Node] = {}
    for graph in (look.graph for look in looks):
        # Only the query that brought a task knows what can be done with it. What combines stays while queries share.
        for node in graph.nodes:
            if node.id not in nodes or node.id.query == graph.query:
                nodes[node.id] = replace(node, partials=False)
    tasks = {name: one for look in looks for name, one in look.found.tasks.items()}
    channels = {edge: one for look in looks for edge, one in look.found.channels.items()}
    expected = {name: rate for look in looks for name, rate in look.expected.items()}
    return Look(Graph(group[0], tuple(nodes.values())), Rates(tasks, channels), expected)


def own_demand(user: Look, shared: Look, group: Group, *, factor: float = 1.0) -> Demand:
    """Return what a query's own task would take and give: all inputs of the shared one, and this query's results."""
    return Demand(demand_of(shared, group, factor=factor).inputs, demand_of(user, group, factor=factor).outputs)


def split_off(view: View, user: Look, shared: Look, group: Group, *, factor: float = 1.0) -> Option | None:
    """Return how one query goes on with a task of its own in the place of an operator that it shares.

    None: no site has a slot and links for it, or the operator cannot begin in the middle of its inputs.

    Args:
        view: what there is.
        user: the query.
        shared: all queries that need the operator.
        group: the operator, which has one task.
        factor: so many times as much as is expected has to pass.
    """
    tasks = shared.graph.tasks(group)
    late_s = tasks[0].late_s
    if len(tasks) != 1 or late_s is None:
        return None
    demand = own_demand(user, shared, group, factor=factor)
    left = replace(view, looks=tuple(_without(one, group) if one is user else one for one in view.looks))
    room = left.room(user, ())
    sites = assign(demand, 1, room.slots, room.links, share=view.settings.link_share)
    if sites is None:
        return None
    return Option(
        Action.SPLIT,
        (Change((user.graph.query, group[1]), {}, sites),),
        view.settings.prepare_s + late_s,
        overload(demand, sites, room.links),
        flows_of(demand, sites),
        f"in the place of {group[1]} of {group[0]}, which {len(users(view.looks, group))} queries share",
        shared=group,
    )


def weighed(keep: Cure, split: Option, cost_of_keeping: Cost | None, cost_of_splitting: Cost) -> Cure:
    """Return the cheaper one of what would be done for all queries, if anything can be, and to split one off."""
    if keep.chosen is None or cost_of_keeping is None:
        return Cure((*keep.considered, Considered(split)), "the query alone can go another way")
    kept, apart = f"{cost_of_keeping.total:.3f}", f"{cost_of_splitting.total:.3f}"
    if cost_of_splitting.total >= cost_of_keeping.total:
        dearer = Considered(split, f"it costs {apart}, and to keep it shared {kept}")
        return Cure((*keep.considered, dearer), keep.reason)
    why = f"it costs {kept}, and to split the query off {apart}"
    against = (Considered(one.option, one.against or why) for one in keep.considered)
    return Cure((*against, Considered(split)), keep.reason)


def _without(look: Look, group: Group) -> Look:
    """Return a query that does not read an operator."""
    gone = {node.id for node in look.graph.tasks(group)}
    nodes = (replace(node, inputs=tuple(name for name in node.inputs if name not in gone)) for node in look.graph.nodes)
    return replace(look, graph=Graph(look.graph.query, tuple(nodes)))
