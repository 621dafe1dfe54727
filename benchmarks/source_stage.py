"""Filter and partial aggregate by window and key: a source stage, and the same in plain Structured Streaming.

    python -m benchmarks.source_stage [--files 30] [--rows 300000] [--rounds 3] [--record FILE]

Both read the same Parquet files of one directory, one file to an epoch or micro-batch, on all cores of one Spark of
their own, drop rows behind the watermark, filter, count and sum by window and key, and leave the partial rows and
their own progress durably on disk: Selat in a channel; Structured Streaming by `foreachBatch` (a Parquet file for each
batch) with its checkpoint. They alternate, after the same warm-up: an agent's, and the first files. The partial rows
must be equal. Ends within five minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.processes import cpu_s, in_own_process
from benchmarks.report import make_parser, publish, ratio, say, spread, table
from benchmarks.tasks import Site, Stage
from site_agent.engine import Field
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up

START_US = 1_767_225_600_000_000
FILE_US = 1_000_000
"""Event time that a file covers: a second's rows."""
KEYS = 1000
WARM_UP_FILES = 8
LIMIT_S = 100.0

COLUMNS = (
    Field("ts", "TIMESTAMP"),
    Field("k", "BIGINT"),
    Field("v", "DOUBLE"),
    Field("kind", "INT"),
)
SQL = """
SELECT window(ts, '10 seconds').start AS w, k, count(*) AS n, sum(v) AS s, max(v) AS m
FROM input WHERE kind < 3 GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Of the files after the warm-up."""

    rows: int
    wall_s: float
    cpu_s: float
    partials: int
    total: int
    """Rows that the partials of all files stand for."""

    @property
    def cpu_s_per_million(self) -> float:
        return self.cpu_s / self.rows * 1e6

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.wall_s


def write_files(directory: Path, files: int, rows: int) -> None:
    """Parquet files, a second of event time each, in the order of their names and times of change."""
    directory.mkdir()
    for number in range(files):
        rng = np.random.default_rng(number)
        times = START_US + number * FILE_US + np.sort(rng.integers(0, FILE_US, rows))
        batch = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                "k": pa.array(rng.integers(0, KEYS, rows)),
                "v": pa.array(rng.random(rows)),
                "kind": pa.array(rng.integers(0, 4, rows), pa.int32()),
            }
        )
        path = directory / f"{number:06d}.parquet"
        pq.write_table(batch, path)
        # Sources take files by their time of change.
        os.utime(path, (number + 1, number + 1))


async def run_selat(engine: SparkEngine, root: Path, files: Path, rows: int) -> Run:
    """The loop of a source task, one file to an epoch, no pause between epochs."""
    options = {
        "connector": "files",
        "format": "parquet",
        "path": str(files),
        "until": "end",
        "max_files_per_epoch": "1",
    }
    with ThreadPoolExecutor(1) as slots:
        site = Site(engine, root, slots)
        running = site.make_task("stage", Stage(COLUMNS, "ts", options, SQL, timedelta(0)))
        work = asyncio.create_task(running.task.run())
        await running.log.state.wait(WARM_UP_FILES - 1)
        started_s, started_cpu_s = time.perf_counter(), cpu_s()
        first = running.log.next_epoch
        await asyncio.wait_for(work, LIMIT_S)
        wall_s, used_s = time.perf_counter() - started_s, cpu_s() - started_cpu_s
        log = running.log
        tables = [t for t in (log.epochs.read(e) for e in range(log.next_epoch)) if t is not None]
        await site.close()
    return _run((len(tables) - first) * rows, wall_s, used_s, tables)


def run_structured_streaming(session: SparkSession, root: Path, files: Path, rows: int) -> Run:
    """A query with a watermark whose `foreachBatch` aggregates the batch and writes it."""
    output = root / "output"
    started: list[tuple[float, float]] = []

    def take(batch: DataFrame, number: int) -> None:
        if number == WARM_UP_FILES:
            started.append((time.perf_counter(), cpu_s()))
        batch.createOrReplaceTempView("input")
        batch.sparkSession.sql(SQL).coalesce(1).write.mode("overwrite").parquet(str(output / f"{number:06d}"))

    reader = session.readStream.schema("ts TIMESTAMP, k BIGINT, v DOUBLE, kind INT").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(files)).withWatermark("ts", "2 seconds")
    writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(root / "checkpoint")).start()
    query.awaitTermination(int(LIMIT_S))
    ((started_s, started_cpu_s),) = started
    wall_s, used_s = time.perf_counter() - started_s, cpu_s() - started_cpu_s
    tables = [pq.read_table(path) for path in sorted(output.iterdir())]
    return _run((len(tables) - WARM_UP_FILES) * rows, wall_s, used_s, tables)


