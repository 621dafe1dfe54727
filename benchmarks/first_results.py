"""A query's way from `client.sql` to its first result row, step by step, and the same query in Structured Streaming.

Steps are read from what is there anyway: the query's record at the master, the agents' logs and the files of tasks and
channels; nothing is asked while the query starts.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

import selat
from benchmarks.report import say
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.base.errors import CorruptEpochError
from site_agent.channels.epoch_file import read_header
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up, warm_up_whole

TOPOLOGY = """
gateway: us
sites: {us: {slots: 1}, eu: {slots: 1}, asia: {slots: 1}}
default_link: {bandwidth: 50Mbit/s, latency: 40ms}
"""
SITES = 3
ROWS = 5_000
ROWS_PER_S = 5_000
QUERIES = 6
LIMIT_S = 60.0
POLL_S = 0.005
_LINE = re.compile(r"^(\S+ [\d:]+),(\d+) INFO \S+ first input site=\S+ task=(\S+)", re.MULTILINE)
_START_US = 1_767_225_600_000_000

FILES, GENERATED = "windows over files", "rows being made"
KINDS = (FILES, GENERATED)
SQL = {
    FILES: "SELECT page, count(*) AS n, sum(v) AS s FROM visits GROUP BY window(ts, '10 seconds'), page",
    GENERATED: "SELECT page, v FROM clicks WHERE v > 10 AND site = 'eu'",
}

Steps = Mapping[str, float]
"""Seconds since the query was submitted, in the order of the steps; a step that leaves no trace is missing."""


def write_rows(directory: Path) -> None:
    """A Parquet file: 100 s of event time, 20 pages."""
    directory.mkdir()
    rng = np.random.default_rng(7)
    times = _START_US + np.sort(rng.integers(0, 100_000_000, ROWS))
    rows = {
        "page": pa.array([f"p{n}" for n in rng.integers(0, 20, ROWS)]),
        "v": pa.array(rng.integers(0, 100, ROWS)),
        "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
    }
    pq.write_table(pa.table(rows), directory / "rows.parquet")


@dataclass
class Traces:
    """When tasks and epochs with rows appeared on the disks of a cluster: looked for until closed."""

    root: Path
    seen_s: dict[Path, float] = field(default_factory=dict)
    without_rows: set[Path] = field(default_factory=set)

    def __enter__(self) -> Traces:
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def last_s(self, query: str, stage: str, pattern: str) -> float | None:
        """When the last site of a stage had its first; `pattern` is of `tasks` or of epochs of its own channel."""
        first_s: dict[str, float] = {}
        for path, at_s in self.seen_s.items():
            task = _task_of(path, query, stage) if path.match(pattern) else None
            if task is not None and (path.name == task or path.parents[2] / "tasks" / task in self.seen_s):
                first_s[task] = min(at_s, first_s.get(task, at_s))
        return max(first_s.values(), default=None)

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            for pattern in ("*/*/tasks/*", "*/*/channels/*/*.epoch"):
                # A directory may go while it is listed; the next look sees the rest.
                with suppress(FileNotFoundError):
                    for path in self.root.glob(pattern):
                        if path not in self.seen_s and path not in self.without_rows:
                            self._note(path)

    def _note(self, path: Path) -> None:
        # What was listed is gone when its reader has it all.
        with suppress(OSError, CorruptEpochError):
            at_s = path.stat().st_mtime
            if path.suffix == ".epoch" and not read_header(path).manifest.rows:
                self.without_rows.add(path)
            else:
                self.seen_s[path] = at_s


def _task_of(path: Path, query: str, stage: str) -> str | None:
    return next((part for part in path.parts if part.startswith(f"{query}.{stage}.")), None)


def selat_ways() -> dict[str, list[Steps]]:
    """Of each kind of query, one after the other in one cluster of three sites that has just started."""
    with tempfile.TemporaryDirectory(prefix="selat-first-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        write_rows(root / "rows")
        (root / "topology.yaml").write_text(TOPOLOGY)
        with DevCluster(root / "topology.yaml", root / "data", ClusterOptions(allow_paths=(root,))) as cluster:
            say("the cluster serves")
            with selat.connect(cluster.address) as client:
                list(client.script(_streams(root / "rows")))
                return {kind: [_way(client, cluster, kind) for _ in range(QUERIES)] for kind in KINDS}


def _streams(rows: Path) -> str:
    columns = "page STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second'"
    at = "AT us, AT eu, AT asia;"
    return f"""
    CREATE STREAM visits ({columns})
    WITH ('connector' = 'files', 'format' = 'parquet', 'path' = '{rows}', 'until' = 'end') {at}
    CREATE STREAM clicks ({columns})
    WITH ('connector' = 'generator', 'rows_per_second' = '{ROWS_PER_S}', 'startup' = 'latest',
          'column.page' = 'choice(home, cart)', 'column.v' = 'uniform(0, 99)') {at}
    """


def _way(client: selat.Client, cluster: DevCluster, kind: str) -> Steps:
    with Traces(cluster.data.root) as traces:
        started_s = time.time()
        query = client.sql(SQL[kind])
        assert isinstance(query, selat.Query)
        answered_s = time.time()
        with query.results() as results:
            next(iter(results))
            first_row_s = time.time()
        if kind == FILES:
            query.wait()
        else:
            query.cancel()
            query.wait()
    steps = {
        "planned": query.last.submitted_at.timestamp(),
        "stored, answered": answered_s,
        "sources deployed": traces.last_s(query.id, "s1", "tasks/*"),
        "first input": _first_input_s(cluster.data.root, query.id),
        "sources' first epochs": traces.last_s(query.id, "s1", "*.epoch"),
        "merge's first epoch": traces.last_s(query.id, "m1", "*.epoch"),
        "first row at the client": first_row_s,
    }
    since = {name: at_s - started_s for name, at_s in steps.items() if at_s is not None}
    say(f"{kind}: " + ", ".join(f"{name} {at_s * 1000:.0f}" for name, at_s in since.items()) + " ms")
    return since


def _first_input_s(root: Path, query: str) -> float | None:
    """When the last source task said so for the first time."""
    found: dict[str, float] = {}
    for path in root.glob("**/*.log"):
        for stamp, millis, task in _LINE.findall(path.read_text(errors="replace")):
            if task.startswith(f"{query}.s1."):
                found.setdefault(task, _seconds(stamp) + int(millis) / 1000)
    return max(found.values(), default=None)


def _seconds(stamp: str) -> float:
    """Logs are in local time."""
    return time.mktime(time.strptime(stamp, "%Y-%m-%d %H:%M:%S"))


def streaming_ways() -> dict[str, list[float]]:
    """Seconds from `start()` until the first batch that has rows is done, in one Spark that has just started.

    It is warmed up like an agent's, whose first query does not pay for the JVM's first job either.
    """
    with tempfile.TemporaryDirectory(prefix="selat-first-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        write_rows(root / "rows")
        session = start_spark(slots=SITES, scratch=root / "spark")
        engine = SparkEngine(session, scratch=root / "engine")
        warm_up(engine)
        warm_up_whole(engine, Event())
        # As the agents' own: one partition is best for so few rows.
        session.conf.set("spark.sql.shuffle.partitions", "1")
        try:
            numbers = iter(range(QUERIES * len(KINDS)))
            return {kind: [_stream(session, root, kind, next(numbers)) for _ in range(QUERIES)] for kind in KINDS}
        finally:
            session.stop()


def _stream(session: SparkSession, root: Path, kind: str, number: int) -> float:
    done, ended_s = Event(), []

    def take(batch: DataFrame, _: int) -> None:
        if batch.toArrow().num_rows and not done.is_set():
            ended_s.append(time.perf_counter())
            done.set()

    writer = _frame(session, root, kind).writeStream.outputMode("update" if kind == FILES else "append")
    started_s = time.perf_counter()
    query = writer.foreachBatch(take).option("checkpointLocation", str(root / f"checkpoint-{number}")).start()
    try:
        while not done.wait(1.0):
            _check_running(query, time.perf_counter() - started_s)
    finally:
        query.stop()
    say(f"Structured Streaming, {kind}: {(ended_s[0] - started_s) * 1000:.0f} ms")
    return ended_s[0] - started_s


def _check_running(query: StreamingQuery, for_s: float) -> None:
    """Raises what ended the query, or TimeoutError."""
    failure = query.exception()
    if failure is not None:
        raise failure
    if not query.isActive or for_s > LIMIT_S:
        raise TimeoutError(f"no batch with rows after {for_s:.0f} s")


def _frame(session: SparkSession, root: Path, kind: str) -> DataFrame:
    """All sites' rows in one place."""
    if kind == GENERATED:
        # The source `rate` has no rows in the first second; this one has some at once.
        rates = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
        made = rates.selectExpr(
            "element_at(array('home', 'cart'), CAST(rand() * 2 AS INT) + 1) AS page", "value % 100 AS v"
        )
        return made.where("v > 10")
    sites = [
        session.readStream.schema("page STRING, v BIGINT, ts TIMESTAMP").parquet(str(root / "rows"))
        for _ in range(SITES)
    ]
    rows = sites[0]
    for other in sites[1:]:
        rows = rows.unionAll(other)
    windows = sf.window("ts", "10 seconds")
    return rows.withWatermark("ts", "1 second").groupBy(windows, "page").agg(sf.count("*"), sf.sum("v"))
