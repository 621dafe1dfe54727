"""Follows the leases of the site's slots at the master; while the master is unreachable, nothing changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc
import grpc.aio

from machine.backoff import delay_after
from machine.bearer import Bearer
from selat.v1 import lease_pb2 as pb
from selat.v1 import lease_pb2_grpc
from site_agent.base.waiting import RECONNECT_DELAYS_S
from site_agent.slots.guard import SlotGuard, SlotLease

logger = logging.getLogger(__name__)


async def follow_slots(master: grpc.aio.Channel, site: str, guard: SlotGuard, bearer: Bearer | None = None) -> None:
    """Follow until cancelled; `bearer` adds the agent's token."""
    shown = bearer or Bearer()
    stub = lease_pb2_grpc.LeaseServiceStub(master)
    failures = 0
    while True:
        news = News(guard)
        try:
            async for message in stub.Watch(pb.WatchSlotsRequest(site=site), metadata=shown.metadata()):
                failures = 0
                news.take(message)
        except grpc.aio.AioRpcError as error:
            level = logging.INFO if failures == 0 else logging.DEBUG
            logger.log(level, "slots not followed site=%s: %s %s", site, error.code().name, error.details())
        await asyncio.sleep(delay_after(failures, RECONNECT_DELAYS_S))
        failures += 1


@asynccontextmanager
async def following_slots(
    master: grpc.aio.Channel, site: str, guard: SlotGuard, bearer: Bearer | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Follow in the background until the block ends."""
    following = asyncio.create_task(follow_slots(master, site, guard, bearer))
    try:
        yield following
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


class News:
    """The messages of one call, passed to the guard when they are complete."""

    def __init__(self, guard: SlotGuard) -> None:
        self._guard = guard
        self._snapshot: dict[int, SlotLease | None] | None = None

    def take(self, message: pb.WatchSlotsResponse) -> None:
        if message.snapshot_begins:
            self._snapshot = {}
        changes = {status.slot.index: _lease(status) for status in message.slots}
        changes |= {slot.index: None for slot in message.gone}
        if self._snapshot is None:
            self._guard.observe(changes, told=message.fencing)
            return
        self._snapshot |= changes
        if message.snapshot_ends:
            leases = [lease for lease in self._snapshot.values() if lease is not None]
            self._guard.observe_all(leases, told=message.fencing)
            self._snapshot = None


def _lease(status: pb.SlotStatus) -> SlotLease | None:
    if not status.HasField("lease"):
        return None
    return SlotLease(
        index=status.slot.index,
        holder=status.lease.holder,
        fencing=status.lease.fencing,
        expires_at_us=status.lease.expires_at_us,
        grace_ends_at_us=status.lease.grace_ends_at_us,
        expired=status.state == pb.SLOT_STATE_GRACE,
    )
