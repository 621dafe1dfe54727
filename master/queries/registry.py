"""All queries: their state, and how far each has come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from machine.clock import Clock
from machine.faults import reached
from master.base.errors import QueryPurgedError, UnknownQueryError
from master.base.faults import FaultPoint
from master.base.logs import line
from master.base.notify import Notifier
from master.queries.lookup import QueryLookup
from master.queries.progress import with_progress
from master.queries.sharing import initial_tasks, redeployed
from master.queries.snapshots import Snapshots
from master.queries.traffic import QueryTraffic
from master.records.ids import RandomHex, find_query, query_id, query_number
from master.records.lifecycle import QueryEvent, next_query_state
from master.records.model import (
    BatchQuery,
    BatchState,
    BatchTask,
    Progress,
    QueryRecord,
    QueryState,
    StateChange,
    StreamQuery,
)
from master.store import QueryStore
from planner.graph.ids import TaskId
from planner.graph.plan import BatchPlan, PhysicalPlan
from planner.handover.model import Lineage
from planner.sharing.deployment import Change, placed_alone

logger = logging.getLogger(__name__)

NOWHERE: Mapping[TaskId, str] = MappingProxyType({})

Deploy = Callable[[str], Change]
"""From the id of a new query to its deployment beside those that run."""

OnChange = Callable[[QueryRecord, StateChange], None]
"""Is called with a query and its change, once that is durable."""


class QueryRegistry:
    """The only writer of queries; a change is durable before anyone is notified."""

    def __init__(self, store: QueryStore, *, clock: Clock, random_hex: RandomHex) -> None:
        self._store = store
        self._clock = clock
        self._random_hex = random_hex
        self._records = {record.id: _with_tasks(record) for record in store.queries()}
        self._changes: dict[str, Notifier] = {}
        self._listeners: list[OnChange] = []
        self.lookup = QueryLookup(self._records.values)
        self.traffic = QueryTraffic(clock)
        self._unsaved: set[str] = set()
        self.snapshots = Snapshots(self._records.values, store.placement(), store.running_version(), clock=clock)
        self._last_number = store.last_query_number()
        self._restored_from = store.restored_from()

    def listen(self, listener: OnChange) -> None:
        """Call the listener for every change of a query, once it is durable."""
        self._listeners.append(listener)

    @property
    def restored_from(self) -> datetime | None:
        """The time of the backup from which the queries were restored; None: their states are certain."""
        return self._restored_from

    def settle_restored(self) -> None:
        """Confirm that the queries of a restored store that are not over do run. Raises StoreError."""
        self._store.settle_restored()
        self._restored_from = None

    def all(self) -> tuple[QueryRecord, ...]:
        """All queries, in order of submission."""
        return tuple(self._records.values())

    def get(self, query: str) -> QueryRecord:
        """The query with exactly that id.

        Raises:
            UnknownQueryError, QueryPurgedError
        """
        record = self._records.get(query)
        return self.find(query) if record is None else record

    def find(self, reference: str) -> QueryRecord:
        """The query with that id, unique prefix of an id, or name.

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

    def accept(
        self, plan: PhysicalPlan, *, sql: str, name: str = "", deploy: Deploy | None = None, owner: str = ""
    ) -> QueryRecord:
        """Store a new query; `deploy` decides, given its id, what it runs beside the others.

        Raises:
            InvalidRequestError, QueryNameTakenError
            PlannerError: what `deploy` raises.
            StaleChangeError: what `deploy` gave is of an earlier version of what runs.
        """
        self.lookup.check_name_free(name)
        self._last_number = self._store.next_query_number()
        identifier = query_id(self._last_number, self._random_hex)
        reached(FaultPoint.QUERY_ACCEPTED)
        if deploy is not None:
            change = deploy(identifier)
        else:
            change = Change(self.snapshots.version, plan, None, placed_alone(plan, identifier))
        self.snapshots.check(change)
        plan, placement = change.plan, self.snapshots.placed_with(change.placement)
        tasks = initial_tasks(identifier, plan, change.deployment, placement)
        known: dict[str, Any] = {
            "id": identifier,
            "name": name,
            "sql": sql,
            "state": QueryState.DEPLOYING,
            "submitted_at": self._clock.now(),
            "progress": Progress(tasks),
            "owner": owner,
        }
        if isinstance(plan, BatchPlan):
            maps = (BatchTask(),) * len(plan.splits)
            record: QueryRecord = with_progress(BatchQuery(**known, plan=plan, batch=BatchState(maps)))
        else:
            # From here on, the placement holds the sites of the tasks.
            record = StreamQuery(**known, plan=replace(plan, sites={}), deployment=change.deployment)
        self._commit(record, source=None, placement=change.placement)
        return record

    def redeploy(self, query: str, change: Change, lineages: Sequence[Lineage] = ()) -> None:
        """Change what a query runs, and who was in its places; its state stays, and tasks that it keeps keep their
        progress.

        Raises:
            StaleChangeError: something else was changed since it was decided.
        """
        self.snapshots.check(change)
        last = self._records[query]
        if not isinstance(last, StreamQuery):
            raise TypeError(f"query {query} reads tables: its tasks are placed one by one")
        record = redeployed(last, change, self.snapshots.placed_with(change.placement))
        self._commit(record, source=last.state, reason=change.reason, placement=change.placement, lineages=lineages)

    def move(self, query: str, event: QueryEvent, reason: str = "") -> QueryRecord:
        """Move the query to the state that the event leads to; returns the query.

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

    def note(self, query: str, event: str) -> None:
        """Log something that has happened to a query whose state stays."""
        record = self._records[query]
        self._commit(record, source=record.state, reason=event)

    def set_tasks(self, query: str, found: Mapping[int | None, BatchTask]) -> None:
        """Store the state of these tasks of a batch query, by the number of their split (None: the REDUCE)."""
        last = self._records[query]
        if not isinstance(last, BatchQuery):
            raise TypeError(f"query {query} reads streams: it has no splits")
        record = with_progress(replace(last, batch=last.batch.with_tasks(found)))
        self._store.put_batch(query, record.batch)
        reached(FaultPoint.BATCH_STORED)
        self._records[query] = record
        self._unsaved.add(query)
        self.changes(query).notify()

    def set_progress(self, query: str, progress: Progress) -> None:
        """Record a query's progress; stored with the next flush or move."""
        record = self._records[query]
        if progress == record.progress:
            return
        self._records[query] = replace(record, progress=progress)
        self._unsaved.add(query)
        self.traffic.observe(query, progress)

    def changes(self, query: str) -> Notifier:
        """Woken by every change of the query's state, and when it is purged."""
        if query not in self._records:
            return Notifier()
        return self._changes.setdefault(query, Notifier())

    def history(self, query: str) -> tuple[StateChange, ...]:
        return self._store.changes(query)

    def purge(self, queries: Collection[str]) -> None:
        """Forget queries that are over, for good."""
        nameless = self.snapshots.nameless_without(queries)
        self._store.delete_queries(queries, nameless)
        for query in queries:
            record = self._records.pop(query)
            self._unsaved.discard(query)
            self.traffic.forget(record)
            # Those who still watch it learn that it is gone.
            self._changes.pop(query, Notifier()).notify()
            logger.info(line("query purged", query=query, state=record.state.value))
        self.snapshots.forgotten(nameless)

    def flush(self) -> None:
        """Store the progress since the last flush."""
        if self._unsaved:
            self._store.put_progress({query: self._records[query].progress for query in sorted(self._unsaved)})
            self._unsaved = set()

    def _was_purged(self, reference: str) -> bool:
        """Whether a query of that number is gone: each number up to the last was given to a query."""
        number = query_number(reference)
        if number is None or not 0 < number <= self._last_number:
            return False
        return all(query_number(known) != number for known in self._records)

    def _commit(
        self,
        record: QueryRecord,
        *,
        source: QueryState | None,
        reason: str = "",
        placement: Mapping[TaskId, str] = NOWHERE,
        lineages: Sequence[Lineage] = (),
    ) -> None:
        change = StateChange(record.id, source, record.state, reason or record.reason, self._clock.now())
        version = self._store.put_query(record, change, placement, lineages)
        if source is not None:
            reached(FaultPoint.MOVE_STORED)
        self._records[record.id] = record
        if source is not None and placement:
            self.snapshots.redeployed(version, placement)
        else:
            self.snapshots.changed(record, version, placement)
        self._unsaved.discard(record.id)
        was = source.value if source else ""
        logger.info(line("query state", query=record.id, was=was, now=record.state.value, reason=change.reason))
        for listener in self._listeners:
            listener(record, change)
        self.changes(record.id).notify()


def _with_tasks(record: QueryRecord) -> QueryRecord:
    """With all tasks that are stored as placed: totals are stored less often."""
    return with_progress(record) if isinstance(record, BatchQuery) else record
