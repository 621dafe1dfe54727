"""Does what was decided about queries with `SET adaptation = 'on'`: has their tasks move, merges get other parts, or
sites combine in another way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

from master.base.errors import MasterError
from master.queries.lineages import Lineages
from master.queries.registry import QueryRegistry
from master.queries.sharing import deployment_of
from master.reconcile.handovers import Handovers
from master.records.model import QueryRecord
from planner.adapt.model import Graph, Group, Links, Seen
from planner.adapt.moves import task_moves, with_sites
from planner.adapt.options import Action, Change, Option
from planner.adapt.situation import Decision
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.handover.model import Lineage, Outcome
from planner.sharing.forking import shared_by
from planner.values.errors import PlannerError
from planner.values.trees import Tree

Recombine = Callable[[QueryRecord, Tree | None], Awaitable[PhysicalPlan]]
"""It plans a query anew, with tasks that combine over these sites. Raises MasterError, PlannerError."""
_SCALES = (Action.SCALE_UP, Action.SCALE_OUT, Action.SCALE_IN)


class Acting:
    """Begins handovers, and says what became of the last ones.

    Args:
        handovers: moves the tasks.
        lineages: the tasks in their places.
        queries: those that run.
        recombine: see `Recombine`.
    """

    def __init__(self, handovers: Handovers, lineages: Lineages, queries: QueryRegistry, recombine: Recombine) -> None:
        self._handovers = handovers
        self._lineages = lineages
        self._queries = queries
        self._recombine = recombine
        self._begun: dict[Group, tuple[TaskId, ...]] = {}

    @property
    def moving(self) -> frozenset[Group]:
        """The operators that are in a handover, whoever asked for it."""
        return frozenset(group for one in self._handovers.under_way for group in _groups(one))

    async def act(self, decision: Decision, graph: Graph, seen: Seen, links: Links) -> str:
        """Begin what was decided; returns why it could not be done, or nothing when it is under way."""
        chosen = decision.chosen
        if chosen is None:
            return ""
        cause = f"adaptation, for {decision.cause.value if decision.cause else ''}"
        if chosen.action in _SCALES:
            return "; ".join(filter(None, (self._scale(change, cause) for change in chosen.changes)))
        if chosen.shared is not None:
            return self._split(chosen, chosen.shared, cause)
        if chosen.tree is not None:
            return await self._combine(chosen, chosen.tree, cause)
        moves = task_moves(graph, chosen, seen, links)
        for change in chosen.changes:
            self._begun[change.group] = tuple(task for task in moves if (task.query, task.stage) == change.group)
        return self._begin(moves, cause, without_state=chosen.without_state)

    def became(self, group: Group) -> str:
        """What became of the moves that were begun last for an operator."""
        told = []
        for place in self._begun.pop(group, ()):
            lineage = self._lineages.get(place)
            changed = _scaled(lineage) or _combined(lineage) or _split(lineage)
            if changed:
                told.append(changed)
            elif lineage.handover is not None:
                told.append(f"{place.vertex} is {lineage.handover.step.value} on its way to {lineage.handover.to_site}")
            elif lineage.last is not None:
                verb = f"moved to {lineage.last.to_site}" if lineage.last.moved else "was rolled back"
                told.append(f"{place.vertex} {verb} in {_took(lineage.last)}")
        return ", ".join(told)

    def _scale(self, change: Change, cause: str) -> str:
        """Have a merge go on in other parts; why it could not begin."""
        query, stage = change.group
        sites = [site for site, number in sorted(change.after.items()) for _ in range(number)]
        try:
            lineage = self._handovers.scale(query, stage, len(sites), sites, cause)
        except (MasterError, PlannerError) as error:
            return f"{stage} keeps its parts: {error.message}"
        self._begun[change.group] = (lineage.place,)
        return ""

    def _split(self, chosen: Option, shared: Group, cause: str) -> str:
        """Have a query go on with a task of its own in the place of an operator's; why it could not begin."""
        (change,) = chosen.changes
        (site,) = change.after
        record = self._queries.get(change.group[0])
        deployment, running = deployment_of(record), self._queries.snapshots.held
        found = shared_by(deployment, record.id, running).items() if deployment is not None else ()
        stages = [vertex.stage for vertex, task in found if (task.query, task.stage) == shared]
        try:
            lineage = self._handovers.fork(record, stages[0] if stages else shared[1], site, cause)
        except (MasterError, PlannerError) as error:
            return f"{shared[1]} stays shared: {error.message}"
        self._begun[change.group] = (lineage.place,)
        return ""

    async def _combine(self, chosen: Option, tree: Tree, cause: str) -> str:
        """Have the sites of a query combine over other sites; why they could not begin."""
        query, _ = chosen.changes[0].group
        try:
            wanted = with_sites(await self._recombine(self._queries.get(query), tree), chosen)
            lineage = self._handovers.swap(self._queries.get(query), wanted, cause)
        except (MasterError, PlannerError) as error:
            return f"sites combine as before: {error.message}"
        self._begun |= {change.group: (lineage.place,) for change in chosen.changes}
        return ""

    def _begin(self, moves: Mapping[TaskId, str], cause: str, *, without_state: bool) -> str:
        """Why some could not begin; the others are under way."""
        refused = []
        for place, site in sorted(moves.items()):
            try:
                self._handovers.begin(place, site, cause, without_state=without_state)
            except (MasterError, PlannerError) as error:
                refused.append(f"{place.vertex} did not move: {error.message}")
        return "; ".join(refused)


