"""A worker in a slot, from its admission to its end: a real agent's slot service beside a real master."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

import selat
from selat.framework import Framework, Occupancy, WorkEvent, WorkState
from selat.leases import Granted, Lease, Slot
from selat.transport.channel import translated
from selat.v1 import site_pb2
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import connect
from site_agent.host import Guests, start_exchange
from site_agent.slots.follow import following_slots
from site_agent.slots.guard import SlotGuard
from tests.integration.master_cluster import Cluster, running_cluster
from tests.integration.test_lease_client import until_all_slots_are_heard
from tests.unit.site_agent.fakes import TableEngine

pytestmark = pytest.mark.timeout(60)

T = TypeVar("T")
US = Slot("us", 0)
MINUTE = timedelta(minutes=1)


class Site:
    """The slot service of `us`, as its agent serves it; can be started again over the same disk."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.stack = AsyncExitStack()

    async def start(self, incarnation: str) -> None:
        guard = SlotGuard("us", 2, self.directory)
        store = ChannelStore(self.directory / "channels")
        address = await start_exchange(
            "127.0.0.1:0", store, TableEngine({}), self.stack, guests=Guests("us", slots=guard)
        )
        master = await self.stack.enter_async_context(connect(self.cluster.address))
        await self.stack.enter_async_context(following_slots(master, "us", guard))
        registration = site_pb2.RegisterRequest(
            site="us", address=address, incarnation=incarnation, slots=2, version="test"
        )
        await self.cluster.sites.Register(registration)

    async def stop(self) -> None:
        await self.stack.aclose()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await asyncio.to_thread(until_all_slots_are_heard, cluster.address)
        yield cluster


@pytest.fixture
async def site(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(cluster, tmp_path / "us")
    site.directory.mkdir()
    await site.start("one")
    yield site
    await site.stop()


async def of(call: Callable[[], T]) -> T:
    """The client blocks; the master needs this loop."""
    return await asyncio.to_thread(call)


def take(framework: Framework) -> Lease:
    (outcome,) = framework.acquire({US: MINUTE})
    assert isinstance(outcome, Granted)
    return outcome.lease


async def event(work: Occupancy) -> WorkEvent:
    return await of(lambda: next(work))


async def test_a_worker_hears_of_expiry_renewal_and_end(cluster: Cluster, site: Site) -> None:
    with await of(lambda: selat.connect(cluster.address)) as client:
        batch = await of(lambda: client.register_framework("nightly"))
        lease = await of(lambda: take(batch))
        with await of(lambda: batch.occupy(lease)) as work:
            assert (await event(work)).state is WorkState.ADMITTED
            cluster.clock.advance(MINUTE)
            assert await event(work) == WorkEvent(WorkState.EXPIRED, lease.grace_ends_at)
            await of(lambda: batch.renew([lease], MINUTE))
            assert await event(work) == WorkEvent(WorkState.RENEWED, lease.expires_at + MINUTE)
            cluster.clock.advance(MINUTE)
            assert (await event(work)).state is WorkState.EXPIRED
            cluster.clock.advance(timedelta(seconds=20))
            over = await event(work)
            assert (over.state, over.reason) == (WorkState.OVER, "it was released, or its grace is over")
            assert await of(lambda: list(work)) == []
        with await of(lambda: batch.occupy(lease)) as late, pytest.raises(selat.StatementError) as caught:
            await event(late)
        assert caught.value.code == "STALE_FENCING"


async def test_old_work_is_ended_and_stays_out_while_master_and_agent_come_and_go(cluster: Cluster, site: Site) -> None:
    with await of(lambda: selat.connect(cluster.address)) as client:
        batch, other = await of(lambda: (client.register_framework("nightly"), client.register_framework("other")))
        old = await of(lambda: take(batch))
        with await of(lambda: batch.occupy(old)) as work:
            assert (await event(work)).state is WorkState.ADMITTED
            await of(lambda: batch.release([old]))
            assert (await event(work)).state is WorkState.OVER
        new = await of(lambda: take(other))
        with await of(lambda: other.occupy(new)) as work:
            assert (await event(work)).state is WorkState.ADMITTED

        await site.stop()
        await site.start("two")
        address = (await cluster.sites.GetSite(site_pb2.GetSiteRequest(name="us"))).site.address
        await cluster.stop_master()
        with Occupancy(address, old) as late, pytest.raises(selat.StatementError) as caught, translated(address):
            await event(late)
        assert caught.value.code == "STALE_FENCING"
        with Occupancy(address, new) as work:
            assert (await event(work)).state is WorkState.ADMITTED
            cluster.clock.advance(timedelta(hours=1))
            await cluster.start_master()
            # The absence took nothing from the lease: it expires a minute after it was granted, and an hour.
            cluster.clock.advance(MINUTE)
            expired = await event(work)
            assert expired == WorkEvent(WorkState.EXPIRED, new.grace_ends_at + timedelta(hours=1))
