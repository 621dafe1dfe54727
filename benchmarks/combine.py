"""Bytes on the WAN and delay where sites combine their partials, beside today's way and the least possible.

    python -m benchmarks.combine [--seconds 200] [--rows-per-second 500]

Three sites, one process and JVM for all, epochs of 1 s. Count and sum by window and key; for each window and kind of
keys three queries run at the same time over the same streams, sharing nothing: as written, with `SET combine = on`,
and one that says which groups each site had. The least is each group of each site once: for each window and site one
record batch, sorted by key, encoded as a site does. Links are not slowed down here;
`benchmarks.combine_narrow` has narrow ones, `benchmarks.combine_tree` a site between.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import selat
from benchmarks.following import WAYS, Figures, Running, follow, sends
from benchmarks.report import make_parser, median, publish, quantile, say, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.channels.codec import encode

TOPOLOGY = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}, asia: {slots: 2}}
default_link: {bandwidth: 20Mbit/s, latency: 40ms}
"""
GATEWAY = "us"
KEYS = {"100 keys, uniform": "uniform(0, 99)", "10,000 keys, Zipf 1.1": "zipf(10000, 1.1)"}
WINDOWS = (timedelta(seconds=10), timedelta(minutes=1))
WARM_UP = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Case:
    keys: str
    window: timedelta
    ways: dict[str, Running]
    groups: Running
    """The groups of each site."""


def begin(client: selat.Client, keys: str, window: timedelta, rate: int) -> Case:
    """Start the three queries of a case over a stream of their own."""
    stream = f"s_{list(KEYS).index(keys)}_{window // timedelta(seconds=1)}"
    client.sql(
        f"CREATE STREAM {stream} (k INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 seconds') "
        f"WITH ('connector' = 'generator', 'rows_per_second' = '{rate}', 'startup' = 'latest', "
        f"'column.k' = '{KEYS[keys]}', 'column.v' = 'uniform(0, 1000)') AT us, AT eu, AT asia"
    )
    grouped = f"GROUP BY window(ts, '{window // timedelta(seconds=1)} seconds')"
    items = "window.end AS e, k, count(*) AS n, sum(v) AS s"
    ways = {}
    for way, combine in WAYS.items():
        client.sql(f"SET combine = {combine}")
        ways[way] = follow(client, f"SELECT {items} FROM {stream} {grouped}, k", merge_at=GATEWAY)
    client.sql("SET combine = on")
    groups = follow(client, f"SELECT {items}, site FROM {stream} {grouped}, k, site", merge_at=GATEWAY)
    return Case(keys, window, ways, groups)


def measure(arguments: argparse.Namespace) -> list[tuple[Case, dict[str, Figures], int]]:
    """Each case with the figures of each way, and the least bytes."""
    with tempfile.TemporaryDirectory(prefix="selat-combine-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        (root / "topology.yaml").write_text(TOPOLOGY)
        options = ClusterOptions(master_arguments=("--epoch-interval", "1000"), allow_paths=(root,))
        with (
            DevCluster(root / "topology.yaml", root / "data", options) as cluster,
            selat.connect(cluster.address) as client,
        ):
            # Nothing is shared, and merges are placed by cost: at the gateway.
            client.sql("SET sharing = 'net'")
            cases = [begin(client, keys, window, arguments.rows_per_second) for window in WINDOWS for keys in KEYS]
            say(f"{3 * len(cases)} queries run; {arguments.seconds} s")
            time.sleep(arguments.seconds)
            return [_figures(case) for case in cases]


def _figures(case: Case) -> tuple[Case, dict[str, Figures], int]:
    ends = set(case.groups.arrived_s).intersection(*(way.arrived_s for way in case.ways.values()))
    found = {}
    for name, way in case.ways.items():
        info = way.query.info()
        sent_bytes = sum(task.bytes_out for task in info.tasks if task.site != GATEWAY and sends(task, name))
        first = min(way.arrived_s) + WARM_UP
        delays = tuple(at_s - end.timestamp() for end, at_s in way.arrived_s.items() if end > first)
        found[name] = Figures(sent_bytes, len(way.arrived_s), delays)
    least = _least_bytes(pa.Table.from_batches(case.groups.rows), ends)
    for running in (*case.ways.values(), case.groups):
        running.end()
    return case, found, least


def _least_bytes(rows: pa.Table, ends: set[datetime]) -> int:
    total = 0
    for end in sorted(ends):
        of_window = rows.filter(pc.equal(rows["e"], pa.scalar(end, rows.schema.field("e").type)))
        for site in of_window["site"].unique().to_pylist():
            if site != GATEWAY:
                sent = of_window.filter(pc.equal(of_window["site"], site)).drop_columns(["site"])
                total += len(encode(sent.sort_by("k")).payload)
    return total


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--rows-per-second", type=int, default=500, help="at each site")
    arguments = parser.parse_args()
    measured = measure(arguments)
    publish(
        "combine", "Each group once over the WAN", _parts(measured, arguments), arguments.record, _findings(measured)
    )
    return 0


def _findings(measured: Sequence[tuple[Case, dict[str, Figures], int]]) -> dict[str, float]:
    return {
        "over_least": max(found["combined"].sent_bytes / least for _, found, least in measured),
        "over_delay": max(
            median(found["combined"].delays_s) / median(found["written"].delays_s) for _, found, _ in measured
        ),
    }


def _parts(measured: Sequence[tuple[Case, dict[str, Figures], int]], arguments: argparse.Namespace) -> list[str]:
    lines = []
    for case, found, least in measured:
        written, combined = found["written"], found["combined"]
        lines.append(
            [
                f"{case.window // timedelta(seconds=1)} s, {case.keys}",
                f"{least:,}",
                f"{written.sent_bytes / least:.2f}",
                f"{combined.sent_bytes / least:.2f}",
                *(f"{median(way.delays_s):.2f} s, {quantile(way.delays_s, 0.95):.2f} s" for way in (written, combined)),
                f"{len(combined.delays_s)}",
            ]
        )
    head = ["window and keys", "least bytes", "as written", "combined", "delay as written", "delay combined", "windows"]
    return [
        f"Three sites with {arguments.rows_per_second:,} rows/s each, {arguments.seconds:.0f} s; bytes of what the two "
        "sites away from the merge published, over the least; from a window's end to its first row at the client: "
        f"median and 95th percentile. Windows of the first {WARM_UP.total_seconds():.0f} s are not counted in delays.",
        table(head, lines),
    ]


if __name__ == "__main__":
    sys.exit(main())