def _groups(lineage: Lineage) -> Iterator[Group]:
    """The operators that a handover changes."""
    yield lineage.place.query, lineage.place.stage
    if lineage.handover is not None and lineage.handover.scaling is not None:
        yield lineage.place.query, lineage.handover.scaling.stage
    if lineage.handover is not None and lineage.handover.fork is not None:
        yield lineage.handover.fork.query, lineage.handover.fork.task.stage
    if lineage.handover is not None and lineage.handover.join is not None:
        yield lineage.handover.join.shared.query, lineage.handover.join.shared.stage


def _split(lineage: Lineage) -> str:
    """Say what became of a task of a query's own; empty: the handover is, or was last, of another kind."""
    under_way, last = lineage.handover, lineage.last
    if under_way is not None:
        fork = under_way.fork
        return "" if fork is None else f"a task of its own is {under_way.step.value} at {fork.site}"
    if last is None or last.fork is None:
        return ""
    return f"it {'has' if last.moved else 'got no'} task of its own at {last.fork.site} after {_took(last)}"


def _combined(lineage: Lineage) -> str:
    """Say what became of other tasks that combine; empty: the handover is, or was last, of another kind."""
    under_way, last = lineage.handover, lineage.last
    if under_way is not None:
        return under_way.swapped and f"what combines is {under_way.step.value}: {under_way.swapped}"
    if last is None or not last.swapped:
        return ""
    return f"combined by {last.swapped} {'since' if last.moved else 'was rolled back'} after {_took(last)}"


def _scaled(lineage: Lineage) -> str:
    """Say what became of other parts of a merge; empty: its handover is, or was last, of another kind."""
    under_way, last = lineage.handover, lineage.last
    if under_way is not None:
        if under_way.scaling is None:
            return ""
        return f"{under_way.scaling.stage} is {under_way.step.value} on its way to {len(under_way.scaling.sites)} parts"
    if last is None or last.scaling is None:
        return ""
    verb = f"goes on in {len(last.scaling.sites)} parts, after" if last.moved else "was rolled back after"
    return f"{last.scaling.stage} {verb} {_took(last)}"


def _took(last: Outcome) -> str:
    """Say how long a handover took, and why it ended."""
    took_s = (last.ended_at - last.asked_at).total_seconds()
    return f"{took_s:.0f} s{f': {last.reason}' if last.reason else ''}"
