"""Six queries over geo-tagged posts at three sites under each of the five modes of sharing, on links that are narrow.

    python -m benchmarks.sharing [--small] [--mbit 0.2] [--rows-per-second 2000] [--epoch-ms 4000] [--record FILE]

A real cluster whose routers keep to the links' bandwidth and 30 ms; no root is needed. Posts are made live at all
sites. For every mode the same queries are submitted anew, at once.

Two throughputs are told apart, both of the steady state:

    rows processed   rows born in the event time that a query's results at the gateway moved on by: of these all is
                     out, from every site. Where links are too narrow, this is what they let through, three times the
                     slowest site's rows
    rows taken in    rows that its sources read. More than those processed where rows wait: in a channel that fills,
                     or in a merge that has the rows of its own site and not yet those of a site behind a slower link.
                     The latter never ends while links are too narrow: event time falls behind farther and farther

At first, queries that want more than the links carry fill channels, and take in rows that nobody has processed. So
channels keep little, then their sources wait; and the time that counts begins when, over all of it, what channels keep
grows or shrinks by no more than 2 % of what a link carries, and nothing is made up for. If that never comes, the last
looks count, and there is no verdict: not steady. Everything is sampled once a second, and rates are slopes of the lines
of least squares, because epochs and windows move the figures in steps. Bytes on each link are the routers' own counts;
delay is from a window's end to its first result at the client.

Then the stream pauses, what is under way arrives, and bytes since the submission are compared with the least
possible: what each distinct operator wrote, once for each other site with a reader. Placement is taken as it is.
Sources of one partial aggregate at one site are one distinct operator, whichever query they ran for. Last, one query
alone, with epochs as long as the windows and with others. Ends within forty minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import deque
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
    MOST_GROWTH,
    QUERIES,
    SITES,
    STREAM,
    UNSHARED,
    WANTED,
    WINDOW_S,
    Alone,
    Arrival,
    Count,
    Link,
    Outcome,
    Query,
    Transfer,
    alone_findings,
    alone_part,
    between,
    bytes_once,
    declarations,
    findings,
    first_delays_s,
    growth_bytes_per_s,
    link_bytes,
    links_table,
    mean,
    modes_table,
    processed_per_s,
    queries_table,
    ratios_table,
    steady,
    taken_in_per_s,
)
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

TOPOLOGY = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}, asia: {slots: 2}}
default_link: {bandwidth: %gMbit/s, latency: 30ms}
"""
EPOCH_MS = 4000
"""Up to 24 tasks share two cores: the links are to be what limits them."""
OTHER_EPOCH_MS = 3000
"""The length of epochs for one query alone: neither a multiple nor a divisor of the windows."""
RETAINED_BYTES = 256_000
"""Of a channel: so little that sources feel a full link soon, and more than what comes until a merge acknowledges it,
which it does with its checkpoints: up to 16 s of rows, at 12 kB/s."""
MERGE = "m"
"""The ids of merges' stages begin with it."""
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
    measured_s: int
    limit_s: float
    """The longest wait for `measured_s` seconds of a steady state."""
    settle_s: float = 6.0
    """The longest wait for data under way."""
    most_growth: float = MOST_GROWTH
    """The most by which channels may fill in the steady state, as a share of a link's bandwidth."""


FULL = Size(MODES, measured_s=80, limit_s=280.0)
SMALL = Size((BASE, WANTED), measured_s=10, limit_s=40.0)
ALONE = Size((UNSHARED, WANTED, WANTED, UNSHARED), measured_s=24, limit_s=60.0, most_growth=float("inf"))
"""One query alone leaves room on the links: its channels do not fill."""
SMALL_ALONE = Size((UNSHARED, WANTED), measured_s=6, limit_s=30.0, most_growth=float("inf"))


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

    def __init__(self, cluster: DevCluster, client: selat.Client, arguments: argparse.Namespace, epoch_ms: int) -> None:
        self._cluster = cluster
        self._client = client
        self._rows_per_s = arguments.rows_per_second
        self.link_bytes_per_s = arguments.mbit * 125e3
        self.epoch_s = epoch_ms / 1000
        list(client.script(declarations(self._rows_per_s)))

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
        # What a merge of these queries keeps is results for clients: they stay for days, and no task waits for them.
        waiting = [task for info in infos for task in info.tasks if not task.stage_id.startswith(MERGE)]
        kept = {task.task_id: task.retained_bytes for task in waiting}
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
        begun_s = time.time()
        counts = steady_counts(scene, watched, size)
        warm_up_s = counts[0].at_s - begun_s
        shared = len(scene.client.sharing())
        transfer = settled(scene, watched, base, size.settle_s)
        outcome = outcome_of(scene, mode, watched, Measured(counts, warm_up_s, transfer, shared))
    say(told(outcome))
    return outcome


def steady_counts(scene: Scene, watched: Sequence[Watched], size: Size) -> list[Count]:
    """The counts of the first `measured_s` seconds over which the state was steady; the last ones if it never was."""
    last: deque[Count] = deque(maxlen=size.measured_s + 1)
    most = size.most_growth * scene.link_bytes_per_s
    answered_s: float | None = None
    for count in scene.counts(watched, size.limit_s):
        last.append(count)
        if answered_s is None and all(each.arrivals for each in watched):
            answered_s = count.at_s
        whole = len(last) == last.maxlen and answered_s is not None and answered_s <= last[0].at_s
        if whole and steady(list(last), scene.born_per_s, most):
            break
    return list(last)


