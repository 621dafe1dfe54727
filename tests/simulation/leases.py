"""Frameworks beside Selat that lease slots for a while, and what they see: no slot has two holders at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import grpc
import grpc.aio

from selat.v1 import lease_pb2 as pb
from selat.v1 import lease_pb2_grpc
from tests.simulation.faults import Lease
from tests.simulation.producer import OPTIONS
from tests.simulation.world import MASTER_ADDRESS, World
from wire.channels import aio_channel
from wire.names import MASTER

CALL_TIMEOUT_S = 30.0
RETRY_S = 0.5


@dataclass(slots=True)
class Held:
    """A lease, as its holder knows it."""

    framework: str
    lease: pb.Lease
    heard_s: float
    given_back_s: float = float("inf")
    """When the holder began to say so."""


class Frameworks:
    """Some frameworks, at a machine that never fails. A call whose answer is lost leaves a lease that runs out."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stub: Any = lease_pb2_grpc.LeaseServiceStub(aio_channel(MASTER_ADDRESS, MASTER, world.security, OPTIONS))
        self._held: list[Held] = []

    async def lease(self, wanted: Lease) -> None:
        """Take a slot, if it is free, and give it back after half of the time, or never."""
        slot = pb.Slot(site=wanted.site, index=wanted.index)
        wish = pb.Wish(slot=slot, duration_us=round(wanted.seconds * 1e6))
        try:
            registering = pb.RegisterFrameworkRequest(name=wanted.framework)
            await self._stub.RegisterFramework(registering, timeout=CALL_TIMEOUT_S)
            asking = pb.AcquireRequest(framework=wanted.framework, wishes=[wish])
            (outcome,) = (await self._stub.Acquire(asking, timeout=CALL_TIMEOUT_S)).outcomes
        except grpc.aio.AioRpcError as error:
            self._world.tell("no lease", framework=wanted.framework, said=error.details())
            return
        self._world.tell("asked for a lease", framework=wanted.framework, got=outcome.WhichOneof("outcome"))
        if outcome.WhichOneof("outcome") == "granted":
            held = Held(wanted.framework, outcome.granted, self._world.loop.time())
            self._held.append(held)
            if wanted.gives_back:
                await asyncio.sleep(wanted.seconds / 2)
                await self._give_back(held)

    async def _give_back(self, held: Held) -> None:
        held.given_back_s = self._world.loop.time()
        lease = pb.LeaseRef(slot=held.lease.slot, fencing=held.lease.fencing)
        request = pb.ReleaseRequest(framework=held.framework, leases=[lease])
        while True:
            try:
                await self._stub.Release(request, timeout=CALL_TIMEOUT_S)
                return
            except grpc.aio.AioRpcError:
                await asyncio.sleep(RETRY_S)

    def problems(self) -> list[str]:
        """Leases of one slot that overlap, by the master's own clock."""
        told = []
        ordered = sorted(self._held, key=lambda held: held.lease.fencing)
        for one, other in combinations(ordered, 2):
            same = one.lease.slot == other.lease.slot
            over = other.lease.granted_at_us >= one.lease.grace_ends_at_us or one.given_back_s <= other.heard_s
            if one.lease.fencing == other.lease.fencing:
                told.append(f"two leases have the number {one.lease.fencing}")
            elif same and not over:
                told.append(f"{other.framework} got {other.lease} while {one.framework} had {one.lease}")
        return told
