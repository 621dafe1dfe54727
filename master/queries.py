"""All queries, their moves from state to state, and how far each has come."""

from __future__ import annotations

import logging
from dataclasses import replace

from master.clock import Clock
from master.errors import QueryNameTakenError
from master.ids import RandomHex, check_query_name, find_query, query_id
from master.lifecycle import QueryEvent, next_query_state
from master.logs import line
from master.model import LinkUse, Progress, QueryRecord, QueryState, StateChange
from master.notify import Notifier
from master.progress import initial_progress
from master.rates import RateMeter
from master.store import Store
from planner.plan import PhysicalPlan

logger = logging.getLogger(__name__)


class QueryRegistry:
    """The only writer of queries; a move is durable before anyone hears of it."""

    def __init__(self, store: Store, *, clock: Clock, random_hex: RandomHex) -> None:
        self._store = store
        self._clock = clock
        self._random_hex = random_hex
        self._records = {record.id: record for record in store.queries()}
        self._changes: dict[str, Notifier] = {}
        self._rates = RateMeter()
        self._unsaved: set[str] = set()

    def all(self) -> tuple[QueryRecord, ...]:
        """In order of submission."""
        return tuple(self._records.values())

    def get(self, query: str) -> QueryRecord:
        """The query of exactly that id; raises KeyError."""
        return self._records[query]

    def find(self, reference: str) -> QueryRecord:
        """By id, unique prefix of an id, or name.

        Raises:
            UnknownQueryError, AmbiguousQueryError
        """
        return find_query(self.all(), reference)

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

    def accept(self, plan: PhysicalPlan, *, sql: str, name: str = "") -> QueryRecord:
        """Store a new query.

        Raises:
            InvalidRequestError, QueryNameTakenError
        """
        self.check_name_free(name)
        identifier = query_id(self._store.next_query_number(), self._random_hex)
        record = QueryRecord(
            id=identifier,
            name=name,
            sql=sql,
            plan=plan,
            state=QueryState.DEPLOYING,
            submitted_at=self._clock.now(),
            progress=initial_progress(identifier, plan),
        )
        self._commit(record, source=None)
        return record

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
            started_at=now if state is QueryState.RUNNING else last.started_at,
            ended_at=now if state.over else None,
        )
        self._commit(record, source=last.state)
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
        """Woken by every move of the query."""
        return self._changes.setdefault(query, Notifier())

    def history(self, query: str) -> tuple[StateChange, ...]:
        return self._store.changes(query)

    def flush(self) -> None:
        """Store what reports brought since the last time."""
        if self._unsaved:
            self._store.put_progress({query: self._records[query].progress for query in sorted(self._unsaved)})
            self._unsaved = set()

    def _commit(self, record: QueryRecord, *, source: QueryState | None) -> None:
        self._store.put_query(record, StateChange(record.id, source, record.state, record.reason, self._clock.now()))
        self._records[record.id] = record
        self._unsaved.discard(record.id)
        was = source.value if source else ""
        logger.info(line("query state", query=record.id, was=was, now=record.state.value, reason=record.reason))
        self.changes(record.id).notify()


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
