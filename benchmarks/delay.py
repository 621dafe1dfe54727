"""From a window's end to its result with many sites or many queries in one process, and the CPU of sites without work.

    python -m benchmarks.delay [--scenes sites queries crowd mesh idle] [--seconds 100] [--record FILE]

    sites     14 sites, four queries over all of them, 500 rows/s a site
    queries   3 sites, 40 different queries over all of them, 1,000 rows/s a site
    crowd     the same with 90 queries, more than two cores manage in epochs of 1 s
    mesh      60 sites with links between all pairs, one query over all of them, 50 rows/s a site
    idle      the same 60 sites without a query

All sites are in one process with one JVM, the master in another; windows of 10 s, epochs of 1 s. Event time is the wall
time at which the generator makes a row. Windows that end in the first 30 s are not counted.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psutil

import selat
from benchmarks.processes import cpu_s
from benchmarks.report import make_parser, median, publish, quantile, say, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

WARM_UP_S = 30.0
SETTLE_S = 60.0
"""Idle CPU is measured from so long after the cluster serves."""
AGGREGATES = (
    "count(*) AS n",
    "count(*) AS n, avg(ms) AS m",
    "sum(ms) AS s, max(ms) AS m",
    "min(ms) AS low, max(ms) AS high, count(*) AS n",
)


@dataclass(frozen=True, slots=True)
class Scene:
    sites: int
    queries: int
    rows_per_s: int
    """At each site."""
    title: str
    limit_s: float | None = None
    """Wanted of the 95th percentile; None: nobody queries, infinite: nothing."""


SCENES = {
    "sites": Scene(14, 4, 500, "14 sites, 4 queries, 500 rows/s a site", 8),
    "queries": Scene(3, 40, 1000, "3 sites, 40 queries, 1,000 rows/s a site", 8),
    "crowd": Scene(3, 90, 1000, "3 sites, 90 queries, 1,000 rows/s a site", math.inf),
    "mesh": Scene(60, 1, 50, "60 sites, 1 query, 50 rows/s a site", 8),
    "idle": Scene(60, 0, 0, "60 sites, no query"),
}


@dataclass(slots=True)
class Found:
    """What a scene showed."""

    scene: Scene
    cores: float = 0.0
    """CPU of all processes of the cluster, while it was measured."""
    peak_bytes: int = 0
    """Memory of all of them at the end."""
    delays_s: list[float] = field(default_factory=list)
    windows_missing: int = 0
    """Windows that ended while it was measured, and of which some query had no result at its end."""


class Follower:
    """When each window's first row of one query came."""

    def __init__(self, query: selat.Query) -> None:
        self.query = query
        self.arrived_s: dict[datetime, float] = {}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Cancel the query; its last results are not waited for longer than a moment."""
        self.query.cancel()
        self.thread.join(10)

    def _run(self) -> None:
        with self.query.results() as results:
            for batch in results:
                now_s = time.time()
                for end in batch.batch.column("e").unique().to_pylist():
                    self.arrived_s.setdefault(end, now_s)


@contextmanager
def cluster_of(scene: Scene) -> Iterator[DevCluster]:
    """Sites of the scene in one process."""
    names = [f"site{number:02d}" for number in range(scene.sites)]
    sites = ", ".join(f"{name}: {{slots: {2 if scene.queries < 8 else 4}}}" for name in names)
    with tempfile.TemporaryDirectory(prefix="selat-delay-", ignore_cleanup_errors=True) as directory:
        topology = Path(directory) / "topology.yaml"
        topology.write_text(
            f"gateway: site00\nsites: {{{sites}}}\ndefault_link: {{bandwidth: 50Mbit/s, latency: 40ms}}\n"
        )
        options = ClusterOptions(master_arguments=("--epoch-interval", "1000"))
        with DevCluster(topology, Path(directory) / "data", options) as cluster:
            yield cluster


def measure(scene: Scene, seconds: float) -> Found:
    """Run one scene."""
    found = Found(scene)
    with cluster_of(scene) as cluster, selat.connect(cluster.address) as client:
        followers = [Follower(query) for query in submitted(client, scene)]
        say(f"{scene.title}: {len(followers)} queries run")
        time.sleep(WARM_UP_S if followers else SETTLE_S)
        pids, begun_s, before_s = tuple(cluster.pids.values()), time.time(), cpu_s(cluster.pids.values())
        time.sleep(seconds)
        ended_s = time.time()
        found.cores = (cpu_s(pids) - before_s) / (ended_s - begun_s)
        found.peak_bytes = sum(_memory(pid) for pid in pids)
        for follower in followers:
            found.delays_s += _delays(follower, begun_s, ended_s)
            found.windows_missing += math.floor((ended_s - begun_s) / 10) - len(_delays(follower, begun_s, ended_s))
            follower.end()
    return found


def submitted(client: selat.Client, scene: Scene) -> list[selat.Query]:
    """The scene's queries."""
    if not scene.queries:
        return []
    names = [site.name for site in client.sites()]
    at = ", ".join(f"AT {name}" for name in names)
    client.sql(
        "CREATE STREAM clicks (page INT, ms INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second') "
        f"WITH ('connector' = 'generator', 'rows_per_second' = '{scene.rows_per_s}', 'startup' = 'latest', "
        f"'column.page' = 'zipf(100, 1.1)', 'column.ms' = 'uniform(5, 500)') {at}"
    )
    queries = []
    for number in range(scene.queries):
        what = AGGREGATES[number % len(AGGREGATES)]
        query = client.sql(
            f"SELECT window.end AS e, page, {what} FROM clicks WHERE ms > {number} "
            "GROUP BY page, window(ts, '10 seconds')"
        )
        assert isinstance(query, selat.Query)
        queries.append(query)
    return queries


