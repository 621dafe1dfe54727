"""How fast one channel crosses from one process to another over loopback, from disk to disk.

    python benchmarks/exchange.py [--epochs 200] [--rows 100000]

Prints payload (compressed) and row bytes per second, and time and wire bytes of a small epoch.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import grpc.aio
import pyarrow as pa

from selat.v1 import exchange_pb2 as pb
from selat.v1.exchange_pb2_grpc import add_ExchangeServiceServicer_to_server
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import SERVER_OPTIONS, connect
from site_agent.exchange.server import ExchangeServicer
from site_agent.router import Router

SMALL_EPOCHS = 500


def rows_of(count: int, seed: int) -> pa.Table:
    """A partial aggregate: window, two keys, a count, a sum, a maximum."""
    rng = random.Random(seed)
    return pa.table(
        {
            "window_start": pa.array([1_357_000_000_000_000 + seed * 10_000_000] * count, pa.timestamp("us", "UTC")),
            "carrier": [f"carrier-{rng.randrange(1 + count // 4)}" for _ in range(count)],
            "dest": [f"dest-{rng.randrange(100)}" for _ in range(count)],
            "n": pa.array([rng.randrange(1000) for _ in range(count)], pa.int64()),
            "delay_sum": pa.array([rng.randrange(10**6) for _ in range(count)], pa.int64()),
            "delay_max": [rng.random() * 600 for _ in range(count)],
        }
    )


async def produce(root: Path, arguments: argparse.Namespace, peer: Connection) -> None:
    async def analyze(request: pb.AnalyzeRequest) -> pb.AnalyzeResponse:
        return pb.AnalyzeResponse()

    store = ChannelStore(root)
    large, small = store.open("large"), store.open("small")
    tables = [rows_of(arguments.rows, seed) for seed in range(4)]
    started_s = time.perf_counter()
    for epoch in range(arguments.epochs):
        large.publish(epoch, tables[epoch % len(tables)], watermark_us=epoch)
    large_s = time.perf_counter() - started_s
    twenty = [rows_of(20, seed) for seed in range(50)]
    started_s = time.perf_counter()
    for epoch in range(SMALL_EPOCHS):
        small.publish(epoch, twenty[epoch % len(twenty)], watermark_us=epoch)
    small_s = time.perf_counter() - started_s
    raw_bytes = sum(large.manifest(epoch).raw_bytes for epoch in range(arguments.epochs))
    print(
        f"publish: {raw_bytes / large_s / 1e6:.0f} MB/s of rows; {small_s / SMALL_EPOCHS * 1e3:.2f} ms per small epoch"
    )
    server = grpc.aio.server(options=SERVER_OPTIONS)
    add_ExchangeServiceServicer_to_server(ExchangeServicer(store, analyze), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    peer.send(port)
    await asyncio.to_thread(peer.recv)
    await server.stop(None)


async def read(root: Path, arguments: argparse.Namespace, port: int) -> None:
    router = Router("reader", ChannelStore(root), connect)
    router.set_addresses({"producer": f"127.0.0.1:{port}"})
    started_s = time.perf_counter()
    copy = await router.subscribe("large", "producer", "benchmark")
    await copy.wait(arguments.epochs - 1)
    elapsed_s = time.perf_counter() - started_s
    manifests = [copy.manifest(epoch) for epoch in range(arguments.epochs)]
    payload_bytes, raw_bytes = sum(m.size_bytes for m in manifests), sum(m.raw_bytes for m in manifests)
    assert sum(m.rows for m in manifests) == arguments.epochs * arguments.rows
    print(
        f"transfer: {payload_bytes / 1e6:.0f} MB of payload ({raw_bytes / 1e6:.0f} MB of rows) in {elapsed_s:.2f} s: "
        f"{payload_bytes / elapsed_s / 1e6:.0f} MB/s of payload, {raw_bytes / elapsed_s / 1e6:.0f} MB/s of rows"
    )
    before_bytes = router.link_bytes()["producer"].bytes
    started_s = time.perf_counter()
    copy = await router.subscribe("small", "producer", "benchmark")
    await copy.wait(SMALL_EPOCHS - 1)
    elapsed_s = time.perf_counter() - started_s
    small_bytes = router.link_bytes()["producer"].bytes - before_bytes
    print(
        f"small epochs: {SMALL_EPOCHS / elapsed_s:.0f} per s, {small_bytes / SMALL_EPOCHS:.0f} bytes each on the wire"
    )
    await router.close()


def run_producer(root: Path, arguments: argparse.Namespace, peer: Connection) -> None:
    asyncio.run(produce(root, arguments, peer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory() as root:
        producer = context.Process(target=run_producer, args=(Path(root) / "producer", arguments, there))
        producer.start()
        asyncio.run(read(Path(root) / "reader", arguments, here.recv()))
        here.send("done")
        producer.join()


if __name__ == "__main__":
    main()
