"""Six queries over geo-tagged posts at three sites under each of the five modes of sharing, on links that are narrow.

    python -m benchmarks.sharing [--small] [--mbit 0.2] [--rows-per-second 2000] [--record FILE]

A real cluster whose routers keep to the links' bandwidth and 30 ms; no root is needed. Posts are made live at all
sites. For every mode the same queries are submitted anew, at once.

Throughput is that of the steady state. At first, queries that want more than the links carry fill channels, and take in
rows that nobody has processed. So channels keep little, then their sources wait; and it is measured from when
what channels keep has stopped growing and nothing is made up for, for the same time in every mode. All is looked at
once a second, and rates are slopes of the lines of least squares, for epochs and windows move the figures in steps:

    rows processed   rows born in the event time that a query's results at the gateway moved on by: of these all is
                     out, from every site
    rows taken in    rows that its sources read. More than those processed where rows wait: in a channel, or in a merge
                     for those of a site behind a slower link
    bytes            on each link, by the routers' own counts
    delay            from a window's end to its first result at the client

Then the stream pauses, what is under way arrives, and bytes since the submission are compared with the least
possible: what each distinct operator wrote, once for each other site with a reader. Placement is taken as it is.
Sources of one partial aggregate at one site are one distinct operator, whichever query they ran for. Last, one query
alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import selat
from benchmarks.processes import cpu_s
from benchmarks.report import make_parser, median, publish, say
from benchmarks.sharing_counts import (
    BASE,
    MODES,
    QUERIES,
    SITES,
    STREAM,
    WANTED,
    WINDOW_S,
    Arrival,
    Count,
    Link,
    Outcome,
    Query,
    Transfer,
    alone_part,
    between,
    bytes_once,
    declarations,
    first_delays_s,
    link_bytes,
    links_table,
    mean,
    modes_table,
    processed_per_s,
    queries_table,
    ratios_table,
    slope,
    steady,
    taken_in_per_s,
    verdicts,
)
from selat.dev.cluster import ClusterOptions, DevCluster

TOPOLOGY = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}, asia: {slots: 2}}
default_link: {bandwidth: %gMbit/s, latency: 30ms}
"""
EPOCH_MS = 4000
"""Up to 24 tasks share two cores: the links are to be what limits them."""
RETAINED_BYTES = 256_000
"""Of a channel: so little that sources feel a full link soon, and more than what comes until a merge acknowledges it,
which it does with its checkpoints: up to 16 s of rows, at 12 kB/s."""
LOOK_S = 1.0
END_LIMIT = timedelta(seconds=60)
SETTLE_STEP_S = 1.0
SETTLED_STEPS = 2
"""All that was written has come when so many steps in a row nothing but epochs without rows came."""
EMPTY_STEP_BYTES = 10_000
"""Of a step, over all links."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long each mode is run."""

    modes: tuple[str, ...]
    warm_up_s: float
    """Most that is waited for first results, and until what channels keep stops growing."""
    measured_s: float
    settle_s: float
    """Most that is waited for what is under way."""
    alone: bool
    """One query alone, too."""


FULL = Size(MODES, warm_up_s=70.0, measured_s=30.0, settle_s=6.0, alone=True)
SMALL = Size((BASE, WANTED), warm_up_s=30.0, measured_s=10.0, settle_s=6.0, alone=False)
ALONE = Size(("net", WANTED), warm_up_s=30.0, measured_s=12.0, settle_s=6.0, alone=False)


class Watched:
    """A query that runs, and its results as they come."""

    def __init__(self, query: Query, running: selat.Query) -> None:
        self.query = query
        self.running = running
        self._arrivals: list[Arrival] = []
        self._results = running.results()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def arrivals(self) -> list[Arrival]:
        return list(self._arrivals)

    def close(self) -> None:
        self._results.close()
        self.running.cancel()

    def _read(self) -> None:
        for batch in self._results:
            if batch.batch.num_rows:
                ends = tuple(end.timestamp() for end in batch.batch.column("until").unique().to_pylist())
                self._arrivals.append(Arrival(time.time(), ends))


