"""Keeps queries, sites and assignments in step: whatever happens to one is carried over to the others here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from master.base.clock import Clock, SteadyTime
from master.base.errors import NotSettledError, QueryNotPausableError, QueryNotPausedError, QueryOverError, StoreError
from master.base.faults import FaultPoint, reached
from master.base.logs import line
from master.batch.manager import BatchManager
from master.config.values import MasterConfig
from master.leases.streaming import StreamingSlots
from master.queries.progress import next_event, resumed_progress, tasks_gone, with_report
from master.queries.registry import Deploy, QueryRegistry
from master.queries.retention import EndedRetention, purgeable
from master.queries.sharing import edges_of, is_task, tasks_beneath, without_late
from master.reconcile.assignments import AssignmentInput, build_assignments, keeps_results, stage_sites, task_sites
from master.reconcile.board import AssignmentBoard
from master.reconcile.restored import lost_queries, unsettled_sites
from master.records.lifecycle import QueryEvent
from master.records.model import QueryRecord, QueryState, SiteRecord, SiteReport
from master.records.specs import Assignment
from master.relations.catalog import CatalogManager
from master.sites.registry import SiteRegistry, SiteStatus
from master.sites.statistics import MeasuredRates
from planner.catalog import Relation, RelationKind
from planner.plan import PhysicalPlan
from planner.sharing.running import query_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobParts:
    """What the job manager keeps in step."""

    queries: QueryRegistry
    sites: SiteRegistry
    catalog: CatalogManager
    board: AssignmentBoard
    rates: MeasuredRates
    slots: StreamingSlots
    batch: BatchManager


class JobManager:
    """Synchronous, called from one event loop: each call leaves everything in step, and durable."""

    def __init__(self, parts: JobParts, *, clock: Clock, config: MasterConfig) -> None:
        self._parts = parts
        self._clock = clock
        self._config = config
        self._kept: frozenset[str] = frozenset()
        self._steady = SteadyTime(clock)
        self._flushed_at = self._steady.now()
        self._removed_at: dict[str, dict[str, int]] = {}
        self._stale = False
        self._unleased = False
        self._unplaced = False
        self._held_back: frozenset[str] = frozenset()
        self._settle_by = self._steady.now() + config.heartbeat_timeout
        if self.settled:
            self._publish()

    @property
    def settled(self) -> bool:
        """False: the state was restored from a backup, and nobody knows yet which of its queries still run."""
        return self._parts.queries.restored_from is None

    def submit(
        self, plan: PhysicalPlan, *, sql: str, name: str = "", deploy: Deploy | None = None, owner: str = ""
    ) -> QueryRecord:
        """Accept a planned query and give its tasks out; `deploy` says what it shares with those that run.

        Raises:
            InvalidRequestError, QueryNameTakenError
            NotSettledError: the state was restored, and the sites are not heard yet.
            PlannerError: what `deploy` raises.
        """
        if not self.settled:
            raise NotSettledError.asking()
        record = self._parts.queries.accept(plan, sql=sql, name=name, deploy=deploy, owner=owner)
        reached(FaultPoint.QUERY_STORED)
        self.refresh()
        reached(FaultPoint.SUBMISSION_DONE)
        return record

    def cancel(self, reference: str) -> QueryRecord:
        """Take the query's tasks away. Cancelling it again changes nothing.

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
        self.refresh()
        reached(FaultPoint.TASKS_REMOVED)
        self._follow_up(record)
        return self._parts.queries.get(record.id)

    def pause(self, reference: str) -> QueryRecord:
        """Have the query's tasks stand still, but for those that others need. Pausing it again changes nothing.

        Raises:
            UnknownQueryError, AmbiguousQueryError
            QueryOverError: it is over, or being cancelled.
            QueryNotPausableError: it is a batch query.
        """
        record = self._parts.queries.find(reference)
        if record.state is QueryState.PAUSED:
            return record
        _check_not_over(record)
        if record.batch is not None:
            raise QueryNotPausableError(
                f"query {record.id} is a batch query, whose tasks run once and end",
                hint=f"only queries of streams are paused; selat query cancel {record.id} ends it",
                ids={"query": record.id},
            )
        self._parts.queries.move(record.id, QueryEvent.PAUSE_REQUESTED, "paused by request")
        self.refresh()
        return self._parts.queries.get(record.id)

    def resume(self, reference: str) -> QueryRecord:
        """Have a paused query's tasks go on from where they stopped. Resuming it again changes nothing.

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
        self.refresh()
        return self._parts.queries.get(record.id)

    def create_relation(self, relation: Relation, *, if_not_exists: bool = False) -> tuple[Relation, bool]:
        """Declare it, and let its sites know where clients push to it: the relation, and whether it is new.

        Raises:
            InvalidDefinitionError, UnknownSiteError, RelationExistsError
        """
        created = self._parts.catalog.create(relation, if_not_exists=if_not_exists)
        self.refresh()
        return created

    def drop_relation(self, name: str, kind: RelationKind | None = None, *, if_exists: bool = False) -> bool:
        """Drop it, and let its sites know where clients pushed to it: whether there was something to drop.

        Raises:
            UnknownRelationError, RelationInUseError
        """
        dropped = self._parts.catalog.drop(name, kind, if_exists=if_exists)
        self.refresh()
        return dropped

    def alter_binding(self, name: str, options: Mapping[str, str], *, site: str | None) -> Relation:
        """Change connector options, and let running tasks know.

        Raises:
            UnknownRelationError, UnknownSiteError, InvalidDefinitionError
        """
        relation = self._parts.catalog.alter(name, options, site=site)
        self.refresh()
        return relation

    def register(self, record: SiteRecord) -> None:
        """An agent speaks for its site from now on.

        Raises:
            UnknownSiteError, SiteDisplacedError
        """
        self._parts.sites.register(record)
        self.refresh()
        # Wakes the watcher of a displaced agent, so that it is told.
        self._parts.board.changes(record.name).notify()

    def deregister(self, site: str, incarnation: str) -> None:
        """The site's agent is about to end: the site is not heard from now on.

        Raises:
            UnknownSiteError, SiteNotRegisteredError, SiteDisplacedError
        """
        self._parts.sites.deregister(site, incarnation)
        self.refresh()

    def set_draining(self, site: str, draining: bool) -> None:
        """Give the site no new work from now on, or give it work again; what runs there goes on.

        Raises:
            UnknownSiteError, StoreError
        """
        self._parts.sites.set_draining(site, draining)
        # Its slots are not granted any more, or are again, before anybody is answered.
        self.refresh()

    def report(self, report: SiteReport) -> None:
        """Take a heartbeat and what follows from it.

        Raises:
            UnknownSiteError, SiteNotRegisteredError, SiteDisplacedError
        """
        self._parts.sites.report(report)
        reached(FaultPoint.REPORT_TAKEN)
        now = self._steady.now()
        concerned = self._concerned(report)
        for record in concerned:
            held = self._parts.queries.held()
            edges, beneath = edges_of(held, record.id), tasks_beneath(record, held)
            progress = with_report(record, report, now=now, edges=edges, beneath=beneath)
            self._parts.queries.set_progress(record.id, progress)
            self._parts.rates.observe(record, report)
        # A task that has ended leaves its slot at once, for the next.
        moved = self._follow_batch()
        for record in concerned:
            if self.settled:
                self._take_back(self._parts.queries.get(record.id), report)
            self._follow_up(self._parts.queries.get(record.id))
        if moved:
            self.refresh()

    def _take_back(self, record: QueryRecord, report: SiteReport) -> None:
        """Have the query run its own where an operator that was to be shared has let go of its first rows.

        Also a query that is over, as long as others need the operators that it brought.
        """
        late = {channel for task in report.tasks if task.query_id == record.id for channel in task.late_inputs}
        if not late or not any(query_of(o.id) == record.id for o in self._parts.queries.running().operators):
            return
        changed = without_late(record, late, self._parts.queries.running())
        if changed is not record:
            self._parts.queries.redeploy(changed, reason="runs its own of " + ", ".join(sorted(late)))
            self.refresh()

    def tick(self) -> None:
        """What the passing of time brings: overdue heartbeats, ended retention, storing of totals."""
        for site in self._parts.sites.tick():
            logger.warning(line("heartbeat overdue", site=site))
        if not self.settled:
            self._settle()
            return
        moved = self._follow_batch()
        for record in self._parts.queries.all():
            if not record.state.over:
                self._follow_up(record)
        self._purge()
        self._follow_slots()
        if moved or self._stale or self._results_kept() != self._kept or self._without_slots() != self._held_back:
            self.refresh()
        if self._steady.now() >= self._flushed_at + self._config.progress_interval:
            self.flush()

    def _purge(self) -> None:
        """Forget queries that have been over for long; their results follow when the gateway's assignment changes."""
        retention = EndedRetention(self._config.ended_retention, self._config.ended_count)
        needed = {query_of(operator.id) for operator in self._parts.queries.held().operators}
        doomed = purgeable(self._parts.queries.all(), now=self._clock.now(), retention=retention, needed=needed)
        if doomed:
            self._parts.queries.purge(doomed)
        self._parts.rates.keep_only(self._parts.catalog.snapshot.relations.keys())

    def refresh(self) -> None:
        """Compute all assignments anew and publish those that changed.

        What brought this about is stored already: where versions cannot be, the next tick tries again.
        """
        if not self.settled:
            return
        try:
            self._publish()
        except StoreError as error:
            if not self._stale:
                logger.error(line("assignments not given out yet", reason=error.message))  # noqa: TRY400 - no defect
            self._stale = True

    def _publish(self) -> None:
        """Raises StoreError, and nothing has changed."""
        self._kept = self._results_kept()
        parts = self._parts
        self._follow_slots()
        self._follow_batch()
        self._held_back = self._without_slots()
        parts.board.publish(self._assignments(self._held_back))
        self._stale = False
        for record in parts.queries.all():
            if record.state is QueryState.CANCELLING and record.id not in self._removed_at:
                self._note_removal(record)

    def _assignments(self, held_back: frozenset[str] = frozenset()) -> Mapping[str, Assignment]:
        parts = self._parts
        snapshot = AssignmentInput(
            queries=parts.queries.all(),
            catalog=parts.catalog.snapshot,
            sites=tuple(status.name for status in parts.sites.all()),
            site_addresses=parts.sites.addresses(),
            now=self._clock.now(),
            held_back=held_back,
        )
        return build_assignments(
            snapshot,
            epoch_interval=self._config.epoch_interval,
            results_retention=self._config.results_retention,
            live_results=self._config.live_results,
        )

    def _settle(self) -> None:
        """Decide what becomes of the queries of a restored store, once all sites are heard or have had their time.

        Until then no site is told anything: it would end what the backup does not know, and begin anew what has ended.
        """
        parts, assignments = self._parts, self._assignments()
        made_at = parts.queries.restored_from
        assert made_at is not None
        if unsettled_sites(assignments, parts.sites.all()) and self._steady.now() < self._settle_by:
            return
        for query, reason in lost_queries(assignments, parts.sites.all(), parts.queries.all(), made_at=made_at).items():
            parts.queries.move(query, QueryEvent.NOT_CONFIRMED, reason)
            logger.warning(line("query is over", query=query, reason=reason))
        parts.queries.settle_restored()
        self.refresh()

    def _follow_slots(self) -> None:
        """Hold slots for the tasks. Where that cannot be stored the next tick tries again, and nothing waits for it."""
        try:
            self._parts.slots.follow(self._tasks_by_site())
            self._unleased = False
        except StoreError as error:
            if not self._unleased:
                logger.error(line("slots not leased yet", reason=error.message))  # noqa: TRY400 - no defect
            self._unleased = True

    def _follow_batch(self) -> bool:
        """Place the tasks of batch queries; whether sites have something else to do. As with `_follow_slots`."""
        if not self.settled:
            return False
        try:
            moved = self._parts.batch.follow()
            self._unplaced = False
        except StoreError as error:
            if not self._unplaced:
                logger.error(line("batch tasks not placed yet", reason=error.message))  # noqa: TRY400 - no defect
            self._unplaced = True
            return True
        return moved

    def _tasks_by_site(self) -> Counter[str]:
        """How many tasks queries of streams have at each site, those included that wait for a slot."""
        return Counter(operator.site for operator in self._parts.queries.running().operators if is_task(operator))

    def _without_slots(self) -> frozenset[str]:
        """Queries that wait for a slot at one of their sites. Those that run stay where they are."""
        records = (record for record in self._parts.queries.all() if record.batch is None)
        starting = [record for record in records if record.state.starting]
        return frozenset(record.id for record in starting if self._parts.slots.blocked(stage_sites(record)))

    def flush(self) -> None:
        """Store totals and last-seen times."""
        self._flushed_at = self._steady.now()
        self._parts.queries.flush()
        self._parts.sites.flush()

    def _concerned(self, report: SiteReport) -> tuple[QueryRecord, ...]:
        """Queries that the report may say something of, be it that their tasks are gone."""
        named = {t.query_id for t in report.tasks} | {r.query_id for r in report.results}
        return tuple(q for q in self._parts.queries.all() if q.id in named or not q.state.over)

    def _follow_up(self, record: QueryRecord) -> None:
        """Make the moves that the query's progress calls for."""
        if record.state is QueryState.CANCELLING and self._is_gone(record):
            self._removed_at.pop(record.id, None)
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
                self.refresh()

    def _note_removal(self, record: QueryRecord) -> None:
        self._removed_at[record.id] = {site: self._parts.board.version(site) for site in task_sites(record)}

    def _is_gone(self, record: QueryRecord) -> bool:
        removed_at = self._removed_at.get(record.id)
        if removed_at is None:
            return False
        alive = self._parts.sites.alive()
        reached = [s for s in self._parts.sites.all() if s.name in alive and s.name in removed_at]
        return tasks_gone(((s.name, _version_in_force(s)) for s in reached), removed_at)

    def _results_kept(self) -> frozenset[str]:
        now, retention = self._clock.now(), self._config.results_retention
        return frozenset(q.id for q in self._parts.queries.all() if keeps_results(q, now=now, retention=retention))


def _check_not_over(record: QueryRecord) -> None:
    if record.state.over or record.state is QueryState.CANCELLING:
        raise QueryOverError(
            f"query {record.id} is {record.state.value} already",
            hint=f"look at it: selat query show {record.id}",
            ids={"query": record.id},
        )


def _version_in_force(status: SiteStatus) -> int:
    """-1 while the site has not reported since it registered (or since the master's start)."""
    return status.report.assignment_version if status.report else -1
