"""WanService."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import grpc.aio

from master.api.convert.links import link_to_proto, method_to_proto, point_to_proto
from master.base.errors import InvalidRequestError
from master.sites.status import unknown_site
from master.wan.monitor import WanMonitor
from planner.values.links import Pair
from planner.values.topology import Topology
from selat.v1 import wan_pb2 as pb
from selat.v1 import wan_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]

_DEFAULT_LAST = timedelta(hours=1)
_MOST_LAST = timedelta(days=365)


class WanServicer(wan_pb2_grpc.WanServiceServicer):
    def __init__(self, monitor: WanMonitor, topology: Topology) -> None:
        self._monitor = monitor
        self._topology = topology

    async def ListLinks(self, request: pb.ListLinksRequest, context: Context) -> pb.ListLinksResponse:  # noqa: N802
        links = self._monitor.snapshot().links
        return pb.ListLinksResponse(links=[link_to_proto(links[pair], self._topology) for pair in sorted(links)])

    async def GetLinkHistory(  # noqa: N802
        self, request: pb.GetLinkHistoryRequest, context: Context
    ) -> pb.GetLinkHistoryResponse:
        pair = self._pair(request.from_site, request.to_site)
        if not 0 <= request.last_s <= _MOST_LAST.total_seconds():
            raise InvalidRequestError(f"last_s is {request.last_s:g}", hint="it has to be from 0 to a year")
        last = timedelta(seconds=request.last_s) or _DEFAULT_LAST
        return pb.GetLinkHistoryResponse(points=[point_to_proto(p) for p in self._monitor.history(pair, last)])

    async def ProbeLink(self, request: pb.ProbeLinkRequest, context: Context) -> pb.ProbeLinkResponse:  # noqa: N802
        pair = self._pair(request.from_site, request.to_site)
        measured = await self._monitor.probe_now(pair)
        return pb.ProbeLinkResponse(
            link=link_to_proto(self._monitor.snapshot().links[pair], self._topology),
            method=method_to_proto(measured.method),
            bytes_per_s=measured.bytes_per_s,
            bytes_sent=measured.bytes_sent,
            took_s=measured.took.total_seconds(),
            note=measured.note,
        )

    def _pair(self, source: str, target: str) -> Pair:
        """Raises UnknownSiteError, InvalidRequestError."""
        for site in (source, target):
            if site not in self._topology.sites:
                raise unknown_site(site, self._topology)
        if source == target:
            raise InvalidRequestError(f"{source} to itself is no link", hint="name two sites", ids={"site": source})
        return source, target
