"""The agent of one site: an exchange server for other sites, and three loops towards the master.

    register -> watch assignment -> apply        again after every break, with back-off
    report   every interval: heartbeat, task statuses, link bytes, what links showed

The last assignment is on disk: a restarted agent takes up its tasks at once, whether the master is there or not.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from machine.backoff import delay_after
from machine.bearer import Bearer, Metadata
from machine.faults import reached
from selat.v1 import common_pb2, site_pb2, site_pb2_grpc
from site_agent.agent.convert import (
    assignment_from_proto,
    disk_to_proto,
    input_to_proto,
    memory_to_proto,
    status_to_proto,
    stream_log_to_proto,
)
from site_agent.agent.measures import Measured, Measures
from site_agent.agent.metrics import SiteFigures
from site_agent.agent.results import TRIM_INTERVAL_S
from site_agent.agent.runtime import SiteRuntime
from site_agent.base.durable import write_atomically
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.base.waiting import RECONNECT_DELAYS_S
from site_agent.probes.echo import EchoLoop
from site_agent.router import Router
from wire.security import PLAIN, Security

logger = logging.getLogger(__name__)

REPORT_TIMEOUT_S = 5.0
LEAVE_TIMEOUT_S = 2.0
VERSION = "0.1.0"


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    site: str
    address: str
    slots: int
    incarnation: str
    security: Security = PLAIN
    bearer: Bearer = field(default_factory=Bearer)
    """Adds the agent's token to calls to the master, where the master asks for tokens."""

    @classmethod
    def new(
        cls, site: str, address: str, slots: int, security: Security = PLAIN, bearer: Bearer | None = None
    ) -> AgentIdentity:
        return cls(site, address, slots, uuid.uuid4().hex, security, bearer or Bearer())


