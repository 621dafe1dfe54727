"""Decides which of several operators are acted upon, and in which order: the cheapest first, as long as any is left.

After each action the rest is looked at anew (Nako, section 5.3 of the source); what earlier looks have begun counts as
done. That order may end where slots and links are used up, and an operator is left that would have healed others. Then
it is tried what becomes of the rest when another one goes first, and the course is taken that leaves fewest, then the
one of the fewest actions, then the cheapest. The source has no such step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from planner.adapt.costs import Cost, Slots, cost_of, every_s
from planner.adapt.cures import Cure, catch_up, cure
from planner.adapt.diagnose import Cause, Finding
from planner.adapt.memory import Memory
from planner.adapt.model import Group, Settings
from planner.adapt.options import Action, Option
from planner.adapt.shared import own_demand, split_off, united, users, weighed
from planner.adapt.situation import Considered, Decision, Situation, Verdict, View
from planner.adapt.traffic import Look, carried, demand_of, link_uses
from planner.values.adapting import Order
from planner.values.links import Pair

MOST_TRIED = 8
"""With more operators, no other than the cheapest is tried first: each try looks at all of them again and again."""


@dataclass(frozen=True, slots=True)
class Case:
    """A cause at an operator that may be acted upon."""

    look: Look
    finding: Finding
    group: Group
    users: tuple[Look, ...]
    """All queries that need the operator."""
    whole: Look
    """The look at all of them together."""

    @classmethod
    def of(cls, looks: Sequence[Look], look: Look, finding: Finding, group: Group) -> Self:
        """Return the case of one query among all that are looked at."""
        sharing = users(looks, group)
        return cls(look, finding, group, sharing, united(sharing, group) if len(sharing) > 1 else look)

    def decision(
        self, situation: Situation, verdict: Verdict, reason: str, considered: tuple[Considered, ...] = ()
    ) -> Decision:
        """Return what was decided about it."""
        finding, expected = self.finding, ""
        if verdict is Verdict.ACT:
            expected = f"{finding.expected_per_s:.0f} rows/s pass, in the place of {finding.passed_per_s:.0f}"
        return Decision(self.look.graph.query, situation.now, verdict, reason, finding, considered, expected)


@dataclass(frozen=True, slots=True)
class Course:
    """A sequence of actions in one round."""

    decisions: tuple[Decision, ...]
    memory: Memory
    left: int = 0
    """The number of operators of which nothing could be done."""
    costs: tuple[float, ...] = ()
    """The cost of each action."""

    @property
    def rank(self) -> tuple[int, int, float]:
        """Return by what courses are compared: the least is best."""
        return self.left, len(self.costs), sum(self.costs)


def best_course(situation: Situation, view: View, memory: Memory, cases: Sequence[Case]) -> Course:
    """Return what to do about these operators, none of which is left alone for another reason."""
    best = _course(situation, view, memory, cases)
    one_is_enough = not best.left and len(best.costs) < 2
    if view.settings.order is not Order.NAKO or one_is_enough or not 2 <= len(cases) <= MOST_TRIED:
        return best
    begun = next((one.finding for one in best.decisions if one.verdict is Verdict.ACT), None)
    others = (case for case in cases if case.finding is not begun)
    courses = (_course(situation, view, memory, cases, first=case) for case in others)
    return min((best, *courses), key=lambda course: course.rank)


def _course(
    situation: Situation, view: View, memory: Memory, cases: Sequence[Case], first: Case | None = None
) -> Course:
    """Act upon the operators, `first` before all others if there is something to do about it."""
    decisions: list[Decision] = []
    waiting = list(cases)
    done = [one for one in memory.under_way if one.action is not Action.REPLAN]
    relieved: Mapping[Pair, str] = _relieved(view, done, "what is under way") if done else {}
    decisions += _spared(situation, waiting, relieved, {})
    costs: dict[Group, Cost] = {}
    paid: list[float] = []
    while waiting:
        if len(paid) == view.settings.most_actions:
            decisions += [c.decision(situation, Verdict.NONE, "no more is done in this round") for c in waiting]
            break
        tried = [(case, _tried(situation, view, memory, case)) for case in waiting]
        able = [(c, found, found.chosen) for c, found in tried if found.chosen is not None]
        if not able:
            decisions += [c.decision(situation, Verdict.NONE, f.reason, f.considered) for c, f in tried]
            break
        costs |= {c.group: _cost(situation, view, memory, c, option) for c, _, option in able}
        wanted = [one for one in able if one[0] is first] or able
        case, found, chosen = min(wanted, key=lambda a: _rank(view.settings, a[0], costs[a[0].group]))
        acted = case.decision(situation, Verdict.ACT, found.reason, found.considered)
        decisions.append(replace(acted, cost=costs[case.group]))
        paid.append(costs[case.group].total)
        memory = memory.acted(chosen, case.finding, situation.now, view.settings)
        view = replace(view, reserved=view.reserved.plus(chosen))
        done.append(chosen)
        why = f"what is done about {case.group[1]} of {case.group[0]}"
        relieved = {**_relieved(view, done, why), **relieved}
        waiting.remove(case)
        decisions += _spared(situation, waiting, relieved, costs)
    return Course(tuple(decisions), memory, len(waiting), tuple(paid))


def _tried(situation: Situation, view: View, memory: Memory, case: Case) -> Cure:
    """Return what to do about a case; of an operator that is shared, for all queries or for the case's alone."""
    look, group = case.whole, case.group
    keep = cure(view, look, case.finding, group)
    if case.look.graph.query == group[0]:
        return keep
    split = split_off(view, case.look, look, group, factor=catch_up(case.finding, view.settings))
    link = (case.finding.site, case.finding.to_site)
    if split is None or split.flows.get(link, 0.0) >= carried(view.looks, link) > 0:
        return keep
    kept = None if keep.chosen is None else _cost(situation, view, memory, case, keep.chosen)
    return weighed(keep, split, kept, _cost(situation, view, memory, case, split))


