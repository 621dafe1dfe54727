"""Three sites, each a process that may die, and a merge that moves from one to another while its query runs.

jfk and ewr have sources; q.m1 merges them at jfk, and q.m1.g1 takes its place at sfo. ewr makes the results of what
they publish, and keeps that too; sfo keeps the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc.aio

from selat.v1 import common_pb2, site_pb2, site_pb2_grpc
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from tests.e2e.faults import free_port
from tests.integration.crash_site import HOLD, WHOLE_US, WINDOW_US
from tests.integration.two_sites import Mortals, Orders

MOVING_SITES = ("ewr", "jfk", "sfo")
SOURCES = {"ewr": "q.s1.ewr", "jfk": "q.s1.jfk"}
OLD, NEW, FINAL, SEED = "q.m1", "q.m1.g1", "q.f1", "q.m1.g1.seed"
OLD_SITE, NEW_SITE, FINAL_SITE = "jfk", "sfo", "ewr"
REGISTERED, STARTED, SEEDING, CUT, DRAINED = range(2, 7)
MAY_YIELD = {1: 3, REGISTERED: 4, STARTED: 5, SEEDING: 7, CUT: 9}
"""Each source may have sent this many groups by that step; after the last one, all."""


@dataclass(frozen=True)
class Statements:
    """Holds what the stages compute."""

    source: str
    merge: str
    final: str
    window: site_pb2.MergeSpec


SMALL_WINDOWS = Statements(
    "partials",
    "combined",
    "merged",
    site_pb2.MergeSpec(window_column="_window_start", window_us=WINDOW_US, combine_sql="combined"),
)
ONE_WINDOW_IN_BINS = Statements(
    "classes",
    "combined classes",
    "merged classes",
    site_pb2.MergeSpec(window_column="_window_start", window_us=WHOLE_US, combine_sql="combined classes", by_bins=True),
)
"""One window has all rows, and is closed range by range."""


@dataclass(frozen=True)
class Step:
    """Says what the sites have to do, from the first step, when nothing moves, to the last, when all has moved."""

    number: int
    version: int
    addresses: dict[str, str]
    statements: Statements = SMALL_WINDOWS
    first_epochs: dict[str, int] = field(default_factory=dict)
    from_epoch: int = 0
    paused: bool = False

    def assignment(self, site: str) -> site_pb2.Assignment:
        tasks = {
            "ewr": [self._source("ewr"), self._final()],
            "jfk": [self._source("jfk"), *([self._old()] if self.number < DRAINED else [])],
            "sfo": [self._new()] if self.number >= STARTED else [],
        }
        return site_pb2.Assignment(
            cluster_id="c",
            version=self.version,
            tasks=tasks[site],
            results=self._results(site),
            site_addresses=self.addresses,
        )

    def _source(self, site: str) -> site_pb2.TaskSpec:
        relation = common_pb2.Relation(
            name="events",
            columns=[common_pb2.Column(name="ts", type="TIMESTAMP"), common_pb2.Column(name="v", type="BIGINT")],
            event_time="ts",
            bindings=[common_pb2.Binding(site=site, options={"connector": "groups"})],
        )
        spec = self._task(SOURCES[site], site_pb2.STAGE_KIND_SOURCE, self.statements.source, relation=relation)
        old, new = ([OLD_SITE] if self.number < DRAINED else []), ([NEW_SITE] if self.number >= REGISTERED else [])
        spec.consumers[:] = [*old, *new]
        if REGISTERED <= self.number < DRAINED:
            spec.readers.add(query_id="q").readers.add(site=OLD_SITE, reader=OLD)
        return spec

    def _merge(self, task: str, kind: site_pb2.StageKind.ValueType) -> site_pb2.TaskSpec:
        spec = self._task(task, kind, self.statements.merge)
        spec.merge.CopyFrom(self.statements.window)
        spec.inputs.extend(
            site_pb2.ChannelInput(channel=channel, site=name, view="input") for name, channel in SOURCES.items()
        )
        spec.consumers[:] = [FINAL_SITE]
        return spec

    def _old(self) -> site_pb2.TaskSpec:
        spec = self._merge(OLD, site_pb2.STAGE_KIND_MERGE)
        if self.number >= REGISTERED:
            spec.consumers.append(NEW_SITE)
            spec.readers.add(query_id="q").readers.add(site=FINAL_SITE, reader=FINAL)
        if self.number >= SEEDING:
            hand_over = spec.hand_over
            hand_over.successor_channel, hand_over.successor_site = NEW, NEW_SITE
            hand_over.seed.channel = SEED
            hand_over.seed.first_epochs.update(self.first_epochs)
            hand_over.cut = self.number >= CUT
        return spec

    def _new(self) -> site_pb2.TaskSpec:
        if self.number >= DRAINED:
            return self._merge(NEW, site_pb2.STAGE_KIND_MERGE)
        spec = self._merge(NEW, site_pb2.STAGE_KIND_SUCCESSOR)
        take_over = spec.take_over
        take_over.kind, take_over.seed_channel = site_pb2.STAGE_KIND_MERGE, SEED
        take_over.predecessor_channel, take_over.predecessor_site = OLD, OLD_SITE
        return spec

    def _final(self) -> site_pb2.TaskSpec:
        spec = self._task(FINAL, site_pb2.STAGE_KIND_FINAL, self.statements.final)
        spec.merge.CopyFrom(self.statements.window)
        if self.number < DRAINED:
            spec.inputs.add(channel=OLD, site=OLD_SITE, view="input")
        else:
            spec.inputs.add(channel=NEW, site=NEW_SITE, view="input", from_epoch=self.from_epoch)
        spec.consumers[:] = ["sfo"]
        return spec

    def _task(self, task: str, kind: site_pb2.StageKind.ValueType, sql: str, **more: Any) -> site_pb2.TaskSpec:
        stage = task.split(".")[1]
        common: dict[str, Any] = {"query_id": "q", "epoch_interval_ms": 5, "paused": self.paused}
        return site_pb2.TaskSpec(task_id=task, stage_id=stage, kind=kind, sql=sql, **common, **more)

    def _results(self, site: str) -> list[site_pb2.ResultSpec]:
        if site == "sfo":
            return [site_pb2.ResultSpec(query_id="q", inputs=[site_pb2.ChannelInput(channel=FINAL, site=FINAL_SITE)])]
        if site != FINAL_SITE:
            return []
        both = [site_pb2.ChannelInput(channel=OLD, site=OLD_SITE)]
        if self.number >= STARTED:
            both.append(site_pb2.ChannelInput(channel=NEW, site=NEW_SITE, from_epoch=self.from_epoch))
        return [site_pb2.ResultSpec(query_id="merged", inputs=both)]


@dataclass
class MovingOrders(Orders):
    """Stands in for the master; each step is given out when what the one before was for has been reported."""

    async def WatchAssignment(
        self, request: site_pb2.WatchAssignmentRequest, context: Any
    ) -> AsyncIterator[site_pb2.WatchAssignmentResponse]:
        version = 1
        while True:
            given = await self._given(request.site, version)
            yield site_pb2.WatchAssignmentResponse(assignment=given)
            version = given.version + 1

    async def give(self, step: Step) -> None:
        """Have all sites do it, and wait until it is in force everywhere."""
        async with self.changed:
            self.assignments = {site: step.assignment(site) for site in MOVING_SITES}
            self.changed.notify_all()
            await self.changed.wait_for(
                lambda: all(
                    site in self.reports and self.reports[site].assignment_version == step.version
                    for site in MOVING_SITES
                )
            )

    async def until(self, site: str, task: str, condition: Callable[[site_pb2.TaskStatus], object]) -> None:
        """Wait until the task's newest report says so."""
        async with self.changed:
            await self.changed.wait_for(lambda: any(condition(status) for status in self._of(site, task)))

    def _of(self, site: str, task: str) -> list[site_pb2.TaskStatus]:
        return [s for s in self.reports[site].tasks if s.task_id == task] if site in self.reports else []

    def status(self, site: str, task: str) -> site_pb2.TaskStatus:
        (found,) = self._of(site, task)
        return found

    async def complete(self) -> None:
        async with self.changed:
            await self.changed.wait_for(
                lambda: all(
                    site in self.reports
                    and self.reports[site].results
                    and all(result.complete for result in self.reports[site].results)
                    for site in ("ewr", "sfo")
                )
            )


