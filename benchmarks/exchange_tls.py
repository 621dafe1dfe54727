"""Channels from one process to another over loopback, with TLS beside without.

    python -m benchmarks.exchange_tls [--megabytes 300] [--rounds 3] [--pulls 8] [--record FILE]

One large channel in rounds that alternate, with TLS and without; then many short pulls, over one connection that stays
and over a new connection each. New connections cost something without TLS, too: handshakes cost what is lost beyond it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.exchange import EPOCH_BYTES, LIMIT_S, Speed, UnsyncedFiles, fill, measure_large
from benchmarks.report import make_parser, median, publish, ratio, say, spread, table
from selat.v1 import exchange_pb2 as pb
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import CLIENT_OPTIONS, connector
from site_agent.exchange.server import ExchangeServicer, exchange_server
from site_agent.router import Router
from wire.authority import Authority
from wire.names import site
from wire.security import PLAIN, Security
from wire.servers import listen

SHORT_BYTES = 16 * 1024 * 1024
"""The size of a short pull; a site that loses its connection so often loses it many times a second."""
# Else connections of one process to one address are shared.
OPTIONS = (*CLIENT_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
WAYS = ("plain", "tls")


@dataclass(frozen=True, slots=True)
class Ends:
    """The ways of a reader to the producer."""

    ports: Mapping[str, int]
    securities: Mapping[str, Security]

    def router(self, way: str, root: Path) -> Router:
        router = Router("reader", ChannelStore(root), connector(self.securities[way], OPTIONS))
        router.set_addresses({"producer": f"127.0.0.1:{self.ports[way]}"})
        return router


async def serve(root: Path, arguments: argparse.Namespace, peer: Connection) -> None:
    """The producing site: the same channels at two ports, until told to stop."""

    async def analyze(request: pb.AnalyzeRequest) -> pb.AnalyzeResponse:
        return pb.AnalyzeResponse()

    store = ChannelStore(root / "producer", UnsyncedFiles())
    for way in WAYS:
        for number in range(arguments.rounds):
            fill(store, f"large-{way}-{number}", arguments.megabytes * 10**6 // EPOCH_BYTES, EPOCH_BYTES)
        for kind in ("kept", "new"):
            for number in range(arguments.rounds * arguments.pulls):
                fill(store, f"{kind}-{way}-{number}", SHORT_BYTES // EPOCH_BYTES, EPOCH_BYTES)
    os.sync()
    ports = {}
    async with AsyncExitStack() as stack:
        for way in WAYS:
            security = Security.of(root / "producer-tls") if way == "tls" else PLAIN
            server, servicer = exchange_server(security), ExchangeServicer(store, analyze)
            servicer.add_to(server)
            ports[way] = listen(server, "127.0.0.1:0", security)
            await server.start()
            stack.callback(servicer.close)
            stack.push_async_callback(server.stop, 0.2)
        peer.send(ports)
        await asyncio.to_thread(peer.recv)


async def pull(router: Router, channel: str) -> int:
    """Until every epoch is durable at the reader; how many bytes that were."""
    copy = await router.subscribe(channel, "producer", "benchmark")
    await copy.state.wait(2**40)
    size_bytes = sum(copy.epochs.manifest(epoch).size_bytes for epoch in range(copy.next_epoch))
    await router.unsubscribe(channel, "benchmark")
    return size_bytes


async def measure_short(ends: Ends, way: str, channels: list[str], root: Path, *, keep: bool) -> Speed:
    """The channels one after the other, over one connection, or over a new one each."""
    size_bytes = 0
    kept = ends.router(way, root / "kept") if keep else None
    if kept is not None:
        # The connection is there before the clock runs.
        await pull(kept, channels[0])
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    for channel in channels[1:]:
        router = kept or ends.router(way, root / channel)
        size_bytes += await pull(router, channel)
        if kept is None:
            await router.close()
    speed = Speed(size_bytes, time.perf_counter() - started_s, time.process_time() - started_cpu_s)
    if kept is not None:
        await kept.close()
    return speed


async def measure_all(root: Path, arguments: argparse.Namespace, ends: Ends) -> dict[str, list[Speed]]:
    """By way and kind: `plain large`, `tls new`, and so on."""
    found: dict[str, list[Speed]] = {f"{way} {kind}": [] for way in WAYS for kind in ("large", "kept", "new")}
    async with asyncio.timeout(LIMIT_S * (1 + arguments.rounds)):
        for number in range(arguments.rounds):
            for way in WAYS:
                router = ends.router(way, root / f"large-{way}-{number}")
                found[f"{way} large"].append(await measure_large(router, f"large-{way}-{number}"))
                await router.close()
            first = number * arguments.pulls
            for kind in ("kept", "new"):
                for way in WAYS:
                    channels = [f"{kind}-{way}-{n}" for n in range(first, first + arguments.pulls)]
                    place = root / f"{kind}-{way}-{number}"
                    speed = await measure_short(ends, way, channels, place, keep=kind == "kept")
                    found[f"{way} {kind}"].append(speed)
            rates = ", ".join(f"{name} {speeds[-1].mb_per_s:.0f}" for name, speeds in found.items())
            say(f"round {number + 1}: {rates} MB/s")
    return found


def over(found: Mapping[str, list[Speed]], mine: str, base: str) -> float:
    """The median over rounds of one rate over another."""
    return ratio([s.mb_per_s for s in found[mine]], [s.mb_per_s for s in found[base]])


def handshakes(found: Mapping[str, list[Speed]]) -> float:
    """The share of the throughput that is left when each short pull has a handshake, new connections as such apart."""
    return over(found, "tls new", "tls kept") / over(found, "plain new", "plain kept")


def run_server(root: Path, arguments: argparse.Namespace, peer: Connection) -> None:
    asyncio.run(serve(root, arguments, peer))


def _report(found: Mapping[str, list[Speed]], pulls: int) -> list[str]:
    names = {
        "large": "one large channel",
        "kept": f"pulls of {SHORT_BYTES // 2**20} MiB, one connection",
        "new": f"pulls of {SHORT_BYTES // 2**20} MiB, a new connection each",
    }
    rows = []
    for kind, name in names.items():
        rates = [spread([s.mb_per_s for s in found[f"{way} {kind}"]], "{:.0f}") for way in WAYS]
        cpu = median([s.cpu_s * 1e3 / (s.size_bytes / 1e6) for s in found[f"tls {kind}"]])
        rows.append([name, *rates, f"{over(found, f'tls {kind}', f'plain {kind}'):.2f}", f"{cpu:.1f}"])
    head = [
        "payload, durable at the reader",
        "plain, MB/s",
        "TLS, MB/s",
        "TLS over plain",
        "CPU of the TLS reader, ms per MB",
    ]
    said = f"Handshakes leave {handshakes(found):.2f} of the throughput of {pulls - 1} such pulls in a row."
    return [table(head, rows), said]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--megabytes", type=int, default=300, help="payload of each large channel")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--pulls", type=int, default=8, help="short pulls of each kind in a round; the first is not counted"
    )
    arguments = parser.parse_args()
    if arguments.pulls < 2:
        parser.error("--pulls must be 2 or more")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="selat-exchange-tls-") as directory:
        root = Path(directory)
        authority = Authority.create(root / "authority", "benchmark")
        for name in ("producer", "reader"):
            authority.issue(site(name), root / f"{name}-tls")
        producer = context.Process(target=run_server, args=(root, arguments, there), daemon=True)
        producer.start()
        there.close()
        say("filling the producer's channels")
        ends = Ends(here.recv(), {"plain": PLAIN, "tls": Security.of(root / "reader-tls")})
        found = asyncio.run(measure_all(root / "reader", arguments, ends))
        here.send("done")
        producer.join(10)
    findings = {"handshakes": handshakes(found)}
    publish("exchange_tls", "Exchange with TLS", _report(found, arguments.pulls), arguments.record, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
