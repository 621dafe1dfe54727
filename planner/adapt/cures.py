"""What to do about one cause, by the policy of WASP's figure 4.6.

compute              more tasks: in the site while it has slots, then elsewhere
link, with state     as many tasks elsewhere; with no placement, or if moving takes too long, more tasks; else re-plan
link, without state  re-plan; else as with state
all others           named, and left to people: moving or scaling would not help
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.adapt.assign import excess
from planner.adapt.diagnose import Cause, Finding
from planner.adapt.model import Graph, Group, Node, Role, Settings
from planner.adapt.options import (
    Option,
    Room,
    Subject,
    in_reach,
    least_overloaded,
    link_options,
    more_tasks,
    most_of,
)
from planner.adapt.rates import busiest_bin
from planner.adapt.replan import replan
from planner.adapt.scale import TrueRates, scaled
from planner.adapt.situation import Considered, View
from planner.adapt.traffic import Look, demand_of, link_uses

LEFT_TO_PEOPLE: Mapping[Cause, str] = {
    Cause.SOURCE: "nothing arrives at the source: the query has nothing to do there",
    Cause.DISK: "the site's disk is slow: more tasks there would write as much",
    Cause.SINK: "the sink takes rows too slowly: it stays with its directory",
    Cause.STARVED: "the site has too little CPU, or memory, for what runs there: more tasks would get no more of it",
    Cause.SKEW: "some keys have most of the rows: more tasks would not divide them",
    Cause.SLOTS: "it needs more tasks, and no site has a free slot",
    Cause.UNKNOWN: "rows wait, but nothing that is measured says why",
}


@dataclass(frozen=True, slots=True)
class Cure:
    """What would be done, and what was weighed."""

    considered: tuple[Considered, ...] = ()
    reason: str = ""
    """Why nothing is done, or this."""

    @property
    def chosen(self) -> Option | None:
        return next((one.option for one in self.considered if not one.against), None)


def target(graph: Graph, finding: Finding) -> Group | None:
    """The operator to act upon; None: those at both ends of the link stay where they are."""
    node = graph.node(finding.task)
    if _moves(graph, node):
        return node.group
    if finding.cause is Cause.LINK:
        for writer in node.inputs:
            other = graph.node(writer)
            if (other.site, node.site) == (finding.site, finding.to_site) and _moves(graph, other):
                return other.group
    return None


def cure(view: View, look: Look, finding: Finding, group: Group) -> Cure:
    """What to do about a cause at an operator."""
    if finding.cause is Cause.LINK:
        return _of_link(view, look, finding, group)
    if finding.cause is Cause.COMPUTE:
        return _of_compute(view, look, group)
    return Cure(reason=LEFT_TO_PEOPLE.get(finding.cause, finding.cause.value))


def needed(look: Look, load: float) -> Mapping[Group, int]:
    """How many tasks each operator needs, all in one pass from the sources; operators behind one of which no true rate
    is known are missing. Those that no number would help keep theirs."""
    graph = look.graph
    sources: dict[Group, float] = {}
    operators: dict[Group, TrueRates] = {}
    edges: list[tuple[Group, Group]] = []
    for group in graph.groups:
        tasks = graph.tasks(group)
        above = tuple(dict.fromkeys(graph.node(writer).group for node in tasks for writer in node.inputs))
        if not above and all(node.id in look.expected for node in tasks):
            seen = [look.found.tasks[node.id] for node in tasks]
            rows = zip(tasks, seen, strict=True)
            sources[group] = sum(look.expected[node.id] * (one.selectivity or 0.0) for node, one in rows)
            continue
        found = _true_rates(look, tasks)
        if above and found is not None and all(one in sources or one in operators for one in above):
            operators[group] = found
            edges += [(one, group) for one in above]
    wanted = scaled(operators, edges, sources, load=load)
    return {g: len(graph.tasks(g)) if g in wanted.undivided else number for g, number in wanted.tasks.items()}


def _true_rates(look: Look, tasks: Sequence[Node]) -> TrueRates | None:
    seen = [look.found.tasks[node.id] for node in tasks]
    live = [(one.true_in_per_s, one.selectivity or 0.0) for one in seen if one.true_in_per_s]
    if not live:
        return None
    busiest = busiest_bin(seen)
    return TrueRates(sum(r for r, _ in live), sum(r * part for r, part in live), len(live), busiest)


def _of_compute(view: View, look: Look, group: Group) -> Cure:
    tasks = look.graph.tasks(group)
    number, most = needed(look, view.settings.load).get(group, 0), most_of(tasks)
    if number <= len(tasks):
        return Cure(reason="by what its tasks do in a second of work they are enough; the queue is of before")
    if most <= len(tasks):
        more = "it has no more bins" if most > 1 else "its input has no bins (merge_parallelism)"
        return Cure(reason=f"it needs {number} tasks, but {more}")
    wanted, subject = min(number, most), Subject(look, group, demand_of(look, group))
    room = view.room(look, (group,))
    while wanted > len(tasks):
        found = more_tasks(subject, wanted, room)
        if found is not None:
            enough = "" if wanted == number else f", {number} would be needed"
            return _within_time([Considered(found)], view.settings, f"{wanted} tasks take what comes{enough}")
        wanted -= 1
    return Cure(reason=f"it needs {number} tasks, and no site has slots and links for one more")


def catch_up(finding: Finding, settings: Settings) -> float:
    """Return how many times as much as is expected has to pass: what waits has to, too."""
    return 1 + min(finding.queued_s / settings.catch_up_s, settings.most_catch_up)


def _of_link(view: View, look: Look, finding: Finding, group: Group) -> Cure:
    settings, room, factor = view.settings, view.room(look, (group,)), catch_up(finding, view.settings)
    subject = Subject(look, group, demand_of(look, group, factor=factor))
    link = (finding.site, finding.to_site)
    now = link_uses(view.looks).get(link, 0.0) - link_uses(view.looks, but=(group,)).get(link, 0.0)
    found = [_relieving(option, link, factor * now) for option in link_options(subject, room)]
    stateful = any(look.found.tasks[n.id].state_bytes or n.combined for n in look.graph.tasks(group))
    if not stateful or not any(not one.against for one in found):
        moved = [g for g in look.graph.groups if _moves(look.graph, look.graph.tasks(g)[0])]
        again = replan(look, view.room(look, moved), factor=factor)
        other = [Considered(again)] if again is not None else []
        found = [*other, *found] if not stateful else [*found, *other]
    good = [one for one in found if not one.against]
    times_s = [one.option.adapt_s for one in good[:2]]
    if stateful and len(times_s) == 2 and times_s[0] > settings.adapt_s and times_s[1] < times_s[0]:
        slow = good[0].option
        why = f"it takes {slow.adapt_s:.0f} s, more than {settings.adapt_s:.0f} s, and there is a faster one"
        found = [Considered(slow, why) if one.option is slow else one for one in found]
    if not good:
        found += _least(subject, room)
    cured = _within_time(found, settings, f"the link {'->'.join(link)} is relieved")
    far = sorted(site for site, free in room.slots.items() if free > 0 and site not in in_reach(subject, room).slots)
    if cured.chosen is None and far:
        why = f"its state cannot be sent to {', '.join(far)} within {settings.longest_adapt_s:.0f} s"
        return replace(cured, reason=f"{cured.reason}, and {why}")
    return cured


def _least(subject: Subject, room: Room) -> list[Considered]:
    """Where everything is too full: the place that takes away much of the overload, if there is one."""
    least = least_overloaded(subject, room)
    if least is None:
        return []
    now, then = (excess(subject.demand, sites, room.links) for sites in (subject.sites, least.changes[0].after))
    if then > (1 - room.settings.least_relief) * now:
        return [Considered(least, f"a link would still lack {then:.0f} of {now:.0f} bytes/s")]
    return [Considered(least)]


def _relieving(option: Option, link: tuple[str, str], before: float) -> Considered:
    if option.flows.get(link, 0.0) >= before * (1 - 1e-6) and before > 0:
        return Considered(option, f"as much as now would cross {'->'.join(link)}")
    return Considered(option)


def _within_time(found: Sequence[Considered], settings: Settings, reason: str) -> Cure:
    """The first that is left, if it does not take too long; the others were not taken for its sake."""
    weighed: list[Considered] = []
    taken = False
    for one in found:
        against = one.against
        if not against and one.option.adapt_s > settings.longest_adapt_s:
            against = f"it takes {one.option.adapt_s:.0f} s, more than {settings.longest_adapt_s:.0f} s"
        elif not against and taken:
            against = "the one before it is enough"
        taken = taken or not against
        weighed.append(Considered(one.option, against))
    return Cure(tuple(weighed), reason if taken else "there is no placement: no site has slots and links for it")


def _moves(graph: Graph, node: Node) -> bool:
    """Tasks of other queries are moved on their own query's behalf."""
    return node.role is Role.OPERATOR and node.id.query == graph.query