class SiteAgent:
    """Keeps a site's runtime in step with the master's assignment."""

    def __init__(
        self,
        identity: AgentIdentity,
        *,
        runtime: SiteRuntime,
        router: Router,
        directory: Path,
        measures: Measures | None = None,
    ) -> None:
        self._identity = identity
        self._measures = measures or Measures()
        self._runtime = runtime
        self._clock = runtime.clock
        self._router = router
        self._path = directory / "assignment.pb"
        self._current = site_pb2.Assignment()
        self._stored: site_pb2.Assignment | None = None
        """The assignment that was on disk at the start, until it or another one is in force."""
        self._echoes = EchoLoop(identity.site, identity.security)
        self._registered = asyncio.Event()
        self._known = False
        self._report_interval_s = 1.0

    async def resume(self) -> None:
        """Start the tasks of the last assignment on disk; readers of other channels wait until the master has answered.

        Where that fails, as on a full disk, it is tried again whenever the master is looked for.

        Raises:
            SiteAgentError: the file is damaged.
        """
        self._runtime.expect_confirmation()
        if not self._path.exists():
            return
        try:
            self._stored = site_pb2.Assignment.FromString(self._path.read_bytes())
        except DecodeError as error:
            raise SiteAgentError(
                f"{self._path} is damaged: {error}", hint="remove it; the master sends it again"
            ) from error
        await self._take_up()

    async def serve(self, master: grpc.aio.Channel) -> None:
        """Run the loops towards the master until cancelled."""
        stub = site_pb2_grpc.SiteServiceStub(master)
        with closing(self._measures):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow(stub))
                group.create_task(self._report(stub))
                group.create_task(self._echoes.run())
                group.create_task(self._trim_results())

    @property
    def registered(self) -> bool:
        """Whether the master has accepted the registration since the agent started."""
        return self._known

    def figures(self) -> SiteFigures:
        """The site as it is now, for metrics. Does not block."""
        return SiteFigures(
            site=self._identity.site,
            assignment_version=self._runtime.version,
            tasks=[runner.status() for _, runner in sorted(self._runtime.runners.items())],
            measured=self._measures.last,
            received={source: (use.bytes, use.epochs) for source, use in self._router.link_bytes().items()},
            epochs=self._runtime.epochs.read(),
        )

    async def leave(self, master: grpc.aio.Channel) -> None:
        """Report the totals a last time, and tell the master that this agent ends. The master may be unreachable."""
        stub = site_pb2_grpc.SiteServiceStub(master)
        identity = self._identity
        with suppress(grpc.aio.AioRpcError):
            if self.registered:
                await stub.Report(
                    self._report_request(self._measures.last), timeout=LEAVE_TIMEOUT_S, metadata=self._shown()
                )
                request = site_pb2.DeregisterRequest(site=identity.site, incarnation=identity.incarnation)
                await stub.Deregister(request, timeout=LEAVE_TIMEOUT_S, metadata=self._shown())

    async def _follow(self, stub: site_pb2_grpc.SiteServiceAsyncStub) -> None:
        failures = 0
        while True:
            await self._take_up()
            try:
                await self._register(stub)
                failures = 0
                await self._watch(stub)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.ABORTED:
                    raise self._displaced() from error
                level = _level(error, failures)
                logger.log(level, "master away site=%s: %s %s", self._identity.site, error.code().name, error.details())
            self._registered.clear()
            # Until the master is back, nobody knows here which channels it has given to this site meanwhile.
            self._runtime.expect_confirmation()
            await asyncio.sleep(delay_after(failures, RECONNECT_DELAYS_S))
            failures += 1

    async def _watch(self, stub: site_pb2_grpc.SiteServiceAsyncStub) -> None:
        """Apply assignments until one fails; after the next registration the master sends the same one again."""
        async for assignment in self._assignments(stub):
            try:
                await self._take(assignment)
            except (SiteAgentError, OSError) as error:
                self._say_not_applied(assignment, error)
                return

    async def _take_up(self) -> None:
        """Apply the assignment that was on disk at the start, unless it or another one is in force."""
        if self._stored is not None:
            try:
                await self._apply(self._stored)
            except (SiteAgentError, OSError) as error:
                self._say_not_applied(self._stored, error)

    def _say_not_applied(self, assignment: site_pb2.Assignment, error: Exception) -> None:
        site, version = self._identity.site, assignment.version
        logger.warning("assignment not applied site=%s version=%d: %s", site, version, error)

    def _shown(self) -> Metadata:
        """With the metadata that authenticates the agent's calls."""
        return self._identity.bearer.metadata()

    def _displaced(self) -> SiteAgentError:
        site = self._identity.site
        return SiteAgentError(
            f"another agent of site {site} has registered", hint="one agent runs a site", ids={"site": site}
        )

    async def _register(self, stub: site_pb2_grpc.SiteServiceAsyncStub) -> None:
        identity = self._identity
        response = await stub.Register(
            site_pb2.RegisterRequest(
                site=identity.site,
                address=identity.address,
                incarnation=identity.incarnation,
                slots=identity.slots,
                version=VERSION,
            ),
            timeout=REPORT_TIMEOUT_S,
            metadata=self._shown(),
        )
        if self._current.cluster_id and response.cluster_id != self._current.cluster_id:
            raise SiteAgentError(
                f"{identity.site} belongs to cluster {self._current.cluster_id}, the master is {response.cluster_id}",
                hint="start the agent with an empty data directory, or with the address of its own master",
            )
        self._report_interval_s = (response.report_interval_ms or 1000) / 1000
        self._registered.set()
        self._known = True
        logger.info("registered site=%s address=%s", identity.site, identity.address)

    async def _assignments(self, stub: site_pb2_grpc.SiteServiceAsyncStub) -> AsyncIterator[site_pb2.Assignment]:
        request = site_pb2.WatchAssignmentRequest(site=self._identity.site, incarnation=self._identity.incarnation)
        async for response in stub.WatchAssignment(request, metadata=self._shown()):
            yield response.assignment

    async def _take(self, assignment: site_pb2.Assignment) -> None:
        if assignment.version > self._current.version:
            write_atomically(self._path, assignment.SerializeToString(deterministic=True))
            reached(FaultPoint.ASSIGNMENT_STORED)
            await self._apply(assignment)
            reached(FaultPoint.ASSIGNMENT_APPLIED)
        self._runtime.confirm()

    async def _apply(self, assignment: site_pb2.Assignment) -> None:
        await self._runtime.apply(assignment_from_proto(assignment))
        self._current, self._stored = assignment, None
        self._echoes.set_addresses(assignment.site_addresses)
        self._runtime.news.set()

    async def _report(self, stub: site_pb2_grpc.SiteServiceAsyncStub) -> None:
        urgent = False
        while True:
            await self._registered.wait()
            with suppress(grpc.aio.AioRpcError):
                # News, as of a task that has ended, waits for no measurement: those take their time on a busy machine.
                measured = await self._measures.newest(0.0 if urgent else self._report_interval_s)
                await stub.Report(self._report_request(measured), timeout=REPORT_TIMEOUT_S, metadata=self._shown())
            urgent = await self._until_next_report()

    async def _trim_results(self) -> None:
        """Trim results every few seconds; a failure is logged, and the next round tries again."""
        while True:
            await self._clock.sleep(TRIM_INTERVAL_S)
            try:
                await self._runtime.results.trim(self._clock.now())
            except (SiteAgentError, OSError) as error:
                logger.warning("results not trimmed site=%s: %s", self._identity.site, error)

    async def _until_next_report(self) -> bool:
        """Wait for the report interval, or until there is news that the master waits for; whether there is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._report_interval_s):
                await self._runtime.news.wait()
        urgent = self._runtime.news.is_set()
        self._runtime.news.clear()
        return urgent

    def _report_request(self, measured: Measured) -> site_pb2.ReportRequest:
        site, memory = self._identity.site, measured.memory
        return site_pb2.ReportRequest(
            site=site,
            incarnation=self._identity.incarnation,
            assignment_version=self._runtime.version,
            tasks=[status_to_proto(r.status(), site) for _, r in sorted(self._runtime.runners.items())],
            channels=[
                site_pb2.ChannelUse(
                    channel=u.channel,
                    query_id=u.query_id,
                    from_site=u.from_site,
                    bytes=u.bytes,
                    epochs=u.epochs,
                    readers=u.readers,
                )
                for u in self._router.usage()
            ],
            results=[
                site_pb2.ResultStatus(
                    query_id=s.query_id,
                    rows=s.rows,
                    bytes=s.size_bytes,
                    complete=s.complete,
                    watermark_us=s.watermark_us,
                    starts_at_us=s.starts_at_us,
                )
                for s in self._runtime.results.statuses()
            ],
            links=[
                common_pb2.LinkUse(from_site=source, to_site=site, bytes=use.bytes, epochs=use.epochs)
                for source, use in sorted(self._router.link_bytes().items())
            ],
            echoes=[
                site_pb2.LinkEcho(to_site=e.to_site, sent=e.sent, lost=e.lost, rtt_s=e.rtt_s)
                for e in self._echoes.take()
            ],
            transfers=[
                site_pb2.LinkTransfer(
                    from_site=t.from_site,
                    bytes=t.size_bytes,
                    duration_s=t.duration_s,
                    age_s=t.age_s,
                    link_bound=t.link_bound,
                )
                for t in self._router.take_transfers()
            ],
            memory_bytes=memory.total_bytes,
            memory=memory_to_proto(memory),
            stream_logs=[stream_log_to_proto(log) for log in measured.logs],
            disk=disk_to_proto(measured.disk),
            inputs=[
                input_to_proto(name, read)
                for name, reads in (
                    *((name, runner.reads) for name, runner in sorted(self._runtime.runners.items())),
                    *((name, (read,)) for name, read in self._runtime.results.reads()),
                )
                for read in reads
            ],
        )


def _level(error: grpc.aio.AioRpcError, failures: int) -> int:
    """The log level of a failed call: an operator must look at a refusal, while an unreachable master comes back."""
    refused = error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    return (logging.WARNING if refused else logging.INFO) if failures == 0 else logging.DEBUG


@asynccontextmanager
async def running(agent: SiteAgent, master: grpc.aio.Channel) -> AsyncIterator[asyncio.Task[None]]:
    """Resume, then serve in the background; when the block ends, stop serving and tell the master."""
    await agent.resume()
    serving = asyncio.create_task(agent.serve(master))
    try:
        yield serving
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        await agent.leave(master)
