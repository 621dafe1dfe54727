"""One round: causes of all queries, and what is done about them, one after the other over what is left.

The cheapest cure goes first (`planner.adapt.costs`; or in another order, if that is asked for), and after each the
rest is looked at anew: its slots and its shares of links, on the old way and on the new one, are taken, and a link that
it relieves needs no second cure. The answer is the same whether somebody will act on it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from planner.adapt.assign import Demand
from planner.adapt.costs import Cost, Slots, cost_of, every_s
from planner.adapt.cures import LEFT_TO_PEOPLE, Cure, catch_up, cure, needed, target
from planner.adapt.diagnose import Cause, Finding, diagnose
from planner.adapt.memory import Memory
from planner.adapt.model import Graph, Group, Links, Role, Settings
from planner.adapt.options import Option, Subject, one_less
from planner.adapt.rates import expected_in, rates
from planner.adapt.shared import shared_target, split_off, united, users, weighed
from planner.adapt.situation import Considered, Decision, Reserved, Situation, Verdict, View
from planner.adapt.traffic import Look, carried, demand_of, link_uses
from planner.values.adapting import Order
from planner.values.links import Pair

_STAYS = "the tasks there stay with their data"


@dataclass(frozen=True, slots=True)
class Round:
    """What came out of one look at all queries."""

    decisions: tuple[Decision, ...]
    """One at least for each query."""
    memory: Memory
    effects: Mapping[Group, bool]
    """Of actions before, by operator: whether they had their effect."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A cause at an operator that may be acted upon."""

    look: Look
    finding: Finding
    group: Group
    users: tuple[Look, ...] = ()
    """All queries that need the operator, where there are several."""

    @property
    def whole(self) -> Look:
        """Return the look at all that needs the operator."""
        return united(self.users, self.group) if self.users else self.look


def decide(situation: Situation, memory: Memory, settings: Settings) -> Round:
    """Decide what is to be done about all queries. Deterministic."""
    now = situation.now
    looks = tuple(_look(graph, situation, settings) for graph in situation.graphs)
    free = any(number > 0 for number in situation.slots.values())
    causes = [diagnose(one.graph, one.found, one.expected, settings, free_slots=free) for one in looks]
    memory = memory.with_figures(situation.links.capacity, now, settings).of({one.graph.query for one in looks})
    planned = _planned(looks, causes, memory.planned_with(settings))
    decisions: list[Decision] = []
    cases: list[_Case] = []
    for look, found in zip(looks, causes, strict=True):
        query = look.graph.query
        if states := [one for one in found if one.cause.state]:
            decisions += [Decision(query, now, Verdict.UNJUDGED, _state_text(one), one) for one in states]
            continue
        if not found:
            decisions.append(Decision(query, now, Verdict.HEALTHY, "it keeps up with its sources"))
        for one in found:
            group = target(look.graph, one) or _shared(looks, look, one)
            if one.cause in LEFT_TO_PEOPLE or group is None:
                other = shared_target(look.graph, one)
                stays = f"it shares {other[1]} of {other[0]}, which has no adaptation" if other else _STAYS
                why = LEFT_TO_PEOPLE.get(one.cause, stays)
                decisions.append(Decision(query, now, Verdict.NONE, why, one))
            else:
                sharing = users(looks, group)
                cases.append(_Case(look, one, group, sharing if len(sharing) > 1 else ()))
    cases = [*cases, *_next_ones(looks, cases, settings)]
    judged = memory.judged([(case.group, case.finding) for case in cases], now, settings)
    view = View(looks, Links(planned, situation.links.latency_s), situation.slots, _reserved(judged.memory), settings)
    acted, memory = _cured(situation, view, _distinct(cases), judged.memory)
    decisions += acted
    spare, memory = _spared(situation, view, causes, memory)
    return Round(tuple(sorted([*decisions, *spare], key=lambda d: d.query)), memory, judged.effects)


def _look(graph: Graph, situation: Situation, settings: Settings) -> Look:
    found = rates(graph, situation.before, situation.after, settings)
    return Look(graph, found, expected_in(graph, found))


def _planned(
    looks: tuple[Look, ...], causes: list[tuple[Finding, ...]], figures: Mapping[Pair, float]
) -> Mapping[Pair, float]:
    """What links have: one with a queue before it has no more than it carried."""
    found = dict(figures)
    for one in (finding for each in causes for finding in each if finding.cause is Cause.LINK):
        link = (one.site, one.to_site)
        found[link] = min(found.get(link, 0.0), carried(looks, link))
    return found


def _shared(looks: tuple[Look, ...], look: Look, finding: Finding) -> Group | None:
    """Return the operator of another query to act upon, if that query is looked at, too."""
    group = shared_target(look.graph, finding)
    return group if group is not None and any(one.graph.query == group[0] for one in looks) else None


def _state_text(finding: Finding) -> str:
    return f"task {finding.task} is {finding.cause.value}: nothing can be said of the query"


