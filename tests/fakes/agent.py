"""A stand-in for a site's agent, over real gRPC: it registers, reports what it is told to, and serves channels."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa

from machine.bearer import Metadata
from machine.description import describe, package_version
from master.base.notify import Notifier
from master.records.model import SiteReport, TaskStatus
from selat.v1 import (
    exchange_pb2,
    exchange_pb2_grpc,
    member_pb2,
    member_pb2_grpc,
    site_pb2,
    site_pb2_grpc,
    wan_pb2,
    wan_pb2_grpc,
)
from tests.fakes.reports import report_to_proto

Context = grpc.aio.ServicerContext[Any, Any]
AnalyzeStatement = Callable[[exchange_pb2.AnalyzeRequest], exchange_pb2.AnalyzeResponse]

PATIENCE_S = 60.0
"""Longer than a master takes to start on a machine with other work."""

PIECE_BYTES = 64
"""Small, so that epochs come in several pieces."""


@dataclass(slots=True)
class FakeChannel:
    """A channel's epochs; None stands for one without rows."""

    epochs: list[pa.RecordBatch | None] = field(default_factory=list)
    ended: bool = False
    changes: Notifier = field(default_factory=Notifier)

    def publish(self, *epochs: pa.RecordBatch | None, end: bool = False) -> None:
        self.epochs.extend(epochs)
        self.ended = self.ended or end
        self.changes.notify()


class FakeExchange(exchange_pb2_grpc.ExchangeServiceServicer):
    def __init__(self, analyze: AnalyzeStatement) -> None:
        self._analyze = analyze
        self.channels: dict[str, FakeChannel] = {}
        self.opened: list[exchange_pb2.OpenChannel] = []
        self.split_bytes: dict[str, tuple[int, ...]] = {}
        """Sizes of a table's splits at this site, by its name."""
        self.asked: list[exchange_pb2.AskPlanRequest] = []
        self.answer = exchange_pb2.AskPlanResponse()
        self.plans: list[exchange_pb2.RunPlanRequest] = []
        self.rows: list[exchange_pb2.RunPlanResponse] = []
        self.may_run = asyncio.Event()
        self.may_run.set()
        self.stopped = asyncio.Event()
        """A plan was given up while it ran."""

    def analyze_with(self, analyze: AnalyzeStatement) -> None:
        """Set what is said about statements from now on."""
        self._analyze = analyze

    async def ListSplits(
        self, request: exchange_pb2.ListSplitsRequest, context: Context
    ) -> exchange_pb2.ListSplitsResponse:
        name = request.relation.name
        if name not in self.split_bytes:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"there is no data of {name}")
        path = request.relation.bindings[0].options["path"]
        found = [
            site_pb2.Split(parts=[site_pb2.FilePart(path=f"{path}/{number}", offset=0, length=size)], size_bytes=size)
            for number, size in enumerate(self.split_bytes[name])
        ]
        return exchange_pb2.ListSplitsResponse(splits=found)

    async def Analyze(self, request: exchange_pb2.AnalyzeRequest, context: Context) -> exchange_pb2.AnalyzeResponse:
        return self._analyze(request)

    async def Pull(
        self, request_iterator: AsyncIterator[exchange_pb2.PullRequest], context: Context
    ) -> AsyncIterator[exchange_pb2.PullResponse]:
        opening = (await anext(aiter(request_iterator))).open
        self.opened.append(opening)
        channel = self.channels.get(opening.channel)
        if channel is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no channel {opening.channel}")
        position, described = opening.from_epoch, False
        while True:
            seen = channel.changes.version
            for number in range(position, len(channel.epochs)):
                for response in _messages(number, channel.epochs[number], described=described):
                    yield response
                described = described or channel.epochs[number] is not None
            position = len(channel.epochs)
            if channel.ended:
                last = position - 1 if position else None
                yield exchange_pb2.PullResponse(end=exchange_pb2.EndOfChannel(last_epoch=last))
            if channel.ended or not opening.follow:
                return
            await channel.changes.wait_beyond(seen)

    async def AskPlan(self, request: exchange_pb2.AskPlanRequest, context: Context) -> exchange_pb2.AskPlanResponse:
        self.asked.append(request)
        return self.answer

    async def RunPlan(
        self, request: exchange_pb2.RunPlanRequest, context: Context
    ) -> AsyncIterator[exchange_pb2.RunPlanResponse]:
        self.plans.append(request)
        try:
            await self.may_run.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        for response in self.rows:
            yield response


class FakeMember(member_pb2_grpc.MemberServiceServicer):
    """Describes the test's process."""

    async def DescribeMember(
        self, request: member_pb2.DescribeMemberRequest, context: Context
    ) -> member_pb2.DescribeMemberResponse:
        return member_pb2.DescribeMemberResponse(member=member_pb2.Member(**asdict(describe())))


