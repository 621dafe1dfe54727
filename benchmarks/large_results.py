"""A large result of a query over a table: to a client and into a Parquet sink, beside plain Spark that writes it.

    python -m benchmarks.large_results [--rows 20000000] [--record FILE]

A table of Parquet files is read whole: a number, a text of some 90 characters and a DOUBLE a row, over 2 GiB in memory
at 20 million rows. One query picks the three columns as they are, which agents read without Spark; the other computes
all three. Plain Spark writes the query's rows to Parquet, in a process of its own; Selat's cluster of one site with as
many slots gives them to a client, which counts, sums and hashes them batch by batch, and writes them into a sink of the
same format. Before that, each answers the queries over a fiftieth of the rows, which is not counted. Memory is the
growth of each process's resident set (RSS) since the query began, sampled ten times a second. Ends within a quarter of
an hour.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa

import selat
from benchmarks.processes import in_own_process
from benchmarks.report import make_parser, publish, say, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.engine.jvm.session import start_spark

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

QUERIES = {
    "picked": ("id", "address", "price"),
    "computed": ("id + 1 AS id", "lower(address) AS address", "price * 2 AS price"),
}
"""The columns of each query, which mean the same to Selat, Spark and DuckDB."""

Sums = tuple[int, int, int]
"""The number of rows, the sum of their ids, and the sum of their hashes; their order does not matter."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measurement of one query's rows on one way."""

    query: str
    """One of `QUERIES`."""
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


def sums_of_files(directory: Path, columns: Sequence[str] = ("*",)) -> Sums:
    """The sums of what a query selects from the files."""
    with duckdb.connect() as session:
        return _sums(session, f"(SELECT {', '.join(columns)} FROM read_parquet('{directory}/*.parquet'))")


def _sums(session: duckdb.DuckDBPyConnection, rows: str) -> Sums:
    (row,) = session.execute(f"{CHECK} {rows}").fetchall()
    return (int(row[0]), int(row[1]), int(row[2]))


def plain(root: Path) -> dict[str, float]:
    """The seconds that Spark alone takes to write each query's rows as Parquet with its own defaults."""
    session = start_spark(slots=SLOTS, scratch=root / "plain")
    taken_s = {}
    try:
        for name in ("small", "large"):
            for query, columns in QUERIES.items():
                started_s = time.perf_counter()
                rows = session.read.parquet(str(root / name)).selectExpr(*columns)
                rows.write.parquet(str(root / f"plain-{name}-{query}"))
                taken_s[query] = time.perf_counter() - started_s
        return taken_s
    finally:
        session.stop()


