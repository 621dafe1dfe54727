"""Channels from one process to another over loopback, from disk to disk, beside raw gRPC on the same machine.

    python -m benchmarks.exchange [--megabytes 600] [--rounds 3] [--channels 200] [--record FILE]

One large channel, in rounds that alternate with raw gRPC (messages of 1 MiB, nothing stored); then many channels at
once, of which none may starve; then small epochs. Ends within three minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pyarrow as pa

from benchmarks.report import make_parser, median, publish, quantile, ratio, say, table
from selat.v1 import exchange_pb2 as pb
from site_agent.base.files import Files
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import CLIENT_OPTIONS, SERVER_OPTIONS, connect
from site_agent.exchange.server import ExchangeServicer
from site_agent.router import Router

EPOCH_BYTES = 4 * 1024 * 1024
MANY_EPOCHS, MANY_EPOCH_BYTES = 32, 64 * 1024
SMALL_EPOCHS = 500
MESSAGE_BYTES = 1024 * 1024
LIMIT_S = 60.0
_RAW = "/benchmark/Raw"


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one transfer."""

    size_bytes: int
    wall_s: float
    cpu_s: float
    """Of the reading process alone."""

    @property
    def mb_per_s(self) -> float:
        return self.size_bytes / self.wall_s / 1e6


@dataclass(frozen=True, slots=True)
class Fairness:
    """Many channels at once."""

    speed: Speed
    halfway_epochs: tuple[int, ...]
    """Per channel, what was durable at the reader when half of all was."""
    longest_wait_s: tuple[float, ...]
    """Per channel, the longest time in which nothing of it became durable."""

    @property
    def slowest(self) -> float:
        """The slowest channel's epochs over the median channel's, at half time."""
        return min(self.halfway_epochs) / median(self.halfway_epochs)


