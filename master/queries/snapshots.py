"""What runs, and where, as values with a version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from machine.clock import Clock
from master.base.errors import StaleChangeError
from master.queries.flows import measured_rates
from master.queries.sharing import deployed_of, named_by, plan_in_place, running_of, used_by
from master.records.model import QueryRecord
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.sharing.deployment import Change
from planner.sharing.running import MutableRunning, Running


class Snapshots:
    """Computed from the queries and the placement; the registry of queries reports durable changes."""

    def __init__(
        self,
        records: Callable[[], Collection[QueryRecord]],
        placement: Mapping[TaskId, str],
        version: int,
        *,
        clock: Clock,
    ) -> None:
        self._records = records
        self._clock = clock
        self._placement = placement
        self._version = version
        self._live: Running | None = None
        self._held: Running | None = None

    @property
    def version(self) -> int:
        """Incremented by every change of a query."""
        return self._version

    @property
    def placement(self) -> Mapping[TaskId, str]:
        """The site of each known task; the tasks of batch queries are placed in their state."""
        return self._placement

    @property
    def live(self) -> Running:
        """What live queries need, including tasks of queries that are over."""
        if self._live is None:
            self._live = self._needed_by(lambda record: record.state.live)
        return self._live

    @property
    def held(self) -> Running:
        """As `live`, with what paused queries need."""
        if self._held is None:
            self._held = self._needed_by(lambda record: record.state.held)
        return self._held

    def measured(self) -> Running:
        """As `live`, with the measured output rates of tasks."""
        known = {record.id: record for record in self._records()}
        return self.live.measured(measured_rates(self.live, known, self._clock.now()))

    def plan_of(self, record: QueryRecord) -> PhysicalPlan:
        """A query's plan, with the sites where its vertices are."""
        return plan_in_place(record, self._placement)

    def check(self, change: Change) -> None:
        """Raises StaleChangeError when something has changed since the decision."""
        if change.version != self._version:
            raise StaleChangeError(
                f"running queries have changed since then: version {self._version} now, {change.version} then",
                hint="try again",
            )

    def placed_with(self, placement: Mapping[TaskId, str]) -> Mapping[TaskId, str]:
        """The placement with these new tasks."""
        return {**self._placement, **placement} if placement else self._placement

    def changed(self, record: QueryRecord, version: int, placement: Mapping[TaskId, str]) -> None:
        """A query has changed, and these tasks were placed. The values are updated from the previous ones."""
        self._placement, self._version = self.placed_with(placement), version
        self._live = self._after(self._live, record, record.state.live)
        self._held = self._after(self._held, record, record.state.held)

    def redeployed(self, version: int, placement: Mapping[TaskId, str]) -> None:
        """A query runs other tasks, which others may read: the values are computed again."""
        self._placement, self._version = self.placed_with(placement), version
        self._live = self._held = None

    def _after(self, running: Running | None, record: QueryRecord, needed: bool) -> Running | None:
        """The value after a change; None when tasks are there or missing unexpectedly: then it is computed again."""
        if running is None:
            return None
        if needed == (record.id in running.queries):
            return replace(running, version=self._version)
        deployed, used = deployed_of(record), used_by(record)
        there = running.placement.keys()
        if needed and not (there.isdisjoint(one.id for one in deployed) and there >= set(used)):
            return None
        changed = MutableRunning.copy_of(running, version=self._version)
        if needed:
            changed.add(record.id, deployed, self._placement, used)
        else:
            changed.remove(record.id)
        return changed

    def nameless_without(self, queries: Collection[str]) -> frozenset[TaskId]:
        """The tasks whose sites nobody looks up any more when these queries are forgotten."""
        left = [record for record in self._records() if record.id not in queries]
        known, named = {record.id for record in left}, {task for record in left for task in named_by(record)}
        return frozenset(task for task in self._placement if task not in named and task.query not in known)

    def forgotten(self, tasks: Collection[TaskId]) -> None:
        """Queries were purged, and with them the sites of these tasks."""
        self._placement = {task: site for task, site in self._placement.items() if task not in tasks}

    def _needed_by(self, among: Callable[[QueryRecord], bool]) -> Running:
        records = self._records()
        queries = {record.id for record in records if among(record)}
        return running_of(records, self._placement, queries, version=self._version)
