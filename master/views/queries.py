"""Queries as users see them: the record, its totals, and what the query waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from master.batch.manager import BatchManager
from master.batch.view import BatchView
from master.leases.streaming import StreamingSlots
from master.queries.progress import Totals, behind_texts, totals
from master.queries.registry import QueryRegistry
from master.queries.savings import SharedOperator, SharedParts, shared_operators, shared_parts
from master.reconcile.assignments import stage_sites, task_sites
from master.records.model import BatchQuery, LinkUse, QueryRecord, SiteState
from master.sites.status import Sites, SiteStatus
from planner.graph.ids import TaskId


@dataclass(frozen=True, slots=True)
class QueryView:
    record: QueryRecord
    totals: Totals
    links: tuple[LinkUse, ...]
    reason: str
    batch: BatchView | None = None
    """None: it reads streams."""
    shared: SharedParts | None = None
    """None: it shares nothing, and nobody may share with it."""
    disk_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes on disk for the query by site, as the sites last reported."""
    wan_cost: float | None = None
    """The price of all bytes that crossed links, in `currency`; None: links have no prices."""
    currency: str = ""
    advice: str = ""
    """What adaptation decided last about it, for people; empty: it is off, or has not looked yet."""

    @property
    def wan_bytes(self) -> int:
        """The bytes that crossed links."""
        return sum(link.bytes for link in self.links)


class QueryViews:
    """Makes views of queries as they are now."""

    def __init__(self, queries: QueryRegistry, sites: Sites, slots: StreamingSlots, batch: BatchManager) -> None:
        self._queries = queries
        self._batch = batch
        self._sites = sites
        self._slots = slots
        self.advice: Callable[[str], str] = lambda query: ""
        """What adaptation decided last about a query."""

    def of(self, record: QueryRecord, *, summary: bool = False) -> QueryView:
        """The view of a query. `summary`: without what it shares, which takes longest to compute."""
        links = self._queries.traffic.of(record)
        shared = None if summary else shared_parts(record, self._queries.all(), self._queries.snapshots.live)
        return QueryView(
            record=record,
            totals=totals(record),
            links=links,
            reason="; ".join((*((record.reason,) if record.reason else self._obstacles(record)), *_behind(record))),
            batch=self._batch.view(record) if isinstance(record, BatchQuery) else None,
            shared=shared,
            disk_bytes=_disk_bytes(record.id, self._sites.all()),
            wan_cost=self._sites.cost(links),
            currency=self._sites.currency,
            advice=self.advice(record.id),
        )

    def shared(self) -> tuple[SharedOperator, ...]:
        """The operators that several queries need now."""
        return shared_operators(self._queries.all(), self._queries.snapshots.live)

    def _obstacles(self, record: QueryRecord) -> Iterable[str]:
        if silent := waits_for(record, self._queries.snapshots.placement, self._sites.all()):
            yield silent
        if isinstance(record, BatchQuery):
            return
        if record.state.starting:
            yield from self._slots.blocked(stage_sites(record, self._queries.snapshots.placement)).values()


def _behind(record: QueryRecord) -> tuple[str, ...]:
    return tuple(text for text, _ in behind_texts(record)) if record.state.held else ()


def _disk_bytes(query: str, sites: Iterable[SiteStatus]) -> dict[str, int]:
    kept = {site.name: site.report.disk.query_bytes.get(query, 0) for site in sites if site.report is not None}
    return {site: size_bytes for site, size_bytes in kept.items() if size_bytes}


def waits_for(record: QueryRecord, placement: Mapping[TaskId, str], sites: Iterable[SiteStatus]) -> str:
    """The unreachable sites of a query that is not over; empty when all are alive."""
    if record.state.over:
        return ""
    needed = task_sites(record, placement)
    silent = [s for s in sites if s.name in needed and s.state is not SiteState.ALIVE]
    words = {SiteState.EXPECTED: "has not connected yet", SiteState.UNREACHABLE: "is unreachable"}
    return "; ".join(f"site {s.name} {words[s.state]}" for s in silent)
