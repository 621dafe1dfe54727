"""Does what was decided about queries with `SET adaptation = 'on'`: has their tasks move."""

from __future__ import annotations

from collections.abc import Mapping

from master.base.errors import MasterError
from master.queries.lineages import Lineages
from master.reconcile.handovers import Handovers
from planner.adapt.model import Graph, Group, Links, Seen
from planner.adapt.moves import task_moves
from planner.adapt.situation import Decision
from planner.graph.ids import TaskId
from planner.values.errors import PlannerError

NOT_BUILT = "it was not done: tasks can be moved, and not yet split, joined or planned anew"


class Acting:
    """Begins handovers, and says what became of the last ones."""

    def __init__(self, handovers: Handovers, lineages: Lineages) -> None:
        self._handovers = handovers
        self._lineages = lineages
        self._begun: dict[Group, tuple[TaskId, ...]] = {}

    @property
    def moving(self) -> frozenset[Group]:
        """The operators that are in a handover, whoever asked for it."""
        return frozenset((one.place.query, one.place.stage) for one in self._handovers.under_way)

    def act(self, decision: Decision, graph: Graph, seen: Seen, links: Links) -> str:
        """Begin what was decided; returns why it could not be done, or nothing when it is under way."""
        chosen = decision.chosen
        if chosen is None:
            return ""
        moves = task_moves(graph, chosen, seen, links)
        if not moves:
            return NOT_BUILT
        for change in chosen.changes:
            self._begun[change.group] = tuple(task for task in moves if (task.query, task.stage) == change.group)
        return self._begin(moves, decision.cause.value if decision.cause else "")

    def became(self, group: Group) -> str:
        """What became of the moves that were begun last for an operator."""
        told = []
        for place in self._begun.pop(group, ()):
            lineage = self._lineages.get(place)
            if lineage.handover is not None:
                told.append(f"{place.vertex} is {lineage.handover.step.value} on its way to {lineage.handover.to_site}")
            elif lineage.last is not None:
                took_s = (lineage.last.ended_at - lineage.last.asked_at).total_seconds()
                reason = f": {lineage.last.reason}" if lineage.last.reason else ""
                verb = f"moved to {lineage.last.to_site}" if lineage.last.moved else "was rolled back"
                told.append(f"{place.vertex} {verb} in {took_s:.0f} s{reason}")
        return ", ".join(told)

    def _begin(self, moves: Mapping[TaskId, str], cause: str) -> str:
        """Why some could not begin; the others are under way."""
        refused = []
        for place, site in sorted(moves.items()):
            try:
                self._handovers.begin(place, site, f"adaptation, for {cause}")
            except (MasterError, PlannerError) as error:
                refused.append(f"{place.vertex} did not move: {error.message}")
        return "; ".join(refused)
