"""Describes the master and its agents as they are now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta

import grpc.aio

from contract.times import to_us
from machine.clock import Clock
from machine.description import Description
from master.sites.peers import Peers
from master.sites.status import Sites, SiteStatus
from selat.v1 import member_pb2, site_pb2
from selat.v1.member_pb2_grpc import MemberServiceStub

ANSWER_S = 10.0
"""The seconds that an agent has to answer; its disk may be slow."""

Describe = Callable[[], Description]
"""Describes the process that calls it; blocks."""


@dataclass(frozen=True, slots=True)
class MemberParts:
    """The parts that are asked."""

    sites: Sites
    peers: Peers
    clock: Clock
    own: Describe


class Members:
    """Asks all agents concurrently; one that does not answer is listed with the reason."""

    def __init__(self, parts: MemberParts) -> None:
        self._parts = parts

    async def own(self) -> member_pb2.Member:
        """The description of the master."""
        return member_pb2.Member(**asdict(await asyncio.to_thread(self._parts.own)))

    async def all(self) -> site_pb2.DescribeMembersResponse:
        """The descriptions of the master and of every site of the topology, by name."""
        asked = asyncio.gather(*map(self._ask, self._parts.sites.all()))
        master, sites = await asyncio.gather(self.own(), asked)
        return site_pb2.DescribeMembersResponse(master=master, sites=sites)

    async def _ask(self, status: SiteStatus) -> site_pb2.SiteMember:
        found = site_pb2.SiteMember(site=status.name, address=status.address)
        if not status.address:
            found.reason = "its agent has not connected yet"
            return found
        stub = MemberServiceStub(self._parts.peers.channel(status.name, status.address))
        clock = self._parts.clock
        asked_at, began = clock.now(), clock.monotonic()
        try:
            answer = await stub.DescribeMember(member_pb2.DescribeMemberRequest(), timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            found.reason = f"{error.code().name}: {error.details()}"
            return found
        took = timedelta(seconds=clock.monotonic() - began)
        found.member.CopyFrom(answer.member)
        # The agent read its clock after everything else.
        round_trip = max(took - timedelta(seconds=answer.member.took_s), timedelta(0))
        found.round_trip_s = round_trip / timedelta(seconds=1)
        found.clock_ahead_s = (answer.member.now_us - to_us(asked_at + took - round_trip / 2)) / 1e6
        return found
