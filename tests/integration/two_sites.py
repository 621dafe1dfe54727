"""Two sites, each a process of its own that may die, a stand-in for their master, and what has to come out."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import grpc.aio

from planner.values.names import BINS
from selat.v1 import common_pb2, site_pb2, site_pb2_grpc
from site_agent.channels.store import ChannelStore
from tests.e2e.faults import free_port
from tests.integration import crash_site
from tests.integration.crash_site import CLASSES, GROUPS, NO_HEAP, ROWS, WHOLE_US, WINDOW_US

SITES = ("ewr", "jfk")
MERGE = "q.m1.jfk"
SOURCES = {site: f"q.s1.{site}" for site in SITES}
COMBINES = {site: f"q.c1.{site}" for site in SITES}

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([crash_site.__name__])


def assignment(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """Each site reads its own rows; jfk merges both; ewr keeps the results."""
    inputs = [site_pb2.ChannelInput(channel=SOURCES[name], site=name, view="input") for name in SITES]
    relation = common_pb2.Relation(
        name="events",
        columns=[common_pb2.Column(name="ts", type="TIMESTAMP"), common_pb2.Column(name="v", type="BIGINT")],
        event_time="ts",
        bindings=[common_pb2.Binding(site=site, options={"connector": "groups"})],
    )
    common: dict[str, Any] = {"query_id": "q", "epoch_interval_ms": interval_ms}
    source = site_pb2.TaskSpec(
        task_id=SOURCES[site],
        stage_id="s1",
        kind=site_pb2.STAGE_KIND_SOURCE,
        sql="partials",
        relation=relation,
        consumers=["jfk"],
        **common,
    )
    merge = site_pb2.TaskSpec(
        task_id=MERGE,
        stage_id="m1",
        kind=site_pb2.STAGE_KIND_MERGE,
        sql="merged",
        inputs=inputs,
        merge=site_pb2.MergeSpec(window_column="_window_start", window_us=WINDOW_US, combine_sql="combined"),
        consumers=["ewr"],
        **common,
    )
    return site_pb2.Assignment(
        cluster_id="c",
        version=1,
        tasks=[source, merge] if site == "jfk" else [source],
        results=results(site),
        site_addresses=addresses,
    )


def derived(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """As `assignment`, but for what jfk merges: it is made, at jfk, of what the sources send."""
    given = assignment(addresses, site, interval_ms=interval_ms)
    for task in list(given.tasks):
        if task.task_id == MERGE:
            channels = {source: f"q.s1-derived-{name}.jfk" for name, source in SOURCES.items()}
            given.tasks.extend(
                site_pb2.TaskSpec(
                    task_id=made,
                    query_id="q",
                    stage_id="s1",
                    kind=site_pb2.STAGE_KIND_DERIVE,
                    sql="combined",
                    inputs=[
                        site_pb2.ChannelInput(
                            channel=source, site=name, view="input", read_from=site_pb2.READ_FROM_FIRST
                        )
                    ],
                    consumers=["jfk"],
                    epoch_interval_ms=interval_ms,
                )
                for (source, made), name in zip(channels.items(), SITES, strict=True)
            )
            del task.inputs[:]
            task.inputs.extend(
                site_pb2.ChannelInput(channel=made, site="jfk", view="input") for made in channels.values()
            )
    return given


def parted(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """As `assignment`, but each site merges half of the bins; jfk makes the results of both parts."""
    given = assignment(addresses, site, interval_ms=interval_ms)
    source, half = given.tasks[0], BINS // 2
    source.sql = "binned"
    source.consumers[:] = SITES
    parts = {name: f"q.m1.p{number}" for number, name in enumerate(SITES)}
    number = SITES.index(site)
    window = site_pb2.MergeSpec(window_column="_window_start", window_us=WINDOW_US, combine_sql="combined")
    part = site_pb2.TaskSpec(
        task_id=parts[site],
        query_id="q",
        stage_id="m1",
        kind=site_pb2.STAGE_KIND_MERGE,
        sql="combined",
        inputs=[
            site_pb2.ChannelInput(channel=channel, site=name, view="input", first_bin=number * half, bins=half)
            for name, channel in SOURCES.items()
        ],
        merge=window,
        consumers=["jfk"],
        epoch_interval_ms=interval_ms,
    )
    for final in given.tasks[1:]:
        final.kind = site_pb2.STAGE_KIND_FINAL
        final.merge.CopyFrom(window)
        del final.inputs[:]
        final.inputs.extend(
            site_pb2.ChannelInput(channel=task, site=name, view="input") for name, task in parts.items()
        )
    given.tasks.append(part)
    return given


def ranged(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """As `assignment`, but all rows are of one window, and jfk closes it range by range of their bins."""
    given = assignment(addresses, site, interval_ms=interval_ms)
    for task in given.tasks:
        if task.task_id == MERGE:
            task.sql = "merged classes"
            task.merge.window_us, task.merge.by_bins = WHOLE_US, True
            task.merge.combine_sql = "combined classes"
        else:
            task.sql = "classes"
    return given


def combining(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """As `assignment`, but each site combines what its source gives, and jfk merges that."""
    given = assignment(addresses, site, interval_ms=interval_ms)
    for task in list(given.tasks):
        if task.task_id == MERGE:
            for item, name in zip(task.inputs, SITES, strict=True):
                item.channel = COMBINES[name]
        else:
            task.sql, task.consumers[:] = "keyed partials", [site]
    given.tasks.add(
        task_id=COMBINES[site],
        query_id="q",
        stage_id="c1",
        kind=site_pb2.STAGE_KIND_COMBINE,
        sql="keyed combined",
        inputs=[site_pb2.ChannelInput(channel=SOURCES[site], site=site, view="input")],
        merge=site_pb2.MergeSpec(window_column="_window_start", window_us=WINDOW_US, combine_sql="keyed combined"),
        consumers=["jfk"],
        epoch_interval_ms=interval_ms,
    )
    return given


def over_a_site(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """As `combining`, but jfk combines its own partials with those of ewr, and ewr merges what jfk sends."""
    given = combining(addresses, site, interval_ms=interval_ms)
    for task in given.tasks:
        if task.task_id == COMBINES["jfk"]:
            task.inputs.add(channel=COMBINES["ewr"], site="ewr", view="input")
            task.consumers[:] = ["ewr"]
    merge = next(task for task in combining(addresses, "jfk", interval_ms=interval_ms).tasks if task.task_id == MERGE)
    del merge.inputs[:]
    merge.inputs.add(channel=COMBINES["jfk"], site="jfk", view="input")
    if site == "jfk":
        left = [task for task in given.tasks if task.task_id != MERGE]
        del given.tasks[:]
        given.tasks.extend(left)
    else:
        given.tasks.append(merge)
    del given.results[:]
    given.results.extend(results(site, merged_at="ewr"))
    return given


def batch(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """The same rows as tables: two map tasks of half the groups at each site; jfk reduces, ewr keeps the results."""
    common: dict[str, Any] = {"query_id": "q", "epoch_interval_ms": interval_ms}
    maps = {(name, half): f"q.s{half}.{name}" for name in SITES for half in (0, 1)}
    half_groups = GROUPS // 2
    tables = [
        site_pb2.TaskSpec(
            task_id=task,
            stage_id=f"s{half}",
            kind=site_pb2.STAGE_KIND_TABLE,
            sql="partials",
            relation=common_pb2.Relation(
                name="events", bindings=[common_pb2.Binding(site=site, options={"connector": "groups"})]
            ),
            split=site_pb2.Split(
                parts=[site_pb2.FilePart(path="events", offset=half * half_groups, length=half_groups)]
            ),
            consumers=["jfk"],
            **common,
        )
        for (name, half), task in maps.items()
        if name == site
    ]
    reduce = site_pb2.TaskSpec(
        task_id=MERGE,
        stage_id="m1",
        kind=site_pb2.STAGE_KIND_REDUCE,
        sql="merged",
        inputs=[site_pb2.ChannelInput(channel=task, site=name, view="input") for (name, _), task in maps.items()],
        consumers=["ewr"],
        **common,
    )
    return site_pb2.Assignment(
        cluster_id="c",
        version=1,
        tasks=[*tables, reduce] if site == "jfk" else tables,
        results=results(site),
        site_addresses=addresses,
    )


def filtered_batch(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """As `batch`, but the maps send only rows with keys of both sites, which are filtered by keys themselves."""
    given = batch(addresses, site, interval_ms=interval_ms)
    relation = given.tasks[0].relation

    def keys_of(stage: str) -> list[site_pb2.ChannelInput]:
        return [site_pb2.ChannelInput(channel=f"q.{stage}.{name}", site=name, view="keys") for name in SITES]

    for task in given.tasks:
        if task.kind == site_pb2.STAGE_KIND_TABLE:
            task.sql = "filtered partials"
            task.inputs.extend(keys_of("keys2"))
    for stage, sql, inputs in (("keys", "keys", []), ("keys2", "filtered keys", keys_of("keys"))):
        given.tasks.add(
            task_id=f"q.{stage}.{site}",
            query_id="q",
            stage_id=stage,
            kind=site_pb2.STAGE_KIND_TABLE,
            sql=sql,
            relation=relation,
            inputs=inputs,
            consumers=SITES,
            epoch_interval_ms=interval_ms,
        )
    return given


def results(site: str, *, merged_at: str = "jfk") -> list[site_pb2.ResultSpec]:
    kept = site_pb2.ResultSpec(query_id="q", inputs=[site_pb2.ChannelInput(channel=MERGE, site=merged_at)])
    return [kept] if site == "ewr" else []


class Work(Protocol):
    """What a site has to do."""

    def __call__(self, addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment: ...


@dataclass
class Orders(site_pb2_grpc.SiteServiceServicer):
    """Stands in for the master: gives each site its assignment, and remembers what it reported last."""

    assignments: dict[str, site_pb2.Assignment] = field(default_factory=dict)
    reports: dict[str, site_pb2.ReportRequest] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def Register(self, request: site_pb2.RegisterRequest, context: Any) -> site_pb2.RegisterResponse:
        return site_pb2.RegisterResponse(cluster_id="c", report_interval_ms=50)

    async def Report(self, request: site_pb2.ReportRequest, context: Any) -> site_pb2.ReportResponse:
        async with self.changed:
            self.reports[request.site] = request
            self.changed.notify_all()
        return site_pb2.ReportResponse()

    async def WatchAssignment(
        self, request: site_pb2.WatchAssignmentRequest, context: Any
    ) -> AsyncIterator[site_pb2.WatchAssignmentResponse]:
        for version in (1, 2):
            yield site_pb2.WatchAssignmentResponse(assignment=await self._given(request.site, version))

    async def _given(self, site: str, version: int) -> site_pb2.Assignment:
        """What the site is to do, as soon as it has that version or a later one."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.assignments[site].version >= version)
            return self.assignments[site]

    async def ListSites(self, request: site_pb2.ListSitesRequest, context: Any) -> site_pb2.ListSitesResponse:
        return site_pb2.ListSitesResponse()

    async def GetSite(self, request: site_pb2.GetSiteRequest, context: Any) -> site_pb2.GetSiteResponse:
        return site_pb2.GetSiteResponse()

    async def Deregister(self, request: site_pb2.DeregisterRequest, context: Any) -> site_pb2.DeregisterResponse:
        return site_pb2.DeregisterResponse()

    async def DrainSite(self, request: site_pb2.DrainSiteRequest, context: Any) -> site_pb2.DrainSiteResponse:
        return site_pb2.DrainSiteResponse()

    async def UndrainSite(self, request: site_pb2.UndrainSiteRequest, context: Any) -> site_pb2.UndrainSiteResponse:
        return site_pb2.UndrainSiteResponse()

    async def DescribeMembers(
        self, request: site_pb2.DescribeMembersRequest, context: Any
    ) -> site_pb2.DescribeMembersResponse:
        return site_pb2.DescribeMembersResponse()

    async def over(self) -> None:
        """The query's tasks are to go; its results stay."""
        async with self.changed:
            for site, given in self.assignments.items():
                self.assignments[site] = site_pb2.Assignment(
                    cluster_id="c", version=2, results=given.results, site_addresses=given.site_addresses
                )
            self.changed.notify_all()

    async def complete(self) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: "ewr" in self.reports and self._result_complete())

    async def told(self, site: str, task: str, state: site_pb2.TaskState.ValueType) -> str:
        """The reason that a site's task gives once it is in that state."""

        def found() -> list[str]:
            statuses = self.reports[site].tasks if site in self.reports else ()
            return [s.reason for s in statuses if s.task_id == task and s.state == state]

        async with self.changed:
            await self.changed.wait_for(found)
            return found()[0]

    async def obeyed(self, version: int) -> None:
        async with self.changed:
            await self.changed.wait_for(
                lambda: all(r.assignment_version == version for r in self.reports.values()) and len(self.reports) == 2
            )

    def _result_complete(self) -> bool:
        return any(result.complete for result in self.reports["ewr"].results)


