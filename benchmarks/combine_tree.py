"""Combined groups that go over a site between, beside the same without: bytes over the narrow links, and delay.

    python -m benchmarks.combine_tree [--far 2] [--near 20] [--cases NAME ...]

Two sites far from the gateway, with the same kind of keys: `a` and, nearer to the gateway, `b`. The same query runs in
three ways at the same time, each over sites of its own with links of their own: as written, combined at each site, and
combined with a's groups going over b. The least that has to cross the links to the gateway is each group of both sites
once, in a record batch for each window; without a tree it is each group of each site.
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
from benchmarks.following import Running, follow
from benchmarks.report import make_parser, median, publish, quantile, say, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.channels.codec import encode

GATEWAY = "us"
WAYS = {"written": "off", "flat": "on", "tree": "on"}
"""The ways to send, and what each sets `combine` to."""
SETTLED_S = 6.0
"""So long after its end a window is out, and little of the next one has left."""


@dataclass(frozen=True, slots=True)
class Case:
    """Windows, and what comes into them at each site."""

    name: str
    window_s: int
    rows_per_s: int
    keys: str
    seconds: int
    warm_up: timedelta


CASES = (
    Case("10 s, 10,000 keys, uniform", 10, 3000, "uniform(1, 10000)", 70, timedelta(seconds=15)),
    Case("10 s, 100,000 keys, Zipf 1.1", 10, 3000, "zipf(100000, 1.1)", 70, timedelta(seconds=15)),
    Case("1 min, 50,000 keys, uniform", 60, 2000, "uniform(1, 50000)", 200, timedelta(seconds=61)),
    Case("1 min, 100,000 keys, Zipf 1.1", 60, 2000, "zipf(100000, 1.1)", 200, timedelta(seconds=61)),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the ways of a case sent to the gateway, and when windows were out."""

    case: Case
    sent_bytes: dict[str, int]
    delays_s: dict[str, tuple[float, ...]]
    near_bytes: int
    """What a sent to b in the tree."""
    union_bytes: int
    sum_bytes: int
    """The least with a site between, and without."""

    def over_delay(self, way: str) -> float:
        """The median delay of a way over that of the query as written."""
        return median(self.delays_s[way]) / median(self.delays_s["written"])

    @property
    def over_flat(self) -> float:
        return self.sent_bytes["tree"] / self.sent_bytes["flat"]


