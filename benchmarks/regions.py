"""A query over three regions, beside the centralised way, on links of 20 Mbit/s.

    python -m benchmarks.regions [--rates 5000 40000] [--seconds 32] [--record FILE]

Rows are born at us, eu and asia, a Parquet file a second at each. Centralised: eu and asia ship their files to us,
where plain Structured Streaming answers (`benchmarks.central`). Selat: a cluster with a process and JVM per site.
Either way, what leaves eu and what leaves asia passes a link of its own, shaped and counted in user space
(`benchmarks.links`). The same rows, windows of 5 s, watermark 1 s, triggers and epochs of 1 s, on the same cores. Ends
within seven minutes.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import selat
from benchmarks.arrivals import Arrivals
from benchmarks.central import WINDOW, Receiver, Shipper
from benchmarks.links import ShapedLink
from benchmarks.processes import end_process
from benchmarks.report import make_parser, median, publish, quantile, say, table
from selat.dev.cluster import ClusterOptions, DevCluster

SITES = ("us", "eu", "asia")
REMOTE = ("eu", "asia")
BITS_PER_S = 20e6
WINDOW_S = 5
PATIENCE_S = 20.0
"""So long after the last row was born the remaining windows are waited for."""
START_LIMIT_S = 120.0

TOPOLOGY = """
gateway: us
sites: {us: {slots: 1}, eu: {slots: 1}, asia: {slots: 1}}
default_link: {bandwidth: 20Mbit/s, latency: 1ms}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run."""

    way: str
    rows_per_s: int
    """Offered, over all sites."""
    windows: int
    windows_wanted: int
    rows: int
    """Counted in those windows."""
    wall_s: float
    """From the first row's birth to the last window."""
    wan_bytes: int
    delays_s: tuple[float, ...]


Windows = dict[float, tuple[float, int]]
"""By a window's end: when its result was there, and rows counted."""


def wanted_ends(arrivals: Arrivals) -> list[int]:
    """Whole windows that a second of later rows has passed."""
    first = -(-arrivals.start_s // WINDOW_S) * WINDOW_S + WINDOW_S
    return list(range(first, arrivals.end_s - 1, WINDOW_S))


def outcome_of(way: str, rate: int, arrivals: Arrivals, windows: Windows, wan_bytes: int) -> Outcome:
    wanted = wanted_ends(arrivals)
    found = {end: windows[end] for end in wanted if end in windows}
    last_s = max((at_s for at_s, _ in found.values()), default=time.time())
    delays = tuple(at_s - end for end, (at_s, _) in found.items())
    rows = sum(count for _, count in found.values())
    return Outcome(way, rate * len(SITES), len(found), len(wanted), rows, last_s - arrivals.start_s, wan_bytes, delays)


def await_windows(arrivals: Arrivals, windows: Windows) -> None:
    """Until all wanted windows are there, or patience ends."""
    wanted = wanted_ends(arrivals)
    while time.time() < arrivals.end_s + PATIENCE_S and not all(end in windows for end in wanted):
        time.sleep(0.1)


def run_central(root: Path, rate: int, seconds: int) -> Outcome:
    born = _directories(root / "born")
    with ExitStack() as stack:
        links: list[ShapedLink] = []
        for site in REMOTE:
            receiver = Receiver(root / "central" / site)
            stack.callback(receiver.close)
            link = stack.enter_context(ShapedLink(receiver.port, BITS_PER_S))
            links.append(link)
            stack.callback(Shipper(born[site], link.port).close)
        seen = [born["us"], *(root / "central" / site for site in REMOTE)]
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.central", *map(str, seen)], stdout=subprocess.PIPE, text=True
        )
        stack.callback(end_process, process)
        windows: Windows = {}
        ready = threading.Event()
        threading.Thread(target=_read_lines, args=(process, windows, ready), daemon=True).start()
        if not ready.wait(START_LIMIT_S):
            raise TimeoutError("Structured Streaming did not start")
        arrivals = Arrivals(list(born.values()), rate, seconds)
        arrivals.start(multiple_of_s=WINDOW_S)
        await_windows(arrivals, windows)
        arrivals.join()
        return outcome_of("centralised", rate, arrivals, windows, _bytes(links))


def _read_lines(process: subprocess.Popen[str], windows: Windows, ready: threading.Event) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line)
        if isinstance(said, list):
            windows.setdefault(said[0], (said[1], said[2]))
        ready.set()


@contextmanager
def selat_cluster(root: Path) -> Iterator[tuple[DevCluster, Sequence[ShapedLink]]]:
    """Agents of remote sites are reached through links."""
    topology = root / "topology.yaml"
    topology.write_text(TOPOLOGY)
    with ExitStack() as stack:
        links, arguments = [], {}
        for site in REMOTE:
            port = _free_port()
            links.append(stack.enter_context(ShapedLink(port, BITS_PER_S)))
            arguments[site] = ("--listen", f"127.0.0.1:{port}", "--advertise", links[-1].address)
        options = ClusterOptions(isolated=True, site_arguments=arguments, allow_paths=(root,))
        yield stack.enter_context(DevCluster(topology, root / "data", options)), links


