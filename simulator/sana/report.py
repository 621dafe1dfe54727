"""The figures as a page: each beside what the source found, with a plot."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from simulator.pages import write_evaluation
from simulator.plots import Axes, bars, lines
from simulator.progress import say
from simulator.sana.figures import (
    AMPLE,
    DEFAULT,
    MQO,
    NET,
    SANA,
    STRICT,
    STRICT_FREE,
    SYSTEMS,
    Runs,
    Series,
    Value,
    by_count,
    by_rate,
    by_ratio,
    change,
    latency,
    over,
    pairs,
    throughput,
    together,
    wan_mb_per_s,
)
from simulator.sana.fluid import QUEUE_BYTES
from simulator.sana.queries import QUERIES
from simulator.sana.reasons import reasons
from simulator.sana.run import Outcome, QueryRun
from simulator.sana.world import WorldSettings
from simulator.statistics import Mean
from simulator.tables import percent, table

PAGE = "sana.md"
PLOTS = "sana"
MEASURES: tuple[tuple[str, str, str, Value], ...] = (
    ("throughput", "Throughput", "records/s per query", throughput),
    ("wan", "Bytes over the WAN", "MB/s", wan_mb_per_s),
    ("latency", "Latency", "s", latency),
)
NO_SHARE = replace(NET, name="No-Share")
MAX_SHARE = replace(MQO, name="Max-Share")


def write(directory: Path, rounds: int) -> Path:
    """Run everything; the page with its plots in `directory`."""
    plots = directory / PLOTS
    parts = [
        _head(rounds),
        _overall(rounds, plots),
        _by_stream(rounds),
        _by_query(rounds, plots),
        _degrees(rounds, plots),
        _rates(rounds, plots),
        _awareness(rounds, plots),
        _savings(rounds, plots),
        *reasons(rounds),
    ]
    return write_evaluation(directory / PAGE, parts)


def _head(rounds: int) -> str:
    kinds = ", ".join(f"{kind} ({_numbers(kind)})" for kind in dict.fromkeys(query.kind for query in QUERIES))
    return f"""# Queries that share

Figures 3.8 to 3.15 of the evaluation of Sana, run again in the [simulator](../simulator.md): virtual time, under the
planner's own drafts, fingerprints and [sharing](../sharing.md). Written by `make reproduce`; {rounds} rounds with a
seed each, the same worlds for every system; means with 95 % confidence intervals. Python {platform.python_version()}.

