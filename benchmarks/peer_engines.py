"""Selat, Structured Streaming and Flink behind one interface: a count and a mean by window and page, files to files.

Each keeps its progress on disk and writes each result exactly once, by its own file sink.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

import selat
from benchmarks.flink import MISSING, Flink, find_flink, running_flink
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.engine.jvm.session import start_spark

HEAP = "1g"
"""Of each JVM; the default of Selat's agents."""
WINDOW_S = 10
LIVE_DELAY = "500 milliseconds"
"""Of the watermark, where files come one by one."""
LAST_SPARK_ROW = "2100-01-01 00:00:00.000,last,0\n"

Stop = Callable[[], object]


class Peer(ABC):
    """A running engine."""

    form = "parquet"
    """Of the files that it writes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @abstractmethod
    def run(self, files: Path, output: Path) -> None:
        """Read all the files that are there; return when all results are written."""

    @abstractmethod
    def follow(self, files: Path, output: Path) -> Stop:
        """Read files as they come until the function that is returned is called."""

    def visible(self, output: Path) -> set[Path]:
        """The files of results that a reader may read."""
        return {path for path in output.rglob(f"*.{self.form}") if path.name[0] not in "._"}


class Selat(Peer):
    """A cluster of one site: a master, an agent with a source task and a merge task."""

    def __init__(self, root: Path, client: selat.Client) -> None:
        super().__init__(root)
        self._client = client
        self._runs = 0

    def run(self, files: Path, output: Path) -> None:
        self._submit(files, output, "1 hour", ", 'until' = 'end'").wait()

    def follow(self, files: Path, output: Path) -> Stop:
        return self._submit(files, output, LIVE_DELAY, "").cancel

    def _submit(self, files: Path, output: Path, delay: str, more: str) -> selat.Query:
        self._runs += 1
        run = self._runs
        self._client.sql(
            f"CREATE STREAM clicks{run} (ts TIMESTAMP, page STRING, ms INT, "
            f"WATERMARK FOR ts AS ts - INTERVAL '{delay}') "
            f"WITH ('connector' = 'files', 'format' = 'csv', 'path' = '{files}'{more}) AT here"
        )
        # Else results of a minute share a file, which may be read when it is whole.
        options = f"'connector' = 'parquet', 'path' = '{output}', 'roll_interval' = '200 ms'"
        self._client.sql(f"CREATE SINK counts{run} AT here WITH ({options})")
        query = self._client.sql(
            f"INSERT INTO counts{run} SELECT window.end AS e, page, count(*) AS n, avg(ms) AS m FROM clicks{run} "
            f"GROUP BY page, window(ts, '{WINDOW_S} seconds')"
        )
        assert isinstance(query, selat.Query)
        return query


class StructuredStreaming(Peer):
    """A query in append mode with the file sink, whose log names the files that count."""

    def __init__(self, root: Path, session: SparkSession) -> None:
        super().__init__(root)
        self._session = session

    def run(self, files: Path, output: Path) -> None:
        last = files / "last.csv"
        # It leaves windows open at the end of its input: a row behind them all closes them.
        last.write_text(LAST_SPARK_ROW)
        try:
            self._start(files, output, "1 hour", once=True).awaitTermination()
        finally:
            last.unlink()

    def follow(self, files: Path, output: Path) -> Stop:
        query = self._start(files, output, LIVE_DELAY, once=False)
        return lambda: query.stop()

    def visible(self, output: Path) -> set[Path]:
        found = set()
        for log in (output / "_spark_metadata").glob("[0-9]*"):
            entries = (json.loads(line) for line in log.read_text().splitlines()[1:])
            found |= {Path(urlsplit(entry["path"]).path) for entry in entries if entry["action"] == "add"}
        return found

    def _start(self, files: Path, output: Path, delay: str, *, once: bool) -> StreamingQuery:
        rows = self._session.readStream.schema("ts TIMESTAMP, page STRING, ms INT").csv(str(files))
        groups = rows.withWatermark("ts", delay).groupBy(sf.window("ts", f"{WINDOW_S} seconds"), "page")
        counts = groups.agg(sf.count("*").alias("n"), sf.avg("ms").alias("m")).select("window.end", "page", "n", "m")
        writer = counts.withColumnRenamed("end", "e").writeStream.format("parquet").outputMode("append")
        writer = writer.option("checkpointLocation", str(self.root / f"checkpoint-{output.name}"))
        return (writer.trigger(availableNow=True) if once else writer).start(str(output))


class FlinkSql(Peer):
    """A job in Flink's cluster within one JVM; it writes CSV, for Parquet would need Hadoop's libraries."""

    form = "csv"

    def __init__(self, root: Path, flink: Flink) -> None:
        super().__init__(root)
        self._flink = flink

    def run(self, files: Path, output: Path) -> None:
        self._flink.finish(self._insert(files, output, "1' HOUR", ""))

    def follow(self, files: Path, output: Path) -> Stop:
        # Files are few and small, and a reader without one would hold the watermark back: one reader is faster.
        self._flink.set("parallelism.default", "1")
        job = self._flink.do(self._insert(files, output, "0.5' SECOND", ", 'source.monitor-interval' = '200 ms'"))
        return lambda: job.getJobClient().get().cancel().get()

    def visible(self, output: Path) -> set[Path]:
        return {path for path in output.glob("part-*") if path.is_file()} if output.is_dir() else set()

    def _insert(self, files: Path, output: Path, delay: str, more: str) -> str:
        """Declare the tables. Returns the statement that fills the second one."""
        name = output.name
        self._flink.do(
            f"CREATE TABLE {name}_in (ts TIMESTAMP(3), page STRING, ms INT, "
            f"WATERMARK FOR ts AS ts - INTERVAL '{delay}) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = 'file://{files}'{more})"
        )
        self._flink.do(
            f"CREATE TABLE {name}_out (e TIMESTAMP(3), page STRING, n BIGINT, m DOUBLE) WITH ('connector' = "
            f"'filesystem', 'format' = 'csv', 'path' = 'file://{output}', "
            # Else a file grows for half an hour before it may be read.
            "'sink.rolling-policy.rollover-interval' = '200 ms', 'sink.rolling-policy.check-interval' = '200 ms')"
        )
        return (
            f"INSERT INTO {name}_out SELECT window_end, page, count(*), avg(CAST(ms AS DOUBLE)) FROM "
            f"TUMBLE(TABLE {name}_in, DESCRIPTOR(ts), INTERVAL '{WINDOW_S}' SECONDS) "
            "GROUP BY window_start, window_end, page"
        )


NAMES = {"selat": "Selat", "spark": "Structured Streaming", "flink": "Flink"}


def installed() -> dict[str, str]:
    """The engines by key: an empty text, or why one cannot run here."""
    return {key: MISSING if key == "flink" and find_flink() is None else "" for key in NAMES}


@contextmanager
def running_peer(key: str, root: Path, cores: int) -> Iterator[Peer]:
    """Start one of `NAMES`; it ends with the context. Its processes are this one's children."""
    root.mkdir(parents=True)
    with ExitStack() as stack:
        if key == "selat":
            (root / "topology.yaml").write_text(f"gateway: here\nsites: {{here: {{slots: {cores}}}}}\n")
            options = ClusterOptions(allow_paths=(root.parent,))
            cluster = stack.enter_context(DevCluster(root / "topology.yaml", root / "data", options))
            yield Selat(root, stack.enter_context(selat.connect(cluster.address)))
        elif key == "spark":
            session = start_spark(slots=cores, scratch=root / "spark")
            stack.callback(session.stop)
            session.conf.set("spark.sql.shuffle.partitions", str(cores))
            yield StructuredStreaming(root, session)
        else:
            jars = find_flink()
            assert jars is not None, MISSING
            settings = {
                "parallelism.default": str(cores),
                "execution.runtime-mode": "STREAMING",
                "execution.checkpointing.interval": "1 s",
                "execution.checkpointing.dir": f"file://{root / 'checkpoints'}",
                "table.local-time-zone": "UTC",
            }
            yield FlinkSql(root, stack.enter_context(running_flink(jars, root / "flink", HEAP, settings)))
