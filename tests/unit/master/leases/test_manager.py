"""The lease manager over a real store in memory, with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from master.base.errors import InvalidRequestError, StoreFullError
from master.leases.manager import LeaseManager, LeaseParts
from master.leases.tickets import TicketEvent
from master.records.model import SiteRecord
from master.sites.registry import SiteRegistry
from master.store import LeaseUpdate
from master.store.sqlite import SqliteStore
from planner.leases import (
    Busy,
    Granted,
    LeasePolicy,
    LeaseRef,
    Queued,
    Slot,
    SlotRecord,
    SlotState,
    Wish,
    acquire,
    release,
)
from planner.leases.acquire import AcquireOutcome
from planner.values.errors import UnknownFrameworkError
from tests.fakes import CountingHex, VirtualClock
from tests.unit.master.build import TOPOLOGY

US = [Slot("us", 0), Slot("us", 1)]
MINUTE = timedelta(minutes=1)


class FullStore(SqliteStore):
    """Stores no leases while `full`, and counts how often it did."""

    full = False
    puts = 0

    def put_leases(self, update: LeaseUpdate) -> None:
        if self.full:
            raise StoreFullError("full")
        self.puts += 1
        super().put_leases(update)


class World:
    """One master's lease manager, whose sites are all heard."""

    def __init__(self, policy: LeasePolicy | None = None) -> None:
        self.policy = policy or LeasePolicy()
        self.store = FullStore.in_memory()
        self.clock = VirtualClock()
        self.start()
        for name in ("batch", "other"):
            self.manager.register(name)

    def start(self) -> None:
        self.registry = SiteRegistry(self.store, TOPOLOGY, clock=self.clock, heartbeat_timeout=timedelta(seconds=10))
        self.sites = self.registry.sites
        for name in TOPOLOGY.sites:
            self.registry.register(SiteRecord(name, f"{name}:1", f"{name}-a", 2, "1"))
        parts = LeaseParts(self.store, self.sites, self.clock, CountingHex())
        self.manager = LeaseManager(parts, self.policy, alive_interval=timedelta(seconds=5))

    def record(self, slot: Slot) -> SlotRecord:
        record = self.manager.table.get(slot)
        assert record is not None
        return record

    async def acquire(self, framework: str, *slots: Slot) -> Sequence[AcquireOutcome]:
        wishes = [Wish(slot, MINUTE) for slot in slots]
        return await self.manager.ask(lambda table, now: acquire(table, framework, wishes, now=now))

    def free(self, framework: str, slot: Slot, fencing: int) -> None:
        refs = [LeaseRef(slot, fencing)]
        self.manager.ask_now(lambda table, now: release(table, framework, refs, now=now))


@pytest.fixture
def world() -> World:
    return World()


async def test_requests_of_one_moment_are_decided_in_order_and_stored_together(world: World) -> None:
    (first,), (second,), (third,) = await asyncio.gather(
        world.acquire("batch", US[0]), world.acquire("other", US[0]), world.acquire("other", US[1])
    )
    assert isinstance(first, Granted)
    assert isinstance(second, Busy)
    assert isinstance(third, Granted)
    assert world.store.puts == 1
    assert [lease.holder for lease in world.store.leases().leases] == ["batch", "other"]


async def test_one_request_that_is_refused_does_not_touch_the_others(world: World) -> None:
    first, second = await asyncio.gather(
        world.acquire("nobody", US[0]), world.acquire("other", US[0]), return_exceptions=True
    )
    assert isinstance(first, UnknownFrameworkError)
    assert not isinstance(second, BaseException)
    assert isinstance(second[0], Granted)


async def test_what_cannot_be_stored_has_not_happened(world: World) -> None:
    world.store.full = True
    with pytest.raises(StoreFullError):
        await world.acquire("batch", US[0])
    assert world.record(US[0]).state is SlotState.FREE
    world.store.full = False
    (outcome,) = await world.acquire("other", US[0])
    assert isinstance(outcome, Granted)


