"""What it costs an epoch that executors fetch its input from the agent instead of reading the agent's disk.

    python -m benchmarks.fetch_cost [--rounds 9]

One JVM with two slots; the same epoch alternates between files read by path (baseline) and files fetched from the
agent's WebHDFS endpoint over loopback. Prints medians in milliseconds and the ratio.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from site_agent.engine import ArrowScan, EpochRequest, Field, FilesScan, Scan
from site_agent.engine.cluster.file_server import FileServer
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine

ROWS = 200_000
SQL = "SELECT k, count(*) AS n, sum(v) AS s FROM input GROUP BY k"
COLUMNS = (Field("k", "BIGINT"), Field("v", "BIGINT"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="epochs per case (default %(default)s)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        session = start_spark(slots=2, scratch=directory / "spark")
        server = FileServer(bind="127.0.0.1", host="127.0.0.1")
        engines = {
            "by path": SparkEngine(session, scratch=directory / "local"),
            "fetched": SparkEngine(session, scratch=directory / "served", files=server),
        }
        print(f"{'input':10}{'by path':>10}{'fetched':>10}{'ratio':>8}")
        for kind, scan in _scans(directory).items():
            by_path, fetched = _medians_ms(engines, scan, rounds)
            print(f"{kind:10}{by_path:>10.0f}{fetched:>10.0f}{fetched / by_path:>8.2f}")
        server.close()
        session.stop()


def _scans(directory: Path) -> Mapping[str, Scan]:
    table = pa.table({"k": pa.array([i % 100 for i in range(ROWS)]), "v": pa.array(range(ROWS))})
    csv, parquet = directory / "rows.csv", directory / "rows.parquet"
    csv.write_text("".join(f"{i % 100},{i}\n" for i in range(ROWS)))
    pq.write_table(table, parquet)
    names = ("k", "v")
    return {
        "csv": FilesScan("csv", (str(csv),), COLUMNS, names),
        "parquet": FilesScan("parquet", (str(parquet),), COLUMNS, names),
        "arrow": ArrowScan(table),
    }


def _medians_ms(engines: Mapping[str, SparkEngine], scan: Scan, rounds: int) -> list[float]:
    """Of each engine, after two epochs that do not count; the engines take turns."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds + 2):
        for name, engine in engines.items():
            started = time.perf_counter()
            engine.run(EpochRequest("bench", SQL, scan, "us"))
            times[name].append((time.perf_counter() - started) * 1000)
    return [statistics.median(values[2:]) for values in times.values()]


if __name__ == "__main__":
    main()
