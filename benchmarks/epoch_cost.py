"""The cost of an epoch of a merge, as Structured Streaming and as Selat's merge task.

    python -m benchmarks.epoch_cost [--epochs 30] [--rows 5000] [--rounds 3] [--record FILE]

Three input channels deliver partial aggregates of a window; with each epoch one window closes, and its rows are merged.
Both read their input from disk and leave output and progress on disk. Structured Streaming: Parquet files, one of each
channel to a batch, a stateful aggregate with its checkpoint, a Parquet file for each batch by `foreachBatch`. Selat:
the task itself, over channels, with the checkpoints of an agent and the result in a channel. Both do the same work on
the same rows, in a JVM of their own with the same warm-up, in turn, and must give the same counts. Ends within four
minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial, reduce
from pathlib import Path
from queue import SimpleQueue

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.processes import cpu_s, in_own_process
from benchmarks.report import make_parser, median, publish, ratio, say, spread, table
from benchmarks.tasks import Site
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up
from site_agent.tasks.spec import ViewSpec, WindowSpec

CHANNELS = 3
KEYS = 200
WINDOW_US = 10_000_000
START_US = 1_767_225_600_000_000
WARM_UP_EPOCHS = 20
MAX_EPOCHS = 100
LIMIT_S = 50.0
TIMESTAMP = pa.timestamp("us", tz="UTC")

MERGE_SQL = "SELECT window_start, k, sum(n) AS n, sum(s) AS s FROM input GROUP BY window_start, k"
WINDOW = WindowSpec("window_start", WINDOW_US, WINDOW_US, (ViewSpec("input", MERGE_SQL),))


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of an epoch; CPU is that of Python and the JVM."""

    wall_s: float
    cpu_s: float
    epochs: int
    rows: int
    """Fewest input rows that an epoch's output stands for."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch whose output is on disk."""

    output: Callable[[], pa.Table]
    """Reads the output; called after all measurements."""
    fed_s: float = 0.0
    fed_cpu_s: float = 0.0
    """The benchmark's own time for writing the epoch's input; not counted."""


Epochs = Generator[Epoch, None, None]
"""Each step runs one epoch."""


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


def merge_task(session: SparkSession, directory: Path, rows: int) -> Epochs:
    """A merge task over channels of its site; the watermark of an epoch closes the window before its own."""
    engine = SparkEngine(session, scratch=directory / "scratch")
    with ThreadPoolExecutor(1) as slots, asyncio.Runner() as runner:
        site = Site(engine, directory, slots)
        channels = [site.make_channel(f"channel-{number}") for number in range(CHANNELS)]
        merge = site.make_merge("merge", MERGE_SQL, channels, WINDOW)

        async def step(epoch: int) -> Epoch:
            tables = deliveries(epoch, rows)
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            for channel, delivery in zip(channels, tables, strict=True):
                channel.publish(epoch, delivery, watermark_us=START_US + epoch * WINDOW_US + 1)
            fed = time.perf_counter() - began_s, time.process_time() - began_cpu_s
            output = merge.log.next_epoch
            # The first epoch closes nothing.
            if epoch:
                await merge.log.state.wait(output)
            return Epoch(partial(merge.log.epochs.read, output), *fed)

        work = runner.get_loop().create_task(merge.task.run())
        try:
            runner.run(step(0))
            for epoch in range(1, MAX_EPOCHS):
                yield runner.run(step(epoch))
        finally:
            work.cancel()
            runner.run(site.close())


def structured_streaming(session: SparkSession, directory: Path, rows: int) -> Epochs:
    """A stateful aggregate in append mode over file sources; a punctuation leg alone moves its watermark."""
    written: SimpleQueue[Path] = SimpleQueue()

    def take(batch: DataFrame, number: int) -> None:
        path = directory / "output" / f"{number:06d}"
        batch.coalesce(1).write.parquet(str(path))
        written.put(path)

    legs = [_leg(session, directory / "punctuation").withWatermark("window_start", "0 seconds")]
    legs += [_leg(session, directory / f"channel-{c}") for c in range(CHANNELS)]
    for epoch in range(MAX_EPOCHS):
        _deliver(directory, epoch, rows)
    merged = reduce(DataFrame.union, legs).groupBy("window_start", "k").agg(sf.sum("n").alias("n"), sf.sum("s"))
    writer = merged.writeStream.outputMode("append").foreachBatch(take)
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        while True:
            yield Epoch(partial(pq.read_table, written.get(timeout=LIMIT_S)))
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