class Scene:
    """A cluster with the stream of posts."""

    def __init__(self, cluster: DevCluster, client: selat.Client, rows_per_s: int) -> None:
        self._cluster = cluster
        self._client = client
        self._rows_per_s = rows_per_s
        list(client.script(declarations(rows_per_s)))

    @property
    def client(self) -> selat.Client:
        return self._client

    @property
    def born_per_s(self) -> float:
        """Rows of the stream, at all sites."""
        return float(self._rows_per_s * len(SITES))

    def set_rate(self, rows_per_s: int) -> None:
        self._client.alter(STREAM, {"rows_per_second": str(rows_per_s)})

    @contextmanager
    def queries(self, mode: str, queries: Sequence[Query]) -> Iterator[list[Watched]]:
        """Submitted in one script, so that all come before the first merge's checkpoint; over when this is."""
        self.set_rate(self._rows_per_s)
        script = ";\n".join([f"SET sharing = '{mode}'", *(query.sql for query in queries)])
        running = [found for found in self._client.script(script) if isinstance(found, selat.Query)]
        watched = [Watched(query, found) for query, found in zip(queries, running, strict=True)]
        try:
            yield watched
        finally:
            for each in watched:
                each.close()
            for each in watched:
                each.running.wait(END_LIMIT)

    def count(self, watched: Sequence[Watched]) -> Count:
        links = link_bytes(self._client.sites())
        infos = [each.running.info() for each in watched]
        kept = {task.task_id: task.retained_bytes for info in infos for task in info.tasks}
        return Count(
            at_s=time.time(),
            link_bytes=links,
            rows_in=tuple(info.rows_in for info in infos),
            watermarks_s=tuple(info.watermark.timestamp() if info.watermark else None for info in infos),
            kept_bytes=sum(kept.values()),
            cpu_s=cpu_s(self._cluster.pids.values()),
        )

    def counts(self, watched: Sequence[Watched], limit_s: float) -> Iterator[Count]:
        """One a second, until the time is over."""
        deadline_s = time.monotonic() + limit_s
        while (next_s := time.monotonic() + LOOK_S) <= deadline_s:
            yield self.count(watched)
            time.sleep(max(0.0, next_s - time.monotonic()))
        yield self.count(watched)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was counted while one mode ran."""

    counts: Sequence[Count]
    warm_up_s: float
    """Waited before."""
    transfer: Transfer
    shared: int
    """Tasks that several queries needed."""


def run(scene: Scene, mode: str, queries: Sequence[Query], size: Size) -> Outcome:
    """All queries under one mode, from submission to cancellation."""
    base = link_bytes(scene.client.sites())
    with scene.queries(mode, queries) as watched:
        warm_up_s = warmed_up(scene, watched, size.warm_up_s)
        counts = list(scene.counts(watched, size.measured_s))
        shared = len(scene.client.sharing())
        transfer = settled(scene, watched, base, size.settle_s)
        outcome = outcome_of(scene, mode, watched, Measured(counts, warm_up_s, transfer, shared))
    say(told(outcome))
    return outcome


def warmed_up(scene: Scene, watched: Sequence[Watched], limit_s: float) -> float:
    """Seconds until all queries gave results and the state was steady, or the limit was reached."""
    begun_s = time.monotonic()
    counts: list[Count] = []
    for count in scene.counts(watched, limit_s):
        counts.append(count)
        if steady(counts, scene.born_per_s) and all(each.arrivals for each in watched):
            break
    return time.monotonic() - begun_s


def settled(scene: Scene, watched: Sequence[Watched], base: Mapping[Link, int], limit_s: float) -> Transfer:
    """The stream pauses; bytes since the queries were submitted, when what was under way has arrived."""
    scene.set_rate(0)
    # A new rate holds a second later, the last epoch comes within its interval, and agents report once a second.
    time.sleep(EPOCH_MS / 1000 + 2 * SETTLE_STEP_S)
    deadline_s = time.monotonic() + limit_s
    received, quiet = sum(between(base, link_bytes(scene.client.sites())).values()), 0
    while True:
        least, written = bytes_once([(each.query, each.running.info()) for each in watched])
        if quiet >= SETTLED_STEPS or time.monotonic() >= deadline_s:
            return Transfer(received, least, written, quiet >= SETTLED_STEPS)
        time.sleep(SETTLE_STEP_S)
        now = sum(between(base, link_bytes(scene.client.sites())).values())
        quiet = quiet + 1 if now >= written and now - received < EMPTY_STEP_BYTES else 0
        received = now


def outcome_of(scene: Scene, mode: str, watched: Sequence[Watched], measured: Measured) -> Outcome:
    counts = measured.counts
    before, after = counts[0], counts[-1]
    seconds = after.at_s - before.at_s
    numbers = range(len(watched))
    return Outcome(
        mode=mode,
        seconds=seconds,
        links=between(before.link_bytes, after.link_bytes),
        taken_in=tuple(taken_in_per_s(counts, number) for number in numbers),
        processed=tuple(processed_per_s(counts, number, scene.born_per_s) for number in numbers),
        delays_s=tuple(first_delays_s(each.arrivals, before.at_s, after.at_s) for each in watched),
        transfer=measured.transfer,
        tasks=len({task.task_id for each in watched for task in each.running.last.tasks}),
        shared=measured.shared,
        cores=(after.cpu_s - before.cpu_s) / seconds,
        warm_up_s=measured.warm_up_s,
        kept_bytes=mean([count.kept_bytes for count in counts]),
        kept_growth_bytes_per_s=slope([(count.at_s, count.kept_bytes) for count in counts]),
    )


def told(outcome: Outcome) -> str:
    delay = f"{median(outcome.all_delays_s):.1f} s" if outcome.all_delays_s else "none"
    return (
        f"{outcome.mode}, {len(outcome.taken_in)} queries: {outcome.bytes_per_s / 1e3:.0f} kB/s over links, "
        f"{mean(outcome.processed):,.0f} rows/s processed and {mean(outcome.taken_in):,.0f} taken in a query, median "
        f"delay {delay}, {outcome.tasks} tasks of which {outcome.shared} shared, {outcome.cores:.2f} cores; after "
        f"{outcome.warm_up_s:.0f} s channels keep {outcome.kept_bytes / 1e3:.0f} kB, "
        f"{outcome.kept_growth_bytes_per_s / 1e3:+.1f} kB/s; {outcome.transfer}"
    )


def measure(arguments: argparse.Namespace, size: Size) -> tuple[list[Outcome], list[Outcome]]:
    """Of the six queries under each mode, and of one alone."""
    with tempfile.TemporaryDirectory(prefix="selat-sharing-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        topology = root / "topology.yaml"
        topology.write_text(TOPOLOGY % arguments.mbit)
        options = ClusterOptions(
            allow_paths=(root,),
            emulate_links=True,
            master_arguments=("--epoch-interval", str(EPOCH_MS)),
            agent_arguments=("--retained-bytes", str(RETAINED_BYTES)),
        )
        with DevCluster(topology, root / "data", options) as cluster, selat.connect(cluster.address) as client:
            say("the cluster serves")
            scene = Scene(cluster, client, arguments.rows_per_second)
            outcomes = [run(scene, mode, QUERIES, size) for mode in size.modes]
            alone = ALONE.modes if size.alone else ()
            return outcomes, [run(scene, mode, QUERIES[:1], ALONE) for mode in alone]


def _parts(arguments: argparse.Namespace, outcomes: Sequence[Outcome], alone: Sequence[Outcome]) -> list[str]:
    parts = [
        f"Six queries of the kinds of Sana's evaluation, over {arguments.rows_per_second:,} posts/s at each of "
        f"{len(SITES)} sites, windows of {WINDOW_S} s, epochs of {EPOCH_MS / 1000:g} s. Links of "
        f"{arguments.mbit:g} Mbit/s ({arguments.mbit * 125:g} kB/s) and 30 ms each way, kept to by the routers; all "
        f"sites in one process and JVM. A channel keeps {RETAINED_BYTES / 1e3:g} kB, then its source waits; measured "
        f"for {outcomes[0].seconds:.0f} s of each mode from when channels had stopped filling. Rows processed: those "
        "born in the event time that a query's results moved on by. Rows taken in: those that its sources read. Delay: "
        "from a window's end to its first result. Least: what each distinct operator wrote, once for each other site "
        "that reads it, placed as it was.",
        modes_table(outcomes),
        verdicts(outcomes),
        queries_table(outcomes),
        ratios_table(outcomes),
        links_table(outcomes),
    ]
    return [*parts, alone_part(alone)] if alone else parts


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a smoke test: two modes, some seconds each")
    parser.add_argument("--mbit", type=float, default=0.2, help="Mbit/s of each link")
    parser.add_argument("--rows-per-second", type=int, default=2000, help="posts at each site")
    return parser.parse_args(words)


def main() -> int:
    """Exit code: 1 when a query gave no result."""
    arguments = arguments_of()
    outcomes, alone = measure(arguments, SMALL if arguments.small else FULL)
    publish("sharing", "Queries that share, by mode", _parts(arguments, outcomes, alone), arguments.record)
    return 0 if all(outcome.delivered for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
