"""A query over three regions, beside the centralised way, on links of 20 Mbit/s.

    python -m benchmarks.regions [--rates 5000 40000] [--seconds 42] [--rounds 3] [--record FILE]

Rows are born at us, eu and asia, a Parquet file a second at each. Centralised: eu and asia ship their files to us,
where plain Structured Streaming answers (`benchmarks.central`). Selat: a cluster with a process and JVM per site.
Either way, what leaves eu and what leaves asia passes a link of its own, shaped and counted in user space
(`benchmarks.links`). The same rows, windows of 5 s, watermark 1 s, triggers and epochs of 1 s, on the same cores. They
take turns, each run with new processes whose JVMs had an agent's warm-up; the first windows of a run are not counted.
Ends within twenty minutes.
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
from itertools import product
from pathlib import Path

import selat
from benchmarks.arrivals import Arrivals
from benchmarks.central import WINDOW, Receiver, Shipper
from benchmarks.links import ShapedLink
from benchmarks.processes import end_process
from benchmarks.report import make_parser, median, publish, quantile, ratio, say, spread, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

WAYS = ("centralised", "Selat")
SITES = ("us", "eu", "asia")
REMOTE = ("eu", "asia")
BITS_PER_S = 20e6
WINDOW_S = 5
WARM_UP_WINDOWS = 2
LEAST_S = (WARM_UP_WINDOWS + 1) * WINDOW_S + 2
"""The least seconds of rows with which one window counts."""
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
    """From the birth of the first row of those windows to the last of their results."""
    wan_bytes: int
    """Bytes of the whole run."""
    delays_s: tuple[float, ...]

    @property
    def answered_per_s(self) -> float:
        return self.rows / self.wall_s


Windows = dict[float, tuple[float, int]]
"""By a window's end: when its result was there, and rows counted."""


def wanted_ends(arrivals: Arrivals) -> list[int]:
    """The ends of whole windows that a second of later rows has passed, without the first windows."""
    first = -(-arrivals.start_s // WINDOW_S) * WINDOW_S + (1 + WARM_UP_WINDOWS) * WINDOW_S
    return list(range(first, arrivals.end_s - 1, WINDOW_S))


def outcome_of(way: str, rate: int, arrivals: Arrivals, windows: Windows, wan_bytes: int) -> Outcome:
    wanted = wanted_ends(arrivals)
    found = {end: windows[end] for end in wanted if end in windows}
    last_s = max((at_s for at_s, _ in found.values()), default=time.time())
    delays = tuple(at_s - end for end, (at_s, _) in found.items())
    rows = sum(count for _, count in found.values())
    wall_s = last_s - (wanted[0] - WINDOW_S)
    return Outcome(way, rate * len(SITES), len(found), len(wanted), rows, wall_s, wan_bytes, delays)


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
    born = _directories(root / "born")
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
        for number, rate in product(range(arguments.rounds), arguments.rates):
            place = root / f"{number}-{rate}"
            outcomes.append(run_central(place / "central", rate, arguments.seconds))
            say(_told(outcomes[-1]))
            (place / "selat").mkdir()
            with selat_cluster(place / "selat") as (cluster, links):
                outcomes.append(run_selat(place / "selat", cluster, links, rate, arguments.seconds))
            say(_told(outcomes[-1]))
    return outcomes


def _told(outcome: Outcome) -> str:
    told = f"{outcome.way}, {outcome.rows_per_s:,} rows/s: {outcome.windows} of {outcome.windows_wanted} windows"
    return f"{told}, {outcome.wan_bytes / 1e6:.1f} MB"


def main() -> int:
    """Exit code: 1 when Selat did not deliver all windows."""
    parser = make_parser(__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[5000, 40_000], help="rows a second at each site")
    parser.add_argument("--seconds", type=int, default=42, help="of rows in each run")
    parser.add_argument("--rounds", type=int, default=3, help="of either way in turn, for each rate")
    arguments = parser.parse_args()
    if arguments.seconds < LEAST_S:
        parser.error(f"--seconds is at least {LEAST_S}")
    outcomes = measure(arguments)
    publish("regions", "Three regions, beside the centralised way", _parts(outcomes), arguments.record)
    return 0 if all(o.windows == o.windows_wanted for o in outcomes if o.way == "Selat") else 1


def _parts(outcomes: Sequence[Outcome]) -> list[str]:
    head = ["", "rows/s offered", "rows/s answered", "windows in time", "MB on the WAN", "delay, median", "delay, most"]
    rates = sorted({outcome.rows_per_s for outcome in outcomes})
    ways = [[[o for o in outcomes if (o.rows_per_s, o.way) == (rate, way)] for way in WAYS] for rate in rates]
    return [
        "Count and mean by 5 s window and one of 100 pages. Raw rows have a column of 120 characters that the query "
        "does not read; raw files are Parquet with zstd. Links: 20 Mbit/s each way, shaped in user space, no latency. "
        f"Delay: from a window's end to its result. Windows that were not there {PATIENCE_S:.0f} s after the last row "
        f"count as missing. {len(ways[0][0])} rounds in turn, each with new processes and the same warm-up: it is "
        "over when rows begin to come to Structured Streaming; agents may still be at it beside their first rows. "
        f"The first {WARM_UP_WINDOWS} windows are not counted. Medians of the rounds, with the least and the most.",
        table(head, [_row(runs) for pair in ways for runs in pair]),
        "\n".join(_ratios(base, mine) for base, mine in ways),
    ]


def _row(runs: Sequence[Outcome]) -> list[str]:
    came = all(run.delays_s for run in runs)
    return [
        runs[0].way,
        f"{runs[0].rows_per_s:,}",
        spread([run.answered_per_s for run in runs], "{:,.0f}"),
        f"{sum(run.windows for run in runs)} of {sum(run.windows_wanted for run in runs)}",
        spread([run.wan_bytes / 1e6 for run in runs], "{:.2f}"),
        spread([median(run.delays_s) for run in runs], "{:.1f} s") if came else "none came in a round",
        spread([quantile(run.delays_s, 1) for run in runs], "{:.1f} s") if came else "",
    ]


def _ratios(base: Sequence[Outcome], mine: Sequence[Outcome]) -> str:
    bytes_ratio = ratio([o.wan_bytes for o in mine], [max(1, o.wan_bytes) for o in base])
    answered = ratio([o.answered_per_s for o in mine], [max(1.0, o.answered_per_s) for o in base])
    came = all(outcome.delays_s for outcome in (*mine, *base))
    delay = ratio([median(o.delays_s) for o in mine], [median(o.delays_s) for o in base]) if came else None
    text = f"- {base[0].rows_per_s:,} rows/s, Selat over centralised, round by round, median: {bytes_ratio:.3f} of the "
    text += f"bytes, {answered:.2f} of the rows answered a second"
    return text + (f", {delay:.2f} of the median delay." if delay else ".")


if __name__ == "__main__":
    sys.exit(main())
