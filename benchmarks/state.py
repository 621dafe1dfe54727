"""A window of very many groups: memory of a merge whose state is beyond it, and what its checkpoints write.

    python -m benchmarks.state [--groups 10000000] [--record FILE]

A real merge task, engine and channels, with the budgets of an agent. Each of three sites sends each group once, in 100
epochs; then the window closes. What they send lies in channels beforehand, written by another process; the merge runs
in a process of its own, whose memory and that of its JVM are counted. A third process has DuckDB compute the same of
the same rows. `benchmarks.state_away` and `benchmarks.state_combined` have the other scenes of the code here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
import pyarrow as pa

from benchmarks.processes import in_own_process
from benchmarks.report import make_parser, publish, say, table
from benchmarks.tasks import RunningTask, Site
from machine.faults import watched
from planner.values.names import BINS
from site_agent.base.faults import FaultPoint
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.engine.jvm.session import SparkOptions, start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up
from site_agent.state.runs import RunName, open_run
from site_agent.tasks.spec import ViewSpec, WindowSpec

SITES = ("eu", "us", "asia")
START_US = 1_767_225_600_000_000
EPOCH_US = 1_000_000
EPOCHS = 100
AWAY_ROWS = 5_000
"""In an epoch of a site, each of another group of the window."""
AWAY_WINDOW_EPOCHS = 10
AWAY_WINDOW_US = AWAY_WINDOW_EPOCHS * EPOCH_US
TIMESTAMP = pa.timestamp("us", tz="UTC")
HEAP = "2400m"
"""A JVM takes some 350 MiB beyond its heap."""
MIB = 1024 * 1024
SPREAD = 2_654_435_761
"""Prime to all numbers of groups here: groups come in no order."""
SAMPLE_S = 0.1
STEP_LIMIT_S = 900.0

MERGED = "SELECT w, k, sum(n) AS n, sum(s) AS s FROM input GROUP BY w, k"
COMBINED = f"SELECT w, k, sum(n) AS n, sum(s) AS s, pmod(k, {BINS}) AS _bin FROM input GROUP BY w, k"
NUMBERED = "SELECT w, k, sum(n) AS n, sum(s) AS s, xxhash64(w, k) AS _group FROM input GROUP BY w, k"


@dataclass(slots=True)
class Found:
    """What a merge took."""

    python_mib: float = 0.0
    jvm_mib: float = 0.0
    groups: int = 0
    rows: int = 0
    read_s: float = 0.0
    """Until the watermark passed the window's end."""
    first_s: float = 0.0
    """From then on until the first results were published."""
    close_s: float = 0.0
    """And until all were."""
    late_s: float = 0.0
    """How late the event loop was at most."""
    written_bytes: int = 0
    """By checkpoints."""
    changed_bytes: int = 0
    """Of what changed between them, once."""
    early_mib: float = 0.0
    """Of Python, at most, in the second fifth of what the two sites sent."""
    late_mib: float = 0.0
    """In the last fifth."""
    caught_up_s: float = 0.0


@dataclass
class Writes:
    """Counts what checkpoints write, by the files that are there when they pass their points."""

    directory: Path
    found: Found
    known: set[str] = field(default_factory=set)
    first_s: dict[FaultPoint, float] = field(default_factory=dict)
    """When a point was passed first."""
    last_s: dict[FaultPoint, float] = field(default_factory=dict)

    def passed(self, point: Enum) -> bool:
        """Never to die."""
        assert isinstance(point, FaultPoint)
        self.first_s.setdefault(point, time.perf_counter())
        self.last_s[point] = time.perf_counter()
        if point in (FaultPoint.STATE_WRITTEN, FaultPoint.RUNS_MERGED):
            for path in self.directory.glob("run-*.rows"):
                if path.name not in self.known:
                    self.known.add(path.name)
                    self._count(path)
        if point is FaultPoint.CHECKPOINT_SAVED:
            self.found.written_bytes += (self.directory / "checkpoint.json").stat().st_size
        return False

    def _count(self, path: Path) -> None:
        size = path.stat().st_size
        self.found.written_bytes += size
        if path.stem.endswith("-0"):
            self.found.changed_bytes += int(size * _distinct_share(path))


