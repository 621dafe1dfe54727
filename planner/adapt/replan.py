"""Other plans of the same query: all its operators placed anew at once, or a task on the way that combines inputs.

What a merge of partials gives out does not depend on who has combined them before. So some of its inputs may meet in a
task between, and cross the rest of the way as one: `((A + B) + C)` in the place of `(A + B + C)`. Of all such plans
that fit, with the sites that the integer program gives them, the one of the least delay is proposed. What the task
between gives out is estimated: the merge as it runs says how much smaller all n inputs become, and k of them become
smaller in proportion to k - 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice

from planner.adapt.assign import Demand, Sites
from planner.adapt.model import Graph, Group, Links, Role
from planner.adapt.options import Action, Change, Option, Room, mapped, out_of_reach
from planner.adapt.program import Placeable, Placed, latency_s, one_by_one, place_together
from planner.adapt.traffic import Look, demand_of, sites_of
from planner.values.trees import Tree

_MOST_PLANS = 64
_MOST_PROGRAMS = 6


def replan(look: Look, room: Room, *, factor: float = 1.0) -> Option | None:
    """The plan of the least delay that fits; None: there is none, or it is the one that runs.

    Args:
        look: the query.
        room: what is left to all its operators that may move.
        factor: so many times as much as is expected has to pass.
    """
    settings = room.settings
    movable = [group for group in look.graph.groups if _moves(look.graph, group)]
    best: tuple[float, int, Option] | None = None
    share, time_s = settings.link_share, settings.program_s
    for number, plan in enumerate(_promising(_plans(look, movable, factor, room), room, share)):
        found = place_together(plan.operators, room.slots, room.links, share=share, time_s=time_s)
        if found is None or _as_it_is(look, found):
            continue
        proposal = _option(look, found, room, plan)
        delay_s = _delay_s(plan.operators, found.sites, room.links)
        if best is None or (delay_s, number) < best[:2]:
            best = (delay_s, number, proposal)
    return best[2] if best else None


@dataclass(frozen=True, slots=True)
class _Plan:
    """Operators of a query before they are placed."""

    operators: list[Placeable]
    between: Group | None = None
    """The one that combines on the way; None: none does."""
    part: tuple[str, ...] = ()
    """The sites whose partials meet there."""

    @property
    def note(self) -> str:
        return f"{' and '.join(self.part)} combined on the way" if self.part else ""


def _promising(plans: Iterable[_Plan], room: Room, share: float) -> list[_Plan]:
    """The plans that have the least delay when their operators are placed one by one: each program takes its time."""
    ranked = []
    for number, plan in enumerate(plans):
        found = one_by_one(plan.operators, room.slots, room.links, share=share)
        delay_s = math.inf if found is None else _delay_s(plan.operators, found.sites, room.links)
        ranked.append((delay_s, number, plan))
    ranked.sort(key=lambda one: one[:2])
    return [plan for _, _, plan in ranked[:_MOST_PROGRAMS]]


def _plans(look: Look, movable: list[Group], factor: float, room: Room) -> Iterator[_Plan]:
    plain = [_placeable(look, group, movable, factor) for group in movable]
    if not plain:
        return
    yield _Plan([replace(one, barred=out_of_reach(look, one.name, room)) for one in plain])
    for place, one in enumerate(plain):
        sources = sorted(one.demand.inputs)
        tasks = look.graph.tasks(one.name)
        # Another merge follows, without state, the one that reads what is combined in another way.
        if len(sources) < 2 or not all(node.partials and node.late_s is not None for node in tasks):
            continue
        ways = (part for size in range(2, len(sources)) for part in combinations(sources, size))
        for part in islice(ways, _MOST_PLANS):
            between = _combined(one, part, _ratio(look, one))
            if between is not None:
                rest = {site: rate for site, rate in one.demand.inputs.items() if site not in part}
                merge = Placeable(one.name, one.tasks, Demand(rest, one.demand.outputs), one.feeds)
                yield _Plan([*plain[:place], between, merge, *plain[place + 1 :]], between.name, part)


def _placeable(look: Look, group: Group, movable: list[Group], factor: float) -> Placeable:
    """An operator; flows between operators that move are not part of its demand."""
    graph, tasks = look.graph, look.graph.tasks(group)
    whole = demand_of(look, group, factor=factor)
    inputs, outputs = dict(whole.inputs), dict(whole.outputs)
    feeds: dict[Group, float] = {}
    for other in movable:
        others = graph.tasks(other)
        if any(node.id in reader.inputs for node in tasks for reader in others):
            given = factor * sum(look.out_bytes_per_s(node.id) for node in tasks)
            feeds[other] = given
            for site in sites_of(others):
                outputs.pop(site, None)
        fed = [node for node in others if any(node.id in reader.inputs for reader in tasks)]
        for node in fed:
            inputs[node.site] = inputs[node.site] - factor * look.out_bytes_per_s(node.id)
    fixed = {graph.node(w).site for n in tasks for w in n.inputs if graph.node(w).group not in movable}
    ends = {n.site for n in graph.nodes if n.group not in movable and any(t.id in n.inputs for t in tasks)}
    given = factor * sum(look.out_bytes_per_s(node.id) for node in tasks)
    demand = Demand({s: inputs[s] for s in sorted(fixed)}, {s: outputs.get(s, given) for s in sorted(ends)})
    return Placeable(group, len(tasks), demand, feeds)


def _combined(one: Placeable, part: tuple[str, ...], ratio: float) -> Placeable | None:
    taken = {site: one.demand.inputs[site] for site in part}
    smaller = 1 - (1 - ratio) * (len(part) - 1) / (len(one.demand.inputs) - 1)
    if smaller >= 1:
        return None
    return Placeable((one.name[0], f"{one.name[1]}+"), 1, Demand(taken), {one.name: sum(taken.values()) * smaller})


def _ratio(look: Look, one: Placeable) -> float:
    """How large the merge's output is, of its input in bytes."""
    taken = sum(one.demand.inputs.values())
    given = sum(look.out_bytes_per_s(node.id) for node in look.graph.tasks(one.name))
    return min(1.0, given / taken) if taken > 0 else 1.0


