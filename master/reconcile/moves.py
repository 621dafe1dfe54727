"""Changes the states of queries as sites report and time passes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from master.base.clock import SteadyTime
from master.config.values import MasterConfig
from master.queries.progress import at_sites, next_event, with_report
from master.queries.sharing import deployed_of, edges_of, tasks_beneath, used_by, without_late
from master.reconcile.generations import leading
from master.reconcile.handout import Handout
from master.reconcile.parts import JobParts
from master.reconcile.removals import Removals
from master.records.lifecycle import QueryEvent
from master.records.model import QueryRecord, QueryState, SiteReport
from planner.graph.ids import TaskId


class QueryMoves:
    """Applies the events that follow from queries' progress, and updates assignments."""

    def __init__(
        self, parts: JobParts, handout: Handout, removals: Removals, *, steady: SteadyTime, config: MasterConfig
    ) -> None:
        self._parts = parts
        self._handout = handout
        self._removals = removals
        self._steady = steady
        self._config = config

    def take(self, report: SiteReport) -> None:
        """Record what a site reports of its tasks, and apply the events that follow."""
        now = self._steady.now()
        concerned = self._concerned(report)
        for record in concerned:
            held = self._parts.queries.snapshots.held
            record = self._where_it_leads(record)
            edges, beneath = edges_of(held, record.id), tasks_beneath(record, held)
            progress = with_report(record, report, now=now, edges=edges, beneath=beneath)
            self._parts.queries.set_progress(record.id, progress)
            self._parts.rates.observe(record, report)
        # A task that has ended frees its slot at once, for the next task.
        moved = self._handout.place_batch()
        for record in concerned:
            if self._parts.settled:
                self._take_back(self._parts.queries.get(record.id), report)
            self.advance(self._parts.queries.get(record.id))
        if moved:
            self._handout.refresh()

    def advance_all(self) -> None:
        """Apply the events of all queries that are not over."""
        for record in self._parts.queries.all():
            if not record.state.over:
                self.advance(record)

    def advance(self, record: QueryRecord) -> None:
        """Apply the query's events, one after another, until none follows from its progress."""
        if record.state is QueryState.CANCELLING and self._removals.gone(record):
            self._removals.forget(record.id)
            self._parts.queries.move(record.id, QueryEvent.TASKS_GONE, record.reason)
            return
        while step := next_event(
            record,
            alive=self._parts.sites.alive(),
            now=self._steady.now(),
            final_report_wait=self._config.final_report_wait,
        ):
            event, reason = step
            record = self._parts.queries.move(record.id, event, reason)
            if record.state.over:
                self._handout.refresh()

    def _where_it_leads(self, record: QueryRecord) -> QueryRecord:
        """The query with its tasks at the sites to which they have moved."""
        lineages, placement = self._parts.lineages.all, self._parts.queries.snapshots.placement
        sites = {place: leading(place, placement[place], lineages)[1] for place in lineages if place in placement}
        return replace(record, progress=at_sites(record.progress, sites)) if sites else record

    def _take_back(self, record: QueryRecord, report: SiteReport) -> None:
        """Have the query run its own task where a shared operator has trimmed its first epochs.

        Also for a query that is over, as long as others need its operators.
        """
        late = {channel for task in report.tasks if task.query_id == record.id for channel in task.missed_inputs}
        running = self._parts.queries.snapshots.live
        if not late or not any(one.id.query == record.id for one in running.deployed):
            return
        if self._run_own(record, late):
            self._handout.refresh()

    def _run_own(self, record: QueryRecord, channels: Collection[TaskId]) -> bool:
        """Have a query run its own tasks in the place of these, or of what they are made of; whether it has changed.

        Other queries that read what it gives up do the same before, so that what runs is whole at each step.
        """
        queries = self._parts.queries
        change = without_late(record, channels, queries.snapshots.live)
        if change is None or change.deployment is None:
            return False
        gone = {one.id for one in deployed_of(record)} - {one.id for one in change.deployment.deployed}
        for reader in [one for one in queries.all() if one.id != record.id and not gone.isdisjoint(used_by(one))]:
            self._run_own(reader, gone)
        # It was decided on what ran before.
        change = without_late(record, channels, queries.snapshots.live)
        if change is not None:
            queries.redeploy(record.id, change)
        return change is not None

    def _concerned(self, report: SiteReport) -> tuple[QueryRecord, ...]:
        """Queries that the report may concern, including those whose tasks are gone."""
        named = {t.query_id for t in report.tasks} | {r.query_id for r in report.results}
        return tuple(q for q in self._parts.queries.all() if q.id in named or not q.state.over)
