"""MemberService: describes the agent's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict

from contract.trailers import Context
from machine.description import Description, describe
from selat.v1 import member_pb2 as pb
from selat.v1.member_pb2_grpc import MemberServiceServicer

Describe = Callable[[], Description]
"""Describes the process that calls it; blocks."""


class MemberServicer(MemberServiceServicer):
    """Add it to a `grpc.aio` server."""

    def __init__(self, own: Describe = describe) -> None:
        self._own = own

    async def DescribeMember(  # noqa: N802
        self, request: pb.DescribeMemberRequest, context: Context
    ) -> pb.DescribeMemberResponse:
        return pb.DescribeMemberResponse(member=pb.Member(**asdict(await asyncio.to_thread(self._own))))
