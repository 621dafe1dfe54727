"""The loop of adaptation: it looks at flows, lets the planner decide, and carries out what it decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.adapt.costs import Cost
from planner.adapt.decide import decide
from planner.adapt.diagnose import Cause
from planner.adapt.memory import Memory
from planner.adapt.model import Graph, Group, Links, Seen, Settings
from planner.adapt.options import Action, Change, Option
from planner.adapt.situation import Decision, Situation, Verdict
from simulator.wasp.fluid import Flow, views


@dataclass(frozen=True, slots=True)
class Act:
    """Something that was done."""

    at_s: float
    option: Option
    query: str = ""
    """Whose cause it is for."""
    cost: Cost | None = None

    @property
    def changed(self) -> frozenset[str]:
        """Return the queries whose operators it changes."""
        return frozenset(change.group[0] for change in self.option.changes)


@dataclass
class Loop:
    """The loop does what a master would do. Each flow is of other queries."""

    settings: Settings
    shadow: bool = True
    """A task that moves goes on until the new one takes over; False: it stands still meanwhile."""
    acts: list[Act] = field(default_factory=list)
    slow: dict[str, float] = field(default_factory=dict)
    """The second at which each slow query was first seen to be slow."""
    rounds: list[tuple[Decision, ...]] = field(default_factory=list)
    """The decisions of each look."""
    _memory: Memory = field(default_factory=Memory)
    _before: Seen | None = None
    _moving: dict[Group, tuple[float, Option]] = field(default_factory=dict)

    @property
    def paused(self) -> frozenset[Group]:
        """Return the operators that stand still."""
        return frozenset() if self.shadow else frozenset(self._moving)

    def look(self, flows: Sequence[Flow], links: Links, slots: Mapping[str, int]) -> None:
        """Decide about all queries.

        Args:
            flows: as they are.
            links: as they are now.
            slots: of each site, free or not.
        """
        before, self._before = self._before, _seen(flows)
        if before is None:
            return
        graphs = tuple(graph for flow in flows for graph in views(flow.graph))
        # An operator that a query is split off from is in that handover, too.
        shared = (option.shared for _, option in self._moving.values() if option.shared is not None)
        moving = frozenset([*self._moving, *shared])
        situation = Situation(graphs, before, self._before, links, _free(graphs, slots), moving, slots)
        found = decide(situation, self._memory, self.settings)
        self._memory = found.memory
        self.rounds.append(found.decisions)
        for one in found.decisions:
            if one.finding is not None and not one.finding.cause.state and one.cause is not Cause.SPARE:
                self.slow.setdefault(one.query, flows[0].at_s)
            # New operators that combine on the way are not carried out.
            if one.verdict is Verdict.ACT and one.chosen is not None and one.chosen.tree is None:
                self._begin(one, one.chosen, flows[0].at_s)

    def _begin(self, decision: Decision, option: Option, at_s: float) -> None:
        self.acts.append(Act(at_s, option, decision.query, decision.cost))
        for change in option.changes:
            self._moving[change.group] = (at_s + option.adapt_s, option)

    def finish(self, flows: Sequence[Flow]) -> None:
        """Carry out the handovers whose time has come."""
        for flow, change, option in list(self._due(flows)):
            del self._moving[change.group]
            if option.action is Action.SPLIT and option.shared is not None:
                (site,) = change.after
                flow.split_off(change.group[0], option.shared, site)
            else:
                flow.place(change.group, change.after, len(self.acts))

    def _due(self, flows: Sequence[Flow]) -> Iterator[tuple[Flow, Change, Option]]:
        for group, (until_s, option) in self._moving.items():
            flow = next(one for one in flows if any(node.id.query == group[0] for node in one.graph.nodes))
            if flow.at_s >= until_s:
                (change,) = (c for c in option.changes if c.group == group)
                yield flow, change, option


def _free(graphs: Sequence[Graph], slots: Mapping[str, int]) -> Mapping[str, int]:
    """Return the free slots; sources take none."""
    used = Counter(site for site in {node.id: node.site for g in graphs for node in g.nodes if node.inputs}.values())
    return {site: max(0, number - used[site]) for site, number in slots.items()}


def _seen(flows: Sequence[Flow]) -> Seen:
    reports = [flow.seen() for flow in flows]
    tasks = {task: one for seen in reports for task, one in seen.tasks.items()}
    channels = {edge: one for seen in reports for edge, one in seen.channels.items()}
    return Seen(reports[0].at, tasks, channels)