def noise(size_bytes: int, seed: int) -> pa.Table:
    """Rows that do not compress: payload bytes are row bytes."""
    words = np.random.default_rng(seed).integers(0, 2**63, size_bytes // 8, dtype=np.int64)
    return pa.table({"n": pa.array(words)})


class UnsyncedFiles(Files):
    """To fill many channels quickly."""

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        super().write(path, parts, sync=False)

    def sync_directory(self, path: Path) -> None:
        """Once, at the end, for all."""


async def serve(root: Path, arguments: argparse.Namespace, peer: Connection) -> None:
    """The producing site: fills its channels, says its port, serves until told to stop."""

    async def analyze(request: pb.AnalyzeRequest) -> pb.AnalyzeResponse:
        return pb.AnalyzeResponse()

    store = ChannelStore(root, UnsyncedFiles())
    for number in range(arguments.rounds):
        fill(store, f"large-{number}", arguments.megabytes * 10**6 // EPOCH_BYTES, EPOCH_BYTES)
    for number in range(arguments.channels):
        fill(store, f"many-{number}", MANY_EPOCHS, MANY_EPOCH_BYTES)
    fill(store, "small", SMALL_EPOCHS, 160)
    os.sync()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    servicer = ExchangeServicer(store, analyze)
    servicer.add_to(server)
    raw = grpc.stream_stream_rpc_method_handler(_raw_sender(arguments.megabytes * 10**6))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("benchmark", {"Raw": raw}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    peer.send(port)
    await asyncio.to_thread(peer.recv)
    await server.stop(0.2)
    servicer.close()


def fill(store: ChannelStore, channel: str, epochs: int, epoch_bytes: int) -> None:
    log = store.open(channel)
    tables = [noise(epoch_bytes, seed) for seed in range(4)]
    for epoch in range(epochs):
        log.publish(epoch, tables[epoch % len(tables)], watermark_us=epoch)
    log.finish()


def _raw_sender(size_bytes: int) -> Callable[[AsyncIterator[bytes], object], AsyncIterator[bytes]]:
    message = os.urandom(MESSAGE_BYTES)

    async def send(requests: AsyncIterator[bytes], context: object) -> AsyncIterator[bytes]:
        for _ in range(size_bytes // MESSAGE_BYTES):
            yield message

    return send


async def measure_raw(port: int) -> Speed:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CLIENT_OPTIONS) as connection:
        method = connection.stream_stream(_RAW, None, None)
        started_s, started_cpu_s, size_bytes = time.perf_counter(), time.process_time(), 0
        call = method(None)
        await call.done_writing()
        async for message in call:
            size_bytes += len(message)
        return Speed(size_bytes, time.perf_counter() - started_s, time.process_time() - started_cpu_s)


async def measure_large(router: Router, channel: str) -> Speed:
    """Until every epoch is durable at the reader."""
    os.sync()
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    copy = await router.subscribe(channel, "producer", "benchmark")
    await copy.state.wait(2**40)
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    size_bytes = sum(copy.epochs.manifest(epoch).size_bytes for epoch in range(copy.next_epoch))
    await router.unsubscribe(channel, "benchmark")
    return Speed(size_bytes, wall_s, cpu_s)


async def measure_many(router: Router, channels: int, port: int) -> Fairness:
    """With a router that does not know the producer's address yet: all channels begin at once."""
    names = [f"many-{number}" for number in range(channels)]
    copies = await asyncio.gather(*(router.subscribe(name, "producer", "benchmark") for name in names))
    halfway: tuple[int, ...] = ()
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    router.set_addresses({"producer": f"127.0.0.1:{port}"})

    async def watch(copy: ChannelLog) -> float:
        nonlocal halfway
        longest_s, before_s = 0.0, started_s
        while copy.next_epoch < MANY_EPOCHS:
            await copy.state.wait(copy.next_epoch)
            now_s = time.perf_counter()
            longest_s, before_s = max(longest_s, now_s - before_s), now_s
            stored = tuple(log.next_epoch for log in copies)
            halfway = halfway or (stored if sum(stored) * 2 >= channels * MANY_EPOCHS else ())
        return longest_s

    waits_s = await asyncio.gather(*map(watch, copies))
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    size_bytes = sum(copy.epochs.manifest(epoch).size_bytes for copy in copies for epoch in range(MANY_EPOCHS))
    return Fairness(Speed(size_bytes, wall_s, cpu_s), halfway, tuple(waits_s))


async def measure_small(router: Router) -> tuple[float, float]:
    """Epochs per second, and bytes on the wire of each."""
    before_bytes = router.link_bytes()["producer"].bytes
    started_s = time.perf_counter()
    copy = await router.subscribe("small", "producer", "benchmark")
    await copy.state.wait(2**40)
    wall_s = time.perf_counter() - started_s
    return SMALL_EPOCHS / wall_s, (router.link_bytes()["producer"].bytes - before_bytes) / SMALL_EPOCHS


async def measure_all(
    root: Path, arguments: argparse.Namespace, port: int
) -> tuple[list[Speed], list[Speed], Fairness, tuple[float, float]]:
    """Raw gRPC and the exchange in turn, many channels, small epochs."""
    router, second = (Router("reader", ChannelStore(root / name), connect) for name in ("one", "many"))
    router.set_addresses({"producer": f"127.0.0.1:{port}"})
    raw, large = [], []
    async with asyncio.timeout(LIMIT_S * (2 + arguments.rounds)):
        for number in range(arguments.rounds):
            raw.append(await measure_raw(port))
            large.append(await measure_large(router, f"large-{number}"))
            say(f"round {number + 1}: raw gRPC {raw[-1].mb_per_s:.0f}, exchange {large[-1].mb_per_s:.0f} MB/s")
        many = await measure_many(second, arguments.channels, port)
        say(f"{arguments.channels} channels: {many.speed.mb_per_s:.0f} MB/s")
        small = await measure_small(router)
    await asyncio.gather(router.close(), second.close())
    return raw, large, many, small


def _speeds(raw: list[Speed], large: list[Speed]) -> str:
    over_raw = ratio([speed.mb_per_s for speed in large], [speed.mb_per_s for speed in raw])
    rows = [
        _speed_row("raw gRPC, 1 MiB messages, nothing stored", raw),
        _speed_row("exchange, durable at the reader", large),
    ]
    head = ["payload, one channel", "MB/s, median", "least", "most", "reader's CPU, ms per MB"]
    return f"{table(head, rows)}\n\nExchange over raw gRPC, round by round, median: {over_raw:.2f}."


def _speed_row(name: str, speeds: list[Speed]) -> list[str]:
    rates = [s.mb_per_s for s in speeds]
    cpu_ms = median([s.cpu_s * 1e3 / (s.size_bytes / 1e6) for s in speeds])
    return [name, f"{median(rates):.0f}", f"{min(rates):.0f}", f"{max(rates):.0f}", f"{cpu_ms:.1f}"]


def _fairness(many: Fairness) -> str:
    rows = [
        ["MB/s over all", f"{many.speed.mb_per_s:.0f}"],
        ["when half of all was durable: slowest channel over the median one", f"{many.slowest:.2f}"],
        ["longest time without progress, median channel", f"{median(many.longest_wait_s):.2f} s"],
        ["... 95th percentile", f"{quantile(many.longest_wait_s, 0.95):.2f} s"],
        ["... of all channels", f"{max(many.longest_wait_s):.2f} s"],
        ["the whole transfer", f"{many.speed.wall_s:.2f} s"],
    ]
    head = [f"{len(many.longest_wait_s)} channels at once, {MANY_EPOCHS} epochs of {MANY_EPOCH_BYTES // 1024} KiB", ""]
    return table(head, rows)


def _small(per_s: float, wire_bytes: float) -> str:
    return f"Small epochs (20 rows), one channel: {per_s:.0f} per second, {wire_bytes:.0f} bytes each on the wire."


def run_server(root: Path, arguments: argparse.Namespace, peer: Connection) -> None:
    asyncio.run(serve(root, arguments, peer))


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--megabytes", type=int, default=600, help="payload of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--channels", type=int, default=200)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="selat-exchange-") as root:
        producer = context.Process(target=run_server, args=(Path(root) / "producer", arguments, there), daemon=True)
        producer.start()
        there.close()
        say("filling the producer's channels")
        raw, large, many, small = asyncio.run(measure_all(Path(root) / "reader", arguments, here.recv()))
        here.send("done")
        producer.join(10)
    findings = {"speed": median([speed.mb_per_s for speed in large]), "slowest": many.slowest}
    parts = [_speeds(raw, large), _fairness(many), _small(*small)]
    publish("exchange", "Exchange between two agents", parts, arguments.record, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
