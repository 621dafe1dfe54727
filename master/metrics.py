"""The master's metrics: the table of them, and the code that fills it from the present state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from contract.times import to_us
from machine.description import package_version
from machine.durations import Durations
from machine.metrics import Family, Kind, Metric, Sheet
from master.queries.registry import QueryRegistry
from master.records.model import QueryRecord, QueryState, SiteState, StateChange
from master.sites.status import Sites, SiteStatus
from master.store import Store
from master.views.queries import QueryView, QueryViews
from planner.leases import Change, LeaseTable, SlotState
from planner.values.topology import Topology
from planner.wan.snapshot import LinkView, WanSnapshot

ROLE = "master"

LINKS_TOLD = 2000
"""Up to this many links, all have series; of more, only links that carry something or are congested."""

_US_PER_S = 1_000_000
_LAST_WATERMARK_S = 253_402_300_800
"""The year 10000: a channel that has ended has a later watermark, which is not exported."""

_QUERY_STATES = tuple(state.value for state in QueryState if not state.over)
_SLOT_STATES = tuple(state.value for state in SlotState)

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_Q, _S, _L = ("query",), ("site",), ("from", "to")

MASTER_METRICS: tuple[Metric, ...] = (
    Metric("selat_build_info", _GAUGE, ("role", "version"), "", "1; the labels say what runs."),
    Metric("selat_master_ready", _GAUGE, (), "", "1 when the sites have reported since the start, or had the time."),
    Metric("selat_queries", _GAUGE, ("state",), "queries", "Known queries, by state; those that are over included."),
    Metric("selat_query_transitions_total", _COUNTER, ("to",), "moves", "Moves of queries into a state."),
    Metric("selat_query_info", _GAUGE, ("query", "name", "gateway"), "", "1 for each query that is not over."),
    Metric("selat_query_state", _GAUGE, ("query", "state"), "", "1 for the state that the query is in, else 0."),
    Metric("selat_query_rows_in_total", _COUNTER, _Q, "rows", "Rows read from streams, or from the first table."),
    Metric("selat_query_rows_out_total", _COUNTER, _Q, "rows", "Rows of the result, at the gateway or in the sink."),
    Metric("selat_query_rows_late_total", _COUNTER, _Q, "rows", "Rows that came after their watermark."),
    Metric("selat_query_rows_malformed_total", _COUNTER, _Q, "rows", "Rows set aside."),
    Metric("selat_query_rows_shed_total", _COUNTER, _Q, "rows", "Rows left out because others waited for too long."),
    Metric(
        "selat_query_input_bytes_total",
        _COUNTER,
        _Q,
        "bytes",
        "Bytes read from streams and tables, as stored at their sites.",
    ),
    Metric(
        "selat_query_wan_bytes_total", _COUNTER, _Q, "bytes", "Bytes that the query's channels moved between sites."
    ),
    Metric(
        "selat_query_wan_cost_total", _COUNTER, ("query", "currency"), "currency", "Price of that, if links have any."
    ),
    Metric("selat_query_saved_bytes_total", _COUNTER, _Q, "bytes", "Bytes not sent because of sharing."),
    Metric(
        "selat_query_behind_bytes",
        _GAUGE,
        _Q,
        "bytes",
        "Bytes that wait for it in channels where other queries keep up.",
    ),
    Metric("selat_query_watermark_timestamp_seconds", _GAUGE, _Q, "seconds", "Event time up to which it is complete."),
    Metric("selat_query_batch_tasks", _GAUGE, ("query", "phase"), "tasks", "Of a batch query: waiting, running, done."),
    Metric("selat_site_up", _GAUGE, _S, "", "1 when the site's agent was heard within the heartbeat timeout."),
    Metric("selat_site_draining", _GAUGE, _S, "", "1 when the site gets no new work."),
    Metric("selat_site_last_report_timestamp_seconds", _GAUGE, _S, "seconds", "When its agent last reported."),
    Metric("selat_slots", _GAUGE, ("site", "state"), "slots", "Slots by state."),
    Metric("selat_slot_waiters", _GAUGE, _S, "requests", "Requests that wait for one of the site's slots."),
    Metric("selat_lease_grants_total", _COUNTER, _S, "leases", "Leases granted since the master's start."),
    Metric("selat_lease_expirations_total", _COUNTER, _S, "leases", "Leases not renewed in time."),
    Metric(
        "selat_link_capacity_bytes_per_second",
        _GAUGE,
        _L,
        "bytes/s",
        "Capacity of the link: measured, else as declared.",
    ),
    Metric("selat_link_available_bytes_per_second", _GAUGE, _L, "bytes/s", "What new transfers would find."),
    Metric("selat_link_used_bytes_per_second", _GAUGE, _L, "bytes/s", "Rate of our own transfers on it."),
    Metric("selat_link_round_trip_seconds", _GAUGE, _L, "seconds", "Round trip, once it was measured."),
    Metric("selat_link_loss_ratio", _GAUGE, _L, "0 to 1", "Share of echoes lost."),
    Metric("selat_link_congested", _GAUGE, _L, "", "1 when use is near capacity."),
    Metric("selat_link_estimate_age_seconds", _GAUGE, _L, "seconds", "Since its bandwidth was last measured."),
    Metric("selat_link_estimate_confidence_ratio", _GAUGE, _L, "0 to 1", "0: nothing was measured."),
    Metric("selat_link_price", _GAUGE, (*_L, "currency"), "per 10^9 bytes", "As the topology file has it."),
    Metric(
        "selat_rpc_duration_seconds",
        _HISTOGRAM,
        ("service", "method", "code"),
        "seconds",
        "Calls with one answer, by gRPC status.",
    ),
    Metric("selat_store_size_bytes", _GAUGE, (), "bytes", "The state file."),
    Metric("selat_store_errors_total", _COUNTER, (), "errors", "Changes that could not be stored."),
    Metric("selat_store_commit_duration_seconds", _HISTOGRAM, (), "seconds", "Until a change is on the disk."),
)


@dataclass(frozen=True, slots=True)
class Watched:
    """The parts of the master that the metrics are read from."""

    queries: QueryRegistry
    views: QueryViews
    sites: Sites
    slots: LeaseTable
    wan: Callable[[], WanSnapshot]
    topology: Topology
    store: Store
    calls: Durations
    """By service, method and status."""
    ready: Callable[[], bool]


@dataclass(slots=True)
class Tally:
    """Counts events between two scrapes, when they happen."""

    moves: Counter[str] = field(default_factory=Counter)
    """Moves of queries, by the state that they entered."""
    grants: Counter[str] = field(default_factory=Counter)
    """Grants of leases, by site."""
    expirations: Counter[str] = field(default_factory=Counter)

    def moved(self, record: QueryRecord, change: StateChange) -> None:
        """Count a change of a query."""
        if change.source is not change.target:
            self.moves[change.target.value] += 1

    def leased(self, changes: Sequence[Change]) -> None:
        """Count grants and ends of leases."""
        for before, after in changes:
            lease = after.lease if after else None
            last = before.lease if before else None
            if lease is not None and (last is None or last.fencing != lease.fencing):
                self.grants[lease.slot.site] += 1
            if after is not None and after.state is SlotState.GRACE and before and before.state is not SlotState.GRACE:
                self.expirations[after.slot.site] += 1


class MasterMetrics:
    """Fills the table; called on the event loop."""

    def __init__(self, watched: Watched, tally: Tally) -> None:
        self._watched = watched
        self._tally = tally

    def families(self) -> Sequence[Family]:
        """All families as they are now."""
        sheet, watched = Sheet(MASTER_METRICS), self._watched
        sheet.put("selat_build_info", 1, ROLE, package_version("selat"))
        sheet.put("selat_master_ready", float(watched.ready()))
        self._put_counts(sheet)
        for record in watched.queries.all():
            if not record.state.over:
                put_query(sheet, watched.views.of(record))
        for status in watched.sites.all():
            put_site(sheet, status, watched.slots)
        for link in told(watched.wan().links.values()):
            put_link(sheet, link, watched.topology)
        sheet.put_durations("selat_rpc_duration_seconds", watched.calls.read())
        figures = watched.store.figures()
        sheet.put("selat_store_size_bytes", figures.size_bytes)
        sheet.put("selat_store_errors_total", figures.errors)
        sheet.put_durations("selat_store_commit_duration_seconds", figures.commits)
        return sheet.families()

    def _put_counts(self, sheet: Sheet) -> None:
        counts = Counter(record.state.value for record in self._watched.queries.all())
        for state in _values(QueryState):
            sheet.put("selat_queries", counts[state], state)
            sheet.put("selat_query_transitions_total", self._tally.moves[state], state)
        for status in self._watched.sites.all():
            sheet.put("selat_lease_grants_total", self._tally.grants[status.name], status.name)
            sheet.put("selat_lease_expirations_total", self._tally.expirations[status.name], status.name)


def put_query(sheet: Sheet, view: QueryView) -> None:
    """Add a query's series."""
    record, totals = view.record, view.totals
    query = record.id
    sheet.put("selat_query_info", 1, query, record.name, record.plan.destination.site)
    sheet.put_one_of("selat_query_state", _QUERY_STATES, record.state.value, query)
    sheet.put("selat_query_rows_in_total", totals.rows_in, query)
    sheet.put("selat_query_rows_out_total", totals.rows_out, query)
    sheet.put("selat_query_rows_late_total", totals.rows_late, query)
    sheet.put("selat_query_rows_malformed_total", totals.rows_malformed, query)
    sheet.put("selat_query_rows_shed_total", totals.rows_shed, query)
    sheet.put("selat_query_input_bytes_total", totals.input_bytes, query)
    sheet.put("selat_query_wan_bytes_total", view.wan_bytes, query)
    if view.wan_cost is not None:
        sheet.put("selat_query_wan_cost_total", view.wan_cost, query, view.currency)
    sheet.put("selat_query_saved_bytes_total", view.shared.bytes_saved if view.shared else 0, query)
    behind = (b.bytes for t in record.progress.tasks.values() for b in t.behind if b.query_id == query)
    sheet.put("selat_query_behind_bytes", sum(behind), query)
    if totals.watermark_us is not None and totals.watermark_us / _US_PER_S < _LAST_WATERMARK_S:
        sheet.put("selat_query_watermark_timestamp_seconds", totals.watermark_us / _US_PER_S, query)
    if view.batch is not None:
        for phase, count in (
            ("waiting", view.batch.waiting),
            ("running", view.batch.running),
            ("done", view.batch.done),
        ):
            sheet.put("selat_query_batch_tasks", count, query, phase)


