"""Leases: grants inside the manager and through gRPC, and many slots watched by many clients.

    python -m benchmarks.leases [--record FILE]

Inside: decisions on a table of 100 000 slots, applied, in this process, not stored. Through gRPC: a master of its
own process, its state on disk, and 20 clients with a connection each in this one; every grant is durable before it is
answered. Watched: 20 more clients, in a third process, follow all slots meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc.aio

from benchmarks.report import make_parser, median, publish, quantile, say, table
from planner.leases import (
    Framework,
    LeasePolicy,
    LeaseRef,
    LeaseTable,
    SiteSlots,
    Slot,
    Wish,
    acquire,
    release,
    set_site,
)
from selat.v1 import lease_pb2 as pb
from selat.v1 import lease_pb2_grpc, site_pb2, site_pb2_grpc

SLOTS = 100_000
CLIENTS = 20
WATCHERS = 20
INSIDE_GRANTS = 50_000
PHASE_S = 8.0
TOPOLOGY = f"gateway: big\nsites:\n  big: {{slots: {SLOTS}}}\nlinks: []\n"

OPTIONS = (("grpc.max_receive_message_length", -1),)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOUR_US = HOUR // timedelta(microseconds=1)
MARKER = SLOTS - 1
"""The slot by which watchers tell how late they are."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--watch", metavar="ADDRESS", help="be the watchers (used by the benchmark itself)")
    arguments = parser.parse_args()
    if arguments.watch:
        asyncio.run(_watchers(arguments.watch))
        return
    inside, least_inside = _inside()
    through, watched, least_through = asyncio.run(_through_grpc())
    findings = {"inside": least_inside, "grpc": least_through}
    publish("leases", "Leases", [inside, through, watched], arguments.record, findings)


def _inside() -> tuple[str, float]:
    """A table, and the grants a second of its slowest way."""
    rows, rates = [], []
    for name, fair, size in (
        ("one slot a request", False, 1),
        ("one slot a request, fair cap", True, 1),
        ("100 slots a request", False, 100),
    ):
        say(f"inside: {name}")
        grants_per_s, releases_per_s = _inside_rates(fair=fair, size=size)
        rows.append([name, f"{grants_per_s:,.0f}", f"{releases_per_s:,.0f}"])
        rates.append(grants_per_s)
    head = ["inside the manager, medians of three rounds", "grants/s", "releases/s"]
    return table(head, rows), min(rates)


def _inside_rates(*, fair: bool, size: int) -> tuple[float, float]:
    """Grants and releases a second, medians of three rounds."""
    leases = LeaseTable(LeasePolicy(fair=fair))
    for name in ("nightly", "other", "streaming"):
        leases.frameworks.put(Framework(name, NOW))
    leases.apply(set_site(leases, "big", SiteSlots(SLOTS), now=NOW))
    grants_per_s, releases_per_s = [], []
    for _ in range(3):
        first = leases.fencing + 1
        begun = time.perf_counter()
        for start in range(0, INSIDE_GRANTS, size):
            wishes = [Wish(Slot("big", index), HOUR) for index in range(start, start + size)]
            leases.apply(acquire(leases, "nightly", wishes, now=NOW))
        granted = time.perf_counter()
        assert leases.held("nightly") == INSIDE_GRANTS
        for start in range(0, INSIDE_GRANTS, size):
            refs = [LeaseRef(Slot("big", index), first + index) for index in range(start, start + size)]
            leases.apply(release(leases, "nightly", refs, now=NOW))
        released = time.perf_counter()
        assert leases.held("nightly") == 0
        grants_per_s.append(INSIDE_GRANTS / (granted - begun))
        releases_per_s.append(INSIDE_GRANTS / (released - granted))
    return median(grants_per_s), median(releases_per_s)


