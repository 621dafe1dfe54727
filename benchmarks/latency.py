"""From a window's end to its result at the client: three sites, 10 s windows, epochs of 1 s, a real cluster.

    python -m benchmarks.latency [--windows 6] [--rows-per-second 5000] [--slide 2] [--isolated] [--record FILE]

Event time is the wall time at which the generator makes a row, so a window ends at its end. Beside the whole delay
stands where it goes: when each source had published the epoch behind the window's end, when the merge had published
the window, when the client had it. The baseline is what a system of such epochs cannot go below: on average half an
epoch. A watermark's declared delay does not count here: a generator knows that all later rows are born later. Ends
within three minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import selat
from benchmarks.report import make_parser, median, publish, quantile, say, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.base.errors import CorruptEpochError
from site_agent.channels.epoch_file import read_header

TOPOLOGY = """
gateway: us
sites: {us: {slots: 1}, eu: {slots: 1}, asia: {slots: 1}}
default_link: {bandwidth: 50Mbit/s, latency: 40ms}
"""
WATERMARK_DELAY_S = 1.0
EPOCH_S = 1.0
WARM_UP_WINDOWS = 5
SOURCES, MERGE = "s1", "m1"
"""Stages of the query, as its channels are named by them."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class WindowDelay:
    """Seconds after a window's end."""

    sources_s: float
    """The last source had published a watermark that has passed it."""
    merge_s: float
    client_s: float


class Watermarks:
    """When each watermark of each channel became visible on the producers' disks: the files say, nothing is asked."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._seen: set[Path] = set()
        self._passed: dict[str, list[tuple[int, float]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def passed_s(self, window_end_us: int, *, stage: str) -> float | None:
        """The wall time at which the last channel of a stage had a watermark at this instant or later."""
        times = [
            min((at_s for watermark_us, at_s in found if watermark_us >= window_end_us), default=None)
            for channel, found in self._passed.items()
            if f".{stage}." in channel
        ]
        known = [at_s for at_s in times if at_s is not None]
        return max(known) if known and len(known) == len(times) else None

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            for path in self._data.glob("**/*.epoch"):
                if path not in self._seen:
                    self._seen.add(path)
                    self._note(path)

    def _note(self, path: Path) -> None:
        channel = path.parent.name
        # A copy lies at a site where its task is not.
        if not (path.parents[2] / "tasks" / channel).exists():
            return
        try:
            written_s = path.stat().st_mtime
            watermark_us = read_header(path).manifest.watermark_us
        except (OSError, CorruptEpochError):
            # Trimmed meanwhile: an older epoch of the channel was seen.
            return
        if watermark_us is not None:
            self._passed.setdefault(channel, []).append((watermark_us, written_s))


def measure(arguments: argparse.Namespace) -> tuple[list[WindowDelay], int]:
    """Of each window after the warm-up, and rows counted in them."""
    with tempfile.TemporaryDirectory(prefix="selat-latency-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        topology = root / "topology.yaml"
        topology.write_text(TOPOLOGY)
        options = ClusterOptions(
            isolated=arguments.isolated, master_arguments=("--epoch-interval", "1000"), allow_paths=(root,)
        )
        with DevCluster(topology, root / "data", options) as cluster:
            say("the cluster serves")
            watermarks = Watermarks(root / "data")
            try:
                with selat.connect(cluster.address) as client:
                    arrivals, rows = _arrivals(client, arguments)
            finally:
                watermarks.close()
            return _delays(arrivals, watermarks), rows


def _arrivals(client: selat.Client, arguments: argparse.Namespace) -> tuple[Mapping[datetime, float], int]:
    """When the client had each window's result, by the window's end."""
    create = f"""
    CREATE STREAM clicks (page STRING, ms INT, ts TIMESTAMP,
      WATERMARK FOR ts AS ts - INTERVAL '{WATERMARK_DELAY_S:.0f} seconds')
    WITH ('connector' = 'generator', 'rows_per_second' = '{arguments.rows_per_second}', 'startup' = 'latest',
          'column.page' = 'zipf(100, 1.1)', 'column.ms' = 'uniform(5, 500)')
    AT us, AT eu, AT asia;
    """
    list(client.script(create))
    query = client.sql(
        "SELECT window.end AS e, page, count(*) AS n, avg(ms) AS m FROM clicks "
        f"GROUP BY window(ts, '10 seconds', '{arguments.slide} seconds'), page"
    )
    assert isinstance(query, selat.Query)
    arrivals: dict[datetime, float] = {}
    rows = 0
    with query.results() as results:
        for batch in results:
            now_s = time.time()
            for end in batch.batch.column("e").unique().to_pylist():
                arrivals.setdefault(end, now_s)
            rows += sum(batch.batch.column("n").to_pylist())
            if len(arrivals) >= arguments.windows + WARM_UP_WINDOWS:
                break
    query.cancel()
    return dict(sorted(arrivals.items())[WARM_UP_WINDOWS:]), rows


def _delays(arrivals: Mapping[datetime, float], watermarks: Watermarks) -> list[WindowDelay]:
    delays = []
    for end, client_s in arrivals.items():
        end_us = round(end.timestamp() * 1e6)
        sources_s, merge_s = (watermarks.passed_s(end_us, stage=stage) for stage in (SOURCES, MERGE))
        if sources_s is not None and merge_s is not None:
            end_s = end.timestamp()
            delays.append(WindowDelay(sources_s - end_s, merge_s - end_s, client_s - end_s))
    return delays


def main() -> int:
    """Exit code: 1 when no window was measured."""
    parser = make_parser(__doc__)
    parser.add_argument("--windows", type=int, default=25)
    parser.add_argument("--slide", type=int, default=2, help="seconds: a 10 s window ends every so often")
    parser.add_argument("--rows-per-second", type=int, default=5000, help="at each site")
    parser.add_argument("--isolated", action="store_true", help="a process and JVM per site, as in production")
    arguments = parser.parse_args()
    delays, rows = measure(arguments)
    if not delays:
        say("no window was measured")
        return 1
    total_s = [delay.client_s for delay in delays]
    findings = {"median": median(total_s), "p95": quantile(total_s, 0.95)}
    title = "From a window's end to its result"
    publish("latency", title, _parts(delays, rows, arguments), arguments.record, findings)
    return 0


def _parts(delays: Sequence[WindowDelay], rows: int, arguments: argparse.Namespace) -> list[str]:
    floor_s = EPOCH_S / 2
    steps = {
        "half an epoch (the floor)": [floor_s] * len(delays),
        "sources: publish the epoch whose watermark passes the end": [d.sources_s - floor_s for d in delays],
        "transfer, merge, publish": [d.merge_s - d.sources_s for d in delays],
        "relay to the client": [d.client_s - d.merge_s for d in delays],
        "all": [d.client_s for d in delays],
    }
    lines = [[name, f"{median(v):.2f} s", f"{quantile(v, 0.95):.2f} s"] for name, v in steps.items()]
    processes = "one process and JVM per site" if arguments.isolated else "all sites in one process and JVM"
    return [
        f"Three sites with {arguments.rows_per_second:,} rows/s each, count and mean by 10 s window (one ends every "
        f"{arguments.slide} s) and page, epochs of 1 s, {processes}; "
        f"{len(delays)} windows, {rows:,} rows counted.",
        table(["", "median", "95th percentile"], lines),
        f"Over the floor, median: {median(steps['all']) / floor_s:.2f}. The first {WARM_UP_WINDOWS} windows are not "
        "counted.",
    ]


if __name__ == "__main__":
    sys.exit(main())