STREAMING, MERGE = "Structured Streaming", "Selat's merge task"
WAYS: dict[str, Callable[[SparkSession, Path, int], Epochs]] = {STREAMING: structured_streaming, MERGE: merge_task}


def _counted(epoch: Epoch) -> int:
    return pc.sum(epoch.output().column("n")).as_py() or 0


def measure(way: str, arguments: argparse.Namespace) -> Cost:
    """Run one way in this process."""
    started_s = time.perf_counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        session = start_spark(slots=2, scratch=Path(directory) / "spark")
        warm_up(SparkEngine(session, scratch=Path(directory) / "scratch"))
        epochs = WAYS[way](session, Path(directory) / "data", arguments.rows)
        # The first epochs close nothing.
        first = next(epoch for epoch in epochs if _counted(epoch))
        for _ in range(WARM_UP_EPOCHS):
            next(epochs)
        measured: list[Epoch] = []
        walls_s: list[float] = []
        before_cpu_s = cpu_s()
        while len(measured) < arguments.epochs and (time.perf_counter() - started_s < LIMIT_S or not measured):
            epoch_s = time.perf_counter()
            measured.append(next(epochs))
            walls_s.append(time.perf_counter() - epoch_s - measured[-1].fed_s)
        used_s = cpu_s() - before_cpu_s - sum(epoch.fed_cpu_s for epoch in measured)
        rows = min(map(_counted, [first, *measured]))
        epochs.close()
        session.stop()
    return Cost(median(walls_s), used_s / len(measured), len(measured), rows)


def main() -> int:
    """Exit code: 1 when the two ways disagree."""
    parser = make_parser(__doc__)
    parser.add_argument("--epochs", type=int, default=30, help=f"epochs to measure, at most {MAX_EPOCHS // 2}")
    parser.add_argument("--rows", type=int, default=5000, help="input rows of an epoch, over all channels")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(asdict(measure(arguments.way, arguments))))
        return 0
    own = ["--epochs", str(arguments.epochs), "--rows", str(arguments.rows)]
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for number in range(arguments.rounds):
        for way, found in costs.items():
            found.append(Cost(**in_own_process("benchmarks.epoch_cost", ["--way", way, *own])))
            say(f"round {number + 1}, {way}: {found[-1].wall_s * 1e3:.0f} ms, {found[-1].cpu_s * 1e3:.0f} ms of CPU")
    agree = len({cost.rows for found in costs.values() for cost in found}) == 1
    publish("epoch_cost", "An epoch of a merge", _parts(costs, agree=agree), arguments.record)
    return 0 if agree else 1


def _parts(costs: dict[str, list[Cost]], *, agree: bool) -> list[str]:
    rows = [
        [
            way,
            spread([c.wall_s * 1000 for c in found], "{:.0f} ms"),
            spread([c.cpu_s * 1000 for c in found], "{:.0f} ms"),
            f"{min(c.epochs for c in found)}",
        ]
        for way, found in costs.items()
    ]
    head = ["", "wall per epoch, median", "CPU per epoch", "epochs"]
    base, mine = costs[STREAMING], costs[MERGE]
    counted = [cost.rows for cost in (*base, *mine)]
    same = f"Each epoch merged {counted[0]} rows." if agree else f"**They disagree**: {counted}."
    wall = ratio([c.wall_s for c in mine], [c.wall_s for c in base])
    used = ratio([c.cpu_s for c in mine], [c.cpu_s for c in base])
    return [
        f"Both read {CHANNELS} inputs from disk and leave output and progress on disk, in turn, each run in a process "
        f"of its own after the same warm-up; the first {WARM_UP_EPOCHS} epochs are not counted. Structured Streaming "
        "writes a Parquet file and its checkpoint with every batch, and does not wait until the disk has them; "
        "Selat publishes every epoch to a channel and waits for the disk (fsync), and saves its open windows as often "
        "as an agent does. Medians of the rounds, with the least and the most.",
        table(head, rows),
        f"Selat over Structured Streaming, round by round, median: {wall:.2f} of the time, {used:.2f} of the CPU. "
        f"{same}",
    ]


if __name__ == "__main__":
    sys.exit(main())
