"""What an aggregation costs on the WAN, beside its partial rows in Arrow with zstd.

    python -m benchmarks.wan_bytes [--record FILE]

Partials of the demo's first query (window, airline's name, a sum, two counts) from three airports. The epochs cross
from a store to a router over loopback, one after the other, each acknowledged before the next is made; all bytes of the
connection are counted both ways: gRPC, HTTP/2, credit and acknowledgements. Epochs are taken long and short.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pyarrow as pa

from benchmarks.links import ShapedLink
from benchmarks.report import make_parser, publish, say, table
from benchmarks.wire_format import airport_partials, epochs, stream
from selat.v1 import exchange_pb2 as pb
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import SERVER_OPTIONS, connect
from site_agent.exchange.server import ExchangeServicer
from site_agent.router import Router

DAYS_PER_EPOCH = (3, 6, 30, 90)
UNLIMITED_BITS_PER_S = 1e10


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of one run."""

    epochs: int
    rows: int
    wire: int
    per_epoch: int
    """Ideal: each epoch as an Arrow IPC stream of its own, with Arrow's zstd."""
    whole: int
    """Ideal: the whole run as one such stream, an epoch to a batch."""

    @property
    def over_epochs(self) -> float:
        return self.wire / self.per_epoch


async def measure(root: Path, batches: Sequence[pa.RecordBatch]) -> int:
    """Bytes on the connection until the reader has stored and acknowledged everything."""

    async def analyze(request: pb.AnalyzeRequest) -> pb.AnalyzeResponse:
        return pb.AnalyzeResponse()

    store = ChannelStore(root / "producer")
    log = store.open("partials")
    log.set_consumers(["reader"])
    server = grpc.aio.server(options=SERVER_OPTIONS)
    servicer = ExchangeServicer(store, analyze)
    servicer.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with ShapedLink(port, UNLIMITED_BITS_PER_S) as link:
        router = Router("reader", ChannelStore(root / "reader"), connect)
        router.set_addresses({"producer": link.address})
        async with asyncio.timeout(60):
            copy = await router.subscribe("partials", "producer", "benchmark")
            for epoch, batch in enumerate(batches):
                log.publish(epoch, pa.Table.from_batches([batch]), watermark_us=epoch)
                await copy.state.wait(epoch)
                router.acknowledge("partials", "benchmark", epoch)
                # At an epoch a second, as in life, no two share a message.
                while log.readers.acknowledged("reader") != epoch:
                    await asyncio.sleep(0.001)
            log.finish()
        await router.close()
        wire_bytes = link.sent_bytes + link.received_bytes
    await server.stop(None)
    servicer.close()
    return wire_bytes


def cost_of(batches: Sequence[pa.RecordBatch]) -> Cost:
    with tempfile.TemporaryDirectory() as root:
        wire = asyncio.run(measure(Path(root), batches))
    rows = sum(batch.num_rows for batch in batches)
    return Cost(len(batches), rows, wire, sum(len(stream([b], "zstd")) for b in batches), len(stream(batches, "zstd")))


def main() -> int:
    arguments = make_parser(__doc__).parse_args()
    partials = airport_partials()
    costs = []
    for days in DAYS_PER_EPOCH:
        costs.append(cost_of(list(epochs(partials, days))))
        say(f"epochs of {days} days: {costs[-1].over_epochs:.2f}")
    findings = {"over_ideal": max(cost.over_epochs for cost in costs)}
    publish("wan_bytes", "Bytes on the WAN", _parts(costs), arguments.record, findings)
    return 0


def _parts(costs: Sequence[Cost]) -> list[str]:
    head = [
        "rows of an epoch",
        "epochs",
        "bytes on the wire",
        "ideal, epoch by epoch",
        "ratio",
        "ideal, one stream",
        "ratio",
    ]
    rows = [
        [
            f"{c.rows / c.epochs:.0f}",
            f"{c.epochs}",
            f"{c.wire:,}",
            f"{c.per_epoch:,}",
            f"{c.over_epochs:.2f}",
            f"{c.whole:,}",
            f"{c.wire / c.whole:.2f}",
        ]
        for c in costs
    ]
    return [
        "Partials of the demo's first query from three airports, all bytes of the TCP connection in both directions "
        "(HTTP/2, gRPC, credit and acknowledgements included). Ideal: the same rows as an Arrow IPC stream with zstd, "
        "one for each epoch, or one for the whole run with a batch for each epoch.",
        table(head, rows),
    ]


if __name__ == "__main__":
    sys.exit(main())