def measure(case: Case, arguments: argparse.Namespace) -> Measured:
    """All ways of a case, at the same time, in a cluster of their own."""
    with tempfile.TemporaryDirectory(prefix="selat-tree-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        (root / "topology.yaml").write_text(_topology(arguments))
        options = ClusterOptions(emulate_links=True, master_arguments=("--epoch-interval", "1000"), allow_paths=(root,))
        with (
            DevCluster(root / "topology.yaml", root / "data", options) as cluster,
            selat.connect(cluster.address) as client,
        ):
            # Nothing is shared, and merges are placed by cost: at the gateway.
            client.sql("SET sharing = 'net'")
            running = {way: _begin(client, case, way) for way in WAYS}
            say(f"{case.name}: {len(running)} queries run; {case.seconds} s")
            time.sleep(case.seconds)
            time.sleep((SETTLED_S - time.time()) % case.window_s)
            found = _measured(case, running)
            for one in running.values():
                one.end()
    say(f"{case.name}: {found.over_flat:.2f} of the flat plan's bytes, {found.over_delay('tree'):.2f} of the delay")
    return found


def _topology(arguments: argparse.Namespace) -> str:
    sites = ", ".join(f"{site}-{way}: {{slots: 1}}" for way in WAYS for site in "ab")
    near = "".join(
        f"  - {{from: a-{way}, to: b-{way}, bandwidth: {arguments.near}Mbit/s, latency: 5ms}}\n" for way in WAYS
    )
    return (
        f"gateway: {GATEWAY}\nsites: {{{GATEWAY}: {{slots: 2}}, {sites}}}\n"
        f"default_link: {{bandwidth: {arguments.far}Mbit/s, latency: 40ms}}\nlinks:\n{near}"
    )


def _begin(client: selat.Client, case: Case, way: str) -> Running:
    client.sql(
        f"CREATE STREAM s_{way} (k BIGINT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 seconds') "
        f"WITH ('connector' = 'generator', 'rows_per_second' = '{case.rows_per_s}', 'startup' = 'latest', "
        f"'column.k' = '{case.keys}', 'column.v' = 'uniform(0, 1000)') AT {GATEWAY}, AT `a-{way}`, AT `b-{way}`"
    )
    client.sql(f"SET combine = {WAYS[way]}")
    client.sql(f"SET combine_tree = '{f'a-{way} > b-{way}' if way == 'tree' else 'off'}'")
    # A prime: the keys lie in no order and have gaps, so that their neighbours say little about them. What was written
    # says which groups each site had.
    key, site = "k * 48271 % 1000003", ", site" if way == "written" else ""
    return follow(
        client,
        f"SELECT window.end AS e, {key} AS k, count(*) AS n, sum(v) AS s{site} FROM s_{way} "
        f"GROUP BY window(ts, '{case.window_s} seconds'), {key}{site}",
        merge_at=GATEWAY,
    )


def _measured(case: Case, running: dict[str, Running]) -> Measured:
    first = max(min(one.arrived_s) for one in running.values()) + case.warm_up
    ends = {end for end in set.intersection(*(set(one.arrived_s) for one in running.values())) if end > first}
    sent: dict[str, int] = {}
    for way, one in running.items():
        tasks = one.query.info().tasks
        senders = {"written": ("s1",), "flat": ("c1",), "tree": ("c1", "c2", "c3")}[way]
        by_site = {task.site: task.bytes_out for task in tasks if task.stage_id in senders}
        sent[way] = by_site[f"b-{way}"] + (by_site[f"a-{way}"] if way != "tree" else 0)
        near_bytes = by_site[f"a-{way}"]
    rows = running["written"].table()
    rows = rows.filter(pc.not_equal(rows["site"], GATEWAY))
    told = {end for end in running["written"].arrived_s if end <= max(running["tree"].arrived_s)}
    sites = rows["site"].unique().to_pylist()
    return Measured(
        case,
        sent,
        {way: tuple(one.arrived_s[end] - end.timestamp() for end in ends) for way, one in running.items()},
        near_bytes,
        _least_bytes(rows, told),
        sum(_least_bytes(rows.filter(pc.equal(rows["site"], site)), told) for site in sites),
    )


def _least_bytes(rows: pa.Table, ends: set[datetime]) -> int:
    total = 0
    for end in ends:
        of_window = rows.filter(pc.equal(rows["e"], pa.scalar(end, rows.schema.field("e").type)))
        if of_window.num_rows:
            groups = of_window.group_by(["e", "k"]).aggregate([("n", "sum"), ("s", "sum")])
            total += len(encode(groups.sort_by("k")).payload)
    return total


def rows_of(measured: Sequence[Measured]) -> str:
    """A table, a row for each case."""
    head = ["window and keys", "least, both sites together", "each site", "as written", "flat", "tree", "a to b"]
    lines = [
        [
            one.case.name,
            f"{one.union_bytes:,}",
            *(f"{size / one.union_bytes:.2f}" for size in (one.sum_bytes, *one.sent_bytes.values(), one.near_bytes)),
            *(f"{median(d):.2f} s, {quantile(d, 0.95):.2f} s" for d in one.delays_s.values()),
            f"{len(one.delays_s['tree'])}",
        ]
        for one in measured
    ]
    return table([*head, *(f"delay {way}" for way in WAYS), "windows"], lines)


def main() -> int:
    names = [case.name for case in CASES]
    parser = make_parser(__doc__)
    parser.add_argument("--far", type=int, default=2, help="Mbit/s of the links to the gateway")
    parser.add_argument("--near", type=int, default=20, help="Mbit/s from a to b")
    parser.add_argument("--cases", nargs="+", choices=names, default=names, metavar="NAME", help=f"of {names}")
    arguments = parser.parse_args()
    measured = [measure(case, arguments) for case in CASES if case.name in arguments.cases]
    parts = [
        f"Two sites, {arguments.far} Mbit/s and 40 ms from the merge's, {arguments.near} Mbit/s and 5 ms from each "
        "other, with the same rows as there; epochs of 1 s. Bytes to the merge's site (of `a to b` between the two) "
        "over the least of both sites together; delays as above.",
        rows_of(measured),
    ]
    findings = {
        "over_flat": max(one.over_flat for one in measured),
        "over_delay": max(one.over_delay("tree") for one in measured),
    }
    publish("combine_tree", "Groups over a site between", parts, arguments.record, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