class Load:
    """Clients that acquire slots, each its own, as fast as answers come, and then release them."""

    def __init__(self, stubs: Sequence[lease_pb2_grpc.LeaseServiceAsyncStub]) -> None:
        self._stubs = stubs

    async def run(self, size: int, seconds: float) -> tuple[float, list[float]]:
        """Grants per second, and how long each call took."""
        begun = time.perf_counter()
        held = await asyncio.gather(
            *(self._client(number, size, begun + seconds) for number in range(len(self._stubs)))
        )
        took_s = time.perf_counter() - begun
        times = [call_s for _, calls in held for call_s in calls]
        grants = sum(len(leases) for leases, _ in held)
        await asyncio.gather(*(self._release(number, leases) for number, (leases, _) in enumerate(held)))
        return grants / took_s, times

    async def _client(self, number: int, size: int, ends: float) -> tuple[list[pb.Lease], list[float]]:
        share = (SLOTS - 1) // len(self._stubs)
        leases: list[pb.Lease] = []
        calls: list[float] = []
        for first in range(number * share, (number + 1) * share - size, size):
            if time.perf_counter() >= ends:
                break
            wishes = [_wish(index) for index in range(first, first + size)]
            begun = time.perf_counter()
            response = await self._stubs[number].Acquire(pb.AcquireRequest(framework="nightly", wishes=wishes))
            calls.append(time.perf_counter() - begun)
            leases.extend(outcome.granted for outcome in response.outcomes)
        assert all(lease.fencing for lease in leases), "every slot was free"
        return leases, calls

    async def _release(self, number: int, leases: Sequence[pb.Lease]) -> None:
        for first in range(0, len(leases), 1000):
            refs = [pb.LeaseRef(slot=x.slot, fencing=x.fencing) for x in leases[first : first + 1000]]
            await self._stubs[number].Release(pb.ReleaseRequest(framework="nightly", leases=refs))


async def _through_grpc() -> tuple[str, str, float]:
    """Two tables: grants, and the watchers' view and cost; and the grants a second of the slowest way."""
    async with _master() as (address, stubs):
        load = Load(stubs)
        rows, rates = [], []
        for size in (1, 10):
            say(f"through gRPC: {size} slots a call")
            rate, times = await load.run(size, PHASE_S)
            rates.append(rate)
            rows.append(_grant_row(f"{CLIENTS} clients, {_slots(size)} a call", rate, times))
        say(f"watched: {WATCHERS} clients, {SLOTS} slots")
        async with _watching(address) as (snapshots_s, mark):
            rate, times = await load.run(1, PHASE_S)
            rates.append(rate)
            rows.append(_grant_row(f"the same, one slot a call, while {WATCHERS} watch", rate, times))
            lags_s = await mark(stubs[0])
        # Clients that acquire while the watchers take their first snapshot.
        say("watched: while the watchers come")
        coming = asyncio.create_task(load.run(1, PHASE_S))
        async with _watching(address) as (busy_snapshots_s, _):
            rate, times = await coming
            rates.append(rate)
            rows.append(_grant_row(f"the same, while {WATCHERS} begin to watch", rate, times))
    head = ["through gRPC", "grants/s", "median call", "slowest call"]
    watch_head = [f"{WATCHERS} watchers, {SLOTS:,} slots", "median", "slowest"]
    watch_rows = [
        _times_row("all slots, after the call", snapshots_s, "s"),
        _times_row("all slots, while 20 clients acquire", busy_snapshots_s, "s"),
        _times_row("a change, after its request was sent", lags_s, "s"),
    ]
    return table(head, rows), table(watch_head, watch_rows), min(rates)


def _grant_row(name: str, rate: float, times: Sequence[float]) -> list[str]:
    median_ms, slowest_ms = 1000 * quantile(times, 0.5), 1000 * max(times)
    return [name, f"{rate:,.0f}", f"{median_ms:.1f} ms", f"{slowest_ms:.0f} ms"]


def _times_row(name: str, times_s: Sequence[float], unit: str) -> list[str]:
    return [name, f"{quantile(times_s, 0.5):.2f} {unit}", f"{max(times_s):.2f} {unit}"]


def _slots(size: int) -> str:
    return "one slot" if size == 1 else f"{size} slots"


def _wish(index: int) -> pb.Wish:
    return pb.Wish(slot=pb.Slot(site="big", index=index), duration_us=HOUR_US)