def _distinct_share(path: Path) -> float:
    """The share of a run's rows that would be left if each group had one."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        crc32 = int.from_bytes(file.read(4), "little")
    run = open_run(path.parent, RunName(path.name, path.stat().st_size, crc32))
    # All rows of a group are in one bin of one window, and so mostly in one segment.
    left: int = sum(rows.group_by(["w", "k"]).aggregate([]).num_rows for rows in run.read(lambda _: True))
    return left / max(1, run.rows)


def window_of(length_us: int) -> WindowSpec:
    return WindowSpec("w", length_us, length_us, (ViewSpec("input", COMBINED),), by_bins=True)


def partials(start_us: int, keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> pa.Table:
    """A row for each group of a window, in bins."""
    starts = pa.array(np.full(len(keys), start_us), pa.int64()).cast(TIMESTAMP)
    ones = np.ones(len(keys), np.int64)
    return pa.table({"w": starts, "k": keys, "n": ones, "s": values, "_bin": keys % BINS})


def feed_large(directory: Path, groups: int) -> None:
    """Each site sends each group once; the watermark of the last epoch ends the window."""
    store, rows = ChannelStore(directory / "channels"), groups // EPOCHS
    for number, site in enumerate(SITES):
        log = _channel(store, site)
        for epoch in range(EPOCHS):
            places = np.arange(epoch * rows, (epoch + 1) * rows, dtype=np.int64)
            keys = (places * SPREAD + number * 7919) % groups
            last = epoch == EPOCHS - 1
            watermark_us = START_US + EPOCH_US * (EPOCHS if last else epoch)
            log.publish(epoch, partials(START_US, keys, places + number), watermark_us=watermark_us)
        log.finish()


def feed_away(directory: Path, epochs: int) -> None:
    """The third site's epochs lie beside the others' channels."""
    for number, site in enumerate(SITES):
        last = site == SITES[-1]
        log = _channel(ChannelStore(directory / ("away" if last else "channels")), site)
        for epoch in range(epochs):
            places = np.arange(epoch * AWAY_ROWS, (epoch + 1) * AWAY_ROWS, dtype=np.int64)
            keys = places * SPREAD % (AWAY_ROWS * AWAY_WINDOW_EPOCHS)
            start_us = START_US + EPOCH_US * epoch // AWAY_WINDOW_US * AWAY_WINDOW_US
            rows = partials(start_us, keys, places + number)
            log.publish(epoch, rows, watermark_us=START_US + EPOCH_US * (epoch + 1))
        if not last:
            log.finish()


def _channel(store: ChannelStore, site: str) -> ChannelLog:
    log = store.open(site)
    log.set_consumers(["us", "check"])
    return log


async def merge_large(merge: RunningTask, writes: Writes) -> None:
    """Until the window is out."""
    found, began_s = writes.found, time.perf_counter()
    async with _watching(found):
        await merge.task.run()
    # For a combining task, closing begins with the first groups that it sent.
    closing_s = writes.first_s.get(FaultPoint.CLOSING_STORED, writes.first_s[FaultPoint.RANGE_PUBLISHED])
    found.read_s = closing_s - began_s
    found.first_s = writes.first_s[FaultPoint.RANGE_PUBLISHED] - closing_s
    found.close_s = writes.last_s[FaultPoint.RANGE_PUBLISHED] - closing_s


async def merge_away(merge: RunningTask, writes: Writes, away: ChannelLog, copy: ChannelLog, epochs: int) -> None:
    """Until all that two sites sent is read, then until the third's is."""
    found, read = writes.found, 2 * epochs * AWAY_ROWS
    samples: list[tuple[float, float]] = []
    async with _watching(found):
        work = asyncio.create_task(merge.task.run())
        while merge.progress.totals.rows_in < read and not work.done():
            samples.append((merge.progress.totals.rows_in / read, _rss_mib()))
            await asyncio.sleep(SAMPLE_S)
        began_s = time.perf_counter()
        for epoch in range(epochs):
            manifest, encoded = await asyncio.to_thread(away.epochs.read_encoded, epoch)
            await asyncio.to_thread(copy.append, manifest, encoded)
        await asyncio.to_thread(copy.finish)
        await work
        found.caught_up_s = time.perf_counter() - began_s
    found.early_mib = max(mib for share, mib in samples if 0.2 <= share < 0.4)
    found.late_mib = max(mib for share, mib in samples if share >= 0.8)


@asynccontextmanager
async def _watching(found: Found) -> AsyncIterator[None]:
    """Notes how late the event loop is at most."""

    async def watch() -> None:
        while True:
            due_s = time.perf_counter() + SAMPLE_S
            await asyncio.sleep(SAMPLE_S)
            found.late_s = max(found.late_s, time.perf_counter() - due_s)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()


def run_merge(scene: str, directory: Path, epochs: int) -> Found:
    """In this process."""
    found = Found()
    session = start_spark(slots=2, scratch=directory / "spark", options=SparkOptions(driver_memory=HEAP))
    engine = SparkEngine(session, scratch=directory / "scratch")
    warm_up(engine)
    writes = Writes(directory / "merge", found)
    with ThreadPoolExecutor(1) as slots, asyncio.Runner() as runner, watched(writes):
        site = Site(engine, directory, slots)
        channels = [site.make_channel(name) for name in SITES]
        for channel in channels:
            # What is read has to be there for DuckDB.
            channel.set_consumers(["us", "check"])
        window = window_of(AWAY_WINDOW_US if scene == "away" else EPOCH_US * EPOCHS)
        if scene == "combined":
            merge = site.make_combine("merge", NUMBERED, channels, window)
        else:
            merge = site.make_merge("merge", MERGED, channels, window)
        if scene == "away":
            away = ChannelStore(directory / "away").open(SITES[-1])
            runner.run(merge_away(merge, writes, away, channels[-1], epochs))
        else:
            runner.run(merge_large(merge, writes))
        found.groups, found.rows = merge.progress.totals.rows_out, merge.progress.totals.rows_in
        found.python_mib = _peak_mib(psutil.Process())
        found.jvm_mib = max(_peak_mib(child) for child in psutil.Process().children(recursive=True))
        runner.run(site.close())
    session.stop()
    return found


