"""Where the vertices of a new query go that no running operator stands for: steps 2 to 4 of algorithm 2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from planner.graph.ids import TaskId
from planner.sharing.candidates import Asked, Candidate, Candidates
from planner.sharing.draft import Draft
from planner.sharing.modes import Goal
from planner.sharing.plans import Action, Setting
from planner.sharing.vertices import Vertex
from planner.values.errors import PlacementError


@dataclass(frozen=True, slots=True)
class Placing:
    """Finds a site for one vertex after the other, beside what the draft says of those before it."""

    draft: Draft
    setting: Setting

    def takes(self, site: str) -> bool:
        """Whether a vertex that is not bound to a site can go there."""
        setting = self.setting
        return site in setting.alive and (setting.open_sites is None or site in setting.open_sites)

    def site(self, asked: Asked, found: Candidates) -> tuple[Action, str, TaskId | None, str]:
        """How a vertex is placed, where, beside which running operator, and why.

        Raises:
            PlacementError: no site can take it.
        """
        vertex = asked.vertex
        if vertex.pinned is not None:
            return Action.PINNED, vertex.pinned, None, "where its data or its readers are"
        usable = [c for c in found.in_ if self.takes(c.site)]
        if usable:
            best = self.best(usable, vertex)
            reason = f"{best.operator.id} receives {best.shared_bytes_per_s:.0f} bytes/s of its inputs there"
            return Action.CO_LOCATED, best.site, best.operator.id, reason
        wanted = self.setting.placed.get(vertex.id)
        if wanted is not None and self.setting.sharing.rules.aware and not self.draft.has_moved(vertex):
            return Action.PLACED, wanted, None, "fewest bytes over the WAN"
        flows = self.draft.inputs(vertex)
        sources = sorted({source for source, _ in flows})
        if len(sources) == 1 and self.takes(sources[0]):
            return Action.LOCAL, sources[0], None, "all its inputs are there"
        site, reason = self._placed(vertex, flows)
        return Action.PLACED, site, None, reason

    def _placed(self, vertex: Vertex, flows: Sequence[tuple[str, float]]) -> tuple[str, str]:
        able = [site for site in sorted(self.setting.wan.topology.sites) if self.takes(site)]
        if not able:
            raise PlacementError(f"no site can take {vertex.id}", ids={"query": self.draft.query})
        if not self.setting.sharing.rules.aware:
            return self._placed_blindly(able, flows)
        # The cost alone would take a near link that is too narrow: latency counts squared.
        if self.setting.keeps_room:
            able = [site for site in able if self._has_room(flows, site)] or able
        costs = {site: sum(self.setting.wan.cost(source, site, rate) for source, rate in flows) for site in able}
        best = min(able, key=lambda site: (costs[site], site))
        return best, f"least cost of its links, {costs[best]:.3g} s^2"

    def _has_room(self, flows: Sequence[tuple[str, float]], site: str) -> bool:
        """Whether the links from its inputs carry a vertex's inputs to a site."""
        needed: dict[str, float] = {}
        for source, rate in flows:
            needed[source] = needed.get(source, 0.0) + rate
        spare = self.setting.wan.spare
        return all(source == site or spare(source, site) > rate for source, rate in needed.items())

    def _placed_blindly(self, able: Sequence[str], flows: Sequence[tuple[str, float]]) -> tuple[str, str]:
        near = [site for site, _ in sorted(flows) if self.takes(site)]
        if near:
            return near[0], "at the first of its inputs' sites that can take it"
        new = Counter(choice.decision.site for choice in self.draft.choices.values() if choice.reads)
        best = min(able, key=lambda site: (self.setting.running.load(site) + new[site], site))
        return best, "none of its inputs' sites can take it: where the fewest operators run"

    def best(self, candidates: Sequence[Candidate], vertex: Vertex) -> Candidate:
        """The candidate that shares most, or for the goal of latency the nearest; ties go to the first by id."""
        if self.setting.goal is Goal.LATENCY:
            return min(candidates, key=lambda c: (self._way_s(c.site, vertex), c.operator.id))
        readers = {self.draft.vertices[name].fingerprint for name in self.draft.readers.get(vertex.id, ())}

        def shared(candidate: Candidate) -> tuple[float, int]:
            known = self.setting.running.downstream(candidate.operator.id)
            return candidate.shared_bytes_per_s, sum(reader in known for reader in readers)

        return min(candidates, key=lambda c: (*(-amount for amount in shared(c)), c.operator.id))

    def _way_s(self, site: str, vertex: Vertex) -> float:
        """From the farthest of the inputs over the site to where the results are wanted."""
        wan = self.setting.wan
        before = max((wan.latency_s(source, site) for source, _ in self.draft.inputs(vertex)), default=0.0)
        return before + max((wan.latency_s(site, target) for target in self.draft.ends()), default=0.0)
