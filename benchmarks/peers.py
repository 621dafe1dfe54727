"""The same files, query and cores in Selat, Structured Streaming and Flink.

    python -m benchmarks.peers [--files 20] [--rounds 3] [--seconds 60] [--record FILE]

A count and a mean by 10 s window and page, from CSV files to files, each engine with its own exactly-once file sink and
its progress on disk. First files that are all there: rows a second, CPU, memory. Then a file of 20,000 rows each
second: from a window's end to the moment in which a reader may read all of its results. DuckDB checks every run.
Flink is left out where it is not installed. Ends within twenty minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import psutil

from benchmarks.peer_engines import HEAP, NAMES, WINDOW_S, Peer, installed, running_peer
from benchmarks.processes import cpu_s, in_own_process
from benchmarks.report import make_parser, median, publish, quantile, ratio, say, spread, table

START = datetime(2026, 1, 1, tzinfo=UTC)
FILE_ROWS = 300_000
PAGES = 100
WARM_UPS = 2
"""Runs over all the files before the one that counts."""
LIVE_ROWS = 20_000
LIVE_WARM_UP_S = 30
POLL_S = 0.02
CORES = os.cpu_count() or 1

Answer = dict[tuple[float, str], tuple[int, float]]
"""Count and mean by the window's end, in seconds since 1970, and page."""


@dataclass(frozen=True, slots=True)
class Run:
    """Files that were all there, in a process that had read them before."""

    rows: int
    wall_s: float
    cpu_s: float
    peak_bytes: int
    """The most resident memory of all the engine's processes together."""
    right: bool

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.wall_s


@dataclass(frozen=True, slots=True)
class Live:
    """Files that came one by one."""

    delays_s: list[float]
    cores: float
    right: bool


def write_file(path: Path, first: datetime, span_s: float, rows: int) -> None:
    """CSV rows at equal distances over a span of event time; the file appears whole, by a rename."""
    hidden = path.with_name(f".{path.name}.tmp")
    first_us, step_us = int(first.timestamp() * 1e6), span_s * 1e6 / rows
    with duckdb.connect() as session:
        session.execute(
            f"COPY (SELECT strftime(make_timestamp(({first_us} + i * {step_us})::BIGINT), '%Y-%m-%d %H:%M:%S.%g'), "
            f"'page-' || (i * 7919 % {PAGES}), (i * 31 % 500)::INT FROM range({rows}) AS numbers(i)) "
            f"TO '{hidden}' (HEADER false)"
        )
    hidden.rename(path)


def wanted_of(files: Path) -> Answer:
    """What DuckDB makes of all the files."""
    start = f"time_bucket(INTERVAL {WINDOW_S} SECONDS, ts, TIMESTAMP '1970-01-01')"
    rows = f"read_csv('{files}/*.csv', header=false, columns={{'ts': 'TIMESTAMP', 'page': 'VARCHAR', 'ms': 'INTEGER'}})"
    return _answer(f"SELECT epoch({start}) + {WINDOW_S}, page, count(*), avg(ms) FROM {rows} GROUP BY ALL")


def results_of(peer: Peer, output: Path) -> Answer:
    """What the engine wrote; the row that closes its windows is not among it."""
    return results_in(peer, peer.visible(output))


def results_in(peer: Peer, files: set[Path]) -> Answer:
    """The results in these files."""
    paths = sorted(str(path) for path in files if path.stat().st_size)
    if not paths:
        return {}
    columns = "{'e': 'TIMESTAMP', 'page': 'VARCHAR', 'n': 'BIGINT', 'm': 'DOUBLE'}"
    read = f"read_parquet({paths})" if peer.form == "parquet" else f"read_csv({paths}, header=false, columns={columns})"
    return _answer(f"SELECT epoch(e::TIMESTAMP), page, n, m FROM {read} WHERE page <> 'last'")


def _answer(query: str) -> Answer:
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        found = session.execute(query).fetchall()
    answer = {(float(end), str(page)): (int(n), round(float(m), 6)) for end, page, n, m in found}
    # A result that came twice is as wrong as one that is missing.
    return answer if len(answer) == len(found) else {}


