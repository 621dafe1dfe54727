"""One round: causes of all queries, and what is done about them, one after the other over what is left.

Which cure goes first is decided by `planner.adapt.courses`. After each the rest is looked at anew: its slots and its
shares of links, on the old way and on the new one, are taken, and a link that it relieves needs no second cure. The
answer is the same whether somebody will act on it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from planner.adapt.courses import Case, best_course
from planner.adapt.cures import LEFT_TO_PEOPLE, needed, target
from planner.adapt.diagnose import Cause, Finding, diagnose
from planner.adapt.memory import Memory
from planner.adapt.model import Graph, Group, Links, Role, Settings
from planner.adapt.options import Option, Subject, one_less
from planner.adapt.rates import expected_in, rates
from planner.adapt.shared import shared_target
from planner.adapt.situation import Considered, Decision, Reserved, Situation, Verdict, View
from planner.adapt.traffic import Look, carried, demand_of
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


def decide(situation: Situation, memory: Memory, settings: Settings) -> Round:
    """Decide what is to be done about all queries. Deterministic."""
    now = situation.now
    looks = tuple(_look(graph, situation, settings) for graph in situation.graphs)
    free = any(number > 0 for number in situation.slots.values())
    causes = [diagnose(one.graph, one.found, one.expected, settings, free_slots=free) for one in looks]
    memory = memory.with_figures(situation.links.capacity, now, settings).of({one.graph.query for one in looks})
    planned = _planned(looks, causes, memory.planned_with(settings))
    decisions: list[Decision] = []
    cases: list[Case] = []
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
                cases.append(Case.of(looks, look, one, group))
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
    for option in memory.under_way:
        reserved = reserved.plus(option)
    return reserved


def _distinct(cases: list[Case]) -> list[Case]:
    """One for each operator: where several causes are at one, that with the largest deficit. Of a shared one, too."""
    best: dict[Group, Case] = {}
    for case in cases:
        known = best.get(case.group)
        if known is None or _worse(case.finding) > _worse(known.finding):
            best[case.group] = case
    return list(best.values())


def _worse(finding: Finding) -> tuple[float, float]:
    return finding.deficit, finding.queued_s


def _next_ones(looks: tuple[Look, ...], cases: list[Case], settings: Settings) -> Iterator[Case]:
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
            yield Case.of(looks, look, finding, group)


def _cured(situation: Situation, view: View, cases: list[Case], memory: Memory) -> tuple[list[Decision], Memory]:
    decisions: list[Decision] = []
    waiting = []
    for case in cases:
        if why := _left_alone(situation, case, memory, view.settings):
            decisions.append(case.decision(situation, Verdict.NONE, why))
        else:
            waiting.append(case)
    found = best_course(situation, view, memory, waiting)
    return [*decisions, *found.decisions], found.memory


def _left_alone(situation: Situation, case: Case, memory: Memory, settings: Settings) -> str:
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