def _delays(follower: Follower, begun_s: float, ended_s: float) -> list[float]:
    """Of the windows that ended in that time."""
    ends = ((end.timestamp(), at_s) for end, at_s in follower.arrived_s.items())
    return [at_s - end_s for end_s, at_s in ends if begun_s <= end_s <= ended_s]


def _memory(pid: int) -> int:
    root = psutil.Process(pid)
    return sum(process.memory_info().rss for process in (root, *root.children(recursive=True)))


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--scenes", nargs="+", default=list(SCENES), choices=list(SCENES))
    parser.add_argument("--seconds", type=float, default=100.0, help="of each scene")
    arguments = parser.parse_args()
    found = {name: measure(SCENES[name], arguments.seconds) for name in arguments.scenes}
    publish(
        "delay", "Many sites, many queries", _parts(list(found.values()), arguments), arguments.record, _findings(found)
    )
    return 0


def _findings(found: dict[str, Found]) -> dict[str, float]:
    findings = {}
    for name, one in found.items():
        if one.scene.limit_s is None:
            findings[f"{name}_cores"] = one.cores
        elif one.delays_s and one.scene.limit_s < math.inf:
            findings |= {f"{name}_median": median(one.delays_s), f"{name}_p95": quantile(one.delays_s, 0.95)}
    return findings


def _parts(found: Sequence[Found], arguments: argparse.Namespace) -> list[str]:
    lines = [
        [
            one.scene.title,
            f"{median(one.delays_s):.2f} s" if one.delays_s else "",
            f"{quantile(one.delays_s, 0.95):.2f} s" if one.delays_s else "",
            f"{len(one.delays_s)}" if one.scene.queries else "",
            f"{max(0, one.windows_missing)}" if one.scene.queries else "",
            f"{one.cores:.2f}",
            f"{one.peak_bytes / 2**20:,.0f} MiB",
        ]
        for one in found
    ]
    head = ["scene", "median", "95th percentile", "windows", "still missing", "cores", "memory"]
    return [
        "All sites in one process with one JVM; windows of 10 s, epochs of 1 s, "
        f"{arguments.seconds:.0f} s a scene. From a "
        "window's end to its first row at the client; cores and memory of all processes of the cluster.",
        table(head, lines),
    ]


if __name__ == "__main__":
    sys.exit(main())
