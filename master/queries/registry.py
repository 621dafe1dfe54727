"""All queries, their moves from state to state, and how far each has come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from machine.clock import Clock
from machine.faults import reached
from master.base.errors import QueryNameTakenError, QueryPurgedError, StaleChangeError, UnknownQueryError
from master.base.faults import FaultPoint
from master.base.logs import line
from master.base.notify import Notifier
from master.base.rates import RateMeter
from master.queries.flows import measured_rates
from master.queries.progress import batch_progress
from master.queries.sharing import initial_tasks, named_by, plan_in_place, redeployed, running_of
from master.records.ids import RandomHex, check_query_name, find_query, query_id, query_number
from master.records.lifecycle import QueryEvent, next_query_state
from master.records.model import BatchState, BatchTask, LinkUse, Progress, QueryRecord, QueryState, StateChange
from master.store import QueryStore
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.sharing.deployment import Change, placed_alone
from planner.sharing.running import Running

logger = logging.getLogger(__name__)

NOWHERE: Mapping[TaskId, str] = MappingProxyType({})

Deploy = Callable[[str], Change]
"""From the id of a new query to what it is to run among all that runs."""

OnChange = Callable[[QueryRecord, StateChange], None]
"""Told of a query as it is now, and of the change that is durable."""


class QueryRegistry:
    """The only writer of queries; a move is durable before anyone hears of it."""

    def __init__(self, store: QueryStore, *, clock: Clock, random_hex: RandomHex) -> None:
        self._store = store
        self._clock = clock
        self._random_hex = random_hex
        self._records = {record.id: _with_tasks(record) for record in store.queries()}
        self._changes: dict[str, Notifier] = {}
        self._listeners: list[OnChange] = []
        self._rates = RateMeter()
        self._unsaved: set[str] = set()
        self._placement = store.placement()
        self._version = store.running_version()
        self._running: Running | None = None
        self._held: Running | None = None
        self._last_number = store.last_query_number()
        self._restored_from = store.restored_from()

    def listen(self, listener: OnChange) -> None:
        """Have it told of every change of a query, once that is durable."""
        self._listeners.append(listener)

    @property
    def restored_from(self) -> datetime | None:
        """The time of the backup that these were restored from; None: nothing is in doubt."""
        return self._restored_from

    def settle_restored(self) -> None:
        """Those of a restored store that are not over do run. Raises StoreError."""
        self._store.settle_restored()
        self._restored_from = None

    def all(self) -> tuple[QueryRecord, ...]:
        """In order of submission."""
        return tuple(self._records.values())

    def get(self, query: str) -> QueryRecord:
        """The query of exactly that id.

        Raises:
            UnknownQueryError, QueryPurgedError
        """
        record = self._records.get(query)
        return self.find(query) if record is None else record

    def find(self, reference: str) -> QueryRecord:
        """By id, unique prefix of an id, or name.

        Raises:
            UnknownQueryError, AmbiguousQueryError
            QueryPurgedError: it was known once.
        """
        try:
            return find_query(self.all(), reference)
        except UnknownQueryError as error:
            if not self._was_purged(reference):
                raise
            raise QueryPurgedError(
                f"query {reference} is over and no longer known, nor are its results",
                hint="the master's --ended-retention and --ended-count say how long ended queries are kept",
                ids={"query": reference},
            ) from error

    @property
    def version(self) -> int:
        """Of what runs; it grows with every change."""
        return self._version

    @property
    def placement(self) -> Mapping[TaskId, str]:
        """The site of each task of each query that is known; of batch queries see their state."""
        return self._placement

    def plan_of(self, record: QueryRecord) -> PhysicalPlan:
        """A query's plan, with the sites where its vertices are."""
        return plan_in_place(record, self._placement)

    def running(self) -> Running:
        """What live queries need, tasks of queries that are over included."""
        if self._running is None:
            self._running = self._needed_by(frozenset(r.id for r in self._records.values() if r.state.live))
        return self._running

    def measured(self) -> Running:
        """The same, where tasks send what was measured of them lately."""
        running = self.running()
        return running.measured(measured_rates(running, self._records, self._clock.now()))

    def held(self) -> Running:
        """As `running`, with what paused queries need."""
        if self._held is None:
            self._held = self._needed_by(frozenset(r.id for r in self._records.values() if r.state.held))
        return self._held

    def _needed_by(self, queries: frozenset[str]) -> Running:
        return running_of(self._records.values(), self._placement, queries, version=self._version)

    def live_of(self, owner: str) -> int:
        """The number of queries of that owner that are not over."""
        return sum(record.owner == owner and not record.state.over for record in self._records.values())

    def check_name_free(self, name: str) -> None:
        """Raises InvalidRequestError or QueryNameTakenError; the empty name is always free."""
        if not name:
            return
        check_query_name(name)
        holder = next((q for q in self._records.values() if q.name == name and not q.state.over), None)
        if holder is not None:
            raise QueryNameTakenError(
                f"query {holder.id} has the name {name!r}",
                hint="choose another name, or cancel it",
                ids={"name": name, "query": holder.id},
            )

    def live_readers(self, relation: str) -> tuple[str, ...]:
        """Ids of the queries that are not over and read the relation."""
        return tuple(q.id for q in self._records.values() if not q.state.over and _reads(q.plan, relation.lower()))

    def live_callers(self, function: str) -> tuple[str, ...]:
        """Ids of the queries that are not over and call the Python function, in whichever version."""
        key = function.lower()
        return tuple(
            q.id
            for q in self._records.values()
            if not q.state.over and any(f.name.lower() == key for f in q.plan.functions)
        )

    def accept(
        self, plan: PhysicalPlan, *, sql: str, name: str = "", deploy: Deploy | None = None, owner: str = ""
    ) -> QueryRecord:
        """Store a new query; `deploy` says how it runs among those that run, once it has an id.

        Raises:
            InvalidRequestError, QueryNameTakenError
            PlannerError: what `deploy` raises.
            StaleChangeError: what `deploy` gave is of an earlier version of what runs.
        """
        self.check_name_free(name)
        self._last_number = self._store.next_query_number()
        identifier = query_id(self._last_number, self._random_hex)
        reached(FaultPoint.QUERY_ACCEPTED)
        if deploy is not None:
            change = deploy(identifier)
        else:
            change = Change(self._version, plan, None, placed_alone(plan, identifier))
        self._check_version(change)
        plan = change.plan
        state = None if plan.batch is None else BatchState(maps=(BatchTask(),) * len(plan.batch.splits))
        record = QueryRecord(
            id=identifier,
            name=name,
            sql=sql,
            # From here on the placement says where the tasks of a query of streams are.
            plan=plan if plan.batch is not None else replace(plan, sites={}),
            state=QueryState.DEPLOYING,
            submitted_at=self._clock.now(),
            progress=Progress(initial_tasks(identifier, plan, change.deployment, self._with(change.placement))),
            batch=state,
            deployment=change.deployment,
            owner=owner,
        )
        record = _with_tasks(record)
        self._commit(record, source=None, placement=change.placement)
        return record

    def redeploy(self, query: str, change: Change) -> None:
        """Have a query run something else; its state is as it was, and tasks that it keeps are as far as they were.

        Raises:
            StaleChangeError: something else was changed since it was decided.
        """
        self._check_version(change)
        last = self._records[query]
        record = redeployed(last, change, self._with(change.placement))
        self._commit(record, source=last.state, reason=change.reason, placement=change.placement)

    def move(self, query: str, event: QueryEvent, reason: str = "") -> QueryRecord:
        """The query in the state that the event leads to.

        Raises:
            IllegalTransitionError
        """
        last = self._records[query]
        state = next_query_state(query, last.state, event)
        now = self._clock.now()
        record = replace(
            last,
            state=state,
            reason=reason,
            started_at=last.started_at or (now if state is QueryState.RUNNING else None),
            ended_at=now if state.over else None,
        )
        self._commit(record, source=last.state)
        return record

    def set_batch(self, query: str, batch: BatchState) -> QueryRecord:
        """What has become of a batch query's tasks, durably."""
        record = replace(self._records[query], batch=batch)
        record = replace(record, progress=batch_progress(record))
        self._store.put_batch(query, batch)
        reached(FaultPoint.BATCH_STORED)
        self._records[query] = record
        self._unsaved.add(query)
        self.changes(query).notify()
        return record

    def set_progress(self, query: str, progress: Progress) -> None:
        """Take over how far a query has come; stored with the next flush or move."""
        record = self._records[query]
        if progress == record.progress:
            return
        self._records[query] = replace(record, progress=progress)
        self._unsaved.add(query)
        now = self._clock.now()
        for (source, target), (size, _) in _link_totals(progress).items():
            self._rates.observe((query, source, target), now, size)

    def links(self, query: str) -> tuple[LinkUse, ...]:
        """Bytes of the query's channels over each ordered pair of sites, since the query began."""
        now = self._clock.now()
        return tuple(
            LinkUse(source, target, size, epochs, self._rates.per_second((query, source, target), now))
            for (source, target), (size, epochs) in sorted(_link_totals(self._records[query].progress).items())
        )

    def changes(self, query: str) -> Notifier:
        """Woken by every move of the query, and when it is purged."""
        if query not in self._records:
            return Notifier()
        return self._changes.setdefault(query, Notifier())

    def history(self, query: str) -> tuple[StateChange, ...]:
        return self._store.changes(query)

    def purge(self, queries: Collection[str]) -> None:
        """Forget queries that are over, for good."""
        left = [record for record in self._records.values() if record.id not in queries]
        known, named = {record.id for record in left}, {task for record in left for task in named_by(record)}
        unplaced = {task for task in self._placement if task not in named and task.query not in known}
        self._store.delete_queries(queries, unplaced)
        self._placement = {task: site for task, site in self._placement.items() if task not in unplaced}
        self._running = self._held = None
        for query in queries:
            record = self._records.pop(query)
            self._unsaved.discard(query)
            for source, target in _link_totals(record.progress):
                self._rates.forget((query, source, target))
            # Whoever still watches it learns that it is gone.
            self._changes.pop(query, Notifier()).notify()
            logger.info(line("query purged", query=query, state=record.state.value))

    def flush(self) -> None:
        """Store what reports brought since the last time."""
        if self._unsaved:
            self._store.put_progress({query: self._records[query].progress for query in sorted(self._unsaved)})
            self._unsaved = set()

    def _was_purged(self, reference: str) -> bool:
        """Every number up to the last was given to one query; a number that nobody has was that of a purged one."""
        number = query_number(reference)
        if number is None or not 0 < number <= self._last_number:
            return False
        return all(query_number(known) != number for known in self._records)

    def _check_version(self, change: Change) -> None:
        if change.version != self._version:
            raise StaleChangeError(
                f"what runs has changed since this was decided: version {self._version} now, {change.version} then",
                hint="try again",
            )

    def _with(self, placement: Mapping[TaskId, str]) -> Mapping[TaskId, str]:
        return {**self._placement, **placement} if placement else self._placement

    def _commit(
        self,
        record: QueryRecord,
        *,
        source: QueryState | None,
        reason: str = "",
        placement: Mapping[TaskId, str] = NOWHERE,
    ) -> None:
        change = StateChange(record.id, source, record.state, reason or record.reason, self._clock.now())
        self._version = self._store.put_query(record, change, placement)
        self._placement = self._with(placement)
        if source is not None:
            reached(FaultPoint.MOVE_STORED)
        self._records[record.id] = record
        self._running = self._held = None
        self._unsaved.discard(record.id)
        was = source.value if source else ""
        logger.info(line("query state", query=record.id, was=was, now=record.state.value, reason=change.reason))
        for listener in self._listeners:
            listener(record, change)
        self.changes(record.id).notify()


def _with_tasks(record: QueryRecord) -> QueryRecord:
    """With all tasks that are stored as placed: totals are stored more seldom."""
    return record if record.batch is None else replace(record, progress=batch_progress(record))


def _reads(plan: PhysicalPlan, key: str) -> bool:
    return any(stage.relation is not None and stage.relation.lower() == key for stage in plan.stages)


def _link_totals(progress: Progress) -> dict[tuple[str, str], tuple[int, int]]:
    """(bytes, epochs) by (from, to); what a site reads of itself crosses no link."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for counter in progress.counters:
        if counter.from_site != counter.to_site:
            size, epochs = sums.get((counter.from_site, counter.to_site), (0, 0))
            sums[counter.from_site, counter.to_site] = (size + counter.total_bytes, epochs + counter.total_epochs)
    return sums