class Master(Protocol):
    """Whoever tells the sites what to do, and hears how far they are."""

    async def give(self, step: Step) -> None:
        """Have all sites do it; returns once it is in force everywhere."""
        ...

    async def until(self, site: str, task: str, condition: Callable[[site_pb2.TaskStatus], object]) -> None:
        """Return once the task's newest report says so."""
        ...

    def status(self, site: str, task: str) -> site_pb2.TaskStatus:
        """The task's newest report."""
        ...

    async def complete(self) -> None:
        """Return once all results are there."""
        ...


@dataclass
class Move:
    """The query, and the steps of its move."""

    root: Path
    orders: Master
    addresses: dict[str, str]
    statements: Statements
    version: int = 1
    first_epochs: dict[str, int] = field(default_factory=dict)
    from_epoch: int = 0

    async def give(self, number: int) -> None:
        self.version += 1
        step = Step(number, self.version, self.addresses, self.statements, self.first_epochs, self.from_epoch)
        await self.orders.give(step)
        if number > 1 and number in MAY_YIELD:
            (self.root / HOLD).write_text(str(MAY_YIELD[number]))

    async def to_started(self) -> None:
        await self.orders.until(OLD_SITE, OLD, lambda status: status.rows_in > 0)
        await self.give(REGISTERED)
        await self.give(STARTED)
        await self.orders.until(
            NEW_SITE, NEW, lambda status: status.handover.first_epochs.keys() == set(SOURCES.values())
        )
        self.first_epochs = dict(self.orders.status(NEW_SITE, NEW).handover.first_epochs)

    async def to_restored(self) -> None:
        await self.to_started()
        await self.give(SEEDING)
        await self.orders.until(OLD_SITE, OLD, lambda status: status.handover.seeded)
        await self.orders.until(NEW_SITE, NEW, lambda s: s.handover.restored and s.handover.caught_up)

    async def to_drained(self) -> None:
        await self.to_restored()
        await self.give(CUT)
        await self.to_drained_from_cut()

    async def to_drained_from_cut(self) -> None:
        await self.orders.until(OLD_SITE, OLD, lambda status: status.handover.cut)
        await self.orders.until(NEW_SITE, NEW, lambda status: status.handover.taken_over)
        await self.orders.until(OLD_SITE, OLD, lambda status: status.handover.drained)
        handover = self.orders.status(OLD_SITE, OLD).handover
        self.from_epoch = handover.last_epoch + 1 if handover.HasField("last_epoch") else 0
        await self.give(DRAINED)

    async def back(self) -> None:
        """Nothing is to move any more."""
        await self.give(1)

    async def to_end(self) -> None:
        (self.root / HOLD).unlink()
        await self.orders.complete()