@contextmanager
def cluster(root: Path) -> Iterator[selat.Client]:
    """A cluster of one site, with both tables, and for each a sink for each query."""
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
                """)
            )
            for query in QUERIES:
                client.sql(
                    f"CREATE SINK {name}_{query} WITH ('connector' = 'parquet', "
                    f"'path' = '{root / f'sink-{name}-{query}'}', 'compression' = 'snappy') AT us"
                )
        yield client


def to_client(client: selat.Client, query: str, name: str) -> Outcome:
    with Memory() as memory:
        started_s = time.perf_counter()
        submitted = _submitted(client, f"SELECT {', '.join(QUERIES[query])} FROM {name}")
        with duckdb.connect() as session, submitted.results() as results:
            sums = (0, 0, 0)
            for batch in results:
                sums = _added(sums, session, batch.batch)
        taken_s = time.perf_counter() - started_s
    return Outcome(query, "Selat to a client", taken_s, sums, memory.growth_bytes)


def to_sink(client: selat.Client, root: Path, query: str, name: str) -> Outcome:
    with Memory() as memory:
        started_s = time.perf_counter()
        _submitted(client, f"INSERT INTO {name}_{query} SELECT {', '.join(QUERIES[query])} FROM {name}").wait()
        taken_s = time.perf_counter() - started_s
    sums = sums_of_files(root / f"sink-{name}-{query}")
    return Outcome(query, "Selat to a Parquet sink", taken_s, sums, memory.growth_bytes)


def _submitted(client: selat.Client, text: str) -> selat.Query:
    query = client.sql(text)
    assert isinstance(query, selat.Query)
    return query


def _added(sums: Sums, session: duckdb.DuckDBPyConnection, batch: pa.RecordBatch) -> Sums:
    session.register("batch", pa.Table.from_batches([batch]))
    rows, ids, hashes = _sums(session, "batch")
    return (sums[0] + rows, sums[1] + ids, sums[2] + hashes)


def measure(rows: int) -> tuple[list[Outcome], dict[str, Sums]]:
    """The outcomes, one measurement after the other, and the sums that each query's rows should have."""
    with tempfile.TemporaryDirectory(prefix="selat-large-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        write_table(root / "small", max(1, rows // 50))
        write_table(root / "large", rows)
        wanted = {query: sums_of_files(root / "large", columns) for query, columns in QUERIES.items()}
        say(f"a table of {rows:,} rows is written")
        plain_s: dict[str, float] = in_own_process(MODULE, ["--plain", str(root)])
        outcomes = []
        with cluster(root) as client:
            for query in QUERIES:
                to_client(client, query, "small")
                to_sink(client, root, query, "small")
            for query, alone_s in plain_s.items():
                sums = sums_of_files(root / f"plain-large-{query}")
                outcomes.append(Outcome(query, "plain Spark to Parquet", alone_s, sums))
                outcomes.append(to_client(client, query, "large"))
                outcomes.append(to_sink(client, root, query, "large"))
                say(", ".join(f"{outcome.way}: {outcome.seconds:.1f} s" for outcome in outcomes[-3:]))
        return outcomes, wanted


def sections(outcomes: Sequence[Outcome], wanted: Mapping[str, Sums], size_bytes: int) -> list[str]:
    lines = [
        [o.query, o.way, f"{o.seconds:.1f}", f"{o.sums[0] / o.seconds:,.0f}", f"{_speed(o, outcomes):.2f}", right]
        for o in outcomes
        for right in ("yes" if o.sums == wanted[o.query] else "**no**",)
    ]
    ours = [outcome for outcome in outcomes if outcome.growth_bytes]
    roles = sorted({role for o in ours for role in o.growth_bytes})
    grown = [[role, *(f"{o.growth_bytes.get(role, 0) / 2**20:,.0f}" for o in ours)] for role in roles]
    return [
        f"{max(sums[0] for sums in wanted.values()):,} rows of three columns, {size_bytes / 2**30:.2f} GiB in memory "
        f"(Arrow). The columns of the queries: " + "; ".join(f"{q}: `{', '.join(c)}`" for q, c in QUERIES.items()),
        table(["query", "way", "seconds", "rows/s", "over plain Spark", "count, sum and hash as DuckDB's"], lines),
        table(["most growth of a process, MiB", *(f"{o.query}, {o.way.removeprefix('Selat ')}" for o in ours)], grown),
    ]


def findings(outcomes: Sequence[Outcome], wanted: Mapping[str, Sums]) -> dict[str, float]:
    """The figures of the criteria, by the last part of their keys."""
    ours = [outcome for outcome in outcomes if outcome.growth_bytes]
    speeds = {f"{o.query}_{o.way.rpartition(' ')[2]}".lower(): _speed(o, outcomes) for o in ours}
    return speeds | {
        "right": float(sum(outcome.sums == wanted[outcome.query] for outcome in ours)),
        "memory": max(size for outcome in ours for size in outcome.growth_bytes.values()) / 2**20,
    }


def _speed(outcome: Outcome, outcomes: Iterable[Outcome]) -> float:
    """Over plain Spark, whose outcome is its query's first."""
    return next(o for o in outcomes if o.query == outcome.query).seconds / outcome.seconds


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
        print(json.dumps(plain(arguments.plain)))
        return 0
    outcomes, wanted = measure(arguments.rows)
    parts = sections(outcomes, wanted, arrow_bytes(arguments.rows))
    found = findings(outcomes, wanted) if arguments.rows == ROWS else {}
    publish("large_results", "A large result of a query over a table", parts, arguments.record, found)
    return 0 if all(outcome.sums == wanted[outcome.query] for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