Twelve queries are submitted 10 s apart: {kinds}.
Each reads one of five streams. A stream is born at six of fourteen EC2 regions, 6000 to 8000 records/s over all of
them, of which a query reads four to six; eight other regions compute. As in the source, whole records cross the WAN to
the first operator; what Selat does instead is [below](#where-streams-are-born). Links are those of `ec2-14`, 20 to
280 Mbit/s, dealt to the pairs of regions anew in every round. What the source does not print is chosen: queues of
{QUEUE_BYTES / 1e6:g} MB at each end of a channel, and records of {WorldSettings().record_bytes / 1e3:g} kB, so that
Default takes in about two thirds of what is born (see [scarce links](#scarce-links)).

Throughput is the records that a query processed per second, those that reached its results, as on the
[page of measurements](performance.md); it is the mean over the queries unless
[said otherwise](#records-per-stream-and-in-all). What a source takes in is the same here: it takes in no more than its
slowest reader processes. Latency is from a record's birth to its result, without the wait for the end of a window.

| system | shares | placement by links | mode of the planner |
| --- | --- | --- | --- |
| Default | no | no | `no-share` |
| NET, No-Share | no | yes | `net` |
| MQO, Max-Share | yes | no | `max-share` |
| Strict-Share | operators | yes | `strict`, without routers; a shared source goes at the pace of its slowest reader |
| Strict-Share, at its own pace | operators | yes | the same, but each reader of a shared source has its own pace |
| Sana | yes | yes | `sana` |"""


def _numbers(kind: str) -> str:
    return ", ".join(query.name for query in QUERIES if query.kind == kind)


def _overall(rounds: int, plots: Path) -> str:
    say("figure 3.8")
    found = together(rounds)
    for name, title, unit, value in MEASURES:
        series = {system: {"12 queries": over(outcomes, value)} for system, outcomes in found.items()}
        bars(plots / f"3.8-{name}.svg", Axes(title, "", unit), series)
    rows = [
        [
            system,
            over(outcomes, throughput).text(0),
            over(outcomes, lambda o: o.share_of_rows).text(0, scale=100),
            over(outcomes, wan_mb_per_s).text(),
            over(outcomes, lambda o: o.wan_bytes_per_row).text(1, scale=1e-3),
            over(outcomes, latency).text(2),
            over(outcomes, lambda o: o.full_links).text(),
        ]
        for system, outcomes in found.items()
    ]
    head = [
        "system",
        "throughput, records/s",
        "of what is born, %",
        "WAN, MB/s",
        "kB a record",
        "latency, s",
        "full links",
    ]
    sources = {"Default": ("+44 %", "-33 %"), "NET": ("+16 %", "-33 %"), "MQO": ("+26 %", "a little more")}
    against = [
        [
            base,
            percent(change(found["Sana"], found[base], throughput)),
            sources[base][0],
            percent(change(found["Sana"], found[base], wan_mb_per_s)),
            sources[base][1],
            percent(change(found["Sana"], found[base], latency)),
            "less",
        ]
        for base in sources
    ]
    columns = ["Sana against", "throughput", "source", "WAN bytes", "source", "latency", "source"]
    return f"""## Figure 3.8: the systems

{table(head, rows)}

{table(columns, against)}

NET sends as much for a record as Default does, so the more it takes in, the more it sends; in the source both send the
same. How many bytes Sana saves depends on [how much queries have in common](#how-much-queries-have-in-common), how much
it gains on [how scarce links are](#scarce-links): where they are scarcer still, it gains more over NET and MQO, and
less in latency, as in the source, since some of its own links are full then.

{_plots("3.8")}"""


def _by_stream(rounds: int) -> str:
    """Records by stream, and their sum over all queries, in one table, so that nobody takes one for the other."""
    found = together(rounds, (*SYSTEMS, STRICT, STRICT_FREE))
    streams = dict.fromkeys(query.stream for query in found[SANA.name][0].queries)
    rows = []
    for stream in streams:
        readers = found[SANA.name][0].of_stream(stream)
        rows.append([stream, str(len(readers)), *_processed(found, stream)])
    rows.append(["in all", str(len(QUERIES)), *_processed(found, None)])
    head = ["stream", "queries", "born for a query, records/s", *(f"{name}" for name in found)]
    return f"""### Records per stream and in all

Records/s that a query processed, by the stream that it reads (mean over the queries of the stream), and the sum over
all queries, in which a record counts once for each query that processed it. The source gives throughput per query.

{table(head, rows)}"""


def _processed(found: Mapping[str, Runs], stream: str | None) -> list[str]:
    """Records born for a query and processed with each system; of all queries together where no stream is named."""

    def born(outcome: Outcome) -> float:
        return _mean_or_sum(outcome, stream, lambda query: query.born_per_s)

    def processed(outcome: Outcome) -> float:
        return _mean_or_sum(outcome, stream, lambda query: query.rows_per_s)

    return [over(found[SANA.name], born).text(0), *(over(runs, processed).text(0) for runs in found.values())]


def _mean_or_sum(outcome: Outcome, stream: str | None, value: Callable[[QueryRun], float]) -> float:
    if stream is None:
        return sum(map(value, outcome.queries))
    readers = outcome.of_stream(stream)
    return sum(map(value, readers)) / len(readers)


def _plots(figure: str, names: Sequence[str] = ("throughput", "wan", "latency")) -> str:
    return " ".join(f"![]({PLOTS}/{figure}-{name}.svg)" for name in names)


_OF_QUERIES = (
    ("3.9", "throughput", "throughput", ("+48 %", "", "+87 %")),
    ("3.10", "bytes over the WAN", "wan", ("", "-60 %", "")),
    ("3.11", "latency", "latency", ("-40 %", "", "-68 %")),
)
_ON_QUERIES = {
    "3.9": "",
    "3.10": """
As in the source, 1 and 7 have nothing to share, and send more since they take in more.
""",
    "3.11": """
As in the source, MQO is slower than NET for most. How much latency falls by depends on
[how scarce links are](#scarce-links).
""",
}


def _by_query(rounds: int, plots: Path) -> str:
    say("figures 3.9 to 3.11")
    found = together(rounds)
    parts = []
    for figure, title, name, source in _OF_QUERIES:
        rows: list[list[str]] = []
        series: dict[str, dict[str, Mean]] = {system.name: {} for system in SYSTEMS[1:]}
        for query in QUERIES:
            value = _of(query.name, name)
            changes = [change(found[system.name], found[DEFAULT.name], value) for system in SYSTEMS[1:]]
            rows.append([query.name, *map(percent, changes)])
            for system, difference in zip(SYSTEMS[1:], changes, strict=True):
                series[system.name][query.name] = difference
        bars(
            plots / f"{figure}-{name}.svg",
            Axes(f"{title[0].upper()}{title[1:]} against Default", "query", "change"),
            series,
        )
        most = max if name == "throughput" else min
        rows.append(
            ["the most", *(f"{100 * most(m.value for m in found.values()):+.0f} %" for found in series.values())]
        )
        rows.append(["the most in the source", *source])
        parts.append(f"""## Figure {figure}: {title} of each query against Default

{table(["query", *(system.name for system in SYSTEMS[1:])], rows)}
{_ON_QUERIES[figure]}
{_plots(figure, (name,))}""")
    return "\n\n".join(parts)


def _of(query: str, name: str) -> Value:
    def value(outcome: Outcome) -> float:
        found = outcome.query(query)
        return {"throughput": found.rows_per_s, "wan": found.wan_bytes_per_s, "latency": found.latency_s}[name]

    return value


def _lines(figure: str, series: Series, plots: Path, x: str) -> None:
    for name, title, unit, value in MEASURES:
        found = {system: list(pairs(series, system, value)) for system in series.by_system}
        lines(plots / f"{figure}-{name}.svg", Axes(title, x, unit), found)


def _values(series: Series, text: str) -> list[list[str]]:
    """A row for each place on the x axis: throughput, bytes and latency of each system."""
    rows = []
    for place, x in enumerate(series.xs):
        cells = [text.format(x)]
        for _, _, _, value in MEASURES:
            digits = 2 if value is latency else 0 if value is throughput else 1
            cells += [over(found[place], value).text(digits) for found in series.by_system.values()]
        rows.append(cells)
    return rows


def _head_of(first: str, series: Series) -> list[str]:
    units = ("records/s", "WAN, MB/s", "latency, s")
    return [first, *(f"{system}: {unit}" for unit in units for system in series.by_system)]


def _degrees(rounds: int, plots: Path) -> str:
    say("figure 3.12")
    series = by_count(rounds, (NO_SHARE, STRICT, STRICT_FREE, SANA))
    _lines("3.12", series, plots, "queries")
    own, strict, free, apart = (series.last(s.name) for s in (SANA, STRICT, STRICT_FREE, NO_SHARE))
    rows = [
        ["Sana's throughput against No-Share", percent(change(own, apart, throughput)), "+78 %"],
        ["Sana's throughput against Strict-Share", percent(change(own, strict, throughput)), "+37 %"],
        ["the same, at its own pace", percent(change(own, free, throughput)), "+37 %"],
        ["No-Share's WAN bytes against Sana", percent(change(apart, own, wan_mb_per_s)), "+65 %"],
        ["No-Share's WAN bytes against Strict-Share", percent(change(apart, strict, wan_mb_per_s)), "+41 %"],
        ["the same, at its own pace", percent(change(apart, free, wan_mb_per_s)), "+41 %"],
        ["Sana's latency against No-Share", percent(change(own, apart, latency)), "less"],
        ["of one query, Sana's latency against No-Share", percent(_first(series, "Sana", "No-Share")), "+5 %"],
    ]
    return f"""## Figure 3.12: how much is shared, by the number of queries

{table(_head_of("queries", series), _values(series, "{:.0f}"))}

{table(["12 queries", "here", "source"], rows)}

A source that Strict-Share shares has readers at many sites. Where it goes at the pace of the slowest, it holds all of
them back; the source does not say which of the two its Strict-Share does. The gain over No-Share is that over NET: see
[scarce links](#scarce-links).

{_plots("3.12")}"""


def _first(series: Series, system: str, base: str) -> Mean:
    return change(series.by_system[system][0], series.by_system[base][0], latency)


def _rates(rounds: int, plots: Path) -> str:
    say("figure 3.13")
    series = by_rate(rounds, (NO_SHARE, STRICT, STRICT_FREE, SANA))
    _lines("3.13", series, plots, "times the rates of the source")
    return f"""## Figure 3.13: how much is shared, by the rate of the streams

Queries 2 to 5, two over each of two streams. The source: Sana has the most throughput, the fewest bytes and the least
latency at every rate.

{table(_head_of("rates", series), _values(series, "{:g} times"))}

{_plots("3.13")}"""


def _awareness(rounds: int, plots: Path) -> str:
    say("figure 3.14")
    series = by_count(rounds, (NO_SHARE, MAX_SHARE, SANA))
    _lines("3.14", series, plots, "queries")
    own, most = series.last("Sana"), series.last("Max-Share")
    rows = [
        ["throughput", percent(change(own, most, throughput)), "+35 %"],
        ["latency", percent(change(own, most, latency)), "-23 %"],
        ["WAN bytes", percent(change(own, most, wan_mb_per_s)), "a little more"],
    ]
    return f"""## Figure 3.14: sharing that looks at links and sharing that does not

{table(_head_of("queries", series), _values(series, "{:.0f}"))}

{table(["12 queries, Sana against Max-Share", "here", "source"], rows)}

Max-Share is MQO: it neither looks at links before it shares nor when it places.

{_plots("3.14")}"""


def _savings(rounds: int, plots: Path) -> str:
    say("figure 3.15")
    counted = by_count(rounds, (NO_SHARE, SANA), AMPLE)
    shared = by_ratio(rounds, (NO_SHARE, SANA))
    tables = []
    for part, series, x, text in (
        ("a", counted, "queries", "{:.0f}"),
        ("b", shared, "sharing ratio", "{:.2f}"),
    ):
        found = {system: list(pairs(series, system, wan_mb_per_s)) for system in series.by_system}
        lines(plots / f"3.15{part}-wan.svg", Axes("Bytes over the WAN, wide links", x, "MB/s"), found)
        tables.append(table([x, "No-Share, MB/s", "Sana, MB/s", "saved"], _saved(series, text)))
    ratio = over(counted.last("Sana"), lambda o: o.sharing_ratio)
    return f"""## Figure 3.15: bytes saved where links are wide

A hundred times the bandwidth. The source: up to 60 % fewer bytes, the more the more queries there are (at a sharing
ratio of about 0.2) and the higher the ratio of four queries is. The ratio is that of vertices for which an operator of
another query stands; that of the twelve queries is {ratio.value:.2f}.

{tables[0]}

{tables[1]}

Bytes stop falling when all four read one stream: what more they share are stages, whose output stays at their site.

{_plots("3.15a", ("wan",))} {_plots("3.15b", ("wan",))}"""


def _saved(series: Series, text: str) -> list[list[str]]:
    rows = []
    for place, x in enumerate(series.xs):
        apart, own = (series.by_system[name][place] for name in ("No-Share", "Sana"))
        saved = percent(change(own, apart, wan_mb_per_s))
        rows.append([text.format(x), over(apart, wan_mb_per_s).text(), over(own, wan_mb_per_s).text(), saved])
    return rows