def _reserved(memory: Memory) -> Reserved:
    reserved = Reserved()
    seen: list[Option] = []
    for one in memory.awaited.values():
        if not any(one.option is option for option in seen):
            seen.append(one.option)
            reserved = reserved.plus(one.option)
    return reserved


def _distinct(cases: list[_Case]) -> list[_Case]:
    """One for each operator: where several causes are at one, that with the largest deficit. Of a shared one, too."""
    best: dict[Group, _Case] = {}
    for case in cases:
        known = best.get(case.group)
        if known is None or _worse(case.finding) > _worse(known.finding):
            best[case.group] = case
    return list(best.values())


def _worse(finding: Finding) -> tuple[float, float]:
    return finding.deficit, finding.queued_s


def _next_ones(looks: tuple[Look, ...], cases: list[_Case], settings: Settings) -> Iterator[_Case]:
    """Operators behind a bottleneck of computing, or before it, that would be the next: all are scaled in one step."""
    for look in looks:
        slow = [case for case in cases if case.look is look and case.finding.cause is Cause.COMPUTE]
        if not slow:
            continue
        wanted = needed(look, settings.load)
        for group in look.graph.groups:
            nodes = look.graph.tasks(group)
            known = any(case.group == group for case in cases)
            fixed = nodes[0].role is not Role.OPERATOR or nodes[0].id.query != look.graph.query
            if fixed or known or wanted.get(group, 0) <= len(nodes):
                continue
            worst = slow[0].finding
            told = f"it would be slow next: {wanted[group]} tasks are needed for what is to come"
            finding = replace(worst, task=nodes[0].id, site=nodes[0].site, seen=told)
            yield _Case(look, finding, group)


def _cured(situation: Situation, view: View, cases: list[_Case], memory: Memory) -> tuple[list[Decision], Memory]:
    decisions: list[Decision] = []
    waiting = []
    for case in cases:
        if why := _left_alone(situation, case, memory, view.settings):
            decisions.append(_decision(situation, case, Verdict.NONE, why))
        else:
            waiting.append(case)
    relieved: dict[Pair, str] = {}
    done: list[Option] = []
    costs: dict[Group, Cost] = {}
    while waiting:
        tried = [(case, _tried(situation, view, memory, case)) for case in waiting]
        able = [(c, found, found.chosen) for c, found in tried if found.chosen is not None]
        if not able:
            decisions += [_decision(situation, c, Verdict.NONE, f.reason, f.considered) for c, f in tried]
            break
        costs |= {c.group: _cost(situation, view, memory, c, option) for c, _, option in able}
        case, found, chosen = min(able, key=lambda a: _rank(view.settings, a[0], costs[a[0].group]))
        acted = _decision(situation, case, Verdict.ACT, found.reason, found.considered)
        decisions.append(replace(acted, cost=costs[case.group]))
        memory = memory.acted(chosen, case.finding, situation.now, view.settings)
        view = replace(view, reserved=view.reserved.plus(chosen))
        done.append(chosen)
        relieved |= _relieved(view, case, done, relieved)
        waiting = [other for other in waiting if other is not case]
        for other in list(waiting):
            link = (other.finding.site, other.finding.to_site)
            if other.finding.cause is Cause.LINK and link in relieved:
                waiting.remove(other)
                why = f"what is done about {relieved[link]} leaves room for it"
                spared = _decision(situation, other, Verdict.NONE, why)
                decisions.append(replace(spared, cost=costs.get(other.group)))
    return decisions, memory


def _tried(situation: Situation, view: View, memory: Memory, case: _Case) -> Cure:
    """Return what to do about a case; of an operator that is shared, for all queries or for the case's alone."""
    look, group = case.whole, case.group
    keep = cure(view, look, case.finding, group)
    if not case.users or case.look.graph.query == group[0]:
        return keep
    split = split_off(view, case.look, look, group, factor=catch_up(case.finding, view.settings))
    link = (case.finding.site, case.finding.to_site)
    if split is None or split.flows.get(link, 0.0) >= carried(view.looks, link) > 0:
        return keep
    kept = None if keep.chosen is None else _cost(situation, view, memory, case, keep.chosen)
    return weighed(keep, split, kept, _cost(situation, view, memory, case, split))


def _cost(situation: Situation, view: View, memory: Memory, case: _Case, option: Option) -> Cost:
    """Return what a cure costs, with the slots and links as they are."""
    free = {site: number - view.reserved.slots.get(site, 0) for site, number in view.slots.items()}
    look, settings = case.whole, view.settings
    changed = {change.group for change in option.changes}.intersection(look.graph.groups)
    demands = {group: demand_of(look, group) for group in changed}
    if option.shared is not None:
        both = demand_of(look, option.shared).inputs, demand_of(case.look, option.shared).outputs
        demands = {option.changes[0].group: Demand(*both)}
    others = [one for one in case.users if one is not case.look] if option.shared is None else []
    often = {
        one.graph.query: every_s(memory.adapted.get(one.graph.query, ()), horizon_s=settings.horizon_s)
        for one in (case.look, *others)
    }
    return cost_of(
        option,
        demands,
        {site: Slots(situation.all_slots.get(site, number), number) for site, number in free.items()},
        view.links,
        every_s=often.pop(case.look.graph.query),
        others_every_s=tuple(often.values()),
        alpha=settings.alpha,
    )


