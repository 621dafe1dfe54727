"""What is counted of queries that share: the six queries, bytes that had to be sent, rates, the report. Pure.

See `benchmarks.sharing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import selat
from benchmarks.report import median, quantile, spread, table
from evidence.criteria import Finding

SITES = ("us", "eu", "asia")
GATEWAY = "us"
STREAM = "posts"
BASE, UNSHARED, WANTED = "no-share", "net", "sana"
MODES = (BASE, "strict", "max-share", UNSHARED, WANTED)
WINDOW_S = 4
MOST_GROWTH = 0.02
"""The most by which all channels together fill or empty in the steady state, as a share of a link's bandwidth."""
MOST_CATCHING_UP = 1.1
"""The most rows processed over rows born; queries that process more are catching up."""

_WINDOW = f"window(ts, '{WINDOW_S} seconds')"
_USERS = (
    "SELECT window.end AS until, user_id, count(*) AS posts, avg(latitude) AS lat, avg(longitude) AS lon "
    f"FROM {STREAM} GROUP BY {_WINDOW}, user_id"
)


@dataclass(frozen=True, slots=True)
class Query:
    kind: str
    """As the source calls it."""
    sources: str
    """Queries with the same name here have source stages that send the same rows."""
    sql: str


QUERIES = (
    Query("users analysis", "users", f"{_USERS} HAVING count(*) >= 5"),
    Query(
        "top-k analysis",
        "users",
        f"{_USERS} QUALIFY row_number() OVER (PARTITION BY window ORDER BY posts DESC) <= 10",
    ),
    Query("users analysis, in the north", "users", f"{_USERS} HAVING count(*) >= 3 AND avg(latitude) > 50"),
    Query("users analysis, asked again", "users", f"{_USERS} HAVING count(*) >= 5"),
    Query(
        "statistics",
        "topics",
        f"SELECT window.end AS until, topic, count(*) AS posts FROM {STREAM} "
        f"GROUP BY {_WINDOW}, topic HAVING count(*) >= 5",
    ),
    Query(
        "sentiment analysis",
        "moods",
        f"SELECT window.end AS until, country, avg(score) AS mood FROM {STREAM} "
        f"JOIN moods ON {STREAM}.topic = moods.topic GROUP BY {_WINDOW}, country",
    ),
)
"""In the order of their submission: of eighteen source tasks twelve are needed, of six merges five."""

Link = tuple[str, str]
"""From, to."""


def declarations(rows_per_s: int) -> str:
    """The stream of posts at each site, and the dictionary of moods."""
    places = ", ".join(f"AT {site}" for site in SITES)
    return f"""
    CREATE STREAM {STREAM} (ts TIMESTAMP, user_id BIGINT, country STRING, topic STRING, latitude DOUBLE,
      longitude DOUBLE, WATERMARK FOR ts)
    WITH ('connector' = 'generator', 'preset' = 'posts', 'rows_per_second' = '{rows_per_s}', 'startup' = 'latest')
    {places};
    CREATE TABLE moods (topic STRING, score INT)
    AT {GATEWAY} WITH ('connector' = 'generator', 'rows' = '1000', 'seed' = '1', 'column.topic' = 'sequence',
      'column.score' = 'uniform(-5, 5)');
    """


