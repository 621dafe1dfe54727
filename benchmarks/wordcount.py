"""WordCount as batch queries at four sites, lease-aware beside first come first served, while streaming queries run.

    python -m benchmarks.wordcount [--small] [--mbit 2] [--record FILE]

Made-up text (`benchmarks.words`) lies in shards, unevenly: most of a table at its home, the rest at two other sites.
Jobs come two at a time, each counts the words of one table. The real cluster runs them: four sites of three slots,
links of 2 Mbit/s and 20 ms to which the sites' routers keep, a JVM that all sites share. Streaming queries hold some of
the slots all the time. Two jobs have more tasks than there are slots near their table; others are free elsewhere. The
same jobs, at the same moments, under either scheduler of the master, after one that warms up and is not counted. Every
result is compared with DuckDB's over the same text. Ends within eight minutes on two cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import duckdb

import selat
from benchmarks.report import make_parser, median, publish, say, table
from benchmarks.words import write_shard
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

SITES = ("virginia", "oregon", "ireland", "tokyo")
TOPOLOGY = """
gateway: tokyo
sites: {%s}
default_link: {bandwidth: %gMbit/s, latency: 20ms}
"""
TOPOLOGY_NAME = "topology.yaml"
SCHEDULERS = ("lease-aware", "first-come")
SLOTS = 3
"""Of each site; streaming queries hold up to two of them."""
SEED = 2013
READ_STAGE = "read"
"""Of tasks that read a split for a task at another site."""
JOB_LIMIT = timedelta(minutes=3)
STREAMS = """
CREATE STREAM clicks (ts TIMESTAMP, page STRING, ms INT, WATERMARK FOR ts AS ts - INTERVAL '1 second')
WITH ('connector' = 'generator', 'rows_per_second' = '200', 'column.page' = 'zipf(100, 1.1)', 'startup' = 'latest')
AT oregon, AT tokyo;
CREATE STREAM visits (ts TIMESTAMP, page STRING, WATERMARK FOR ts AS ts - INTERVAL '1 second')
WITH ('connector' = 'generator', 'rows_per_second' = '200', 'column.page' = 'zipf(100, 1.1)', 'startup' = 'latest')
AT ireland;
"""
STREAMING = (
    "SELECT window(ts, '2 seconds') AS w, page, count(*) AS n, avg(ms) AS m FROM clicks "
    "GROUP BY window(ts, '2 seconds'), page",
    "SELECT ts, page FROM visits WHERE page = 'page-1'",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to do."""

    tables: int
    shards: int
    """Of each table; a part of them lies away from its home."""
    shard_bytes: int
    jobs: tuple[int, ...]
    """Number of the table that each job counts, in the order in which they come."""
    pause_s: float
    """The time between the starts of two groups of jobs that come together."""
    together: int = 2

    @property
    def text_bytes(self) -> int:
        return self.tables * self.shards * self.shard_bytes


FULL = Size(tables=4, shards=8, shard_bytes=6_500_000, jobs=(0, 0, 1, 1, 2, 2, 3, 3), pause_s=30.0)
EARLIER = replace(FULL, jobs=(0, 1, 0, 2, 0, 3, 1, 0), pause_s=6.0, together=1)
SMALL = Size(tables=2, shards=4, shard_bytes=400_000, jobs=(0, 1), pause_s=1.0)


@dataclass(frozen=True, slots=True)
class Job:
    """One WordCount that ended."""

    table: int
    turnaround_s: float
    local_tasks: int
    remote_tasks: int
    wan_bytes: int
    right: bool
    """Its result is DuckDB's."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All jobs under one scheduler."""

    scheduler: str
    jobs: tuple[Job, ...]
    streamed_rows: tuple[int, ...]
    """Result rows that each streaming query delivered while the jobs ran."""

    @property
    def local_share(self) -> float:
        tasks = sum(job.local_tasks + job.remote_tasks for job in self.jobs)
        return sum(job.local_tasks for job in self.jobs) / max(1, tasks)

    @property
    def mean_s(self) -> float:
        """The mean turnaround."""
        return sum(job.turnaround_s for job in self.jobs) / len(self.jobs)

    @property
    def right(self) -> bool:
        return all(job.right for job in self.jobs) and all(rows > 0 for rows in self.streamed_rows)


Counts = Mapping[str, int]


