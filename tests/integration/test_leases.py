"""The lease service over real gRPC: races, waiting lists, restarts, and clients that go away or ask for nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from pathlib import Path

import grpc.aio
import pytest

from contract.tasks import TaskState
from selat.v1 import lease_pb2 as pb
from selat.v1 import lease_pb2_grpc
from tests.integration.master_cluster import CREATE, FILTER, Cluster, eventually, refusal, running_cluster
from tests.seeds import random_of

pytestmark = pytest.mark.timeout(60)

CLIENTS = 20
ROUNDS = 25
MINUTE_US = 60_000_000
SLOTS = [(site, index) for site in ("eu", "hub", "us") for index in range(2)]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await eventually(lambda: all_slots_known(cluster))
        yield cluster


def slot(site: str, index: int) -> pb.Slot:
    return pb.Slot(site=site, index=index)


def wish(site: str, index: int, duration_us: int = MINUTE_US) -> pb.Wish:
    return pb.Wish(slot=slot(site, index), duration_us=duration_us)


async def slots_of(cluster: Cluster) -> dict[tuple[str, int], pb.SlotStatus]:
    """A snapshot."""
    known: dict[tuple[str, int], pb.SlotStatus] = {}
    call = cluster.leases.Watch(pb.WatchSlotsRequest(), wait_for_ready=True)
    async for message in call:
        known |= {(status.slot.site, status.slot.index): status for status in message.slots}
        assert not message.gone
        if message.snapshot_ends:
            break
    call.cancel()
    return known


async def all_slots_known(cluster: Cluster) -> bool:
    slots = await slots_of(cluster)
    return sorted(slots) == SLOTS and all(status.reachable for status in slots.values())


async def register(cluster: Cluster, *names: str) -> None:
    for name in names:
        await cluster.leases.RegisterFramework(pb.RegisterFrameworkRequest(name=name))


async def take(cluster: Cluster, framework: str, *wishes: pb.Wish, atomic: bool = False) -> list[pb.AcquireOutcome]:
    request = pb.AcquireRequest(framework=framework, wishes=wishes, atomic=atomic)
    return list((await cluster.leases.Acquire(request, wait_for_ready=True)).outcomes)


async def free(cluster: Cluster, framework: str, lease: pb.Lease) -> pb.ReleaseOutcome:
    ref = pb.LeaseRef(slot=lease.slot, fencing=lease.fencing)
    response = await cluster.leases.Release(pb.ReleaseRequest(framework=framework, leases=[ref]))
    return response.outcomes[0]


class Client:
    """One framework with a connection of its own; `held` is what all of them believe together."""

    def __init__(self, number: int, address: str, held: dict[tuple[str, int], str]) -> None:
        self.name = f"f{number:02d}"
        self.rng = random_of(number)
        self.held = held
        self.mine: dict[tuple[str, int], pb.Lease] = {}
        self.granted = 0
        self.last_fencing: dict[tuple[str, int], int] = {}
        self.channel = grpc.aio.insecure_channel(address)
        self.stub = lease_pb2_grpc.LeaseServiceStub(self.channel)

    async def run(self) -> None:
        await self.stub.RegisterFramework(pb.RegisterFrameworkRequest(name=self.name))
        for _ in range(ROUNDS):
            await self.rng.choice((self.acquire, self.acquire, self.renew, self.wait))()
            if self.rng.random() < 0.7:
                await self.release_all()
        await self.release_all()
        await self.channel.close(None)

    async def acquire(self) -> None:
        wanted = self.rng.sample(SLOTS, self.rng.randint(1, 3))
        atomic = self.rng.random() < 0.5
        request = pb.AcquireRequest(framework=self.name, wishes=[wish(*key) for key in wanted], atomic=atomic)
        outcomes = (await self.stub.Acquire(request)).outcomes
        granted = [outcome.granted for outcome in outcomes if outcome.WhichOneof("outcome") == "granted"]
        assert not atomic or len(granted) in (0, len(wanted))
        for lease in granted:
            self.keep(lease)

    def keep(self, lease: pb.Lease) -> None:
        key = (lease.slot.site, lease.slot.index)
        assert key not in self.held, f"{key} is {self.held[key]}'s and was granted to {self.name}"
        self.held[key] = self.name
        self.mine[key] = lease
        self.granted += 1

    async def renew(self) -> None:
        if self.mine:
            renewals = [pb.Renewal(slot=x.slot, fencing=x.fencing, duration_us=MINUTE_US) for x in self.mine.values()]
            response = await self.stub.Renew(pb.RenewRequest(framework=self.name, renewals=renewals))
            assert all(outcome.WhichOneof("outcome") == "renewed" for outcome in response.outcomes)

    async def wait(self) -> None:
        """Holding nothing, so that everybody gets what it waits for, sooner or later."""
        await self.release_all()
        key = self.rng.choice(SLOTS)
        async for message in self.stub.WaitFor(pb.WaitForRequest(framework=self.name, slots=[slot(*key)])):
            if message.WhichOneof("message") == "offered":
                (outcome,) = (
                    await self.stub.Acquire(pb.AcquireRequest(framework=self.name, wishes=[wish(*key)]))
                ).outcomes
                assert outcome.WhichOneof("outcome") == "granted"
                self.keep(outcome.granted)

    async def release_all(self) -> None:
        # Forgotten first: once the call is on its way the slot may be anybody's.
        leases, self.mine = list(self.mine.values()), {}
        for lease in leases:
            del self.held[lease.slot.site, lease.slot.index]
        if leases:
            refs = [pb.LeaseRef(slot=lease.slot, fencing=lease.fencing) for lease in leases]
            response = await self.stub.Release(pb.ReleaseRequest(framework=self.name, leases=refs))
            assert all(outcome.WhichOneof("outcome") == "released" for outcome in response.outcomes)


@pytest.mark.seeded
async def test_twenty_clients_at_once_never_share_a_slot_and_nobody_waits_for_ever(cluster: Cluster) -> None:
    held: dict[tuple[str, int], str] = {}
    clients = [Client(number, cluster.address, held) for number in range(CLIENTS)]
    await asyncio.gather(*(client.run() for client in clients))
    assert held == {}
    assert sum(client.granted for client in clients) > CLIENTS
    assert {status.state for status in (await slots_of(cluster)).values()} == {pb.SLOT_STATE_FREE}


async def test_a_lost_race_tells_who_won_and_until_when(cluster: Cluster) -> None:
    await register(cluster, "nightly", "other")
    first, second = await asyncio.gather(
        take(cluster, "nightly", wish("us", 0)), take(cluster, "other", wish("us", 0), wish("us", 1))
    )
    (won,) = [o.granted for o in (*first, *second) if o.HasField("granted") and o.granted.slot.index == 0]
    (lost,) = [outcome.busy for outcome in (*first, *second) if outcome.HasField("busy")]
    assert lost.lease == won
    assert won.grace_ends_at_us == won.expires_at_us + 20_000_000


async def test_watchers_see_an_early_release_and_the_first_waiter_is_offered_the_slot(cluster: Cluster) -> None:
    await register(cluster, "nightly", "first", "second")
    (granted,) = await take(cluster, "nightly", wish("us", 0))
    first, second = wait_for(cluster.leases, "first"), wait_for(cluster.leases, "second")
    places = [(await anext(wait)).queued.outcomes[0].place.position for wait in (first, second)]
    assert places == [1, 2]
    assert (await slots_of(cluster))["us", 0].waiters == 2

    await free(cluster, "nightly", granted.granted)
    assert (await anext(first)).offered.offered_to == "first"
    (early,) = await take(cluster, "second", wish("us", 0))
    assert early.busy.offered_to == "first"
    (taken,) = await take(cluster, "first", wish("us", 0))
    assert (await anext(first)).left.lease == taken.granted
    with pytest.raises(StopAsyncIteration):
        await anext(first)
    await free(cluster, "first", taken.granted)
    assert (await anext(second)).offered.offered_to == "second"


def wait_for(stub: lease_pb2_grpc.LeaseServiceAsyncStub, framework: str) -> AsyncIterator[pb.WaitForResponse]:
    """Steps of waiting for us/0; the call ends when they are forgotten."""
    return aiter(stub.WaitFor(pb.WaitForRequest(framework=framework, slots=[slot("us", 0)])))


async def test_a_waiter_whose_client_is_gone_waits_no_more(cluster: Cluster) -> None:
    await register(cluster, "nightly", "other")
    await take(cluster, "nightly", wish("us", 0))
    for go in ("cancel", "close"):
        channel = grpc.aio.insecure_channel(cluster.address)
        stub = lease_pb2_grpc.LeaseServiceStub(channel)
        wait = stub.WaitFor(pb.WaitForRequest(framework="other", slots=[slot("us", 0)]))
        await anext(aiter(wait))
        assert (await slots_of(cluster))["us", 0].waiters == 1
        if go == "cancel":
            wait.cancel()
        await channel.close(None)
        await eventually(lambda: nobody_waits(cluster))


async def nobody_waits(cluster: Cluster) -> bool:
    return (await slots_of(cluster))["us", 0].waiters == 0


async def test_expiry_then_grace_then_free(cluster: Cluster) -> None:
    await register(cluster, "nightly")
    (outcome,) = await take(cluster, "nightly", wish("us", 0))
    for seconds, state in ((60, pb.SLOT_STATE_GRACE), (20, pb.SLOT_STATE_FREE)):
        cluster.clock.advance(timedelta(seconds=seconds))
        await eventually(lambda state=state: slot_is(cluster, state))  # type: ignore[misc]
    assert (await free(cluster, "nightly", outcome.granted)).refused.reason == pb.REFUSAL_REASON_STALE_FENCING


async def slot_is(cluster: Cluster, state: pb.SlotState.ValueType) -> bool:
    return (await slots_of(cluster))["us", 0].state == state


async def test_a_restarted_master_has_every_lease_with_the_time_it_had_left(cluster: Cluster) -> None:
    await register(cluster, "nightly", "other")
    granted = await take(cluster, "nightly", wish("us", 0), wish("eu", 1), atomic=True)
    cluster.clock.advance(timedelta(seconds=5))
    await cluster.stop_master()
    cluster.clock.advance(timedelta(hours=1))
    await cluster.start_master()

    (busy,) = await take(cluster, "other", wish("us", 0))
    before = granted[0].granted
    assert busy.busy.lease.fencing == before.fencing
    assert busy.busy.lease.expires_at_us == before.expires_at_us + 3600 * 1_000_000
    renewal = pb.Renewal(slot=before.slot, fencing=before.fencing, duration_us=MINUTE_US)
    (renewed,) = (await cluster.leases.Renew(pb.RenewRequest(framework="nightly", renewals=[renewal]))).outcomes
    assert renewed.renewed.fencing == before.fencing
    (later,) = await take(cluster, "other", wish("us", 1))
    assert later.granted.fencing > max(outcome.granted.fencing for outcome in granted)


async def test_a_quota_is_told_with_its_number(cluster: Cluster) -> None:
    await register(cluster, "nightly")
    await cluster.leases.SetQuota(pb.SetQuotaRequest(name="nightly", quota=1))
    _, refused = await take(cluster, "nightly", wish("us", 0), wish("us", 1))
    assert refused.refused.reason == pb.REFUSAL_REASON_QUOTA
    assert refused.refused.text == "the quota of nightly is 1 slots, and it holds 1"
    listed = (await cluster.leases.ListFrameworks(pb.ListFrameworksRequest())).frameworks
    assert [
        (framework.name, framework.quota, framework.held) for framework in listed if framework.name == "nightly"
    ] == [("nightly", 1, 1)]


async def test_nonsense_is_refused_slot_by_slot_with_a_reason(cluster: Cluster) -> None:
    await register(cluster, "nightly", "other")
    asked = [wish("mars", 0), wish("us", 2), wish("us", 0, 0), wish("us", 0, -1), wish("us", 0, 2**63 - 1), pb.Wish()]
    outcomes = await take(cluster, "nightly", *asked)
    assert [pb.RefusalReason.Name(o.refused.reason).removeprefix("REFUSAL_REASON_") for o in outcomes] == [
        "UNKNOWN_SLOT",
        "UNKNOWN_SLOT",
        "DURATION_NOT_POSITIVE",
        "DURATION_NOT_POSITIVE",
        "DURATION_TOO_LONG",
        "UNKNOWN_SLOT",
    ]
    assert all(outcome.refused.text for outcome in outcomes)
    (granted,) = await take(cluster, "nightly", wish("us", 0))
    lease = granted.granted
    assert (await free(cluster, "other", lease)).refused.reason == pb.REFUSAL_REASON_FOREIGN_LEASE
    lease.fencing += 1
    assert (await free(cluster, "nightly", lease)).refused.reason == pb.REFUSAL_REASON_UNKNOWN_FENCING


async def test_requests_that_make_no_sense_as_a_whole_are_errors(cluster: Cluster) -> None:
    leases = cluster.leases
    calls: list[tuple[Awaitable[object], str]] = [
        (leases.Acquire(pb.AcquireRequest(framework="nobody", wishes=[wish("us", 0)])), "UNKNOWN_FRAMEWORK"),
        (leases.Acquire(pb.AcquireRequest(framework="nobody")), "INVALID_REQUEST"),
        (leases.Renew(pb.RenewRequest(framework="nobody")), "INVALID_REQUEST"),
        (leases.Release(pb.ReleaseRequest(framework="nobody")), "INVALID_REQUEST"),
        (anext(wait_for(leases, "nobody")), "UNKNOWN_FRAMEWORK"),
        (anext(aiter(leases.WaitFor(pb.WaitForRequest(framework="x")))), "INVALID_REQUEST"),
        (leases.RegisterFramework(pb.RegisterFrameworkRequest(name="no name")), "INVALID_REQUEST"),
        (leases.SetQuota(pb.SetQuotaRequest(name="nobody", quota=1)), "UNKNOWN_FRAMEWORK"),
    ]
    for call, code in calls:
        _, detail = await refusal(call)
        assert (detail.code, bool(detail.message)) == (code, True)


async def test_a_query_that_gets_no_slot_tells_which_and_starts_when_one_comes(cluster: Cluster) -> None:
    await register(cluster, "nightly")
    granted = await take(cluster, "nightly", wish("eu", 0), wish("eu", 1))
    await cluster.execute(CREATE)
    query = await cluster.submit(FILTER)
    reason = (await cluster.get(query)).reason
    assert reason.startswith("no slot at eu: eu/0 is nightly's until 2026-01-01 00:01:20 at the latest")
    assert await cluster.state(query) == "DEPLOYING"
    assert all(task.paused for task in cluster.agents["us"].assignments[-1].tasks)

    await free(cluster, "nightly", granted[1].granted)
    for site in ("us", "eu"):
        await cluster.agents[site].assigned(lambda a: bool(a.tasks) and not any(task.paused for task in a.tasks))
        await cluster.report(site, TaskState.RUNNING)
    await cluster.report("hub", TaskState.RUNNING)
    assert await cluster.state(query) == "RUNNING"
    assert (await cluster.get(query)).reason == ""
    assert (await slots_of(cluster))["eu", 1].lease.holder == "streaming"
