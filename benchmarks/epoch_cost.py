"""What an epoch of a merge costs as Structured Streaming, and as one batch job.

    python -m benchmarks.epoch_cost [--epochs 30] [--rows 5000] [--record FILE]

Three input channels deliver partial aggregates of a window; with each epoch one window closes, and its rows are merged
and taken out as Arrow. Both ways do the same work on the same rows, in a JVM of their own, and must give the same
counts. Ends within two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.processes import cpu_s, in_own_process
from benchmarks.report import make_parser, median, publish, table
from site_agent.engine import ArrowScan, EpochRequest
from site_agent.engine.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up
from site_agent.tasks.windows import OpenWindows

CHANNELS = 3
KEYS = 200
WINDOW_US = 10_000_000
START_US = 1_767_225_600_000_000
WARM_UP_EPOCHS = 20
MAX_EPOCHS = 100
LIMIT_S = 50.0
TIMESTAMP = pa.timestamp("us", tz="UTC")

MERGE_SQL = "SELECT window_start, k, sum(n) AS n, sum(s) AS s FROM input GROUP BY window_start, k"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds; `start_s` from the process's start to the first epoch's rows. CPU is that of Python and the JVM."""

    way: str
    start_s: float
    start_cpu_s: float
    wall_s: float
    cpu_s: float
    epochs: int
    rows: int
    """Fewest input rows that an epoch's output stands for."""


Epochs = Generator[int, None, None]
"""Each step runs one epoch and yields how many input rows its output stands for."""


def partials(epoch: int, channel: int, rows: int) -> pa.Table:
    """What one channel delivers in one epoch."""
    numbers = [epoch * rows + channel + i for i in range(rows)]
    return pa.table(
        {
            "window_start": pa.array([START_US + epoch * WINDOW_US] * rows, TIMESTAMP),
            "k": pa.array([i % KEYS for i in numbers], pa.int64()),
            "n": pa.array([1] * rows, pa.int64()),
            "s": pa.array(numbers, pa.int64()),
        }
    )


