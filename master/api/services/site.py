"""SiteService."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc.aio

from machine.faults import reached
from master.adaptation.advisor import Advisor
from master.api.convert.links import echoes_from_proto, transfers_from_proto
from master.api.convert.sites import site_to_proto
from master.api.watch import Watches
from master.base.faults import FaultPoint
from master.convert.assignments import assignment_to_proto
from master.convert.reports import registration_from_proto, report_from_proto
from master.reconcile.jobs import JobManager
from master.reconcile.sitework import SiteWorkView
from master.sites.members import Members
from master.sites.status import Sites
from master.wan.monitor import WanMonitor
from planner.values.topology import Topology
from selat.v1 import site_pb2, site_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What every agent and client is told about the cluster."""

    id: str
    topology: Topology
    report_interval: timedelta


@dataclass(frozen=True, slots=True)
class SiteParts:
    """The parts that the service calls."""

    jobs: JobManager
    sites: Sites
    watches: Watches
    monitor: WanMonitor
    work: SiteWorkView
    members: Members
    advisor: Advisor


class SiteServicer(site_pb2_grpc.SiteServiceServicer):
    def __init__(self, parts: SiteParts, *, cluster: ClusterInfo) -> None:
        self._jobs = parts.jobs
        self._sites = parts.sites
        self._watches = parts.watches
        self._monitor = parts.monitor
        self._work = parts.work
        self._members = parts.members
        self._advisor = parts.advisor
        self._cluster = cluster

    async def Register(  # noqa: N802
        self, request: site_pb2.RegisterRequest, context: Context
    ) -> site_pb2.RegisterResponse:
        self._jobs.register(registration_from_proto(request))
        interval_ms = self._cluster.report_interval // timedelta(milliseconds=1)
        return site_pb2.RegisterResponse(cluster_id=self._cluster.id, report_interval_ms=interval_ms)

    async def Deregister(  # noqa: N802
        self, request: site_pb2.DeregisterRequest, context: Context
    ) -> site_pb2.DeregisterResponse:
        self._jobs.deregister(request.site, request.incarnation)
        return site_pb2.DeregisterResponse()

    async def Report(  # noqa: N802
        self, request: site_pb2.ReportRequest, context: Context
    ) -> site_pb2.ReportResponse:
        report = report_from_proto(request)
        self._advisor.take(self._jobs.report(report))
        for link in self._sites.get(request.site).links:
            self._monitor.observe_use((link.from_site, link.to_site), link.bytes_per_s)
        for target, echoes in echoes_from_proto(request):
            self._monitor.observe_echoes((request.site, target), echoes)
        for source, transfer in transfers_from_proto(request):
            self._monitor.observe_transfer((source, request.site), transfer)
        return site_pb2.ReportResponse()

    async def WatchAssignment(  # noqa: N802
        self, request: site_pb2.WatchAssignmentRequest, context: Context
    ) -> AsyncIterator[site_pb2.WatchAssignmentResponse]:
        async with aclosing(self._watches.assignment(request.site, request.incarnation)) as assignments:
            async for current in assignments:
                assignment = assignment_to_proto(current, cluster_id=self._cluster.id)
                reached(FaultPoint.ASSIGNMENT_SENDING)
                yield site_pb2.WatchAssignmentResponse(assignment=assignment)
                reached(FaultPoint.ASSIGNMENT_SENT)

    async def ListSites(  # noqa: N802
        self, request: site_pb2.ListSitesRequest, context: Context
    ) -> site_pb2.ListSitesResponse:
        sites = [site_to_proto(s, self._cluster.topology) for s in self._sites.all()]
        return site_pb2.ListSitesResponse(sites=sites)

    async def GetSite(  # noqa: N802
        self, request: site_pb2.GetSiteRequest, context: Context
    ) -> site_pb2.GetSiteResponse:
        return site_pb2.GetSiteResponse(site=self._site(request.name))

    async def DrainSite(  # noqa: N802
        self, request: site_pb2.DrainSiteRequest, context: Context
    ) -> site_pb2.DrainSiteResponse:
        self._jobs.set_draining(request.name, True)
        return site_pb2.DrainSiteResponse(site=self._site(request.name))

    async def UndrainSite(  # noqa: N802
        self, request: site_pb2.UndrainSiteRequest, context: Context
    ) -> site_pb2.UndrainSiteResponse:
        self._jobs.set_draining(request.name, False)
        return site_pb2.UndrainSiteResponse(site=self._site(request.name))

    async def DescribeMembers(  # noqa: N802
        self, request: site_pb2.DescribeMembersRequest, context: Context
    ) -> site_pb2.DescribeMembersResponse:
        return await self._members.all()

    def _site(self, name: str) -> site_pb2.Site:
        """Raises UnknownSiteError."""
        status = self._sites.get(name)
        return site_to_proto(status, self._cluster.topology, self._work.of(status) if status.draining else ())
