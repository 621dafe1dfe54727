"""A stand-in for the master's WAN service: it knows no links."""

from __future__ import annotations

from typing import Any

from selat.v1 import wan_pb2, wan_pb2_grpc


class NoLinks(wan_pb2_grpc.WanServiceServicer):
    def ListLinks(self, request: wan_pb2.ListLinksRequest, context: Any) -> wan_pb2.ListLinksResponse:
        return wan_pb2.ListLinksResponse()

    def GetLinkHistory(self, request: wan_pb2.GetLinkHistoryRequest, context: Any) -> wan_pb2.GetLinkHistoryResponse:
        return wan_pb2.GetLinkHistoryResponse()

    def ProbeLink(self, request: wan_pb2.ProbeLinkRequest, context: Any) -> wan_pb2.ProbeLinkResponse:
        return wan_pb2.ProbeLinkResponse()
