"""Combining at the sources on narrow links: bytes and delay, beside today's way and the least possible.

    python -m benchmarks.combine_narrow [--links 1 20] [--windows NAME ...]

Each link and window is a run of its own, of less than four minutes but for windows of ten minutes. Each query reads
one site that is reached over an emulated link of its own, and the site of its merge. The keys have gaps, as keys
have. What crosses a link is what its site publishes; the least is each of its groups once, in one record batch for
each window, sorted by key and encoded as a site does. Of windows that overlap it is each group of a pane once,
found by a query over as many rows like them, at the site of the merge.
`benchmarks.combine_narrow_long` has windows of ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import selat
from benchmarks.following import WAYS, Figures, Running, follow, sends
from benchmarks.report import make_parser, median, publish, quantile, say, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.channels.codec import encode

GATEWAY = "us"
LINKS_MBIT = (1, 20)
PANES = "panes"
"""Beside the ways, the query that says what the least is of windows that overlap."""
SETTLED_S = 6.0
"""So long after its end a window is out, and none of the next one has left early."""
MOST_LATE_S = 60.0
"""A long window may take so long to come out."""


@dataclass(frozen=True, slots=True)
class Window:
    """The windows of a query, and what comes into them."""

    name: str
    text: str
    """As SQL has it."""
    period_s: int
    rows_per_s: int
    keys: tuple[tuple[str, str], ...]
    seconds: int
    """How long they are watched."""
    warm_up: timedelta
    """Windows that end sooner after the first one are not counted: the rate of the link is not known yet."""

    @property
    def panes(self) -> str:
        """The panes of windows that overlap, as SQL has them; empty: they do not."""
        return f"'{self.period_s} seconds'" if "," in self.text else ""


WINDOWS = (
    Window(
        "10 s",
        "'10 seconds'",
        10,
        5000,
        (("10,000 keys, uniform", "uniform(1, 10000)"), ("100,000 keys, Zipf 1.1", "zipf(100000, 1.1)")),
        80,
        timedelta(seconds=15),
    ),
    Window(
        "1 min",
        "'1 minute'",
        60,
        2500,
        (("50,000 keys, uniform", "uniform(1, 50000)"), ("100,000 keys, Zipf 1.1", "zipf(100000, 1.1)")),
        200,
        timedelta(seconds=61),
    ),
    Window(
        "5 min every 30 s",
        "'5 minutes', '30 seconds'",
        30,
        1000,
        (("20,000 keys, uniform", "uniform(1, 20000)"), ("100,000 keys, Zipf 1.1", "zipf(100000, 1.1)")),
        180,
        timedelta(seconds=61),
    ),
)
LONG = Window(
    "10 min",
    "'10 minutes'",
    600,
    2500,
    (("100,000 keys, uniform", "uniform(1, 100000)"), ("100,000 keys, Zipf 1.1", "zipf(100000, 1.1)")),
    1900,
    timedelta(seconds=601),
)
"""See `benchmarks.combine_narrow_long`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A kind of keys in a window over a link."""

    mbit_per_s: int
    window: str
    keys: str
    ways: dict[str, Figures]
    least_bytes: int

    @property
    def over_least(self) -> float:
        return self.ways["combined"].sent_bytes / self.least_bytes

    @property
    def over_delay(self) -> float:
        return median(self.ways["combined"].delays_s) / median(self.ways["written"].delays_s)


def measure(links_mbit: Sequence[int], windows: Sequence[Window]) -> Iterator[Measured]:
    """Each link and window with a cluster of its own; the ways of all kinds of keys run at the same time."""
    for mbit_per_s in links_mbit:
        for window in windows:
            with tempfile.TemporaryDirectory(prefix="selat-combine-", ignore_cleanup_errors=True) as directory:
                found = _over(Path(directory), mbit_per_s, window)
            for one in found:
                say(_told(one))
                yield one


def _over(root: Path, mbit_per_s: int, window: Window) -> list[Measured]:
    sites = {
        (keys, way): f"r{number}" for number, (keys, way) in enumerate((k, w) for k, _ in window.keys for w in WAYS)
    }
    slots = ", ".join(f"{site}: {{slots: 1}}" for site in sites.values())
    (root / "topology.yaml").write_text(
        f"gateway: {GATEWAY}\nsites: {{{GATEWAY}: {{slots: 2}}, {slots}}}\n"
        f"default_link: {{bandwidth: {mbit_per_s}Mbit/s, latency: 40ms}}\n"
    )
    options = ClusterOptions(emulate_links=True, master_arguments=("--epoch-interval", "1000"), allow_paths=(root,))
    with (
        DevCluster(root / "topology.yaml", root / "data", options) as cluster,
        selat.connect(cluster.address) as client,
    ):
        # Nothing is shared, and merges are placed by cost: at the gateway.
        client.sql("SET sharing = 'net'")
        running = {place: _begin(client, window, place, site) for place, site in sites.items()}
        if window.panes:
            running |= {(keys, PANES): _begin(client, window, (keys, PANES), GATEWAY) for keys, _ in window.keys}
        say(f"{mbit_per_s} Mbit/s, {window.name}: {len(running)} queries run; {window.seconds} s")
        time.sleep(window.seconds)
        # What was sent is then what windows that are out had, as far as they combine.
        time.sleep((SETTLED_S - time.time()) % window.period_s)
        _wait_for_last(running.values(), window)
        found = [_figures(mbit_per_s, window, keys, running, sites) for keys, _ in window.keys]
        for one in running.values():
            one.end()
    return found


def _wait_for_last(running: Iterable[Running], window: Window) -> None:
    """Return when the window that ended last is out at all queries, where it is long before the next one leaves."""
    last = datetime.fromtimestamp(time.time() // window.period_s * window.period_s, UTC)
    until_s = time.monotonic() + min(MOST_LATE_S, window.period_s / 4)
    while time.monotonic() < until_s and any(max(one.arrived_s) < last for one in running):
        time.sleep(0.5)


def _begin(client: selat.Client, window: Window, place: tuple[str, str], site: str) -> Running:
    keys, way = place
    # By the number of its kind of keys: those at the gateway alone need names of their own.
    stream = f"s_{site}_{[name for name, _ in window.keys].index(keys)}"
    where = f"AT {GATEWAY}" + (f", AT {site}" if site != GATEWAY else "")
    client.sql(
        f"CREATE STREAM {stream} (k BIGINT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 seconds') "
        f"WITH ('connector' = 'generator', 'rows_per_second' = '{window.rows_per_s}', 'startup' = 'latest', "
        f"'column.k' = '{dict(window.keys)[keys]}', 'column.v' = 'uniform(0, 1000)') {where}"
    )
    client.sql(f"SET combine = {WAYS.get(way, 'off')}")
    # A prime: the keys lie in no order and have gaps, so that their neighbours say little about them.
    key = "k * 48271 % 1000003"
    text = window.panes if way == PANES else window.text
    return follow(
        client,
        f"SELECT window.end AS e, {key} AS k, count(*) AS n, sum(v) AS s, site FROM {stream} "
        f"GROUP BY window(ts, {text}), {key}, site",
        merge_at=GATEWAY,
    )


def _figures(
    mbit_per_s: int,
    window: Window,
    keys: str,
    running: dict[tuple[str, str], Running],
    sites: dict[tuple[str, str], str],
) -> Measured:
    """Of the windows that are out at both ways, and began after the queries."""
    of_keys = {way: running[keys, way] for way in WAYS}
    first = max(min(one.arrived_s) for one in of_keys.values()) + window.warm_up
    ends = {end for end in set.intersection(*(set(one.arrived_s) for one in of_keys.values())) if end > first}
    figures: dict[str, Figures] = {}
    for way, one in of_keys.items():
        sent_bytes = sum(
            task.bytes_out for task in one.query.info().tasks if task.site == sites[keys, way] and sends(task, way)
        )
        figures[way] = Figures(sent_bytes, len(ends), tuple(one.arrived_s[end] - end.timestamp() for end in ends))
    newest = max(of_keys["combined"].arrived_s)
    counted = running[keys, PANES] if window.panes else of_keys["combined"]
    site = GATEWAY if window.panes else sites[keys, "combined"]
    rows = counted.table().filter(pc.equal(counted.table()["site"], site))
    least_bytes = _least_bytes(rows, {end for end in counted.arrived_s if end <= newest})
    return Measured(mbit_per_s, window.name, keys, figures, least_bytes)


def _least_bytes(rows: pa.Table, ends: set[datetime]) -> int:
    total = 0
    for end in ends:
        of_window = rows.filter(pc.equal(rows["e"], pa.scalar(end, rows.schema.field("e").type)))
        if of_window.num_rows:
            total += len(encode(of_window.sort_by("k")).payload)
    return total


def _told(one: Measured) -> str:
    return (
        f"{one.mbit_per_s} Mbit/s, {one.window}, {one.keys}: {one.over_least:.2f} of the least bytes, "
        f"{one.over_delay:.2f} of the delay"
    )


def rows_of(measured: Sequence[Measured]) -> str:
    """A table, a row for each."""
    head = ["link, window and keys", "least bytes", "as written", "combined", "delay as written", "delay combined"]
    lines = [
        [
            f"{one.mbit_per_s} Mbit/s, {one.window}, {one.keys}",
            f"{one.least_bytes:,}",
            *(f"{one.ways[way].sent_bytes / one.least_bytes:.2f}" for way in WAYS),
            *(f"{median(d):.2f} s, {quantile(d, 0.95):.2f} s" for d in (one.ways[way].delays_s for way in WAYS)),
            f"{one.ways['combined'].windows}",
        ]
        for one in measured
    ]
    return table([*head, "windows"], lines)


def main() -> int:
    names = [window.name for window in WINDOWS]
    parser = make_parser(__doc__)
    add_links(parser)
    parser.add_argument("--windows", nargs="+", choices=names, default=names)
    arguments: argparse.Namespace = parser.parse_args()
    windows = [window for window in WINDOWS if window.name in arguments.windows]
    run("combine_narrow", "Each group once over narrow links", windows, arguments)
    return 0


def add_links(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses links."""
    parser.add_argument("--links", type=int, nargs="+", default=list(LINKS_MBIT), metavar="MBIT", help="Mbit/s")


def run(section: str, title: str, windows: Sequence[Window], arguments: argparse.Namespace) -> None:
    """Measure these windows on each link, and publish the section."""
    measured = list(measure(arguments.links, windows))
    parts = [
        "One link for each query, 40 ms each way: from a site with the same rows as the merge's own, epochs of 1 s. "
        "The first windows do not count in delays: nothing is known of a link before it was used.",
        rows_of(measured),
    ]
    findings = {
        "over_least": max(one.over_least for one in measured),
        "over_delay": max(one.over_delay for one in measured),
    }
    publish(section, title, parts, arguments.record, findings)


if __name__ == "__main__":
    sys.exit(main())
