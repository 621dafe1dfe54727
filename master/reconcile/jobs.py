"""Keeps queries, sites and assignments consistent: applies each change of one to the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from machine.clock import Clock
from machine.description import package_version
from machine.faults import reached
from master.base.clock import SteadyTime
from master.base.errors import NotSettledError, QueryNotPausableError, QueryNotPausedError, QueryOverError
from master.base.faults import FaultPoint
from master.base.logs import line
from master.config.values import MasterConfig
from master.queries.progress import resumed_progress
from master.queries.registry import Deploy
from master.queries.retention import EndedRetention, purgeable
from master.reconcile.draining import Draining
from master.reconcile.generations import in_places
from master.reconcile.handout import Handout
from master.reconcile.handovers import Handovers
from master.reconcile.moves import QueryMoves
from master.reconcile.parts import JobParts
from master.reconcile.removals import Removals
from master.reconcile.settling import Settling
from master.records.lifecycle import QueryEvent
from master.records.model import BatchQuery, QueryRecord, QueryState, SiteRecord, SiteReport
from planner.graph.plan import PhysicalPlan
from planner.relations.catalog import Relation, RelationKind

logger = logging.getLogger(__name__)


class JobManager:
    """Synchronous, called from one event loop: after each call, everything is consistent and durable."""

    def __init__(self, parts: JobParts, *, clock: Clock, config: MasterConfig) -> None:
        self._parts = parts
        self._clock = clock
        self._config = config
        self._steady = SteadyTime(clock)
        self._flushed_at = self._steady.now()
        removals = Removals(parts.board, parts.sites)
        self._handout = Handout(parts, removals, clock=clock, config=config)
        self._moves = QueryMoves(parts, self._handout, removals, steady=self._steady, config=config)
        self.handovers = Handovers(
            parts,
            parts.lineages,
            self._given_out,
            steady=self._steady,
            patience=config.handover_patience,
            version=package_version("selat"),
        )
        share = config.adaptation.link_share
        self._draining = Draining(parts, self.handovers, steady=self._steady, share=share)
        self._settling = Settling(parts, self._handout, steady=self._steady, patience=config.heartbeat_timeout)
        if self.settled:
            self._handout.publish()

    @property
    def settled(self) -> bool:
        """See `JobParts.settled`."""
        return self._parts.settled

    def submit(
        self, plan: PhysicalPlan, *, sql: str, name: str = "", deploy: Deploy | None = None, owner: str = ""
    ) -> QueryRecord:
        """Accept a planned query and hand its tasks out; `deploy` decides what it shares with running queries.

        Raises:
            InvalidRequestError, QueryNameTakenError
            NotSettledError: the state was restored, and the sites are not heard yet.
            PlannerError: what `deploy` raises.
        """
        if not self.settled:
            raise NotSettledError.asking()
        record = self._parts.queries.accept(plan, sql=sql, name=name, deploy=deploy, owner=owner)
        reached(FaultPoint.QUERY_STORED)
        self._handout.refresh()
        reached(FaultPoint.SUBMISSION_DONE)
        return record

    def cancel(self, reference: str) -> QueryRecord:
        """Cancel the query: remove its tasks. Cancelling it again changes nothing.

        Raises:
            UnknownQueryError, AmbiguousQueryError
            QueryOverError: it has finished or failed.
        """
        record = self._parts.queries.find(reference)
        if record.state in (QueryState.CANCELLING, QueryState.CANCELLED):
            return record
        _check_not_over(record)
        record = self._parts.queries.move(record.id, QueryEvent.CANCEL_REQUESTED, "cancelled by request")
        reached(FaultPoint.CANCEL_STORED)
        self._handout.refresh()
        reached(FaultPoint.TASKS_REMOVED)
        self._moves.advance(record)
        return self._parts.queries.get(record.id)

    def pause(self, reference: str) -> QueryRecord:
        """Pause the query's tasks, except those that other queries need. Pausing it again changes nothing.

        Raises:
            UnknownQueryError, AmbiguousQueryError
            QueryOverError: it is over, or being cancelled.
            QueryNotPausableError: it is a batch query.
        """
        record = self._parts.queries.find(reference)
        if record.state is QueryState.PAUSED:
            return record
        _check_not_over(record)
        if isinstance(record, BatchQuery):
            raise QueryNotPausableError(
                f"query {record.id} is a batch query, whose tasks run once and end",
                hint=f"only queries of streams are paused; selat query cancel {record.id} ends it",
                ids={"query": record.id},
            )
        self._parts.queries.move(record.id, QueryEvent.PAUSE_REQUESTED, "paused by request")
        self._handout.refresh()
        return self._parts.queries.get(record.id)

    def resume(self, reference: str) -> QueryRecord:
        """Resume a paused query's tasks where they stopped. Resuming it again changes nothing.

        Raises:
            UnknownQueryError, AmbiguousQueryError
            QueryOverError: it is over, or being cancelled.
            QueryNotPausedError
        """
        record = self._parts.queries.find(reference)
        if record.state is QueryState.RESUMING:
            return record
        _check_not_over(record)
        if record.state is not QueryState.PAUSED:
            raise QueryNotPausedError(
                f"query {record.id} is {record.state.value}, not paused",
                hint=f"look at it: selat query show {record.id}",
                ids={"query": record.id},
            )
        self._parts.queries.set_progress(record.id, resumed_progress(record.progress))
        self._parts.queries.move(record.id, QueryEvent.RESUME_REQUESTED)
        self._handout.refresh()
        return self._parts.queries.get(record.id)

    def create_relation(self, relation: Relation, *, if_not_exists: bool = False) -> tuple[Relation, bool]:
        """Declare a relation, and have its sites accept pushes to a stream; returns it, and whether it is new.

        Raises:
            InvalidDefinitionError, UnknownSiteError, RelationExistsError
        """
        created = self._parts.catalog.create(relation, if_not_exists=if_not_exists)
        self._handout.refresh()
        return created

    def drop_relation(self, name: str, kind: RelationKind | None = None, *, if_exists: bool = False) -> bool:
        """Drop a relation, and have its sites refuse pushes to a stream; returns whether it existed.

        Raises:
            UnknownRelationError, RelationInUseError
        """
        dropped = self._parts.catalog.drop(name, kind, if_exists=if_exists)
        self._handout.refresh()
        return dropped

    def alter_binding(self, name: str, options: Mapping[str, str], *, site: str | None) -> Relation:
        """Change connector options, also of running tasks.

        Raises:
            UnknownRelationError, UnknownSiteError, InvalidDefinitionError
        """
        relation = self._parts.catalog.alter(name, options, site=site)
        self._handout.refresh()
        return relation

    def register(self, record: SiteRecord) -> None:
        """Make an agent the one that speaks for its site.

        Raises:
            UnknownSiteError, SiteDisplacedError
        """
        self._parts.registry.register(record)
        self._handout.refresh()
        # Wakes the watcher of a displaced agent, which then learns of it.
        self._parts.board.changes(record.name).notify()

    def deregister(self, site: str, incarnation: str) -> None:
        """The site's agent is about to end: the site counts as unreachable from now on.

        Raises:
            UnknownSiteError, SiteNotRegisteredError, SiteDisplacedError
        """
        self._parts.registry.deregister(site, incarnation)
        self._handout.refresh()

    def set_draining(self, site: str, draining: bool) -> None:
        """Give the site no new work from now on, or give it work again; what runs there goes on.

        Raises:
            UnknownSiteError, StoreError
        """
        self._parts.registry.set_draining(site, draining)
        # Its slots are withheld, or granted again, before anybody is answered.
        self._handout.refresh()

    def report(self, report: SiteReport) -> SiteReport:
        """Take a heartbeat, and apply what follows from it; returns it with the tasks under the names of their places.

        Raises:
            UnknownSiteError, SiteNotRegisteredError, SiteDisplacedError
        """
        self._parts.registry.report(report)
        reached(FaultPoint.REPORT_TAKEN)
        placed = in_places(report, self._parts.lineages.all)
        self._moves.take(placed)
        self.handovers.advance()
        return placed

    def tick(self) -> None:
        """Apply the passing of time: overdue heartbeats, expired retention, storing of totals."""
        for site in self._parts.registry.tick():
            logger.warning(line("heartbeat overdue", site=site))
        if not self.settled:
            self._settling.tick()
            return
        moved = self._handout.place_batch()
        self._moves.advance_all()
        self.handovers.advance()
        self._draining.tick()
        self._purge()
        self._handout.tick(moved=moved)
        if self._steady.now() >= self._flushed_at + self._config.progress_interval:
            self.flush()

    def _purge(self) -> None:
        """Forget queries that ended long ago; their results go when the gateway's assignment changes."""
        retention = EndedRetention(self._config.ended_retention, self._config.ended_count)
        doomed = purgeable(self._parts.queries.all(), now=self._clock.now(), retention=retention)
        if doomed:
            # Queries whose operators others use stay, however long ago they ended.
            needed = {one.id.query for one in self._parts.queries.snapshots.held.deployed}
            doomed = tuple(query for query in doomed if query not in needed)
        if doomed:
            self._parts.queries.purge(doomed)
            self._parts.lineages.keep_only(frozenset(record.id for record in self._parts.queries.all()))
        self._parts.rates.keep_only(self._parts.catalog.snapshot.relations.keys())

    def _given_out(self) -> bool:
        self._handout.refresh()
        return self._handout.published

    def flush(self) -> None:
        """Store totals and last-seen times."""
        self._flushed_at = self._steady.now()
        self._parts.queries.flush()
        self._parts.registry.flush()


def _check_not_over(record: QueryRecord) -> None:
    if record.state.over or record.state is QueryState.CANCELLING:
        raise QueryOverError(
            f"query {record.id} is {record.state.value} already",
            hint=f"look at it: selat query show {record.id}",
            ids={"query": record.id},
        )