@dataclass(frozen=True, slots=True)
class Count:
    """What agents had counted at an instant."""

    at_s: float
    link_bytes: Mapping[Link, int]
    """Received by routers since the agents began."""
    rows_in: tuple[int, ...]
    """Of each query."""
    watermarks_s: tuple[float | None, ...]
    """Event time that the results of each query are complete to; None: there are none yet."""
    kept_bytes: int
    """By all channels, for readers that have not acknowledged it."""
    cpu_s: float = 0.0
    """Of all processes of the cluster."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Results of one query that came to the client."""

    at_s: float
    ends_s: tuple[float, ...]
    """Of the windows in them."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes between sites since the queries were submitted, after the stream had paused."""

    received_bytes: int
    least_bytes: int
    """Each distinct operator's epochs, once for each other site that reads them."""
    written_bytes: int
    """Each operator's epochs, once for each other site that reads them, whether another operator wrote the same."""
    settled: bool
    """All that was written had time to arrive."""

    @property
    def over_least(self) -> float:
        return self.received_bytes / max(1, self.least_bytes)

    @property
    def over_written(self) -> float:
        return self.received_bytes / max(1, self.written_bytes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mode."""

    mode: str
    seconds: float
    links: Mapping[Link, int]
    """Bytes in these seconds."""
    taken_in: tuple[float, ...]
    """Rows a second that each query's sources read."""
    processed: tuple[float, ...]
    """Rows a second born in the event time that each query's results moved on by."""
    delays_s: tuple[tuple[float, ...], ...]
    """From a window's end to its result, for each query."""
    transfer: Transfer
    tasks: int
    """Distinct ones that ran."""
    shared: int
    """Of these, needed by several queries."""
    cores: float
    """CPU seconds a second."""
    warm_up_s: float
    kept_bytes: float
    """By all channels, the mean."""
    kept_growth_bytes_per_s: float
    link_bytes_per_s: float
    """The bandwidth of a link."""

    @property
    def steady(self) -> bool:
        return abs(self.kept_growth_bytes_per_s) <= MOST_GROWTH * self.link_bytes_per_s

    @property
    def bytes(self) -> int:
        return sum(self.links.values())

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds

    @property
    def all_delays_s(self) -> list[float]:
        return [delay for delays in self.delays_s for delay in delays]

    @property
    def delivered(self) -> bool:
        """Every query gave results."""
        return all(self.delays_s)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def link_bytes(sites: Iterable[selat.Site]) -> dict[Link, int]:
    """What the routers of all sites have received from other sites."""
    return {(link.from_site, link.to_site): link.bytes for site in sites for link in site.links}


def between(before: Mapping[Link, int], after: Mapping[Link, int]) -> dict[Link, int]:
    """Links that carried something, with their bytes."""
    moved = {link: size - before.get(link, 0) for link, size in after.items()}
    return {link: size for link, size in sorted(moved.items()) if size}


def reading_sites(task: selat.TaskStatus, tasks: Sequence[selat.TaskStatus]) -> set[str]:
    """Other sites that read a task of a query, given all its tasks: tables go to sources, these to merges."""
    readers = {"t": "s", "s": "m"}.get(task.stage_id[0])
    sites = {other.site for other in tasks if other.stage_id[0] == readers} if readers else {GATEWAY}
    return sites - {task.site}


def bytes_once(queries: Sequence[tuple[Query, selat.QueryInfo]]) -> tuple[int, int]:
    """Bytes over links by what operators wrote: of each distinct operator, and of each operator.

    Operators are distinct when their rows are: sources of one name at one site, merges of one text. Where several
    wrote the same, the one that came farthest counts.
    """
    sizes: dict[tuple[str, ...], int] = {}
    sites: dict[tuple[str, ...], set[str]] = {}
    written: dict[str, int] = {}
    reading: dict[str, set[str]] = {}
    for query, info in queries:
        for task in info.tasks:
            rows = {"s": query.sources, "m": query.sql}.get(task.stage_id[0], "")
            key = (task.stage_id, rows, "" if task.stage_id[0] == "m" else task.site)
            readers = reading_sites(task, info.tasks)
            sizes[key] = max(sizes.get(key, 0), task.bytes_out)
            sites.setdefault(key, set()).update(readers)
            written[task.task_id] = task.bytes_out
            reading.setdefault(task.task_id, set()).update(readers)
    least = sum(size * len(sites[key]) for key, size in sizes.items())
    return least, sum(size * len(reading[task]) for task, size in written.items())


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line of least squares; 0 when all are at one place.

    Of a figure that moves in steps it is off by less than the difference between two looks.
    """
    x_mean, y_mean = mean([x for x, _ in points]), mean([y for _, y in points])
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0


def taken_in_per_s(counts: Sequence[Count], number: int) -> float:
    """Rows a second that the sources of one query read."""
    return slope([(count.at_s, count.rows_in[number]) for count in counts])


def processed_per_s(counts: Sequence[Count], number: int, born_per_s: float) -> float:
    """Rows a second, born at all sites, whose results of one query came to the gateway."""
    marks = [(count.at_s, mark) for count in counts if (mark := count.watermarks_s[number]) is not None]
    return born_per_s * slope(marks)


def growth_bytes_per_s(counts: Sequence[Count]) -> float:
    """The growth of the bytes that channels keep, from the mean of the first half of the time to that of the second.

    Kept bytes go up and down with epochs and checkpoints; a half contains several of them, so that they hardly count.
    """
    half = len(counts) // 2
    (from_s, before), (to_s, after) = (
        (mean([count.at_s for count in part]), mean([count.kept_bytes for count in part]))
        for part in (counts[:half], counts[half:])
    )
    return (after - before) / (to_s - from_s) if to_s > from_s else 0.0


def steady(counts: Sequence[Count], born_per_s: float, most_growth_bytes_per_s: float) -> bool:
    """True when channels neither fill nor empty, and queries are not catching up."""
    if abs(growth_bytes_per_s(counts)) > most_growth_bytes_per_s:
        return False
    rates = [processed_per_s(counts, number, born_per_s) for number in range(len(counts[-1].rows_in))]
    return mean(rates) <= MOST_CATCHING_UP * born_per_s


def first_delays_s(arrivals: Iterable[Arrival], from_s: float, until_s: float) -> tuple[float, ...]:
    """Of the windows whose first result came between two instants."""
    came: dict[float, float] = {}
    for arrival in arrivals:
        for end in arrival.ends_s:
            came.setdefault(end, arrival.at_s)
    return tuple(at_s - end for end, at_s in sorted(came.items()) if from_s <= at_s <= until_s)


def modes_table(outcomes: Sequence[Outcome]) -> str:
    head = [
        *("mode", "kB/s over links", "rows/s processed, a query", "rows/s taken in, a query", "delay, median"),
        *("95th percentile", "received over least", "kept in channels", "steady"),
        *("warm-up", "tasks", "shared", "cores"),
    ]
    rows = [
        [
            o.mode,
            f"{o.bytes_per_s / 1e3:.1f}",
            f"{mean(o.processed):,.0f}",
            f"{mean(o.taken_in):,.0f}",
            _delay(o.all_delays_s, 0.5),
            _delay(o.all_delays_s, 0.95),
            f"{o.transfer.over_least:.3f}" + ("" if o.transfer.settled else ", not all arrived"),
            f"{o.kept_bytes / 1e6:.2f} MB, {o.kept_growth_bytes_per_s / 1e3:+.2f} kB/s",
            "yes" if o.steady else "**no**",
            f"{o.warm_up_s:.0f} s",
            f"{o.tasks}",
            f"{o.shared}",
            f"{o.cores:.2f}",
        ]
        for o in outcomes
    ]
    return table(head, rows)


def queries_table(outcomes: Sequence[Outcome]) -> str:
    """Throughput and delay of each query."""
    rows = [
        [f"{number + 1}, {query.kind}", *(_of_query(outcome, number) for outcome in outcomes)]
        for number, query in enumerate(QUERIES)
    ]
    return table(["query: rows/s processed, taken in, median delay", *(o.mode for o in outcomes)], rows)


def ratios_table(outcomes: Sequence[Outcome]) -> str:
    """Each mode over the one that shares nothing."""
    base = next(outcome for outcome in outcomes if outcome.mode == BASE)
    rows = [
        ["bytes in the same time", *(f"{_over(o.bytes_per_s, base.bytes_per_s):.2f}" for o in outcomes)],
        ["rows processed", *(f"{_over(mean(o.processed), mean(base.processed)):.2f}" for o in outcomes)],
        ["rows taken in", *(f"{_over(mean(o.taken_in), mean(base.taken_in)):.2f}" for o in outcomes)],
        ["bytes for a row processed", *(f"{_over(_row_bytes(o), _row_bytes(base)):.2f}" for o in outcomes)],
    ]
    rows += [
        [f"rows processed, query {number + 1}", *(f"{_over(o.processed[number], rate):.2f}" for o in outcomes)]
        for number, rate in enumerate(base.processed)
    ]
    return table([f"over {BASE}", *(o.mode for o in outcomes)], rows)


def _over(value: float, base: float) -> float:
    return value / base if base else float("inf")


def _row_bytes(outcome: Outcome) -> float:
    return _over(outcome.bytes_per_s, mean(outcome.processed))


def links_table(outcomes: Sequence[Outcome]) -> str:
    links = sorted({link for outcome in outcomes for link in outcome.links})
    rows = [["->".join(link), *(f"{o.links.get(link, 0) / o.seconds / 1e3:.1f}" for o in outcomes)] for link in links]
    return table(["kB/s over the link", *(o.mode for o in outcomes)], rows)


def _of_query(outcome: Outcome, number: int) -> str:
    rates = f"{outcome.processed[number]:,.0f}, {outcome.taken_in[number]:,.0f}"
    return f"{rates}, {_delay(outcome.delays_s[number], 0.5)}"


def _delay(delays_s: Sequence[float], fraction: float) -> str:
    return f"{quantile(delays_s, fraction):.1f} s" if delays_s else "none came"


def findings(outcomes: Sequence[Outcome]) -> dict[str, Finding]:
    """The figures of sana against no-share, and against the least possible."""
    found = {outcome.mode: outcome for outcome in outcomes}
    base, sana = found[BASE], found[WANTED]
    unsteady = _unsteady(base, sana)
    unsettled = "" if sana.transfer.settled else "not all bytes had arrived"
    return {
        "bytes": _compared(sana.bytes_per_s, base.bytes_per_s, unsteady),
        "processed": _compared(mean(sana.processed), mean(base.processed), unsteady),
        "taken_in": _compared(mean(sana.taken_in), mean(base.taken_in), unsteady),
        "over_least": Finding(sana.transfer.over_least, unsettled),
    }


def _compared(mine: float, base: float, note: str) -> Finding:
    return Finding(mine / base, note) if base else Finding(None, f"nothing came of {BASE}")


def _unsteady(*outcomes: Outcome) -> str:
    """The reason why modes cannot be compared; empty when they can."""
    return "; ".join(
        f"{o.mode} is not steady: channels grow by {o.kept_growth_bytes_per_s / o.link_bytes_per_s:+.1%} of a link"
        for o in outcomes
        if not o.steady
    )


@dataclass(frozen=True, slots=True)
class Alone:
    """The runs of one query, which has nobody to share with, under two modes in turn: A B B A."""

    epoch_s: float
    turns: tuple[Outcome, ...]

    def of(self, mode: str) -> list[Outcome]:
        return [turn for turn in self.turns if turn.mode == mode]

    def delay_s(self, mode: str) -> float | None:
        """The median delay over all turns of a mode; None without results."""
        delays_s = [delay for turn in self.of(mode) for delay in turn.all_delays_s]
        return median(delays_s) if delays_s else None

    def delay_ratio(self) -> Finding:
        """The median delay with sana over that with the other mode."""
        net_s, sana_s = self.delay_s(UNSHARED), self.delay_s(WANTED)
        return Finding(sana_s / net_s) if sana_s and net_s else Finding(None, "no results came")


def alone_findings(alone: Alone) -> dict[str, Finding]:
    sana = [turn.transfer for turn in alone.of(WANTED)]
    unsettled = "" if all(transfer.settled for transfer in sana) else "not all bytes had arrived"
    ratio = median([transfer.over_written for transfer in sana])
    return {"alone_bytes": Finding(ratio, unsettled), "alone_delay": alone.delay_ratio()}


def alone_part(runs: Sequence[Alone]) -> str:
    """The table with a line for each mode and length of epochs, and the ratios of delays."""
    rows = []
    for alone in runs:
        for mode in (UNSHARED, WANTED):
            turns = alone.of(mode)
            delays = [median(turn.all_delays_s) for turn in turns if turn.all_delays_s]
            rows.append(
                [
                    f"{mode}, epochs of {alone.epoch_s:g} s",
                    spread([turn.transfer.over_written for turn in turns], "{:.3f}"),
                    spread([mean(turn.processed) for turn in turns], "{:,.0f}"),
                    spread(delays, "{:.2f} s") if delays else "none came",
                ]
            )
    head = ["query 1 alone", "bytes received over written", "rows/s processed", "median delay of each turn"]
    ratios = [(alone.epoch_s, alone.delay_ratio().value) for alone in runs]
    told = ", ".join(f"{ratio:.2f} with epochs of {epoch_s:g} s" for epoch_s, ratio in ratios if ratio)
    return (
        f"{table(head, rows)}\n\n"
        f"Two turns of each mode ({UNSHARED}, {WANTED}, {WANTED}, {UNSHARED}); medians, with the least and the most. "
        f"Median delay over all turns, {WANTED} over {UNSHARED}: {told or 'none came'}. Epochs as long as windows keep "
        "one phase to them for a whole turn, and the delay goes by that; other epochs pass through all phases. The "
        "criterion is held against the first, which are those of all modes above. Every site has a router in all "
        "modes, there is no way around it to compare with."
    )
