"""The centralised way: raw rows are shipped to one site, where plain Structured Streaming answers the query.

    python -m benchmarks.central DIRECTORY ...      prints a JSON line for each window (end, time, rows) until SIGTERM

One directory per region; each is a stream of its own with its own watermark, so that a slow link makes no row late.
`Shipper` sends each new file of a directory over TCP to a `Receiver`, in order, as it is.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up, warm_up_whole

WINDOW = "5 seconds"
_HEAD = struct.Struct("<QQ")
_POLL_S = 0.05


class Receiver:
    """Writes files that come over TCP into a directory, each complete when it has its name."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _run(self) -> None:
        with suppress(OSError):
            connection, _ = self._server.accept()
            with connection, connection.makefile("rb") as stream:
                while head := stream.read(_HEAD.size):
                    second, size_bytes = _HEAD.unpack(head)
                    temporary = self._directory / f"_{second}.parquet"
                    temporary.write_bytes(stream.read(size_bytes))
                    temporary.rename(self._directory / f"{second}.parquet")


class Shipper:
    """Sends each new file of a directory once, in order of the seconds they are named by."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._connection.close()
        self._thread.join()

    def _run(self) -> None:
        sent: set[Path] = set()
        with suppress(OSError):
            while not self._stop.wait(_POLL_S):
                for path in sorted(set(self._directory.glob("*.parquet")) - sent):
                    data = path.read_bytes()
                    self._connection.sendall(_HEAD.pack(int(path.stem), len(data)) + data)
                    sent.add(path)


def answer(session: SparkSession, directories: list[Path], checkpoint: Path, stop: threading.Event) -> None:
    """Count and mean by window and page, each window once the watermark has passed it; until told to stop."""

    def take(batch: DataFrame, _: int) -> None:
        table = batch.toArrow().combine_chunks()
        now_s = time.time()
        for window in table.group_by("e").aggregate([("n", "sum")]).to_pylist():
            print(json.dumps([window["e"].timestamp(), now_s, window["n_sum"]]), flush=True)

    streams = [
        session.readStream.schema("ts TIMESTAMP, page STRING, ms INT, trace STRING")
        .parquet(str(directory))
        .withWatermark("ts", "1 second")
        for directory in directories
    ]
    rows = reduce(DataFrame.union, streams)
    counted = rows.groupBy(sf.window("ts", WINDOW), "page").agg(sf.count("*").alias("n"), sf.avg("ms").alias("m"))
    output = counted.select(sf.col("window.end").alias("e"), "page", "n", "m")
    writer = output.writeStream.outputMode("append").foreachBatch(take).trigger(processingTime="1 second")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    print(json.dumps("ready"), flush=True)
    stop.wait()
    query.stop()


def main() -> int:
    directories = [Path(argument) for argument in sys.argv[1:]]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    with tempfile.TemporaryDirectory(prefix="selat-central-", ignore_cleanup_errors=True) as root:
        session = start_spark(slots=os.cpu_count() or 1, scratch=Path(root) / "spark")
        # The same warm-up as that of an agent.
        engine = SparkEngine(session, scratch=Path(root) / "engine")
        warm_up(engine)
        warm_up_whole(engine, stop)
        answer(session, directories, Path(root) / "checkpoint", stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
