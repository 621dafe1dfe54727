"""AccessService."""

from __future__ import annotations

from typing import Any

import grpc.aio

from master.access.caller import caller
from master.access.rights import check_on
from master.access.tokens import TokenManager
from master.api.convert.access import caller_to_proto, token_to_proto, wish_from_proto
from selat.v1 import access_pb2 as pb
from selat.v1 import access_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class AccessServicer(access_pb2_grpc.AccessServiceServicer):
    def __init__(self, tokens: TokenManager, *, on: bool) -> None:
        """`on` says whether the master checks who calls."""
        self._tokens = tokens
        self._on = on

    async def CreateToken(  # noqa: N802
        self, request: pb.CreateTokenRequest, context: Context
    ) -> pb.CreateTokenResponse:
        check_on(self._on)
        record, secret = self._tokens.create(wish_from_proto(request), by=caller().name)
        return pb.CreateTokenResponse(token=token_to_proto(record), secret=secret)

    async def ListTokens(self, request: pb.ListTokensRequest, context: Context) -> pb.ListTokensResponse:  # noqa: N802
        check_on(self._on)
        return pb.ListTokensResponse(tokens=map(token_to_proto, self._tokens.all()))

    async def RevokeToken(  # noqa: N802
        self, request: pb.RevokeTokenRequest, context: Context
    ) -> pb.RevokeTokenResponse:
        check_on(self._on)
        return pb.RevokeTokenResponse(tokens=map(token_to_proto, self._tokens.revoke(request.token, by=caller().name)))

    async def GetCaller(self, request: pb.GetCallerRequest, context: Context) -> pb.GetCallerResponse:  # noqa: N802
        return caller_to_proto(caller())