def put_site(sheet: Sheet, status: SiteStatus, slots: LeaseTable) -> None:
    """Add a site's series, with those of its slots."""
    site = status.name
    sheet.put("selat_site_up", float(status.state is SiteState.ALIVE), site)
    sheet.put("selat_site_draining", float(status.draining), site)
    last_report = status.record.last_report_at if status.record else None
    if last_report is not None:
        sheet.put("selat_site_last_report_timestamp_seconds", _seconds(last_report), site)
    records = slots.of_site(site)
    counts = Counter(record.state.value for record in records)
    for state in _SLOT_STATES:
        sheet.put("selat_slots", counts[state], site, state)
    sheet.put("selat_slot_waiters", sum(len(record.waiters) for record in records), site)


def put_link(sheet: Sheet, link: LinkView, topology: Topology) -> None:
    """Add a link's series."""
    figures, ends = link.figures, link.figures.pair
    declared = topology.link(*ends)
    if topology.currency and declared is not None:
        sheet.put("selat_link_price", declared.price_per_gb, *ends, topology.currency)
    sheet.put("selat_link_capacity_bytes_per_second", figures.capacity_bytes_per_s, *ends)
    sheet.put("selat_link_available_bytes_per_second", figures.available_bytes_per_s, *ends)
    sheet.put("selat_link_used_bytes_per_second", link.used_bytes_per_s, *ends)
    if link.rtt is not None:
        sheet.put("selat_link_round_trip_seconds", link.rtt.total_seconds(), *ends)
    sheet.put("selat_link_loss_ratio", link.loss, *ends)
    sheet.put("selat_link_congested", float(link.congested), *ends)
    if figures.age is not None:
        sheet.put("selat_link_estimate_age_seconds", figures.age.total_seconds(), *ends)
    sheet.put("selat_link_estimate_confidence_ratio", figures.confidence, *ends)


def told(links: Iterable[LinkView]) -> Sequence[LinkView]:
    """The links that have series: all, or if there are too many, the busy and congested ones."""
    listed = list(links)
    if len(listed) <= LINKS_TOLD:
        return listed
    busy = [link for link in listed if link.congested or link.used_bytes_per_s > 0]
    return sorted(busy, key=lambda link: link.used_bytes_per_s, reverse=True)[:LINKS_TOLD]


def _seconds(at: datetime) -> float:
    return to_us(at) / _US_PER_S


def _values(states: type[Enum]) -> Sequence[str]:
    return [state.value for state in states]
