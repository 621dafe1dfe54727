"""A large result of a query over a table: to a client and into a Parquet sink, beside plain Spark that writes it.

    python -m benchmarks.large_results [--rows 20000000] [--record FILE]

A table of Parquet files is read whole: a number, a text of some 90 characters and a DOUBLE a row, over 2 GiB in memory
at 20 million rows. Plain Spark writes it to Parquet, in a process of its own; Selat's cluster of one site with as many
slots gives it to a client, which counts, sums and hashes it batch by batch, and writes it into a sink of the same
format. Before that, each reads a fiftieth of the rows in the same way, which is not counted. Memory is the growth of
each process's resident set (RSS) since the query began, sampled ten times a second. Ends within ten minutes.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa

import selat
from benchmarks.processes import in_own_process
from benchmarks.report import make_parser, publish, say, table
from selat.dev.cluster import ClusterOptions, DevCluster
from site_agent.engine.session import start_spark

ROWS = 20_000_000
FILE_ROWS = 500_000
SLOTS = 2
SAMPLE_S = 0.1
MODULE = "benchmarks.large_results"
TOPOLOGY = f"""
gateway: us
sites: {{us: {{slots: {SLOTS}}}}}
default_link: {{bandwidth: 1Gbit/s, latency: 1ms}}
"""
ROW = (
    "i AS id, concat('https://shop-', i % 1000, '.example.com/items/', md5(i::VARCHAR), "
    "'?from=', md5((i % 977)::VARCHAR)) AS address, (i * 7919 % 1000003) / 7 AS price"
)
CHECK = "SELECT count(*), coalesce(sum(id), 0), coalesce(sum(hash(id, address, price)), 0) FROM "
ROLES = {
    "/java ": "agent's JVM",
    "-m pyspark.daemon": "a Python worker of Spark",
    "-m site_agent": "agent",
    "-m master": "master",
}
"""Roles of processes by a part of their command line; the first match counts."""

Sums = tuple[int, int, int]
"""The number of rows, the sum of their ids, and the sum of their hashes; their order does not matter."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measurement of one way that the rows take."""

    way: str
    seconds: float
    sums: Sums
    growth_bytes: dict[str, int] = field(default_factory=dict)
    """The largest growth of a process, by role."""


class Memory:
    """Growth of this process and its descendants, by role, while the context lasts."""

    def __enter__(self) -> Memory:
        self._began = _resident()
        self._peak = dict(self._began)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth_bytes(self) -> dict[str, int]:
        """The largest growth by role; a process that began meanwhile grew from 0."""
        found: dict[str, int] = {}
        for (pid, role), peak in self._peak.items():
            found[role] = max(found.get(role, 0), peak - self._began.get((pid, role), 0))
        return found

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            for key, size_bytes in _resident().items():
                self._peak[key] = max(self._peak.get(key, 0), size_bytes)


def _resident() -> dict[tuple[int, str], int]:
    this = psutil.Process()
    found = {(this.pid, "client"): this.memory_info().rss}
    for process in this.children(recursive=True):
        try:
            words = " ".join(process.cmdline())
            role = next((role for word, role in ROLES.items() if word in words), "")
            if role:
                found[process.pid, role] = process.memory_info().rss
        except psutil.Error:
            continue
    return found


def write_table(directory: Path, rows: int) -> None:
    """Write the table in files that are one split each."""
    directory.mkdir()
    with duckdb.connect() as session:
        for number, first in enumerate(range(0, rows, FILE_ROWS)):
            last = min(rows, first + FILE_ROWS)
            query = f"SELECT {ROW} FROM range({first}, {last}) AS numbers(i)"
            session.execute(
                f"COPY ({query}) TO '{directory}/{number:04d}.parquet' (FORMAT parquet, COMPRESSION snappy)"
            )


def sums_of_files(directory: Path) -> Sums:
    with duckdb.connect() as session:
        return _sums(session, f"read_parquet('{directory}/*.parquet')")


def _sums(session: duckdb.DuckDBPyConnection, rows: str) -> Sums:
    (row,) = session.execute(f"{CHECK} {rows}").fetchall()
    return (int(row[0]), int(row[1]), int(row[2]))


def plain(root: Path) -> float:
    """The seconds that Spark alone takes to read the table and write it as Parquet with its own defaults."""
    session = start_spark(slots=SLOTS, scratch=root / "plain")
    try:
        for name in ("small", "large"):
            started_s = time.perf_counter()
            rows = session.read.parquet(str(root / name)).select("id", "address", "price")
            rows.write.parquet(str(root / f"plain-{name}"))
            taken_s = time.perf_counter() - started_s
        return taken_s
    finally:
        session.stop()


@contextmanager
def cluster(root: Path) -> Iterator[selat.Client]:
    """A cluster of one site, with both tables and a sink for each."""
    (root / "topology.yaml").write_text(TOPOLOGY)
    with (
        DevCluster(root / "topology.yaml", root / "data", ClusterOptions(allow_paths=(root,))) as running,
        selat.connect(running.address) as client,
    ):
        for name in ("small", "large"):
            list(
                client.script(f"""
                CREATE TABLE {name} (id BIGINT, address STRING, price DOUBLE)
                WITH ('connector' = 'files', 'format' = 'parquet', 'path' = '{root / name}') AT us;
                CREATE SINK {name}_copy WITH ('connector' = 'parquet', 'path' = '{root / f"sink-{name}"}',
                  'compression' = 'snappy') AT us;
                """)
            )
        yield client