async def test_a_caller_that_is_gone_before_the_decision_has_asked_nothing(world: World) -> None:
    asking = asyncio.create_task(world.acquire("batch", US[0]))
    asyncio.get_running_loop().call_soon(asking.cancel)
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0)
    assert world.record(US[0]).state is SlotState.FREE


async def test_after_a_restart_leases_have_as_much_time_left_as_before(world: World) -> None:
    (granted,) = await world.acquire("batch", US[0])
    assert isinstance(granted, Granted)
    world.clock.advance(timedelta(seconds=20))
    world.manager.mark_alive()
    world.clock.advance(timedelta(hours=2))
    world.start()
    lease = world.record(US[0]).lease
    assert lease is not None
    assert (lease.holder, lease.fencing) == ("batch", granted.lease.fencing)
    assert lease.expires_at - world.clock.now() == timedelta(seconds=40)
    assert [framework.name for framework in world.manager.table.frameworks.all()] == ["batch", "other"]
    (next_one,) = await world.acquire("other", US[1])
    assert isinstance(next_one, Granted)
    assert next_one.lease.fencing > granted.lease.fencing


async def test_a_restart_on_a_full_disk_has_the_leases_too_and_stores_them_when_it_can(world: World) -> None:
    await world.acquire("batch", US[0])
    world.clock.advance(timedelta(hours=2))
    world.store.full = True
    world.start()
    lease = world.record(US[0]).lease
    assert lease is not None
    world.store.full = False
    await world.acquire("other", US[1])
    assert world.store.leases().leases[0] == lease


async def test_numbers_are_not_given_again_after_a_restart_although_no_lease_is_left(world: World) -> None:
    (granted,) = await world.acquire("batch", US[0])
    assert isinstance(granted, Granted)
    world.free("batch", US[0], granted.lease.fencing)
    world.start()
    (again,) = await world.acquire("batch", US[0])
    assert isinstance(again, Granted)
    assert again.lease.fencing > granted.lease.fencing


async def test_leases_end_with_the_passing_of_time(world: World) -> None:
    await world.acquire("batch", US[0])
    world.clock.advance(MINUTE)
    world.manager.tick()
    assert world.record(US[0]).state is SlotState.GRACE
    world.clock.advance(world.policy.grace)
    world.manager.tick()
    assert world.record(US[0]).state is SlotState.FREE
    assert world.store.leases().leases == ()


async def test_a_silent_site_keeps_its_leases_and_grants_nothing(world: World) -> None:
    await world.acquire("batch", US[0])
    world.clock.advance(timedelta(seconds=11))
    world.registry.tick()
    world.manager.tick()
    assert not world.record(US[0]).reachable
    assert world.record(US[0]).holder == "batch"


async def test_a_clock_that_is_set_back_brings_no_lease_back(world: World) -> None:
    await world.acquire("batch", US[0])
    world.clock.advance(MINUTE + world.policy.grace)
    (granted,) = await world.acquire("other", US[0])
    assert isinstance(granted, Granted)
    world.clock.set_wall(-MINUTE)
    assert world.record(US[0]).holder == "other"
    (busy,) = await world.acquire("batch", US[0])
    assert isinstance(busy, Busy)


async def test_a_waiter_hears_of_the_offer_and_of_the_end(world: World) -> None:
    (granted,) = await world.acquire("batch", US[0])
    assert isinstance(granted, Granted)
    waiting = world.manager.wait("other", US[:1])
    outcomes = await anext(waiting)
    assert isinstance(outcomes, tuple)
    assert isinstance(outcomes[0], Queued)
    world.free("batch", US[0], granted.lease.fencing)
    offered = await anext(waiting)
    assert isinstance(offered, TicketEvent)
    assert offered.offered
    await world.acquire("other", US[0])
    left = await anext(waiting)
    assert isinstance(left, TicketEvent)
    assert (left.offered, left.slot.holder) == (False, "other")
    with pytest.raises(StopAsyncIteration):
        await anext(waiting)