@dataclass
class Mortals:
    """The sites' processes; one that dies is started again, without its fault."""

    root: Path
    master: str
    addresses: dict[str, str]
    fault: str
    deaths: list[str] = field(default_factory=list)
    processes: dict[str, BaseProcess] = field(default_factory=dict)

    def spawn(self, site: str, fault: str = "") -> None:
        given = (site, self.root / site, self.addresses[site], self.master)
        process = FORKS.Process(target=crash_site.run, args=given, kwargs={"fault": fault}, daemon=True)
        process.start()
        self.processes[site] = process

    async def watch_over(self) -> None:
        while True:
            for site, process in list(self.processes.items()):
                if not process.is_alive():
                    assert process.exitcode in (-signal.SIGKILL, NO_HEAP), (self.root / f"{site}.log").read_text()
                    self.deaths.append(site)
                    self.spawn(site)
            await asyncio.sleep(0.02)

    def kill(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()


@asynccontextmanager
async def two_sites(
    root: Path,
    *,
    fault: str = "",
    interval_ms: int = 5,
    work: Work = assignment,
    mortal: Collection[str] = SITES,
) -> AsyncIterator[tuple[Orders, Mortals]]:
    """`fault` is that of the first processes of the `mortal` sites; an epoch takes `interval_ms` at least."""
    addresses = {site: f"127.0.0.1:{free_port()}" for site in SITES}
    orders = Orders({site: work(addresses, site, interval_ms=interval_ms) for site in SITES})
    server = grpc.aio.server()
    site_pb2_grpc.add_SiteServiceServicer_to_server(orders, server)
    master = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    mortals = Mortals(root, master, addresses, fault)
    for site in SITES:
        (root / site).mkdir(exist_ok=True)
        mortals.spawn(site, fault if site in mortal else "")
    watching = asyncio.create_task(mortals.watch_over())
    try:
        yield orders, mortals
        if watching.done():
            watching.result()
    finally:
        watching.cancel()
        mortals.kill()
        await server.stop(None)


def expected_classes() -> list[tuple[int, int, int]]:
    """Of `ranged`: window, rows and sum of values of each class, over both sites."""
    found: dict[int, list[int]] = {}
    for value in (group * 1000 + row for group in range(GROUPS) for row in range(ROWS)):
        found.setdefault(value % CLASSES, []).append(value)
    return sorted((0, 2 * len(values), 2 * sum(values)) for values in found.values())


def expected() -> list[tuple[int, int, int]]:
    """Window, rows and sum of values, over both sites."""
    windows: dict[int, list[int]] = {}
    for group in range(GROUPS):
        for row in range(ROWS):
            windows.setdefault((group * 50 + row * 2) // WINDOW_US * WINDOW_US, []).append(group * 1000 + row)
    return [(start, 2 * len(values), 2 * sum(values)) for start, values in sorted(windows.items())]


def stored_results(root: Path) -> list[tuple[int, int, int]]:
    log = ChannelStore(root / "ewr" / "channels").open(MERGE)
    assert log.end is not None
    tables = [log.epochs.read(epoch) for epoch in range(log.next_epoch)]
    rows = [row for table in tables if table is not None for row in table.to_pylist()]
    return sorted((row["w"].microsecond, row["n"], row["v"]) for row in rows)