def _run(rows: int, wall_s: float, used_s: float, tables: list[pa.Table]) -> Run:
    total = sum(pc.sum(t.column("n")).as_py() for t in tables)
    return Run(rows, wall_s, used_s, sum(t.num_rows for t in tables), total)


def measure(way: str, files: Path, rows: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="selat-stage-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        session = start_spark(slots=os.cpu_count() or 1, scratch=root / "spark")
        session.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
        try:
            engine = SparkEngine(session, scratch=root / "scratch")
            warm_up(engine)
            if way == "selat":
                return asyncio.run(run_selat(engine, root, files, rows))
            return run_structured_streaming(session, root, files, rows)
        finally:
            session.stop()


def main() -> int:
    """Exit code: 1 when the two ways disagree."""
    parser = make_parser(__doc__)
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--rows", type=int, default=300_000, help="of each file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", nargs=2, metavar=("WAY", "FILES"), help="run one way in this process")
    arguments = parser.parse_args()
    if arguments.way:
        way, files = arguments.way
        print(json.dumps(asdict(measure(way, Path(files), arguments.rows))))
        return 0
    runs: dict[str, list[Run]] = {"plain": [], "selat": []}
    with tempfile.TemporaryDirectory(prefix="selat-stage-") as directory:
        files = Path(directory) / "files"
        write_files(files, arguments.files, arguments.rows)
        for number in range(arguments.rounds):
            for way, found in runs.items():
                own = ["--way", way, str(files), "--rows", str(arguments.rows)]
                found.append(Run(**in_own_process("benchmarks.source_stage", own)))
                say(f"round {number + 1}, {way}: {found[-1].rows_per_s:,.0f} rows/s, {found[-1].cpu_s:.1f} s of CPU")
    agree = len({(run.partials, run.total) for found in runs.values() for run in found}) == 1
    findings = {"rows": _rate_ratio(runs), "cpu": _cpu_ratio(runs)}
    publish("source_stage", "Source stage", _parts(runs, arguments.rows, agree=agree), arguments.record, findings)
    return 0 if agree else 1


def _rate_ratio(runs: dict[str, list[Run]]) -> float:
    return ratio([r.rows_per_s for r in runs["selat"]], [r.rows_per_s for r in runs["plain"]])


def _cpu_ratio(runs: dict[str, list[Run]]) -> float:
    return ratio([r.cpu_s_per_million for r in runs["selat"]], [r.cpu_s_per_million for r in runs["plain"]])


def _parts(runs: dict[str, list[Run]], rows: int, *, agree: bool) -> list[str]:
    names = {"plain": "plain Structured Streaming", "selat": "Selat's source task"}
    lines = [
        [
            names[way],
            spread([r.rows_per_s for r in found], "{:,.0f}"),
            spread([r.cpu_s_per_million for r in found], "{:.2f}"),
            f"{len(found)}",
        ]
        for way, found in runs.items()
    ]
    example = runs["selat"][0]
    same = "The partial rows of both were equal in number and in what they count" if agree else "**The two disagree**"
    return [
        f"Filter, then count, sum and maximum by 10 s window and one of {KEYS} keys; Parquet files of {rows:,} rows, "
        "one to an epoch or micro-batch. Both keep output and progress on disk; Selat waits until the disk has them "
        "(fsync), Structured Streaming leaves that to the system. They alternate, each run in a process of its own "
        f"after the same warm-up; the first {WARM_UP_FILES} files are not counted. CPU is that of Python, the JVM and "
        "its Python workers. Medians, with the least and the most.",
        table(["", "rows/s", "CPU s per million rows", "runs"], lines),
        f"Selat over plain, round by round, median: {_rate_ratio(runs):.2f} of the rows a second, "
        f"{_cpu_ratio(runs):.2f} of the CPU for a row. {same}: {example.partials:,} partials "
        f"of {example.total:,} rows.",
    ]


if __name__ == "__main__":
    sys.exit(main())