def to_client(client: selat.Client, name: str) -> Outcome:
    with Memory() as memory:
        started_s = time.perf_counter()
        query = _submitted(client, f"SELECT id, address, price FROM {name}")
        with duckdb.connect() as session, query.results() as results:
            sums = (0, 0, 0)
            for batch in results:
                sums = _added(sums, session, batch.batch)
        taken_s = time.perf_counter() - started_s
    return Outcome("Selat to a client", taken_s, sums, memory.growth_bytes)


def to_sink(client: selat.Client, root: Path, name: str) -> Outcome:
    with Memory() as memory:
        started_s = time.perf_counter()
        _submitted(client, f"INSERT INTO {name}_copy SELECT id, address, price FROM {name}").wait()
        taken_s = time.perf_counter() - started_s
    return Outcome("Selat to a Parquet sink", taken_s, sums_of_files(root / f"sink-{name}"), memory.growth_bytes)


def _submitted(client: selat.Client, text: str) -> selat.Query:
    query = client.sql(text)
    assert isinstance(query, selat.Query)
    return query


def _added(sums: Sums, session: duckdb.DuckDBPyConnection, batch: pa.RecordBatch) -> Sums:
    session.register("batch", pa.Table.from_batches([batch]))
    rows, ids, hashes = _sums(session, "batch")
    return (sums[0] + rows, sums[1] + ids, sums[2] + hashes)


def measure(rows: int) -> tuple[list[Outcome], Sums]:
    """The outcomes of all ways, one after the other, and the sums of the table itself."""
    with tempfile.TemporaryDirectory(prefix="selat-large-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        write_table(root / "small", max(1, rows // 50))
        write_table(root / "large", rows)
        wanted = sums_of_files(root / "large")
        say(f"a table of {rows:,} rows is written")
        plain_s = float(in_own_process(MODULE, ["--plain", str(root)]))
        outcomes = [Outcome("plain Spark to Parquet", plain_s, sums_of_files(root / "plain-large"))]
        say(f"plain Spark: {plain_s:.1f} s")
        with cluster(root) as client:
            to_client(client, "small")
            to_sink(client, root, "small")
            for outcome in (to_client(client, "large"), to_sink(client, root, "large")):
                say(f"{outcome.way}: {outcome.seconds:.1f} s")
                outcomes.append(outcome)
        return outcomes, wanted


def sections(outcomes: list[Outcome], wanted: Sums, size_bytes: int) -> list[str]:
    base = outcomes[0].seconds
    lines = [
        [o.way, f"{o.seconds:.1f}", f"{o.sums[0] / o.seconds:,.0f}", f"{base / o.seconds:.2f}", _right(o, wanted)]
        for o in outcomes
    ]
    roles = sorted({role for o in outcomes for role in o.growth_bytes})
    grown = [[role, *(f"{o.growth_bytes.get(role, 0) / 2**20:,.0f}" for o in outcomes[1:])] for role in roles]
    return [
        f"{wanted[0]:,} rows of three columns, {size_bytes / 2**30:.2f} GiB in memory (Arrow).",
        table(["way", "seconds", "rows/s", "over plain Spark", "count, sum and hash are the table's"], lines),
        table(["most growth of a process, MiB", "to a client", "to a sink"], grown),
    ]


def findings(outcomes: Sequence[Outcome], wanted: Sums) -> dict[str, float]:
    """The figures of the criteria, by the last part of their keys; plain Spark's outcome comes first."""
    plain, client, sink = outcomes
    return {
        "right": float(sum(outcome.sums == wanted for outcome in (client, sink))),
        "client": plain.seconds / client.seconds,
        "sink": plain.seconds / sink.seconds,
        "memory": max(size for o in (client, sink) for size in o.growth_bytes.values()) / 2**20,
    }


def _right(outcome: Outcome, wanted: Sums) -> str:
    return "yes" if outcome.sums == wanted else "**no**"


def arrow_bytes(rows: int) -> int:
    """The size of the table in Arrow, estimated from the first file's rows."""
    with duckdb.connect() as session:
        sample: pa.Table = session.sql(
            f"SELECT {ROW} FROM range({min(rows, FILE_ROWS)}) AS numbers(i)"
        ).to_arrow_table()
    return int(sample.nbytes * rows // max(1, sample.num_rows))


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="default: %(default)s")
    parser.add_argument("--plain", type=Path, metavar="DIR", help="only plain Spark, over the tables there")
    arguments = parser.parse_args()
    if arguments.plain:
        print(plain(arguments.plain))
        return 0
    outcomes, wanted = measure(arguments.rows)
    parts = sections(outcomes, wanted, arrow_bytes(arguments.rows))
    found = findings(outcomes, wanted) if arguments.rows == ROWS else {}
    publish("large_results", "A large result of a query over a table", parts, arguments.record, found)
    return 0 if all(outcome.sums == wanted for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
