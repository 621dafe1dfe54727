"""A job manager and all that it keeps consistent, over a store in memory, with agents that only report."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from contract.tasks import TaskState
from master.batch.manager import BatchManager, BatchParts
from master.batch.slots import BatchSlots
from master.config.values import MasterConfig
from master.leases.manager import LeaseManager, LeaseParts
from master.leases.streaming import StreamingSlots
from master.queries.lineages import Lineages
from master.queries.registry import QueryRegistry
from master.reconcile.board import AssignmentBoard
from master.reconcile.jobs import JobManager
from master.reconcile.parts import JobParts
from master.records.model import QueryState
from master.relations.catalog import CatalogManager
from master.sites.registry import SiteRegistry
from master.sites.statistics import MeasuredRates
from master.store.sqlite import SqliteStore
from master.views.queries import QueryViews
from planner.leases import Granted, LeasePolicy, LeaseRef, Slot, Waiter, Wish, acquire, release, wait_for
from planner.values.links import Pair
from planner.wan.estimate import LinkRecord
from planner.wan.snapshot import snapshot
from tests.fakes import CountingHex, VirtualClock
from tests.unit.master.build import CLICKS, PAGES, PLAN, START, TOPOLOGY, report, site_record, status, task_at

CONFIG = MasterConfig()


class World:
    def __init__(self, store: SqliteStore | None = None) -> None:
        self.store = store or SqliteStore.in_memory()
        self.clock = VirtualClock(START)
        self.random_hex = CountingHex()
        self.config = CONFIG
        self.links: dict[Pair, LinkRecord] = {}
        self.restart()
        for relation in (CLICKS, PAGES):
            self.catalog.create(relation)
        for site in ("us", "eu", "hub"):
            self.jobs.register(site_record(site))

    def restart(self) -> None:
        """A new master over the same store."""
        version = self.store.cluster("c").version
        self.queries = QueryRegistry(self.store, clock=self.clock, random_hex=self.random_hex)
        self.registry = SiteRegistry(self.store, TOPOLOGY, clock=self.clock, heartbeat_timeout=CONFIG.heartbeat_timeout)
        self.sites = self.registry.sites
        self.catalog = CatalogManager(
            self.store, TOPOLOGY, clock=self.clock, live_readers=self.queries.lookup.live_readers
        )
        self.board = AssignmentBoard(self.store, version=version)
        self.rates = MeasuredRates()
        lease_parts = LeaseParts(self.store, self.sites, self.clock, self.random_hex)
        self.leases = LeaseManager(lease_parts, LeasePolicy(), alive_interval=CONFIG.progress_interval)
        slots = StreamingSlots(self.leases)
        self.batch_slots = BatchSlots(self.leases)
        batch_parts = BatchParts(
            self.queries,
            self.sites,
            self.batch_slots,
            TOPOLOGY,
            lambda: snapshot(TOPOLOGY, self.links, self.clock.now()),
            Random(1),
        )
        self.batch = BatchManager(batch_parts, self.config.batch)
        self.lineages = Lineages(self.store, self.queries)
        parts = JobParts(
            self.queries,
            self.registry,
            self.catalog,
            self.board,
            self.rates,
            slots,
            self.batch,
            self.lineages,
            lambda: snapshot(TOPOLOGY, self.links, self.clock.now()),
        )
        self.jobs = JobManager(parts, clock=self.clock, config=self.config)
        self.views = QueryViews(self.queries, self.sites, slots, self.batch)

    def submit(self, name: str = "") -> str:
        return self.jobs.submit(PLAN, sql="SELECT ...", name=name).id

    def state(self, query: str) -> QueryState:
        return self.queries.get(query).state

    def report(self, site: str, *tasks: tuple[str, TaskState], **values: Any) -> None:
        """A heartbeat with the site's assignment in force and these tasks of the newest query."""
        query = self.queries.all()[-1].id if self.queries.all() else ""
        statuses = [status(task_at(query, stage, site), state) for stage, state in tasks]
        values.setdefault("assignment_version", self.board.version(site))
        self.jobs.report(report(site, *statuses, **values))

    def run(self) -> str:
        """A query that runs."""
        query = self.submit()
        self.report("us", ("pages", TaskState.ENDED), ("clicks", TaskState.RUNNING))
        self.report("eu", ("clicks", TaskState.RUNNING), ("merge", TaskState.RUNNING))
        return query

    def tasks_at(self, site: str) -> list[str]:
        return [t.stage_id for t in self.board.current(site).assignment.tasks]

    def paused_at(self, site: str) -> list[bool]:
        """Return whether each task of the site's assignment is paused."""
        return [task.paused for task in self.board.current(site).assignment.tasks]

    def wait(self, duration: timedelta, *silent: str) -> None:
        """Time goes by; all sites but the silent ones keep reporting."""
        self.clock.advance(duration)
        for site in sorted({"us", "eu", "hub"} - set(silent)):
            self.report(site)
        self.tick()

    def tick(self) -> None:
        self.leases.tick()
        self.jobs.tick()

    def acquire(self, framework: str, *slots: Slot) -> None:
        """Slots for a minute, all of them."""
        self.leases.register(framework)
        wishes = [Wish(slot, timedelta(minutes=1)) for slot in slots]
        outcomes = self.leases.ask_now(lambda table, now: acquire(table, framework, wishes, now=now))
        assert all(isinstance(outcome, Granted) for outcome in outcomes)

    def wait_in_line(self, framework: str, ticket: str, *slots: Slot) -> None:
        waiter = Waiter(ticket, framework)
        self.leases.ask_now(lambda table, now: wait_for(table, waiter, slots, now=now))

    def holders(self, site: str) -> list[str | None]:
        """Return the holders of the site's slots."""
        records = map(self.leases.table.get, self.leases.table.slots_of(site))
        return [record.holder for record in records if record is not None]

    def release(self, framework: str, *slots: Slot) -> None:
        records = [self.leases.table.get(slot) for slot in slots]
        refs = [LeaseRef(r.slot, r.lease.fencing) for r in records if r is not None and r.lease is not None]
        self.leases.ask_now(lambda table, now: release(table, framework, refs, now=now))
