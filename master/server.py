"""Assembles the master and serves it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio
from grpc_health.v1 import health as health_service
from grpc_health.v1 import health_pb2, health_pb2_grpc

from contract.trailers import refuse
from machine.clock import Clock, SystemClock
from machine.description import describe
from machine.durations import Durations
from master.access.checkpoint import Checkpoint
from master.access.grants import GrantManager
from master.access.members import MemberCertificates
from master.access.tokens import TokenManager
from master.adaptation.acting import Acting
from master.adaptation.advisor import Advisor, AdvisorParts
from master.adaptation.journal import Journal
from master.analysis.remembered import RememberedAnalyzer
from master.analysis.spark import SiteAnalyzer
from master.api.convert.leases import part_to_proto
from master.api.interceptors import ErrorInterceptor
from master.api.services.access import AccessServicer
from master.api.services.adaptation import AdaptationServicer
from master.api.services.catalog import CatalogServicer
from master.api.services.event import EventServicer
from master.api.services.handover import HandoverServicer
from master.api.services.lease import LeaseServicer
from master.api.services.member import MemberServicer
from master.api.services.query import QueryParts, QueryServicer
from master.api.services.site import ClusterInfo, SiteParts, SiteServicer
from master.api.services.wan import WanServicer
from master.api.watch import Watches
from master.base.errors import StoreError
from master.base.logs import line
from master.base.pending import PendingCalls
from master.base.timing import TimingInterceptor
from master.batch.manager import BatchManager, BatchParts
from master.batch.slots import BatchSlots
from master.batch.splits import SiteSplits
from master.config.values import REQUEST_LIMIT_BYTES, MasterConfig
from master.connect.parts import ClientParts
from master.events import EventStore
from master.events.log import EventLog
from master.events.notes import Notes
from master.events.sqlite import SqliteEvents
from master.flight.parts import FlightParts
from master.leases.feed import SlotFeeds
from master.leases.manager import LeaseManager, LeaseParts
from master.leases.streaming import StreamingSlots
from master.metrics import MasterMetrics, Tally, Watched
from master.planning.definitions import ViewDefinitions
from master.planning.deploying import Deployer, DeployingParts
from master.planning.recombining import Recombiner
from master.planning.settings import Settings
from master.planning.submission import PlanningParts, QueryPlanner
from master.queries.lineages import Lineages
from master.queries.registry import QueryRegistry
from master.reconcile.board import AssignmentBoard
from master.reconcile.jobs import JobManager
from master.reconcile.parts import JobParts
from master.reconcile.sitework import SiteWorkView
from master.records.ids import RandomHex, cluster_id
from master.relations.catalog import CatalogManager
from master.relations.functions import FunctionManager, FunctionParts
from master.results.fetch import FetchParts, ResultFetcher
from master.results.statistics import StatisticsKeeper
from master.sites.members import Describe, MemberParts, Members
from master.sites.peers import Peers
from master.sites.registry import SiteRegistry
from master.sites.statistics import MeasuredRates
from master.statements.runner import StatementParts, StatementRunner
from master.store import Store
from master.views.queries import QueryViews
from master.wan.agent_prober import AgentProber
from master.wan.history import HistoryStore, LinkHistory
from master.wan.monitor import MonitorSettings, WanMonitor
from planner.values.topology import Topology
from selat.v1 import (
    access_pb2_grpc,
    adaptation_pb2_grpc,
    catalog_pb2_grpc,
    event_pb2_grpc,
    handover_pb2_grpc,
    lease_pb2_grpc,
    member_pb2_grpc,
    query_pb2_grpc,
    site_pb2_grpc,
    wan_pb2_grpc,
)
from wire.security import PLAIN, Security
from wire.servers import aio_server
from wire.servers import listen as listen_at

logger = logging.getLogger(__name__)

_CLEANING_S = 2.0
"""The seconds that calls may take to clean up when the master stops."""

TICK_S = 0.25
"""The time between ticks."""

AT_ONCE = ("selat.v1.SiteService", "selat.v1.MemberService")
"""Services that are SERVING from the start: agents use them, and all others wait for the agents."""

_NAMES = ("Query", "Catalog", "Site", "Wan", "Lease", "Member", "Access", "Event", "Adaptation", "Handover")
SERVICES = tuple(f"selat.v1.{name}Service" for name in _NAMES)

_OPTIONS = (
    ("grpc.max_receive_message_length", REQUEST_LIMIT_BYTES),
    ("grpc.max_send_message_length", -1),
    # Two masters must never share a port by mistake.
    ("grpc.so_reuseport", 0),
    # Agents send pings, so that they notice a broken link.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)


def _random_hex(digits: int) -> str:
    return secrets.token_hex((digits + 1) // 2)[:digits]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts that come from outside, so that tests can replace them."""

    clock: Clock
    random_hex: RandomHex
    history: HistoryStore
    describe: Describe = describe
    """Describes the master's process."""
    security: Security = PLAIN
    """The security of the connections to agents and clients."""
    events: EventStore = field(default_factory=SqliteEvents.in_memory)
    journal: Journal = field(default_factory=Journal.in_memory)
    """Of what adaptation decides."""

    @classmethod
    def real(cls, history: HistoryStore, data: Path, security: Security = PLAIN) -> Surroundings:
        """Of a real process; `data` is the master's directory."""
        journal = Journal.open(data)
        events = SqliteEvents.open(data)
        return cls(SystemClock(), _random_hex, history, partial(describe, data), security, events, journal)


