"""MemberService: describes the master's process."""

from __future__ import annotations

from typing import Any

import grpc.aio

from master.sites.members import Members
from selat.v1 import member_pb2, member_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class MemberServicer(member_pb2_grpc.MemberServiceServicer):
    def __init__(self, members: Members) -> None:
        self._members = members

    async def DescribeMember(  # noqa: N802
        self, request: member_pb2.DescribeMemberRequest, context: Context
    ) -> member_pb2.DescribeMemberResponse:
        return member_pb2.DescribeMemberResponse(member=await self._members.own())