def _cost(situation: Situation, view: View, memory: Memory, case: Case, option: Option) -> Cost:
    """Return what a cure costs, with the slots and links as they are."""
    free = {site: number - view.reserved.slots.get(site, 0) for site, number in view.slots.items()}
    look, settings = case.whole, view.settings
    changed = {change.group for change in option.changes}.intersection(look.graph.groups)
    demands = {group: demand_of(look, group) for group in changed}
    others = [one for one in case.users if one is not case.look]
    if option.shared is not None:
        demands, others = {option.changes[0].group: own_demand(case.look, look, option.shared)}, []
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


def _rank(settings: Settings, case: Case, cost: Cost) -> tuple[float, float, Group]:
    """Return by what the first is taken; those that were found first are at the front as they are."""
    match settings.order:
        case Order.NAKO:
            return cost.total, -case.finding.deficit, case.group
        case Order.SLO:
            return -case.finding.queued_s, -case.finding.deficit, case.group
        case Order.FIRST:
            return 0.0, 0.0, ("", "")


def _spared(
    situation: Situation, waiting: list[Case], relieved: Mapping[Pair, str], costs: Mapping[Group, Cost]
) -> list[Decision]:
    """Take out of those that wait whatever has room on its link by now; return that as decisions."""
    decisions = []
    for case in list(waiting):
        link = (case.finding.site, case.finding.to_site)
        if case.finding.cause is Cause.LINK and link in relieved:
            waiting.remove(case)
            spared = case.decision(situation, Verdict.NONE, f"{relieved[link]} leaves room for it")
            decisions.append(replace(spared, cost=costs.get(case.group)))
    return decisions


def _relieved(view: View, done: list[Option], why: str) -> Mapping[Pair, str]:
    """Return why the operators behind a link need nothing more, by link."""
    return dict.fromkeys(_with_room(view, done), why) if view.settings.prune else {}


def _with_room(view: View, done: list[Option]) -> list[Pair]:
    """Return the links with enough room for what is left on them once all these actions are done."""
    uses = dict(link_uses(view.looks, but=[change.group for option in done for change in option.changes]))
    for option in done:
        for pair, rate in option.flows.items():
            uses[pair] = uses.get(pair, 0.0) + rate
    share = view.settings.link_share
    return [pair for pair, whole in view.links.capacity.items() if uses.get(pair, 0.0) < share * whole]