def _rank(settings: Settings, case: _Case, cost: Cost) -> tuple[float, float, Group]:
    """Return by what the first is taken; those that were found first are at the front as they are."""
    match settings.order:
        case Order.NAKO:
            return cost.total, -case.finding.deficit, case.group
        case Order.SLO:
            return -case.finding.queued_s, -case.finding.deficit, case.group
        case Order.FIRST:
            return 0.0, 0.0, ("", "")


def _left_alone(situation: Situation, case: _Case, memory: Memory, settings: Settings) -> str:
    """Why nothing is even looked for; empty: it is."""
    graph, group, finding = case.look.graph, case.group, case.finding
    beside = {graph.node(w).group for n in graph.tasks(group) for w in n.inputs}
    beside |= {reader.group for n in graph.tasks(group) for reader in graph.readers(n.id)}
    if group in situation.moving or not situation.moving.isdisjoint(beside):
        return "it, or one beside it, is in a handover"
    if group in memory.awaited:
        return "the effect of what was decided before is awaited"
    if memory.quiet(group, situation.now):
        return "what was decided before had too little effect: it is left alone for a while"
    gain_s = finding.deficit * settings.horizon_s + finding.queued_s
    if gain_s < settings.least_gain_s:
        return f"it would gain {gain_s:.1f} s of delay in {settings.horizon_s:.0f} s, too little"
    return ""


def _relieved(view: View, case: _Case, done: list[Option], known: Mapping[Pair, str]) -> Mapping[Pair, str]:
    """Links with enough room for what is left on them once all actions are done; the last one is the case's."""
    uses = dict(link_uses(view.looks, but=[change.group for option in done for change in option.changes]))
    for option in done:
        for pair, rate in option.flows.items():
            uses[pair] = uses.get(pair, 0.0) + rate
    return {
        pair: f"{case.group[1]} of {case.group[0]}"
        for pair, whole in view.links.capacity.items()
        if pair not in known and uses.get(pair, 0.0) < view.settings.link_share * whole
    }


def _decision(
    situation: Situation,
    case: _Case,
    verdict: Verdict,
    reason: str,
    considered: tuple[Considered, ...] = (),
) -> Decision:
    finding, expected = case.finding, ""
    if verdict is Verdict.ACT:
        expected = f"{finding.expected_per_s:.0f} rows/s pass, in the place of {finding.passed_per_s:.0f}"
    query = case.look.graph.query
    return Decision(query, situation.now, verdict, reason, finding, considered, expected)


def _spared(
    situation: Situation, view: View, causes: list[tuple[Finding, ...]], memory: Memory
) -> tuple[list[Decision], Memory]:
    """Operators of healthy queries that have done with a task less for long enough."""
    now, settings = situation.now, view.settings
    since, decisions = {}, []
    for look, found in zip(view.looks, causes, strict=True):
        for group in look.graph.groups if not found else ():
            less = _one_less(view, look, group)
            if less is None or group in memory.awaited or group in situation.moving or memory.quiet(group, now):
                continue
            since[group] = memory.spare_since.get(group, now)
            if (now - since[group]).total_seconds() < settings.scale_in_s:
                continue
            node = look.graph.tasks(group)[0]
            seen = f"a task less would have been enough for {settings.scale_in_s:.0f} s"
            finding = Finding(Cause.SPARE, node.id, node.site, seen=seen)
            reason = "the rest has compute and bandwidth to spare"
            decisions.append(
                Decision(look.graph.query, now, Verdict.ACT, reason, finding, (Considered(less),), "a slot is free")
            )
            memory = memory.acted(less, finding, now, settings)
            view = replace(view, reserved=view.reserved.plus(less))
    return decisions, replace(memory, spare_since={g: at for g, at in since.items() if g not in memory.awaited})


def _one_less(view: View, look: Look, group: Group) -> Option | None:
    tasks, settings = look.graph.tasks(group), view.settings
    fixed = tasks[0].role is not Role.OPERATOR or tasks[0].id.query != look.graph.query
    if fixed or len(tasks) < 2:
        return None
    if any(node.id not in look.expected or not look.found.tasks[node.id].condition.usable for node in tasks):
        return None
    if needed(look, settings.scale_in_load).get(group, len(tasks)) >= len(tasks):
        return None
    return one_less(Subject(look, group, demand_of(look, group)), view.room(look, (group,)))
