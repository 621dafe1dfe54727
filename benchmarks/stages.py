"""CPU and wall time of a stage that has nothing or little to do, and rows per second over several stages at once.

    python -m benchmarks.stages [--seconds 12] [--stages 1 2 4 8] [--record FILE]

Source tasks with a real engine over one JVM, epochs of a second; the baseline is the same process with no task. Then so
many stages at once, each over files of its own, back to back on all cores. Ends within three minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.processes import cpu_s
from benchmarks.report import make_parser, median, publish, say, table
from benchmarks.source_stage import COLUMNS, SQL, write_files
from benchmarks.tasks import RunningTask, Site, Stage
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up

RATES = (0, 1, 100, 5000)
"""Rows per second; 0: idle."""
WARM_UP_S = 4.0
FILES, ROWS = 6, 200_000
LIMIT_S = 60.0
_NUMBERS = itertools.count()
CORES = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Load:
    """CPU seconds and epochs in a time."""

    wall_s: float
    cpu_s: float
    epochs: int
    epoch_s: float = 0.0
    """Wall time of an epoch, from its first work to its publication; the median."""


async def measure_load(site: Site, rate: int | None, seconds: float) -> Load:
    """One task at that rate; None: no task at all."""
    running = None if rate is None else site.make_task(f"rate-{rate}", _generated(rate))
    work = None if running is None else asyncio.create_task(running.task.run())
    await asyncio.sleep(WARM_UP_S)
    started_s, before_s, before_epochs = time.perf_counter(), cpu_s(), running.log.next_epoch if running else 0
    walls_s: list[float] = []
    if running is not None:
        running.progress.timed = walls_s.append
    await asyncio.sleep(seconds)
    taken_s, used_s = time.perf_counter() - started_s, cpu_s() - before_s
    epochs = running.log.next_epoch - before_epochs if running else 0
    load = Load(taken_s, used_s, epochs, median(walls_s) if walls_s else 0.0)
    if work is not None:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    return load


def _generated(rate: int) -> Stage:
    options = {
        "connector": "generator",
        "rows_per_second": str(rate),
        "startup": "latest",
        "column.kind": "uniform(0, 3)",
    }
    return Stage(COLUMNS, "ts", options, SQL, timedelta(seconds=1))


async def measure_stages(site: Site, files: Path, count: int) -> float:
    """Rows per second over all stages, which begin together and read their files to the end."""
    options = {
        "connector": "files",
        "format": "parquet",
        "path": str(files),
        "until": "end",
        "max_files_per_epoch": "1",
    }
    stage = Stage(COLUMNS, "ts", options, SQL, timedelta(0))
    tasks: list[RunningTask] = [site.make_task(f"stage-{next(_NUMBERS)}", stage) for _ in range(count)]
    started_s = time.perf_counter()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*(running.task.run() for running in tasks))
    wall_s = time.perf_counter() - started_s
    return sum(running.progress.totals.rows_in for running in tasks) / wall_s


async def measure(root: Path, engine: SparkEngine, arguments: argparse.Namespace) -> tuple[list[str], dict[str, float]]:
    with ThreadPoolExecutor(CORES) as slots:
        site = Site(engine, root, slots)
        loads: dict[int | None, Load] = {}
        for rate in (None, *RATES):
            loads[rate] = await measure_load(site, rate, arguments.seconds)
            say(
                f"{'no task' if rate is None else f'{rate} rows/s'}: {loads[rate].cpu_s / loads[rate].wall_s:.3f} cores"
            )
        files = root / "files"
        write_files(files, FILES, ROWS)
        # The first one pays for compilation: it is not counted.
        await measure_stages(site, files, 1)
        speeds: dict[int, float] = {}
        for count in arguments.stages:
            speeds[count] = await measure_stages(site, files, count)
            say(f"{count} stages: {speeds[count]:,.0f} rows/s")
        await site.close()
    once = (
        "One run each, in the order of the lines, in one process and JVM that ran before: small differences are noise."
    )
    findings = {"cpu": _epoch_cpu_s(loads, RATES[-1]) * 1e3, "wall": loads[RATES[-1]].epoch_s * 1e3}
    return [once, _idle_table(loads), _speed_table(speeds)], findings


def _epoch_cpu_s(loads: dict[int | None, Load], rate: int) -> float:
    """CPU of an epoch over the process without a task."""
    nothing, load = loads[None], loads[rate]
    return (load.cpu_s / load.wall_s - nothing.cpu_s / nothing.wall_s) * load.wall_s / load.epochs


def _idle_table(loads: dict[int | None, Load]) -> str:
    nothing = loads[None].cpu_s / loads[None].wall_s
    rows = [["no task (baseline)", f"{nothing * 1e3:.0f} ms", "", "", ""]]
    for rate in RATES:
        load = loads[rate]
        share = load.cpu_s / load.wall_s
        per_epoch = f"{_epoch_cpu_s(loads, rate) * 1e3:.0f} ms" if load.epochs else ""
        wall = f"{load.epoch_s * 1e3:.0f} ms" if load.epoch_s else ""
        name = "idle stage" if rate == 0 else f"stage of {rate:,} rows/s"
        rows.append([name, f"{share * 1e3:.0f} ms", f"{load.epochs / load.wall_s:.2f}", per_epoch, wall])
    head = ["epochs of 1 s", "CPU a second, Python and JVM", "epochs published a second", "CPU an epoch over baseline"]
    return table([*head, "wall time of an epoch"], rows)


def _speed_table(speeds: dict[int, float]) -> str:
    base = next(iter(speeds.values()))
    rows = [
        [f"{count}", f"{speed:,.0f}", f"{speed / CORES:,.0f}", f"{speed / base:.2f}"] for count, speed in speeds.items()
    ]
    return table(["stages at once", "rows/s, all", "rows/s per core", f"over {next(iter(speeds))} stage"], rows)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each rate")
    parser.add_argument("--stages", type=int, nargs="+", default=[1, 2, 4, 8])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="selat-stages-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        session = start_spark(slots=CORES, scratch=root / "spark")
        try:
            engine = SparkEngine(session, scratch=root / "scratch")
            warm_up(engine)
            say("Spark runs")
            parts, findings = asyncio.run(measure(root, engine, arguments))
        finally:
            session.stop()
    publish("stages", "Idle stages, and several at once", parts, arguments.record, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