def differing(scene: str, directory: Path, epochs: int) -> int:
    """How many groups DuckDB has otherwise, over the same rows."""
    with _database(directory) as db:
        db.execute("CREATE TABLE sent (w BIGINT, k BIGINT, n BIGINT, s BIGINT)")
        db.execute("CREATE TABLE found (w BIGINT, k BIGINT, n BIGINT, s BIGINT)")
        store = ChannelStore(directory / "channels")
        for site in SITES:
            _load(db, "sent", store.open(site))
        _load(db, "found", store.open("merge"))
        db.execute(
            "CREATE TABLE wanted AS SELECT w, k, sum(n)::BIGINT AS n, sum(s)::BIGINT AS s FROM sent GROUP BY w, k"
        )
        one, other = (
            db.execute(f"SELECT count(*) FROM (FROM {a} EXCEPT ALL FROM {b})").fetchall()[0][0]
            for a, b in (("found", "wanted"), ("wanted", "found"))
        )
        return int(one) + int(other)


@contextmanager
def _database(directory: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(directory / "check.duckdb")) as db:
        db.execute("SET memory_limit = '2GB'")
        yield db


def _load(db: duckdb.DuckDBPyConnection, name: str, log: ChannelLog) -> None:
    for epoch in range(log.next_epoch):
        rows = log.epochs.read(epoch)
        if rows is not None:
            plain = rows.select(["w", "k", "n", "s"])
            db.register("epoch", plain.set_column(0, "w", plain.column("w").cast(pa.int64())))
            db.execute(f"INSERT INTO {name} SELECT * FROM epoch")


def _rss_mib() -> float:
    return psutil.Process().memory_info().rss / MIB


def _peak_mib(process: psutil.Process) -> float:
    """The most memory that it ever had; 0 when it has ended."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def step(arguments: argparse.Namespace) -> Any:
    """One step of a scene, in this process."""
    scene, directory = arguments.scene, arguments.directory
    if arguments.step == "feed":
        feed_away(directory, arguments.epochs) if scene == "away" else feed_large(directory, arguments.groups)
        return None
    if arguments.step == "merge":
        return asdict(run_merge(scene, directory, arguments.epochs))
    return differing(scene, directory, arguments.epochs)


def run_scene(scene: str, arguments: argparse.Namespace) -> tuple[Found, int]:
    """What the merge took, and how many groups DuckDB has otherwise."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        answers = []
        for name in ("feed", "merge", "check"):
            own = ["--groups", str(arguments.groups), "--epochs", str(arguments.epochs)]
            own += ["--scene", scene, "--step", name, "--directory", directory]
            answers.append(in_own_process("benchmarks.state", own, limit_s=STEP_LIMIT_S))
            say(f"{scene}, {name}: {answers[-1]}")
    return Found(**answers[1]), answers[2]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Knows the steps of a scene, too, which are for the benchmark itself."""
    parser = make_parser(description)
    parser.add_argument("--groups", type=int, default=10_000_000)
    parser.add_argument("--epochs", type=int, default=1800)
    for name, kind in (("--scene", str), ("--step", str), ("--directory", Path)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Exit code: 1 when results are not DuckDB's."""
    arguments = parser_of(__doc__).parse_args()
    if arguments.step:
        print(json.dumps(step(arguments)))
        return 0
    found, wrong = run_scene("large", arguments)
    findings = {
        "right": float(not wrong),
        "python": found.python_mib,
        "jvm": found.jvm_mib,
        "written": found.written_bytes / found.changed_bytes,
        "late": found.late_s,
    }
    text = (
        f"Three sites sent each group once. {found.read_s:.0f} s to read all rows, then {found.first_s:.1f} s to the "
        f"first results and {found.close_s:.0f} s to the last."
    )
    publish("state", "A window of very many groups", [*described(found), text], arguments.record, findings)
    return 1 if wrong else 0


def described(found: Found) -> list[str]:
    """What both scenes have."""
    rows = [
        ["rows that it read", f"{found.rows:,}"],
        ["groups that it gave out", f"{found.groups:,}"],
        ["most memory of Python", f"{found.python_mib:.0f} MiB"],
        ["most memory of the JVM", f"{found.jvm_mib:.0f} MiB"],
        ["written by checkpoints", f"{found.written_bytes / 1e6:.1f} MB"],
        ["the same over what changed", f"{found.written_bytes / found.changed_bytes:.2f}"],
        ["event loop late by, at most", f"{found.late_s:.2f} s"],
    ]
    return [
        f"One task; its state may take 256 MiB of Python's memory, the heap is {HEAP}. What changed between two "
        "checkpoints is a row for each group that came, encoded as in the files of the state.",
        table(["", ""], rows),
    ]


if __name__ == "__main__":
    sys.exit(main())