def run_selat(root: Path, cluster: DevCluster, links: Sequence[ShapedLink], rate: int, seconds: int) -> Outcome:
    born = _directories(root / f"born-{rate}")
    bindings = ", ".join(f"AT {site} WITH ('path' = '{born[site]}')" for site in SITES)
    windows: Windows = {}
    with selat.connect(cluster.address) as client:
        list(
            client.script(
                f"CREATE STREAM clicks{rate} (ts TIMESTAMP, page STRING, ms INT, trace STRING, "
                "WATERMARK FOR ts AS ts - INTERVAL '1 second') "
                f"WITH ('connector' = 'files', 'format' = 'parquet', 'pattern' = '*.parquet') {bindings};"
            )
        )
        query = client.sql(
            f"SELECT window.end AS e, page, count(*) AS n, avg(ms) AS m FROM clicks{rate} "
            f"GROUP BY window(ts, '{WINDOW}'), page"
        )
        assert isinstance(query, selat.Query)
        deadline_s = time.monotonic() + START_LIMIT_S
        while query.state() is selat.QueryState.DEPLOYING and time.monotonic() < deadline_s:
            time.sleep(0.2)
        before = _bytes(links)
        results = query.results()
        threading.Thread(target=_read_results, args=(results, windows), daemon=True).start()
        arrivals = Arrivals(list(born.values()), rate, seconds)
        arrivals.start(multiple_of_s=WINDOW_S)
        await_windows(arrivals, windows)
        arrivals.join()
        results.close()
        query.cancel()
        query.wait()
    return outcome_of("Selat", rate, arrivals, windows, _bytes(links) - before)


def _read_results(results: selat.Results, windows: Windows) -> None:
    for batch in results:
        now_s = time.time()
        for window in batch.batch.to_pylist():
            at_s, rows = windows.get(window["e"].timestamp(), (now_s, 0))
            windows[window["e"].timestamp()] = (at_s, rows + window["n"])


def _directories(root: Path) -> Mapping[str, Path]:
    directories = {site: root / site for site in SITES}
    for directory in directories.values():
        directory.mkdir(parents=True)
    return directories


def _bytes(links: Sequence[ShapedLink]) -> int:
    return sum(link.sent_bytes + link.received_bytes for link in links)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def measure(arguments: argparse.Namespace) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="selat-regions-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        for rate in arguments.rates:
            (root / f"central-{rate}").mkdir()
            outcomes.append(run_central(root / f"central-{rate}", rate, arguments.seconds))
            say(_told(outcomes[-1]))
        with selat_cluster(root) as (cluster, links):
            say("the cluster serves")
            for rate in arguments.rates:
                outcomes.append(run_selat(root, cluster, links, rate, arguments.seconds))
                say(_told(outcomes[-1]))
    return sorted(outcomes, key=lambda o: o.rows_per_s)


def _told(outcome: Outcome) -> str:
    told = f"{outcome.way}, {outcome.rows_per_s:,} rows/s: {outcome.windows} of {outcome.windows_wanted} windows"
    return f"{told}, {outcome.wan_bytes / 1e6:.1f} MB"


def main() -> int:
    """Exit code: 1 when Selat did not deliver all windows."""
    parser = make_parser(__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[5000, 40_000], help="rows a second at each site")
    parser.add_argument("--seconds", type=int, default=32, help="of rows in each run")
    arguments = parser.parse_args()
    outcomes = measure(arguments)
    publish("regions", "Three regions, beside the centralised way", _parts(outcomes), arguments.record)
    return 0 if all(o.windows == o.windows_wanted for o in outcomes if o.way == "Selat") else 1


def _parts(outcomes: Sequence[Outcome]) -> list[str]:
    head = ["", "rows/s offered", "rows/s answered", "windows in time", "MB on the WAN", "delay, median", "delay, most"]
    rows = [
        [
            o.way,
            f"{o.rows_per_s:,}",
            f"{o.rows / o.wall_s:,.0f}",
            f"{o.windows} of {o.windows_wanted}",
            f"{o.wan_bytes / 1e6:.2f}",
            f"{median(o.delays_s):.1f} s" if o.delays_s else "none came",
            f"{quantile(o.delays_s, 1):.1f} s" if o.delays_s else "",
        ]
        for o in outcomes
    ]
    return [
        "Count and mean by 5 s window and one of 100 pages. Raw rows have a column of 120 characters that the query "
        "does not read; raw files are Parquet with zstd. Links: 20 Mbit/s each way, shaped in user space, no latency. "
        f"Delay: from a window's end to its result. Windows that were not there {PATIENCE_S:.0f} s after the last row "
        "count as missing.",
        table(head, rows),
        "\n".join(_ratios(outcomes)),
    ]


def _ratios(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for rate in sorted({o.rows_per_s for o in outcomes}):
        ways = {o.way: o for o in outcomes if o.rows_per_s == rate}
        mine, base = ways["Selat"], ways["centralised"]
        bytes_ratio = mine.wan_bytes / max(1, base.wan_bytes)
        answered = (mine.rows / mine.wall_s) / max(1.0, base.rows / base.wall_s)
        text = f"- {rate:,} rows/s, Selat over centralised: {bytes_ratio:.3f} of the bytes, "
        text += f"{answered:.2f} of the rows answered a second"
        if mine.delays_s and base.delays_s:
            text += f", {median(mine.delays_s) / median(base.delays_s):.2f} of the median delay"
        yield text + "."


if __name__ == "__main__":
    sys.exit(main())