def _moves(graph: Graph, group: Group) -> bool:
    return all(node.role is Role.OPERATOR and node.id.query == graph.query for node in graph.tasks(group))


def _as_it_is(look: Look, found: Placed) -> bool:
    return all(sites == sites_of(look.graph.tasks(group)) for group, sites in found.sites.items())


def _option(look: Look, found: Placed, room: Room, plan: _Plan) -> Option:
    changes, longest_s = [], 0.0
    for group, sites in sorted(found.sites.items()):
        tasks = look.graph.tasks(group)
        changes.append(Change(group, sites_of(tasks), sites))
        late_s = [node.late_s for node in tasks if node.late_s is not None]
        if plan.between is not None and len(late_s) == len(tasks):
            longest_s = max([longest_s, *late_s])
        else:
            longest_s = max(longest_s, mapped(look, group, sites, room.seeds).longest_s)
    tree = None
    if plan.between is not None:
        (at,) = found.sites[plan.between]
        tree = Tree({site: at for site in plan.part if site != at})
    adapt_s = room.settings.prepare_s + longest_s
    return Option(Action.REPLAN, tuple(changes), adapt_s, room.settings.link_share, note=plan.note, tree=tree)


def _delay_s(operators: list[Placeable], sites: Mapping[Group, Sites], links: Links) -> float:
    """The longest way from a fixed input to a fixed output, by latency."""
    until: dict[Group, float] = {one.name: 0.0 for one in operators}
    longest_s = 0.0
    for one in operators:
        at = sites[one.name]
        ins = [latency_s(links, source, site) for source in one.demand.inputs for site in at]
        until[one.name] = max([until[one.name], *ins])
        for other in one.feeds:
            way = max(latency_s(links, s, t) for s in at for t in sites[other])
            until[other] = max(until[other], until[one.name] + way)
        outs = [latency_s(links, site, target) for target in one.demand.outputs for site in at]
        longest_s = max([longest_s, until[one.name], *(until[one.name] + way for way in outs)])
    return longest_s