def shard_sites(number: int, shards: int) -> tuple[str, ...]:
    """The site of each shard of a table: of eight, five at its home, two at the next site, one at the one after."""
    home = [SITES[(number + step) % len(SITES)] for step in (0, 0, 0, 0, 0, 1, 1, 2)]
    return tuple(home[shard * len(home) // shards] for shard in range(shards))


def write_text(root: Path, size: Size) -> None:
    for number in range(size.tables):
        for shard, site in enumerate(shard_sites(number, size.shards)):
            directory = root / site / f"text{number}"
            directory.mkdir(parents=True, exist_ok=True)
            write_shard(
                directory / f"{shard:04d}.txt",
                seed=SEED,
                shard=number * size.shards + shard,
                size_bytes=size.shard_bytes,
            )


def declarations(root: Path, size: Size) -> str:
    """The tables; a line of text is a CSV row of one column."""
    statements = []
    for number in range(size.tables):
        sites = sorted(set(shard_sites(number, size.shards)))
        bindings = ", ".join(f"AT {site} WITH ('path' = '{root / site / f'text{number}'}')" for site in sites)
        statements.append(
            f"CREATE TABLE text{number} (line STRING) "
            f"WITH ('connector' = 'files', 'format' = 'csv', 'sep' = '|') {bindings};"
        )
    return "\n".join(statements)


def word_count(number: int) -> str:
    return (
        f"SELECT word, count(*) AS n FROM text{number} LATERAL VIEW explode(split(line, ' ')) w AS word GROUP BY word"
    )


def expected(root: Path, number: int) -> Counts:
    """DuckDB's answer over all shards of a table."""
    files = str(root / "*" / f"text{number}" / "*.txt")
    found = duckdb.connect().execute(
        "SELECT word, count(*) FROM (SELECT unnest(string_split(line, ' ')) AS word FROM read_csv(?, "
        "columns = {'line': 'VARCHAR'}, header = false, delim = '|', quote = '', escape = '')) GROUP BY word",
        [files],
    )
    return dict(found.fetchall())


class Streaming:
    """The streaming queries, and what they deliver meanwhile."""

    def __init__(self, client: selat.Client) -> None:
        list(client.script(STREAMS))
        self._queries = [_submitted(client, sql) for sql in STREAMING]
        self._results = [query.results() for query in self._queries]
        self._rows = [0] * len(self._queries)
        self._threads = [
            threading.Thread(target=self._count, args=(number,), daemon=True) for number in range(len(self._queries))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(self._rows)

    def until_running(self) -> None:
        """Until each has delivered something."""
        deadline_s = time.monotonic() + JOB_LIMIT.total_seconds()
        while not all(self._rows) and time.monotonic() < deadline_s:
            time.sleep(0.2)

    def close(self) -> None:
        for results in self._results:
            results.close()
        for query in self._queries:
            query.cancel()
        for query in self._queries:
            query.wait(JOB_LIMIT)

    def _count(self, number: int) -> None:
        for batch in self._results[number]:
            self._rows[number] += batch.batch.num_rows


@contextmanager
def streaming(client: selat.Client) -> Iterator[Streaming]:
    made = Streaming(client)
    try:
        yield made
    finally:
        made.close()


def _submitted(client: selat.Client, sql: str) -> selat.Query:
    query = client.sql(sql)
    assert isinstance(query, selat.Query)
    return query


def run(root: Path, scheduler: str, size: Size, answers: Sequence[Counts]) -> Outcome:
    """All jobs, in a cluster of their own."""
    topology = root / TOPOLOGY_NAME
    arguments = ("--batch-scheduler", scheduler, "--split-size", f"{size.shard_bytes / 1e6:g}")
    options = ClusterOptions(emulate_links=True, master_arguments=arguments, allow_paths=(root,))
    with DevCluster(topology, root / scheduler, options) as cluster, selat.connect(cluster.address) as client:
        list(client.script(declarations(root / "text", size)))
        with streaming(client) as streams:
            streams.until_running()
            say(f"{scheduler}: the cluster serves, streaming queries deliver")
            _ended(_submitted(client, word_count(0)), 0, answers[0])
            before = streams.rows
            queries = _submit_all(client, size)
            jobs = tuple(
                _ended(query, number, answers[number]) for query, number in zip(queries, size.jobs, strict=True)
            )
            rows = tuple(now - then for now, then in zip(streams.rows, before, strict=True))
    return Outcome(scheduler, jobs, rows)


def _submit_all(client: selat.Client, size: Size) -> list[selat.Query]:
    began_s = time.monotonic()
    queries = []
    for place, number in enumerate(size.jobs):
        time.sleep(max(0.0, began_s + place // size.together * size.pause_s - time.monotonic()))
        queries.append(_submitted(client, word_count(number)))
    return queries


def _ended(query: selat.Query, number: int, answer: Counts) -> Job:
    info = query.wait(JOB_LIMIT)
    counts = {row["word"]: row["n"] for row in query.results().rows()}
    assert info.ended_at is not None
    remote = sum(task.stage_id == READ_STAGE for task in info.tasks)
    maps = sum(".map." in task.task_id for task in info.tasks)
    job = Job(
        number,
        (info.ended_at - info.submitted_at).total_seconds(),
        maps - remote,
        remote,
        info.link_bytes,
        counts == answer,
    )
    say(_told(job))
    return job


def _told(job: Job) -> str:
    tasks = f"{job.local_tasks} of {job.local_tasks + job.remote_tasks} tasks local"
    result = "as DuckDB" if job.right else "WRONG"
    return f"text{job.table}: {job.turnaround_s:.1f} s, {tasks}, {job.wan_bytes / 1e6:.1f} MB over links, {result}"


def measure(size: Size, mbit_per_s: float) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="selat-wordcount-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        slots = ", ".join(f"{site}: {{slots: {SLOTS}}}" for site in SITES)
        (root / TOPOLOGY_NAME).write_text(TOPOLOGY % (slots, mbit_per_s))
        write_text(root / "text", size)
        answers = [expected(root / "text", number) for number in range(size.tables)]
        say(f"{size.text_bytes / 1e6:.0f} MB of text, {sum(map(sum, map(Counts.values, answers))):,} words")
        return [run(root, scheduler, size, answers) for scheduler in SCHEDULERS]


def _parts(size: Size, outcomes: Sequence[Outcome], mbit_per_s: float) -> list[str]:
    head = ["", "local tasks", "turnaround, mean", "median", "longest", "MB over links", "as DuckDB", "streamed rows"]
    rows = []
    for outcome in outcomes:
        times = [job.turnaround_s for job in outcome.jobs]
        rows.append(
            [
                outcome.scheduler,
                f"{outcome.local_share:.1%}",
                f"{outcome.mean_s:.1f} s",
                f"{median(times):.1f} s",
                f"{max(times):.1f} s",
                f"{sum(job.wan_bytes for job in outcome.jobs) / 1e6:.1f}",
                f"{sum(job.right for job in outcome.jobs)} of {len(outcome.jobs)}",
                " and ".join(f"{count:,}" for count in outcome.streamed_rows),
            ]
        )
    each = [
        [f"{place + 1}, text{number}", *(_cell(outcome.jobs[place]) for outcome in outcomes)]
        for place, number in enumerate(size.jobs)
    ]
    return [
        f"{len(size.jobs)} WordCounts, {size.together} every {size.pause_s:g} s, over {size.tables} tables of "
        f"{size.shards * size.shard_bytes / 1e6:.0f} MB ({size.text_bytes / 1e6:.0f} MB of text) in shards of "
        f"{size.shard_bytes / 1e6:g} MB; of a table, most lie at its home. Four sites of three slots on "
        f"this machine's cores, in one JVM; links of {mbit_per_s:g} Mbit/s and 20 ms, kept to by the routers. Two "
        "streaming queries hold slots and deliver all the time. A task is local when it runs where its split lies. "
        "Turnaround: from submission to the end of the query. Bytes over links are those of the jobs, compressed. "
        "Either scheduler has a cluster of its own, after one job that warms up; one run each, in this order. At "
        "first, one job came every 6 s (the jobs of `--earlier`) and sites had two slots: slots were short everywhere. "
        "Pairs of jobs want more slots than there are near their table while others are free, which is what the two "
        "schedulers decide differently.",
        table(head, rows),
        table(["job", *(f"{o.scheduler}: turnaround, local tasks" for o in outcomes)], each),
    ]


def findings(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The figures of lease-aware over those of first-come."""
    mine, base = outcomes
    jobs = [job for outcome in outcomes for job in outcome.jobs]
    return {
        "right": sum(job.right for job in jobs) / len(jobs),
        "local": mine.local_share / max(base.local_share, 1e-9),
        "turnaround": mine.mean_s / base.mean_s,
    }


def _cell(job: Job) -> str:
    return f"{job.turnaround_s:.1f} s, {job.local_tasks} of {job.local_tasks + job.remote_tasks}"


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a smoke test: 3 MB of text, two jobs")
    parser.add_argument("--earlier", action="store_true", help="the jobs as they came before: one every 6 s")
    parser.add_argument("--mbit", type=float, default=2, help="Mbit/s of each link")
    return parser.parse_args(words)


def main() -> int:
    """Exit code: 1 when a result differs from DuckDB's, or a streaming query stood still."""
    arguments = arguments_of()
    size = SMALL if arguments.small else EARLIER if arguments.earlier else FULL
    outcomes = measure(size, arguments.mbit)
    title = "WordCount at four sites"
    publish("wordcount", title, _parts(size, outcomes, arguments.mbit), arguments.record, findings(outcomes))
    return 0 if all(outcome.right for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