def deliveries(epoch: int, rows: int) -> list[pa.Table]:
    return [partials(epoch, channel, rows // CHANNELS) for channel in range(CHANNELS)]


def epoch_loop(session: SparkSession, directory: Path, rows: int) -> Epochs:
    """Open windows in Arrow; a batch job merges the ones that close."""
    engine = SparkEngine(session, scratch=directory)
    warm_up(engine)
    windows = OpenWindows("window_start", WINDOW_US, WINDOW_US)
    epoch = 0
    while True:
        windows.add(deliveries(epoch, rows))
        closed = windows.close(START_US + epoch * WINDOW_US)
        merged = (
            engine.run(EpochRequest("merge", MERGE_SQL, ArrowScan(closed), "hub")).table if closed is not None else None
        )
        epoch += 1
        yield sum(merged.column("n").to_pylist()) if merged is not None else 0


def structured_streaming(session: SparkSession, directory: Path, rows: int) -> Epochs:
    """A stateful aggregate in append mode over file sources; a punctuation leg alone moves its watermark."""
    emitted: SimpleQueue[int] = SimpleQueue()

    def take(batch: DataFrame, _: int) -> None:
        emitted.put(sum(batch.toArrow().column("n").to_pylist()))

    legs = [_leg(session, directory / "punctuation").withWatermark("window_start", "0 seconds")]
    legs += [_leg(session, directory / f"channel-{c}") for c in range(CHANNELS)]
    for epoch in range(MAX_EPOCHS):
        _deliver(directory, epoch, rows)
    merged = reduce(DataFrame.union, legs).groupBy("window_start", "k").agg(sf.sum("n").alias("n"), sf.sum("s"))
    writer = merged.writeStream.outputMode("append").foreachBatch(take)
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        while True:
            yield emitted.get(timeout=LIMIT_S)
    finally:
        query.stop()


def _leg(session: SparkSession, directory: Path) -> DataFrame:
    directory.mkdir(parents=True)
    reader = session.readStream.schema("window_start TIMESTAMP, k BIGINT, n BIGINT, s BIGINT")
    # One file of each channel a batch, so that a batch is an epoch here, too.
    return reader.option("maxFilesPerTrigger", 1).parquet(str(directory))


def _deliver(directory: Path, epoch: int, rows: int) -> None:
    # A mark counts for nothing. (A filter on it would be pushed below the watermark, which then never moved.)
    mark = partials(epoch, 0, 1).set_column(2, "n", pa.array([0], pa.int64()))
    for name, delivery in (
        ("punctuation", mark),
        *((f"channel-{c}", t) for c, t in enumerate(deliveries(epoch, rows))),
    ):
        path = directory / name / f"{epoch:06d}.parquet"
        pq.write_table(delivery, path)
        # The source takes files by their time of change.
        os.utime(path, (epoch, epoch))


WAYS: dict[str, Callable[[SparkSession, Path, int], Epochs]] = {
    "structured streaming": structured_streaming,
    "batch job per epoch": epoch_loop,
}


def measure(way: str, arguments: argparse.Namespace) -> Cost:
    """Run one way in this process."""
    started_s = time.perf_counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        session = start_spark(slots=2, scratch=Path(directory) / "spark")
        epochs = WAYS[way](session, Path(directory) / "data", arguments.rows)
        # The first epochs close nothing.
        rows = next(count for count in epochs if count)
        start_s, start_cpu_s = time.perf_counter() - started_s, cpu_s()
        rows = min(rows, *(next(epochs) for _ in range(WARM_UP_EPOCHS)))
        walls_s: list[float] = []
        before_cpu_s = cpu_s()
        while len(walls_s) < arguments.epochs and (time.perf_counter() - started_s < LIMIT_S or not walls_s):
            epoch_s = time.perf_counter()
            rows = min(rows, next(epochs))
            walls_s.append(time.perf_counter() - epoch_s)
        epoch_cpu_s = (cpu_s() - before_cpu_s) / len(walls_s)
        epochs.close()
        session.stop()
    return Cost(way, start_s, start_cpu_s, median(walls_s), epoch_cpu_s, len(walls_s), rows)


def main() -> int:
    """Exit code: 1 when the two ways disagree."""
    parser = make_parser(__doc__)
    parser.add_argument("--epochs", type=int, default=30, help=f"epochs to measure, at most {MAX_EPOCHS // 2}")
    parser.add_argument("--rows", type=int, default=5000, help="input rows of an epoch, over all channels")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(asdict(measure(arguments.way, arguments))))
        return 0
    own = ["--epochs", str(arguments.epochs), "--rows", str(arguments.rows)]
    costs = [Cost(**in_own_process("benchmarks.epoch_cost", ["--way", way, *own])) for way in WAYS]
    agree = len({c.rows for c in costs}) == 1
    publish("epoch_cost", "An epoch of a merge", _parts(costs, agree=agree), arguments.record)
    return 0 if agree else 1


def _parts(costs: Sequence[Cost], *, agree: bool) -> list[str]:
    rows = [
        [
            c.way,
            f"{c.start_s:.1f} s",
            f"{c.start_cpu_s:.1f} s",
            f"{c.wall_s * 1000:.0f} ms",
            f"{c.cpu_s * 1000:.0f} ms",
            f"{c.epochs}",
        ]
        for c in costs
    ]
    head = ["", "first rows", "CPU until then", "wall per epoch, median", "CPU per epoch", "epochs"]
    base, mine = costs
    same = f"Each epoch merged {base.rows} rows." if agree else f"**They disagree**: {[c.rows for c in costs]}."
    ratios = f"Selat over Structured Streaming: {mine.wall_s / base.wall_s:.2f} of the time, "
    return [table(head, rows), f"{ratios}{mine.cpu_s / base.cpu_s:.2f} of the CPU. {same}"]


if __name__ == "__main__":
    sys.exit(main())