async def test_a_waiter_that_goes_hands_its_offer_on(world: World) -> None:
    first, second = world.manager.wait("batch", US[:1]), world.manager.wait("other", US[:1])
    await anext(first)
    await anext(second)
    await first.aclose()
    offered = await anext(second)
    assert isinstance(offered, TicketEvent)
    assert offered.offered
    await second.aclose()
    assert world.record(US[0]) == SlotRecord(US[0])


def test_frameworks_have_names_comments_and_quotas_that_last(world: World) -> None:
    world.manager.register("third.party-1", "a comment")
    world.manager.set_quota("third.party-1", 3)
    assert world.manager.register("third.party-1").quota == 3
    world.start()
    kept = world.manager.table.frameworks.get("third.party-1")
    assert (kept.quota, kept.comment) == (3, "a comment")
    for name in ("", "1st", "a b", "x" * 64):
        with pytest.raises(InvalidRequestError):
            world.manager.register(name)


HOURS = [timedelta(hours=1), -timedelta(hours=1)]


@pytest.mark.parametrize("by", HOURS)
async def test_a_clock_that_is_set_leaves_each_lease_as_much_time_as_before(world: World, by: timedelta) -> None:
    await world.acquire("batch", US[0])
    world.clock.advance(timedelta(seconds=20))
    world.clock.set_wall(by)
    world.manager.tick()
    lease = world.record(US[0]).lease
    assert lease is not None
    assert lease.expires_at - world.clock.now() == timedelta(seconds=40)
    assert [stored.expires_at for stored in world.store.leases().leases] == [lease.expires_at]
    world.clock.advance(timedelta(seconds=40) - timedelta(microseconds=1))
    world.manager.tick()
    assert world.record(US[0]).state is SlotState.LEASED
    world.clock.advance(timedelta(microseconds=1))
    world.manager.tick()
    assert world.record(US[0]).state is SlotState.GRACE


@pytest.mark.parametrize("by", HOURS)
async def test_an_offer_ends_by_the_time_that_passes(world: World, by: timedelta) -> None:
    (granted,) = await world.acquire("batch", US[0])
    assert isinstance(granted, Granted)
    messages = world.manager.wait("other", [US[0]])
    await anext(messages)
    world.free("batch", US[0], granted.lease.fencing)
    world.clock.set_wall(by)
    world.manager.tick()
    assert world.record(US[0]).state is SlotState.OFFERED
    world.clock.advance(world.policy.offer)
    world.manager.tick()
    assert world.record(US[0]).state is SlotState.FREE
    await messages.aclose()


@pytest.mark.parametrize("by", HOURS)
async def test_a_clock_that_is_set_while_the_disk_is_full_moves_the_leases_later(world: World, by: timedelta) -> None:
    await world.acquire("batch", US[0])
    world.clock.set_wall(by)
    world.store.full = True
    for _ in range(2):
        with pytest.raises(StoreFullError):
            world.manager.tick()
    world.store.full = False
    world.manager.tick()
    lease = world.record(US[0]).lease
    assert lease is not None
    assert lease.expires_at - world.clock.now() == MINUTE


@pytest.mark.parametrize("by", HOURS)
async def test_a_clock_that_was_set_while_the_master_was_away_leaves_leases_their_time(
    world: World, by: timedelta
) -> None:
    await world.acquire("batch", US[0])
    world.clock.advance(timedelta(seconds=20))
    world.manager.mark_alive()
    world.clock.set_wall(by)
    world.start()
    lease = world.record(US[0]).lease
    assert lease is not None
    assert lease.expires_at - world.clock.now() == timedelta(seconds=40)


async def test_a_clock_that_is_set_back_does_not_stop_the_signs_of_life(world: World) -> None:
    await world.acquire("batch", US[0])
    world.clock.set_wall(-timedelta(hours=1))
    world.manager.tick()
    world.clock.advance(timedelta(seconds=5))
    world.manager.tick()
    assert world.store.leases().alive_at == world.clock.now()
