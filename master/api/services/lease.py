"""LeaseService."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc.aio

from master.api.convert import leases as convert
from master.leases.feed import SlotFeeds
from master.leases.manager import LeaseManager
from planner.leases import acquire, release, renew
from selat.v1 import lease_pb2 as pb
from selat.v1 import lease_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class LeaseServicer(lease_pb2_grpc.LeaseServiceServicer):
    def __init__(self, manager: LeaseManager, feeds: SlotFeeds[pb.WatchSlotsResponse]) -> None:
        self._manager = manager
        self._feeds = feeds

    async def Watch(  # noqa: N802
        self, request: pb.WatchSlotsRequest, context: Context
    ) -> AsyncIterator[pb.WatchSlotsResponse]:
        if request.site:
            self._manager.check_site(request.site)
        async with aclosing(self._feeds.of(request.site).watch()) as parts:
            async for part in parts:
                yield part

    async def Acquire(self, request: pb.AcquireRequest, context: Context) -> pb.AcquireResponse:  # noqa: N802
        framework, atomic = request.framework, request.atomic
        wishes = convert.wishes_from_proto(request.wishes)
        return convert.acquired_to_proto(
            await self._manager.ask(lambda table, now: acquire(table, framework, wishes, now=now, atomic=atomic))
        )

    async def Renew(self, request: pb.RenewRequest, context: Context) -> pb.RenewResponse:  # noqa: N802
        framework, renewals = request.framework, convert.renewals_from_proto(request.renewals)
        return convert.renewed_to_proto(
            await self._manager.ask(lambda table, now: renew(table, framework, renewals, now=now))
        )

    async def Release(self, request: pb.ReleaseRequest, context: Context) -> pb.ReleaseResponse:  # noqa: N802
        framework, leases = request.framework, convert.refs_from_proto(request.leases)
        return convert.released_to_proto(
            await self._manager.ask(lambda table, now: release(table, framework, leases, now=now))
        )

    async def WaitFor(  # noqa: N802
        self, request: pb.WaitForRequest, context: Context
    ) -> AsyncIterator[pb.WaitForResponse]:
        slots = convert.slots_from_proto(request.slots)
        async with aclosing(self._manager.wait(request.framework, slots)) as steps:
            async for step in steps:
                yield convert.waiting_to_proto(step)

    async def RegisterFramework(  # noqa: N802
        self, request: pb.RegisterFrameworkRequest, context: Context
    ) -> pb.RegisterFrameworkResponse:
        framework = self._manager.register(request.name, request.comment)
        return pb.RegisterFrameworkResponse(framework=convert.framework_to_proto(framework, self._manager.table))

    async def ListFrameworks(  # noqa: N802
        self, request: pb.ListFrameworksRequest, context: Context
    ) -> pb.ListFrameworksResponse:
        table = self._manager.table
        return pb.ListFrameworksResponse(
            frameworks=[convert.framework_to_proto(framework, table) for framework in table.frameworks.all()]
        )

    async def SetQuota(self, request: pb.SetQuotaRequest, context: Context) -> pb.SetQuotaResponse:  # noqa: N802
        quota = request.quota if request.HasField("quota") else None
        framework = self._manager.set_quota(request.name, quota)
        return pb.SetQuotaResponse(framework=convert.framework_to_proto(framework, self._manager.table))