class Master:
    """All parts of one master, wired together; `serve` makes it reachable."""

    def __init__(self, store: Store, topology: Topology, *, config: MasterConfig, around: Surroundings) -> None:
        cluster = store.cluster(cluster_id(around.random_hex))
        self.peers = Peers(around.security)
        self._around = around
        self.tokens = TokenManager(store, clock=around.clock, random_hex=around.random_hex)
        members = MemberCertificates() if around.security.on else None
        self.checkpoint = Checkpoint(self.tokens, config.access, clock=around.clock, members=members)
        self.grants = GrantManager(store, clock=around.clock, on=config.access.on)
        self.queries = QueryRegistry(store, clock=around.clock, random_hex=around.random_hex)
        registry = SiteRegistry(store, topology, clock=around.clock, heartbeat_timeout=config.heartbeat_timeout)
        self._registry, self.sites = registry, registry.sites
        lookup = self.queries.lookup
        self.catalog = CatalogManager(
            store, topology, clock=around.clock, live_readers=lookup.live_readers, access=self.grants
        )
        self._rates = MeasuredRates()
        asking = SiteAnalyzer(self.sites, self.peers, gateway=topology.gateway, timeout=config.analyze_timeout)
        self._analyzer = RememberedAnalyzer(asking, self.sites.incarnations)
        functions = FunctionParts(store, self.catalog, self._analyzer, around.clock, lookup.live_callers)
        self.functions = FunctionManager(replace(functions, allowed=config.python_functions))
        self.leases = LeaseManager(
            LeaseParts(store, self.sites, around.clock, around.random_hex),
            config.leases,
            alive_interval=config.progress_interval,
        )
        self._feeds = SlotFeeds(self.leases.table, part_to_proto)
        self.leases.listen(self._feeds.publish)
        slots = StreamingSlots(self.leases)
        self.board = AssignmentBoard(store, version=cluster.version)
        self._cluster = ClusterInfo(cluster.id, topology, config.report_interval)
        self._config = config
        self.monitor = self._monitor(topology)
        batch = self._batch(topology)
        self.lineages = Lineages(store, self.queries)
        self.jobs = JobManager(self._parts(slots, batch), clock=around.clock, config=config)
        self._views = QueryViews(self.queries, self.sites, slots, batch)
        self._watches = Watches(self.queries, self._views, board=self.board, registry=registry)
        planning = PlanningParts(
            self.catalog,
            self.sites,
            self._rates,
            self._analyzer,
            wan=self.monitor.snapshot,
            splits=SiteSplits(self.sites, self.peers),
            access=self.grants,
        )
        self._planner = QueryPlanner(planning)
        self._recombiner = Recombiner(self._planner)
        self._definitions = ViewDefinitions(self.catalog, self._planner)
        deploying = DeployingParts(self.queries, self.catalog, self.sites, topology, wan=self.monitor.snapshot)
        self._deployer = Deployer(deploying)
        fetch = FetchParts(self.queries, self.sites, self.peers, around.clock, config, self.lineages)
        self._results = ResultFetcher(fetch)
        self._statistics = StatisticsKeeper(self.queries, self.catalog, self._results)
        self._calls = Durations()
        self.metrics = self._metrics(store)
        self.events = self._events()
        self.advisor = self._advisor()
        self._views.advice = self.advisor.journal.told

    def _parts(self, slots: StreamingSlots, batch: BatchManager) -> JobParts:
        return JobParts(
            self.queries,
            self._registry,
            self.catalog,
            self.board,
            self._rates,
            slots,
            batch,
            self.lineages,
            self.monitor.snapshot,
        )

    def _events(self) -> EventLog:
        log = EventLog(self._around.events, clock=self._around.clock)
        notes = Notes(log.note)
        self.queries.listen(notes.query)
        self._registry.listen(notes.site)
        self.monitor.listen(notes.link)
        self.leases.listen(notes.leases)
        return log

    def _advisor(self) -> Advisor:
        acting = Acting(self.jobs.handovers, self.lineages, self.queries, self._recombiner.planned)
        parts = AdvisorParts(self.queries, self.sites, self.leases, self._around.journal, self.monitor.snapshot, acting)
        return Advisor(parts, clock=self._around.clock, settings=self._config.adaptation)

    def _metrics(self, store: Store) -> MasterMetrics:
        tally = Tally()
        self.queries.listen(tally.moved)
        self.leases.listen(tally.leased)
        watched = Watched(
            queries=self.queries,
            views=self._views,
            sites=self.sites,
            slots=self.leases.table,
            wan=self.monitor.snapshot,
            topology=self._cluster.topology,
            store=store,
            calls=self._calls,
            ready=lambda: self.ready,
        )
        return MasterMetrics(watched, tally)

    def _batch(self, topology: Topology) -> BatchManager:
        parts = BatchParts(
            self.queries,
            self.sites,
            BatchSlots(self.leases),
            topology,
            wan=self.monitor.snapshot,
            rng=random.Random(self._around.random_hex(16)),
        )
        return BatchManager(parts, self._config.batch)

    def _monitor(self, topology: Topology) -> WanMonitor:
        settings = MonitorSettings(enabled=self._config.probes)
        return WanMonitor(
            topology,
            clock=self._around.clock,
            prober=AgentProber(self.sites, self.peers),
            history=LinkHistory(self._around.history, retention=settings.retention),
            settings=settings,
        )

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add all services to a server that does not run yet."""
        query_pb2_grpc.add_QueryServiceServicer_to_server(self._query_servicer(), server)
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server(
            CatalogServicer(self.catalog, self.jobs, self.functions, self._definitions), server
        )
        members = Members(MemberParts(self.sites, self.peers, self._around.clock, self._around.describe))
        member_pb2_grpc.add_MemberServiceServicer_to_server(MemberServicer(members), server)
        work = SiteWorkView(self.board, self.leases, lambda: self.queries.snapshots.held)
        parts = SiteParts(self.jobs, self.sites, self._watches, self.monitor, work, members, self.advisor)
        sites = SiteServicer(parts, cluster=self._cluster)
        site_pb2_grpc.add_SiteServiceServicer_to_server(sites, server)
        wan = WanServicer(self.monitor, self._cluster.topology)
        wan_pb2_grpc.add_WanServiceServicer_to_server(wan, server)
        lease_pb2_grpc.add_LeaseServiceServicer_to_server(LeaseServicer(self.leases, self._feeds), server)
        access = AccessServicer(self.tokens, on=self._config.access.on)
        access_pb2_grpc.add_AccessServiceServicer_to_server(access, server)
        events = EventServicer(self.events, lambda text: self.queries.find(text).id)
        event_pb2_grpc.add_EventServiceServicer_to_server(events, server)
        adaptation = AdaptationServicer(self.advisor.journal, self.queries)
        adaptation_pb2_grpc.add_AdaptationServiceServicer_to_server(adaptation, server)
        handovers = HandoverServicer(self.jobs.handovers, self.lineages, self.queries, self._recombiner)
        handover_pb2_grpc.add_HandoverServiceServicer_to_server(handovers, server)

    @property
    def stop_timeout(self) -> timedelta:
        return self._config.stop_timeout

    @property
    def security(self) -> Security:
        return self._around.security

    @property
    def ready(self) -> bool:
        """Whether sites and queries are as reported since the master's start, not as stored by its predecessor."""
        return self.sites.settled and self.jobs.settled

    def interceptors(self, pending: PendingCalls) -> tuple[grpc.aio.ServerInterceptor, ...]:  # type: ignore[type-arg]
        """The interceptors around every call, outermost first."""
        errors = ErrorInterceptor(self._around.random_hex, pending)
        return (TimingInterceptor(self._calls), errors, *self.checkpoint.interceptors)

    async def tick_forever(self) -> None:
        """Tick until cancelled."""
        while True:
            try:
                self.leases.tick()
                self.jobs.tick()
                self.advisor.tick()
                self.monitor.tick(self.sites.alive())
                self.checkpoint.tick()
                self._statistics.tick()
                await self.peers.keep_only(self.sites.addresses())
            except StoreError as error:
                logger.error(line("tick failed", reason=error.message))  # noqa: TRY400 - no defect
            except Exception:
                logger.exception("tick failed")
            await asyncio.sleep(TICK_S)

    async def close(self) -> None:
        """Store what is not stored yet; the store itself stays open."""
        await self.advisor.close()
        self.jobs.flush()
        self.leases.mark_alive()
        await self._statistics.close()
        await self.monitor.close()
        self.monitor.flush()
        await self.peers.close()

    def client_parts(self) -> ClientParts:
        """Return the parts that make up the endpoint for Spark's own clients."""
        return ClientParts(
            planner=self._planner,
            deployer=self._deployer,
            jobs=self.jobs,
            queries=self.queries,
            views=self._views,
            results=self._results,
            statements=self._statements(),
            catalog=self.catalog,
            sites=self.sites,
            peers=self.peers,
            gateway=self._cluster.topology.gateway,
            timeout=self._config.analyze_timeout,
            defaults=self._defaults(),
            clock=self._around.clock,
            random_hex=self._around.random_hex,
            checks=self.checkpoint.interceptors,
        )

    def flight_parts(self) -> FlightParts:
        """Return the parts that make up the endpoint for clients of Arrow Flight SQL."""
        return FlightParts(
            statements=self._statements(),
            queries=self.queries,
            jobs=self.jobs,
            results=self._results,
            watches=self._watches,
            catalog=self.catalog,
            random_hex=self._around.random_hex,
            checks=self.checkpoint.interceptors,
        )

    def _defaults(self) -> Settings:
        return Settings(self._config.sharing, adapting=self._config.adapting, batch=self._config.batch.options)

    def _query_servicer(self) -> QueryServicer:
        return QueryServicer(
            QueryParts(
                statements=self._statements(),
                queries=self.queries,
                views=self._views,
                jobs=self.jobs,
                watches=self._watches,
                results=self._results,
            )
        )

    def _statements(self) -> StatementRunner:
        return StatementRunner(
            StatementParts(
                catalog=self.catalog,
                jobs=self.jobs,
                definitions=self._definitions,
                planner=self._planner,
                queries=self.queries,
                sites=self.sites,
                views=self._views,
                topology=self._cluster.topology,
                clock=self._around.clock,
                functions=self.functions,
                deployer=self._deployer,
                grants=self.grants,
                defaults=self._defaults(),
            )
        )


