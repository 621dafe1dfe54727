"""A merge that one core limits, whole and in two parts on two cores.

    python -m benchmarks.parts [--windows 24] [--rows 240000] [--rounds 5] [--record FILE]

Two sites, each a process with a JVM of its own on a core of its own, that the kernel keeps it to. Three input channels
lie at each of them whole, with bins: partials of windows, each key in each of them. Whole: the first site merges all
windows, and the other does nothing. In parts: each merges half of the bins, and both must have ended. A merge task does
all of an agent's work: it reads, keeps and merges rows, makes checkpoints, and publishes results; groups of both parts
must be those of the whole. The same processes do both in turn, after a warm-up. The files of both sites are in memory,
for they would share a disk. CPU of a site is that of Python and its JVM, of the site that took most: what the time
would be where nothing else runs. Ends within five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.processes import cpu_s, end_process
from benchmarks.report import make_parser, median, publish, say, table
from benchmarks.tasks import Site
from planner.values.names import BINS
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.spec import ViewSpec, WindowSpec

CHANNELS = 3
EPOCHS = 2
"""Of a channel in a window."""
WARM_UP_WINDOWS = 12
WINDOW_US = 10_000_000
START_US = 1_767_225_600_000_000
_PARTIALS = "sum(_p0) AS _p0, sum(_p1) AS _p1, min(_p2) AS _p2, max(_p3) AS _p3"
COMBINE_SQL = f"SELECT _window_start, _k0, {_PARTIALS} FROM input GROUP BY _window_start, _k0"
SQL = (
    "SELECT _k0 AS page, _p0 AS n, _p1 AS total, _p1 / _p0 AS mean, _p2 AS least, _p3 AS most "
    f"FROM ({COMBINE_SQL}) AS merged"
)
WINDOW = WindowSpec("_window_start", WINDOW_US, WINDOW_US, (ViewSpec("input", COMBINE_SQL),))
LIMITS = TaskLimits(retained_bytes_per_channel=2**40, port_batch_bytes=16 * 1024 * 1024)
"""An epoch closes one window. In larger batches, the whole merge would have more rows in a job than a kept plan takes,
and each part would not: that would be another comparison."""
PARTS = (1, 2)
CORES = 2
MEMORY = Path("/dev/shm")
LIMIT_S = 240.0
TIMESTAMP = pa.timestamp("us", tz="UTC")


def fill(root: Path, windows: int, rows: int) -> None:
    """The channels, with so many rows in a window."""
    store = ChannelStore(root)
    keys = np.arange(rows // CHANNELS // EPOCHS, dtype=np.int64)
    bins = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58)
    pages = pa.array([f"/catalog/item/{key:08d}" for key in keys])
    for number in range(CHANNELS):
        log = store.open(f"channel-{number}")
        for epoch in range(windows * EPOCHS):
            window, part = divmod(epoch, EPOCHS)
            start_us = START_US + window * WINDOW_US
            partials = pa.table(
                {
                    "_window_start": pa.array(np.full(len(keys), start_us), pa.int64()).cast(TIMESTAMP),
                    "_k0": pages,
                    "_p0": np.full(len(keys), 1 + number),
                    "_p1": keys * (epoch + 1),
                    "_p2": keys - epoch,
                    "_p3": keys / (number + 1),
                    "_bin": bins.astype(np.int64),
                }
            )
            log.publish(epoch, partials, watermark_us=start_us + part + 1)
        log.finish()


class Child:
    """A site that the parent tells what to do, one JSON line each way."""

    def __init__(self, core: int, root: Path) -> None:
        self._answers = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.parts", "--core", str(core), "--root", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, **what: Any) -> None:
        assert self._answers.stdin is not None
        self._answers.stdin.write(json.dumps(what) + "\n")
        self._answers.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._answers.stdout is not None
        found: dict[str, Any] = json.loads(self._answers.stdout.readline())
        return found

    def close(self) -> None:
        end_process(self._answers)


def obey(core: int, root: Path) -> None:
    """The child: copies of the channels for each run, then the merge when the parent says so; until it is ended."""
    os.sched_setaffinity(0, {core})
    session = start_spark(slots=1, scratch=root / "spark")
    engine = SparkEngine(session, scratch=root / "scratch")
    warm_up(engine)
    _say(ready=True)
    for number, line in enumerate(sys.stdin):
        told = json.loads(line)
        directory = root / f"run-{number}"
        shutil.copytree(told["channels"], directory / "channels")
        _say(ready=True)
        sys.stdin.readline()
        _say(**asyncio.run(_merged(engine, directory, told["part"], told["parts"])))
        shutil.rmtree(directory)


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def _merged(engine: SparkEngine, directory: Path, part: int, parts: int) -> dict[str, Any]:
    with ThreadPoolExecutor(1) as slots:
        site = Site(engine, directory, slots, LIMITS)
        logs = [site.make_channel(f"channel-{number}") for number in range(CHANNELS)]
        bins = () if parts == 1 else tuple(range(part * BINS // parts, (part + 1) * BINS // parts))
        merge = site.make_merge("merge", SQL, logs, WINDOW, bins)
        began_s, before_s = time.perf_counter(), cpu_s()
        await merge.task.run()
        wall_s, used_s = time.perf_counter() - began_s, cpu_s() - before_s
        await merge.task.close()
        rows, total = _sums(merge.log)
        await site.close()
    return {"wall_s": wall_s, "cpu_s": used_s, "rows_in": merge.progress.totals.rows_in, "groups": rows, "total": total}


def _sums(log: ChannelLog) -> tuple[int, int]:
    """Groups, and what their counts and sums add up to."""
    tables = [log.epochs.read(epoch) for epoch in range(log.next_epoch)]
    found = [found for found in tables if found is not None]
    return sum(t.num_rows for t in found), sum(int(np.sum(t[c].to_numpy())) for t in found for c in ("n", "total"))


@contextmanager
def running(root: Path) -> Iterator[list[Child]]:
    """A child on each core, with Spark running."""
    with ExitStack() as stack:
        children = []
        for core in range(CORES):
            (root / f"site-{core}").mkdir()
            children.append(Child(core, root / f"site-{core}"))
            stack.callback(children[-1].close)
        for child in children:
            child.answer()
        yield children


def run(children: Sequence[Child], channels: Path, parts: int) -> dict[str, Any]:
    """One merge in so many parts: seconds until all have ended, CPU of the one that took most, rows, groups, sums."""
    working = children[:parts]
    for part, child in enumerate(working):
        child.tell(channels=str(channels), part=part, parts=parts)
    for child in working:
        child.answer()
    for child in working:
        child.tell()
    found = [child.answer() for child in working]
    summed = {key: sum(one[key] for one in found) for key in ("rows_in", "groups", "total")}
    return {"wall_s": max(one["wall_s"] for one in found), "cpu_s": max(one["cpu_s"] for one in found), **summed}


def measure(root: Path, arguments: argparse.Namespace) -> dict[int, list[dict[str, Any]]]:
    for name, windows in (("warm-up", WARM_UP_WINDOWS), ("input", arguments.windows)):
        fill(root / name, windows, arguments.rows)
    say("input written")
    with running(root) as children:
        for parts in PARTS:
            run(children, root / "warm-up", parts)
        say("warm")
        rounds: dict[int, list[dict[str, Any]]] = {parts: [] for parts in PARTS}
        for _ in range(arguments.rounds):
            for parts in PARTS:
                rounds[parts].append(run(children, root / "input", parts))
                say(f"{parts} parts: {rounds[parts][-1]['wall_s']:.1f} s")
    answers = {tuple(one[key] for key in ("rows_in", "groups", "total")) for runs in rounds.values() for one in runs}
    if len(answers) != 1:
        raise SystemExit(f"the ways differ: {answers}")
    return rounds


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--windows", type=int, default=24)
    parser.add_argument("--rows", type=int, default=240_000, help="partials in a window, of all channels")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.core is not None:
        obey(arguments.core, arguments.root)
        return 0
    with tempfile.TemporaryDirectory(prefix="selat-parts-", dir=MEMORY, ignore_cleanup_errors=True) as directory:
        rounds = measure(Path(directory), arguments)
    walls_s = {parts: median([one["wall_s"] for one in runs]) for parts, runs in rounds.items()}
    used_s = {parts: median([one["cpu_s"] for one in runs]) for parts, runs in rounds.items()}
    rows = rounds[1][0]["rows_in"]
    lines = [
        [
            "one task, one core" if parts == 1 else f"{parts} parts, a core each",
            f"{rows / walls_s[parts]:,.0f}",
            ", ".join(f"{one['wall_s']:.1f} s" for one in runs),
            f"{walls_s[1] / walls_s[parts]:.2f}",
            f"{used_s[parts]:.1f} s",
            f"{used_s[1] / used_s[parts]:.2f}",
        ]
        for parts, runs in rounds.items()
    ]
    about = (
        f"{rows:,} partials of {arguments.windows} windows in {CHANNELS} channels, {rounds[1][0]['groups']:,} groups; "
        "speeds are of the median of the runs."
    )
    shown = table(["a merge", "partials/s", "runs", "over one task", "CPU of a site", "less than one task"], lines)
    publish("parts", "A merge in parts", [about, shown], arguments.record, {"speedup": walls_s[1] / walls_s[2]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