def settled(scene: Scene, watched: Sequence[Watched], base: Mapping[Link, int], limit_s: float) -> Transfer:
    """The stream pauses; bytes since the queries were submitted, when what was under way has arrived."""
    scene.set_rate(0)
    # A new rate holds a second later, the last epoch comes within its interval, and agents report once a second.
    time.sleep(scene.epoch_s + 2 * SETTLE_STEP_S)
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
        kept_growth_bytes_per_s=growth_bytes_per_s(counts),
        link_bytes_per_s=scene.link_bytes_per_s,
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


@contextmanager
def scene_of(arguments: argparse.Namespace, epoch_ms: int) -> Iterator[Scene]:
    """A new cluster with the stream of posts."""
    with tempfile.TemporaryDirectory(prefix="selat-sharing-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        topology = root / "topology.yaml"
        topology.write_text(TOPOLOGY % arguments.mbit)
        options = ClusterOptions(
            allow_paths=(root,),
            emulate_links=True,
            master_arguments=("--epoch-interval", str(epoch_ms)),
            agent_arguments=("--retained-bytes", str(RETAINED_BYTES)),
        )
        with DevCluster(topology, root / "data", options) as cluster, selat.connect(cluster.address) as client:
            say(f"the cluster serves, epochs of {epoch_ms / 1000:g} s")
            yield Scene(cluster, client, arguments, epoch_ms)


def measure(arguments: argparse.Namespace) -> tuple[list[Outcome], list[Alone]]:
    """The outcomes of the six queries under each mode, and of one query alone with epochs of either length."""
    size, alone_size = (SMALL, SMALL_ALONE) if arguments.small else (FULL, ALONE)
    with scene_of(arguments, arguments.epoch_ms) as scene:
        outcomes = [run(scene, mode, QUERIES, size) for mode in size.modes]
        alone = [_alone(scene, alone_size)]
    with scene_of(arguments, OTHER_EPOCH_MS) as scene:
        alone.append(_alone(scene, alone_size))
    return outcomes, alone


def _alone(scene: Scene, size: Size) -> Alone:
    return Alone(scene.epoch_s, tuple(run(scene, mode, QUERIES[:1], size) for mode in size.modes))


def _parts(arguments: argparse.Namespace, outcomes: Sequence[Outcome], alone: Sequence[Alone]) -> list[str]:
    born = arguments.rows_per_second * len(SITES)
    return [
        f"Six queries of the kinds of Sana's evaluation, over {arguments.rows_per_second:,} posts/s at each of "
        f"{len(SITES)} sites, {born:,} born a second in all, windows of {WINDOW_S} s, epochs of "
        f"{arguments.epoch_ms / 1000:g} s. Links of {arguments.mbit:g} Mbit/s ({arguments.mbit * 125:g} kB/s) and 30 "
        "ms each way, kept to by the routers; all sites in one process and JVM, modes one after the other in the order "
        f"of the table. A channel keeps {RETAINED_BYTES / 1e3:g} kB, then its source waits.",
        "*Throughput* is one of two. *Rows processed*: those born in the event time that a query's results moved on "
        "by; of them all is out. *Rows taken in*: those that its sources read. In the steady state they differ by rows "
        "that wait in merges: a merge has the rows of its own site, which cross no link, and not yet those of a site "
        "behind a narrow one. The [simulator](sana.md) says *throughput* of rows taken in; there, whole records go to "
        "the first operator and none waits for another site, so that they are those processed, too.",
        f"*Steady*: over the {outcomes[0].seconds:.0f} s that count, what channels keep for merges (not results, which "
        "the gateway keeps for clients) grew or shrank by at most "
        f"{MOST_GROWTH:.0%} of what a link carries, and no more was processed than born; otherwise **no**, and the "
        "last seconds before the limit count. *Warm-up*: from the submission to then. *Delay*: from a window's end to "
        "its first result; where less is processed than born, it grows for as long as the query runs, and the figure "
        "is that of these seconds alone. *Least*: what each distinct operator wrote, once for each other site that "
        "reads it, placed as it was.",
        modes_table(outcomes),
        queries_table(outcomes),
        ratios_table(outcomes),
        links_table(outcomes),
        alone_part(alone),
        "The workload was changed: links had 0.5, then 0.3 Mbit/s, epochs took 2 s, and 15 to 30 s were measured, of "
        "which channels were still filling (`--mbit 0.3 --epoch-ms 2000` has the former). Two cores have to be enough "
        "for up to 24 tasks, so that links are the limit and not the machine.",
    ]


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a smoke test: two modes, some seconds each")
    parser.add_argument("--mbit", type=float, default=0.2, help="Mbit/s of each link")
    parser.add_argument("--rows-per-second", type=int, default=2000, help="posts at each site")
    parser.add_argument("--epoch-ms", type=int, default=EPOCH_MS, help="but for one query alone with other epochs")
    return parser.parse_args(words)


def main() -> int:
    """Exit code: 1 when a query gave no result."""
    arguments = arguments_of()
    outcomes, alone = measure(arguments)
    found = findings(outcomes) | alone_findings(alone[0])
    parts = _parts(arguments, outcomes, alone)
    publish("sharing", "Queries that share, by mode", parts, arguments.record, found)
    return 0 if all(outcome.delivered for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