class FakeProbes(wan_pb2_grpc.ProbeServiceServicer):
    """Measures what it is told that the links from its site carry."""

    def __init__(self, site: str) -> None:
        self._site = site
        self.carries: dict[str, float] = {}
        """Bytes per second, by the site where the link ends."""

    async def Measure(self, request: wan_pb2.MeasureRequest, context: Context) -> wan_pb2.MeasureResponse:
        rate = self.carries.get(request.to_site)
        if rate is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{self._site} to {request.to_site}: too little arrived")
        duration_s = request.duration_ms / 1000
        return wan_pb2.MeasureResponse(
            method=request.method, bytes_per_s=rate, bytes_sent=round(rate * duration_s), took_s=duration_s
        )

    async def Receive(
        self, request: wan_pb2.ReceiveRequest, context: Context
    ) -> AsyncIterator[wan_pb2.ReceiveResponse]:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "nothing is sent here")
        yield wan_pb2.ReceiveResponse()

    async def Echo(self, request: wan_pb2.EchoRequest, context: Context) -> wan_pb2.EchoResponse:
        return wan_pb2.EchoResponse(payload=request.payload)


class FakeAgent:
    """One incarnation of a site's agent."""

    def __init__(
        self,
        site: str,
        master: str,
        *,
        analyze: AnalyzeStatement,
        incarnation: str = "a",
        metadata: Metadata = (),
    ) -> None:
        """`metadata` goes with every call to the master, as a token does."""
        self._metadata = metadata
        self.site = site
        self.incarnation = f"{site}-{incarnation}"
        self.exchange = FakeExchange(analyze)
        self.probes = FakeProbes(site)
        self.assignments: list[site_pb2.Assignment] = []
        self.address = ""
        self._report = SiteReport(site, self.incarnation)
        self._arrived = Notifier()
        self._server = grpc.aio.server()
        self._channel = grpc.aio.insecure_channel(master, options=(("grpc.max_reconnect_backoff_ms", 200),))
        self._stub = site_pb2_grpc.SiteServiceStub(self._channel)
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> FakeAgent:
        """Serve, register, and watch the assignment. May be called again when the master died of it."""
        if not self.address:
            self._add_services()
            self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
            await self._server.start()
        await self.register()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def register(self) -> site_pb2.RegisterResponse:
        request = site_pb2.RegisterRequest(
            site=self.site,
            address=self.address,
            incarnation=self.incarnation,
            slots=2,
            version=package_version("selat"),
        )
        return await self._stub.Register(request, wait_for_ready=True, timeout=PATIENCE_S, metadata=self._metadata)

    async def report(self, *tasks: TaskStatus, **values: Any) -> None:
        """A heartbeat with these tasks and values; what is not given is as in the last one."""
        if tasks:
            values["tasks"] = tasks
        version = self.assignments[-1].version if self.assignments else 0
        self._report = replace(self._report, **{"assignment_version": version, **values})
        await self._stub.Report(
            report_to_proto(self._report), wait_for_ready=True, timeout=PATIENCE_S, metadata=self._metadata
        )

    async def assigned(self, test: Callable[[site_pb2.Assignment], bool]) -> site_pb2.Assignment:
        """The newest assignment, once it passes the test."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                seen = self._arrived.version
                if self.assignments and test(self.assignments[-1]):
                    return self.assignments[-1]
                await self._arrived.wait_beyond(seen)

    async def displaced(self) -> grpc.aio.AioRpcError:
        """The error that ends watching."""
        assert self._watching is not None
        async with asyncio.timeout(PATIENCE_S):
            try:
                await self._watching
            except grpc.aio.AioRpcError as error:
                return error
        raise AssertionError("watching ended without an error")

    async def stop_serving(self) -> None:
        """The exchange goes away, as when the agent dies."""
        await self._server.stop(None)

    async def serve_again(self) -> None:
        """The exchange comes back at the same address."""
        self._server = grpc.aio.server()
        self._add_services()
        self._server.add_insecure_port(self.address)
        await self._server.start()

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await self._watching
        await self._server.stop(None)
        await self._channel.close(None)

    def _add_services(self) -> None:
        exchange_pb2_grpc.add_ExchangeServiceServicer_to_server(self.exchange, self._server)
        wan_pb2_grpc.add_ProbeServiceServicer_to_server(self.probes, self._server)
        member_pb2_grpc.add_MemberServiceServicer_to_server(FakeMember(), self._server)

    async def _watch(self) -> None:
        request = site_pb2.WatchAssignmentRequest(site=self.site, incarnation=self.incarnation)
        while True:
            try:
                async for response in self._stub.WatchAssignment(request, wait_for_ready=True, metadata=self._metadata):
                    self.assignments.append(response.assignment)
                    self._arrived.notify()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise


def _messages(number: int, batch: pa.RecordBatch | None, *, described: bool) -> list[exchange_pb2.PullResponse]:
    """An epoch as the exchange sends it; its watermark is its number."""
    raw = batch.serialize() if batch is not None else None
    payload = pa.compress(raw, codec="zstd", asbytes=True) if raw is not None else b""
    manifest = exchange_pb2.EpochManifest(
        epoch=number,
        rows=batch.num_rows if batch is not None else 0,
        payload_crc32=zlib.crc32(payload),
        payload_bytes=len(payload),
        raw_bytes=raw.size if raw is not None else 0,
        watermark_us=number,
    )
    pieces = [payload[at : at + PIECE_BYTES] for at in range(0, len(payload), PIECE_BYTES)] or [b""]
    parts = [exchange_pb2.EpochPart(epoch=number, payload=piece) for piece in pieces]
    parts[-1].manifest.CopyFrom(manifest)
    schema = (
        [] if described or batch is None else [exchange_pb2.PullResponse(schema=batch.schema.serialize().to_pybytes())]
    )
    return schema + [exchange_pb2.PullResponse(part=part) for part in parts]