@asynccontextmanager
async def serving(master: Master, listen: str) -> AsyncIterator[str]:
    """Serve until the block ends; returns the bound address (host:port).

    Raises:
        RuntimeError: the address cannot be bound.
    """
    pending = PendingCalls()
    server = aio_server(master.security, refuse, options=_OPTIONS, interceptors=master.interceptors(pending))
    master.add_to(server)
    health = health_service.aio.HealthServicer()  # type: ignore[attr-defined]  # not in the stubs
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    port = listen_at(server, listen, master.security)
    await server.start()
    await _tell(health, ("", *SERVICES), ready=False)
    await _tell(health, AT_ONCE, ready=True)
    background = [asyncio.create_task(master.tick_forever()), asyncio.create_task(_tell_once_ready(master, health))]
    try:
        yield f"{listen.rpartition(':')[0]}:{port}"
    finally:
        await health.enter_graceful_shutdown()
        await end(server, pending, master.stop_timeout)
        for task in background:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await master.close()


async def _tell_once_ready(master: Master, health: Any) -> None:
    """Make all services SERVING once the sites have reported, or have had the time to."""
    while not master.ready:
        await asyncio.sleep(TICK_S)
    await _tell(health, ("", *SERVICES), ready=True)


async def _tell(health: Any, services: Iterable[str], *, ready: bool) -> None:
    status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
    for service in services:
        await health.set(service, status)


async def end(server: grpc.aio.Server, pending: PendingCalls, timeout: timedelta) -> None:
    """Refuse new calls; end calls that follow something once no others are pending, or at the timeout.

    What calls do at their end is waited for: gRPC tells with tracebacks of those that the end of the loop cuts off.
    """
    stopping = asyncio.create_task(server.stop(timeout.total_seconds()))
    # The server refuses new calls from the first step of this task on.
    await asyncio.sleep(0)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout.total_seconds()):
            await pending.ended()
    await server.stop(None)
    await stopping
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLEANING_S):
            await pending.left()


def write_ready_file(path: Path, address: str, **further: str) -> None:
    """Write, in one piece, the file that tells this process's parent that the master serves, and what else, and where:
    addresses by name, of which empty ones are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    told = {"address": address, "pid": os.getpid(), **{name: value for name, value in further.items() if value}}
    temporary.write_text(json.dumps(told) + "\n")
    temporary.replace(path)
    logger.info(line("ready", address=address, file=path))