@asynccontextmanager
async def moving_sites(
    root: Path, *, faults: Sequence[tuple[str, str]] = (), statements: Statements = SMALL_WINDOWS
) -> AsyncIterator[tuple[Move, Mortals]]:
    """`faults` has the sites whose first process dies, and where."""
    (root / HOLD).write_text(str(MAY_YIELD[1]))
    addresses = {site: f"127.0.0.1:{free_port()}" for site in MOVING_SITES}
    first = Step(1, 1, addresses, statements)
    orders = MovingOrders({site: first.assignment(site) for site in MOVING_SITES})
    server = grpc.aio.server()
    site_pb2_grpc.add_SiteServiceServicer_to_server(orders, server)
    master = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    mortals = Mortals(root, master, addresses, "")
    for site in MOVING_SITES:
        (root / site).mkdir(exist_ok=True)
        mortals.spawn(site, ",".join(fault for name, fault in faults if name == site))
    watching = asyncio.create_task(mortals.watch_over())
    try:
        yield Move(root, orders, addresses, statements), mortals
        if watching.done():
            watching.result()
    finally:
        watching.cancel()
        mortals.kill()
        await server.stop(None)


def stored(root: Path, site: str, channel: str) -> ChannelLog:
    return ChannelStore(root / site / "channels").open(channel)


def rows_of(log: ChannelLog, first: int = 0) -> list[dict[str, Any]]:
    tables = [log.epochs.read(epoch) for epoch in range(first, log.next_epoch)]
    return [row for table in tables if table is not None for row in table.to_pylist()]