class Memory:
    """The most resident memory of this process's descendants together, while the context lasts."""

    def __enter__(self) -> Memory:
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            total = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak_bytes = max(self.peak_bytes, total)


def measure_files(key: str, root: Path, files: Path, rows: int) -> Run:
    """The last of several runs over the files in one start of the engine."""
    with running_peer(key, root / "engine", CORES) as peer:
        for number in range(WARM_UPS):
            peer.run(files, root / f"warm{number}")
        with Memory() as memory:
            started_s, before_s = time.perf_counter(), cpu_s()
            peer.run(files, root / "counted")
            wall_s, used_s = time.perf_counter() - started_s, cpu_s() - before_s
        right = results_of(peer, root / "counted") == wanted_of(files)
    return Run(rows, wall_s, used_s, memory.peak_bytes, right)


def measure_live(key: str, root: Path, seconds: float) -> Live:
    """A file each second, and when each result's file could be read."""
    files, output = root / "files", root / "live"
    files.mkdir()
    with running_peer(key, root / "engine", CORES) as peer, _files_each_second(files):
        stop = peer.follow(files, output)
        with _watched(peer, output) as seen_s:
            time.sleep(LIVE_WARM_UP_S)
            begun_s, before_s = time.time(), cpu_s()
            time.sleep(seconds)
            ended_s, used_s = time.time(), cpu_s() - before_s
            time.sleep(2 * WINDOW_S)
        stop()
        delays_s = _delays(peer, seen_s, begun_s, ended_s)
        wanted = wanted_of(files)
        found = results_of(peer, output)
    ends = {end for end, _ in found if begun_s <= end <= ended_s}
    part = {group: figures for group, figures in wanted.items() if group[0] in ends}
    right = part == {group: figures for group, figures in found.items() if group[0] in ends}
    return Live(delays_s, used_s / (ended_s - begun_s), right and len(ends) >= seconds // WINDOW_S - 1)


@contextmanager
def _files_each_second(files: Path) -> Iterator[None]:
    stop = threading.Event()

    def write() -> None:
        second = int(time.time())
        while not stop.is_set():
            time.sleep(max(0.0, second + 1 - time.time()))
            write_file(files / f"{second}.csv", datetime.fromtimestamp(second, UTC), 1, LIVE_ROWS)
            second += 1

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _watched(peer: Peer, output: Path) -> Iterator[dict[Path, float]]:
    """When each file of results was first there to be read; filled while the context lasts."""
    seen_s: dict[Path, float] = {}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(POLL_S):
            found, now_s = peer.visible(output), time.time()
            for path in found - seen_s.keys():
                seen_s[path] = now_s

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen_s
    finally:
        stop.set()
        thread.join()


def _delays(peer: Peer, seen_s: Mapping[Path, float], begun_s: float, ended_s: float) -> list[float]:
    """Of the windows that ended in that time, by the last file with a result of theirs."""
    last_s: dict[float, float] = {}
    for path, at_s in seen_s.items():
        for end, _ in results_in(peer, {path}):
            last_s[end] = max(last_s.get(end, 0.0), at_s)
    return [at_s - end for end, at_s in sorted(last_s.items()) if begun_s <= end <= ended_s]


def main() -> int:
    """Exit code: 1 when an engine's results are not DuckDB's."""
    parser = make_parser(__doc__)
    parser.add_argument("--files", type=int, default=20, help=f"of {FILE_ROWS:,} rows each; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of files that come one by one")
    parser.add_argument("--run", nargs=2, metavar=("ENGINE", "FILES"), help=argparse.SUPPRESS)
    parser.add_argument("--live", metavar="ENGINE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run or arguments.live:
        return _one(arguments)
    missing = {key: reason for key, reason in installed().items() if reason}
    for reason in missing.values():
        say(reason)
    keys = [key for key in NAMES if key not in missing]
    runs, lives = _all_runs(keys, arguments), {}
    for key in keys:
        lives[key] = Live(**in_own_process("benchmarks.peers", ["--live", key, "--seconds", f"{arguments.seconds}"]))
        say(f"{NAMES[key]}: {median(lives[key].delays_s):.2f} s from a window's end to its results")
    findings = {"rows": _over_faster(runs), "right": float(_right(runs, lives))}
    publish("peers", "Beside its peers", _parts(runs, lives, missing), arguments.record, findings)
    return 0 if _right(runs, lives) else 1


def _one(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="selat-peers-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        if arguments.live:
            print(json.dumps(asdict(measure_live(arguments.live, root, arguments.seconds))))
        else:
            key, files = arguments.run
            # Sources may be below the root alone.
            (root / "files").mkdir()
            for path in Path(files).iterdir():
                os.link(path, root / "files" / path.name)
            rows = arguments.files * FILE_ROWS
            print(json.dumps(asdict(measure_files(key, root, root / "files", rows))))
    return 0


def _all_runs(keys: Sequence[str], arguments: argparse.Namespace) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {key: [] for key in keys}
    with tempfile.TemporaryDirectory(prefix="selat-peers-") as directory:
        for number in range(arguments.files):
            first = datetime.fromtimestamp(START.timestamp() + number * WINDOW_S, UTC)
            write_file(Path(directory) / f"{number:04d}.csv", first, WINDOW_S, FILE_ROWS)
        for number in range(arguments.rounds):
            for key, found in runs.items():
                own = ["--run", key, directory, "--files", f"{arguments.files}"]
                found.append(Run(**in_own_process("benchmarks.peers", own)))
                say(f"round {number + 1}, {NAMES[key]}: {found[-1].rows_per_s:,.0f} rows/s")
    return runs


def _over_faster(runs: Mapping[str, Sequence[Run]]) -> float:
    """Selat's rows a second over those of the faster peer in the same round; the median over rounds."""
    peers = [[run.rows_per_s for run in found] for key, found in runs.items() if key != "selat"]
    return ratio([run.rows_per_s for run in runs["selat"]], [max(of_round) for of_round in zip(*peers, strict=True)])


def _right(runs: Mapping[str, Sequence[Run]], lives: Mapping[str, Live]) -> bool:
    return all(run.right for found in runs.values() for run in found) and all(live.right for live in lives.values())


def _parts(runs: Mapping[str, Sequence[Run]], lives: Mapping[str, Live], missing: Mapping[str, str]) -> list[str]:
    lines = [
        [
            NAMES[key],
            spread([run.rows_per_s for run in found], "{:,.0f}"),
            spread([run.cpu_s / run.rows * 1e6 for run in found], "{:.2f}"),
            spread([run.peak_bytes / 2**20 for run in found], "{:,.0f}"),
            f"{median(lives[key].delays_s):.2f} s",
            f"{quantile(lives[key].delays_s, 0.95):.2f} s",
            f"{lives[key].cores:.2f}",
            "yes" if _right({key: found}, {key: lives[key]}) else "**no**",
        ]
        for key, found in runs.items()
    ]
    head = ["", "rows/s", "CPU s per million rows", "memory, MiB", "delay, median", "95th percentile", "its cores"]
    example = runs["selat"][0]
    return [
        f"Count and mean by {WINDOW_S} s window and one of {PAGES} pages, CSV in, files out, on {CORES} cores, with a "
        f"heap of {HEAP} for each JVM. Each engine writes results exactly once by its own file sink (Flink CSV, the "
        "others Parquet) and keeps its progress on disk (Flink: a checkpoint a second). Selat is a whole cluster of "
        "one site: master, agent, a source task and a merge task.",
        f"{example.rows:,} rows in files that are all there: the time from the statement to the last result, in a "
        f"process that read the same files {WARM_UPS} times before; {len(runs['selat'])} rounds, in turn; medians, "
        "with the least and the most. Flink takes files in an order of its own, so the watermark trails by an hour for "
        "all three; Structured Streaming leaves its last windows open, so it gets a row more that closes them.",
        f"Delay and cores: a file of {LIVE_ROWS:,} rows each second, watermark 0.5 s behind, files of "
        "results cut as soon as may be; from a window's end to the "
        f"moment when all of its results could be read. {len(lives['selat'].delays_s)} windows each, the first "
        f"{LIVE_WARM_UP_S} s not counted; the cores include those of the writer of the files.",
        table([*head, "as DuckDB's"], lines),
        *(f"{NAMES[key]} was left out. {reason}." for key, reason in missing.items()),
    ]


if __name__ == "__main__":
    sys.exit(main())