@asynccontextmanager
async def _master() -> AsyncIterator[tuple[str, list[lease_pb2_grpc.LeaseServiceAsyncStub]]]:
    """A master whose only site has all the slots, and clients of it; the site is heard as long as the block lasts."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.joinpath("topology.yaml").write_text(TOPOLOGY)
        ready = directory / "ready.json"
        command = [sys.executable, "-m", "master", "--listen", "127.0.0.1:0", "--no-probes"]
        command += ["--data", str(directory / "data"), "--topology", str(directory / "topology.yaml")]
        with subprocess.Popen([*command, "--ready-file", str(ready)], stderr=subprocess.DEVNULL) as process:
            try:
                while not ready.exists():
                    await asyncio.sleep(0.05)
                address = str(json.loads(ready.read_text())["address"])
                channels = [grpc.aio.insecure_channel(address, options=_own(n)) for n in range(CLIENTS)]
                stubs = [lease_pb2_grpc.LeaseServiceStub(channel) for channel in channels]
                site = asyncio.create_task(_be_heard(site_pb2_grpc.SiteServiceStub(channels[0])))
                await stubs[0].RegisterFramework(pb.RegisterFrameworkRequest(name="nightly"))
                await _until_granted(stubs[0])
                yield address, stubs
                site.cancel()
                for channel in channels:
                    await channel.close(None)
            finally:
                process.terminate()


def _own(number: int) -> tuple[tuple[str, Any], ...]:
    """Equal channels share one connection; these do not."""
    return (*OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("selat.client", number))


async def _be_heard(sites: site_pb2_grpc.SiteServiceAsyncStub) -> None:
    registration = site_pb2.RegisterRequest(
        site="big", incarnation="benchmark", address="127.0.0.1:9", slots=SLOTS, version="0"
    )
    await sites.Register(registration)
    while True:
        await sites.Report(site_pb2.ReportRequest(site="big", incarnation="benchmark"))
        await asyncio.sleep(1)


async def _until_granted(stub: lease_pb2_grpc.LeaseServiceAsyncStub) -> None:
    while True:
        request = pb.AcquireRequest(framework="nightly", wishes=[_wish(MARKER)])
        (outcome,) = (await stub.Acquire(request)).outcomes
        if outcome.HasField("granted"):
            ref = pb.LeaseRef(slot=outcome.granted.slot, fencing=outcome.granted.fencing)
            await stub.Release(pb.ReleaseRequest(framework="nightly", leases=[ref]))
            return
        await asyncio.sleep(0.1)


@asynccontextmanager
async def _watching(
    address: str,
) -> AsyncIterator[tuple[list[float], Callable[[lease_pb2_grpc.LeaseServiceAsyncStub], Any]]]:
    """Watchers in a process of their own: seconds until each knew all slots, and a way to measure how late they are."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.leases", "--watch", address), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    output = process.stdout

    async def times() -> list[float]:
        return [float(await output.readline()) for _ in range(WATCHERS)]

    async def mark(stub: lease_pb2_grpc.LeaseServiceAsyncStub) -> list[float]:
        begun = time.monotonic()
        await stub.Acquire(pb.AcquireRequest(framework="nightly", wishes=[_wish(MARKER)]))
        return [seen - begun for seen in await times()]

    try:
        yield await times(), mark
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _watchers(address: str) -> None:
    """Prints how long each took to know all slots, then when each saw the marker's lease (on the monotonic clock)."""
    await asyncio.gather(*(_watcher(address, number) for number in range(WATCHERS)))


async def _watcher(address: str, number: int) -> None:
    async with grpc.aio.insecure_channel(address, options=_own(number)) as channel:
        stub = lease_pb2_grpc.LeaseServiceStub(channel)
        begun, seen, complete = time.monotonic(), 0, False
        async for message in stub.Watch(pb.WatchSlotsRequest()):
            seen += len(message.slots)
            if message.snapshot_ends and not complete:
                complete = True
                assert seen >= SLOTS
                print(time.monotonic() - begun, flush=True)
            elif complete and any(status.slot.index == MARKER and status.lease.fencing for status in message.slots):
                print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
