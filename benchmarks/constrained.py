"""Counts queries on a link that is cut: the queries, constrained time, figures by order, the report. Pure.

See `benchmarks.adaptation_orders`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.report import table
from benchmarks.watching import Delay, normal_s
from evidence.criteria import Finding

SITES = ("asia", "eu", "sa", "us")
GATEWAY = SITES[0]
LINK = ("eu", GATEWAY)
"""It is cut."""
ORDERS = ("nako", "first", "slo")
CUT_TO = 1 / 3
LINK_MBIT_PER_S = 1.05
"""Each link carries so much before the cut."""
STREAM = "visits"
ROWS_PER_S = 500
"""The rate of the stream at each site."""
SLIDE_S = 10
"""A window of each query ends every so many seconds."""
PAGES, VISITORS = 5_000, 50_000
"""Hardly any comes twice in an epoch."""
BUSY = 8
"""The mean number of visits of a page in ten seconds is four."""


@dataclass(frozen=True, slots=True)
class Query:
    """One of the five."""

    kind: str
    window_s: int
    sql: str


def _pages(condition: str) -> str:
    """Each page's visits in ten seconds, of those that anybody looked at."""
    return (
        f"SELECT window.end AS e, page, count(*) AS n FROM {STREAM} GROUP BY window(ts, '10 seconds'), page "
        f"HAVING sum(seconds) + sum(scrolled) + sum(spent) > 0{condition}"
    )


def _totals(key: str, window_s: int) -> str:
    """A row for each window: the number of rows, and the most that one of them spent."""
    window = f"'{window_s} seconds'" + ("" if window_s == SLIDE_S else f", '{SLIDE_S} seconds'")
    return (
        "SELECT e, sum(n) AS n, count(*) AS met, max(spent) AS spent, max(seconds) AS seconds, max(scrolled) AS far "
        f"FROM (SELECT window.end AS e, {key}, count(*) AS n, sum(spent) AS spent, sum(seconds) AS seconds, "
        f"sum(scrolled) AS scrolled FROM {STREAM} GROUP BY window(ts, {window}), {key}) AS g GROUP BY e"
    )


PAIR = ("pages", "busy pages")
QUERIES = {
    "pages": Query(f"{PAGES:,} pages", 10, _pages("")),
    "busy pages": Query("the busy ones of these", 10, _pages(f" AND count(*) > {BUSY}")),
    "visitors": Query(f"{VISITORS:,} visitors", 10, _totals("visitor", 10)),
    "sessions": Query("a million sessions, half a minute", 30, _totals("session", 30)),
    "long sessions": Query("a million sessions, a minute", 60, _totals("session", 60)),
}


@dataclass(frozen=True, slots=True)
class Need:
    """The needs of one query before the cut."""

    link_bytes_per_s: float
    """The rate on the link that is cut; 0: the query makes its results of another query's."""
    state_bytes: float


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a task. Times are seconds from the cut."""

    query: str
    stage: str
    from_site: str
    to_site: str
    asked_s: float
    took_s: float | None
    """None: it is under way."""
    moved: bool

    @property
    def text(self) -> str:
        took = "under way" if self.took_s is None else f"{self.took_s:.0f} s{'' if self.moved else ', not moved'}"
        return f"{self.query} {self.stage} {self.from_site} > {self.to_site} at {self.asked_s:.0f} s ({took})"


@dataclass(frozen=True, slots=True)
class Play:
    """One cut under one order."""

    order: str
    submitted: tuple[str, ...]
    end_s: float
    """From the cut."""
    delays: tuple[Delay, ...]
    bytes: int
    """Over all links since the cut."""
    moves: tuple[Move, ...]
    wrong: tuple[str, ...]
    needs: Mapping[str, Need]

    @property
    def whole(self) -> bool:
        return not self.wrong

    @property
    def delay_s(self) -> float:
        """The mean over all windows of all queries that ended since the cut."""
        found = [one.delay_s for one in self.delays if one.end_s >= 0]
        return sum(found) / len(found)

    def constrained_s(self, query: str) -> float:
        """For how long results of a query were missing that should have been there."""
        late_s = normal_s(self.delays, query)
        windows = (one for one in self.delays if one.query == query and one.end_s >= 0)
        return covered_s([(one.end_s + late_s, one.end_s + one.delay_s) for one in windows])

    @property
    def mean_constrained_s(self) -> float:
        """The mean over the queries."""
        return sum(self.constrained_s(query) for query in self.submitted) / len(self.submitted)

    @property
    def text(self) -> str:
        """One line for people."""
        wrong = f"; wrong: {', '.join(self.wrong)}" if self.wrong else ""
        return (
            f"{self.order}: {len(self.moves)} moves, constrained for {self.mean_constrained_s:.0f} s, mean delay "
            f"{self.delay_s:.1f} s, {self.bytes / 1e6:.1f} MB{wrong}"
        )


def submissions(rounds: int) -> Iterator[tuple[str, ...]]:
    """An order of the queries for each round, drawn; the one that shares comes after the one that it shares with."""
    for number in range(rounds):
        names = [name for name in QUERIES if name != PAIR[1]]
        Random(number).shuffle(names)
        place = names.index(PAIR[0]) + 1
        yield (*names[:place], PAIR[1], *names[place:])


def covered_s(spans: Sequence[tuple[float, float]]) -> float:
    """Return the time that is in any of the spans; one that ends before it begins has nothing."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def to_the_end(delays: Sequence[Delay], every_s: float, end_s: float) -> tuple[Delay, ...]:
    """With the windows that had ended by the end of a run and not come: as late as they are then, without rows."""
    found = [one for one in delays if one.end_s + one.delay_s <= end_s]
    for query in dict.fromkeys(one.query for one in delays):
        known = {round(one.end_s, 3) for one in found if one.query == query}
        window_s = next(one.end_s for one in delays if one.query == query) % every_s
        # One that has just ended is not missed yet.
        while window_s <= end_s - every_s:
            if round(window_s, 3) not in known:
                found.append(Delay(query, window_s, end_s - window_s, 0))
            window_s += every_s
    return tuple(found)


def wrong_windows(counts: Mapping[str, Mapping[int, Sequence[int]]]) -> tuple[str, ...]:
    """The windows without exactly the rows that were born in them, by query and end, given the counts of their rows."""
    wrong = []
    for query, windows in counts.items():
        for end_s, found in sorted(windows.items()):
            if query != PAIR[1]:
                right = sum(found) == ROWS_PER_S * len(SITES) * QUERIES[query].window_s
            else:
                whole = counts.get(PAIR[0], {}).get(end_s)
                right = whole is None or list(found) == [n for n in whole if n > BUSY]
            wrong += [] if right else [f"{query} at {end_s} s"]
        # Those that are out are out in order.
        gaps = range(min(windows, default=0), max(windows, default=0), SLIDE_S)
        wrong += [f"{query} at {end_s} s is missing" for end_s in gaps if end_s not in windows]
    return tuple(wrong)


def _means(plays: Sequence[Play], figure: Callable[[Play], float]) -> dict[str, float]:
    """Return the figures of each order over its rounds."""
    return {order: mean([figure(one) for one in plays if one.order == order]) for order in ORDERS}


def _over(value: float, base: float) -> Finding:
    return Finding(value / base) if base else Finding(1.0 if not value else None, "" if not value else "over nothing")


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def findings(plays: Sequence[Play]) -> dict[str, Finding]:
    """Return ratios of means over all rounds: nako over the better of the others, the worse of the others over nako."""
    if {one.order for one in plays} != set(ORDERS):
        return {}
    figures = {
        "moves": _means(plays, lambda one: len(one.moves)),
        "delay": _means(plays, lambda one: one.delay_s),
        "bytes": _means(plays, lambda one: one.bytes),
        "time": _means(plays, lambda one: one.mean_constrained_s),
    }
    found = {key: _over(of["nako"], min(of["first"], of["slo"])) for key, of in figures.items()}
    constrained = figures["time"]
    found["gain"] = _over(max(constrained["first"], constrained["slo"]), constrained["nako"])
    found["right"] = Finding(float(all(one.whole for one in plays)))
    return found


def parts_of(plays: Sequence[Play]) -> list[str]:
    """The tables: by order, by round, the moves, and what the queries are like."""
    return [
        f"Four sites in namespaces, {ROWS_PER_S:,} rows/s at each, five queries over all of them whose merges are at "
        f"the gateway, {GATEWAY}; results come every {SLIDE_S} s. Links carry {LINK_MBIT_PER_S:g} Mbit/s, and the one "
        f"from {LINK[0]} to {LINK[1]} a third of that from second 0 on. {plays[0].end_s:.0f} s are looked at. Means "
        "over the rounds, and each round:",
        _by_order(plays),
        "*Constrained*: for how long results were missing that should have been there for longer than is normal (twice "
        "the median before the cut, and two epochs); the mean over the queries. *Delay*: from a window's end to its "
        "last row, the mean over all windows and queries. *Link bytes*: all that sites received from each other since "
        "the cut.",
        _by_query(plays),
        "The tasks that moved, and when, in seconds from the cut; queries in the order of their submission, another "
        "one in each round:",
        _by_round(plays),
        "The workload is that of Nako's figures 5.6 and 5.7, in small: queries of equal rates and unequal state, for "
        "all of which a link is too narrow, and of which some need to leave (there two of six, here two of the four "
        "that send anything of their own). The bandwidth, which leaves as much room, and the windows, which make for "
        "some 3, 8, 30 and 60 s of state, were chosen before any two orders were compared. All rows of all windows "
        "were counted: "
        + ("none was missing or came twice." if all(one.whole for one in plays) else f"**wrong**: {_wrong(plays)}."),
    ]


def _by_order(plays: Sequence[Play]) -> str:
    rows = []
    for order in dict.fromkeys(one.order for one in plays):
        own = [one for one in plays if one.order == order]
        rows.append(
            [
                order,
                _each([len(one.moves) for one in own], "{:.1f}", "{:.0f}"),
                _each([one.mean_constrained_s for one in own], "{:.0f} s", "{:.0f}"),
                _each([one.delay_s for one in own], "{:.1f} s", "{:.1f}"),
                _each([one.bytes / 1e6 for one in own], "{:.1f} MB", "{:.1f}"),
            ]
        )
    return table(["order", "moves", "constrained", "delay", "link bytes"], rows)


def _each(values: Sequence[float], form: str, short: str) -> str:
    of_rounds = ", ".join(short.format(value) for value in values)
    return form.format(mean(values)) + (f" ({of_rounds})" if len(values) > 1 else "")


def _by_query(plays: Sequence[Play]) -> str:
    """Return a table of the queries and of the time for which each was constrained under each order."""
    orders = list(dict.fromkeys(one.order for one in plays))
    rows = []
    for name, query in QUERIES.items():
        needs = [one.needs[name] for one in plays]
        sent, held = mean([n.link_bytes_per_s for n in needs]), mean([n.state_bytes for n in needs])
        times = [mean([one.constrained_s(name) for one in plays if one.order == order]) for order in orders]
        rows.append(
            [
                f"{name}: {query.kind}",
                f"{query.window_s} s",
                f"{sent / 1e3:.1f} kB/s" if sent else "",
                f"{held / 1e3:,.0f} kB" if held else "",
                *(f"{value:.0f} s" for value in times),
            ]
        )
    head = ["query", "windows", "sends over the link", "state", *(f"constrained, {order}" for order in orders)]
    return table(head, rows)


def _by_round(plays: Sequence[Play]) -> str:
    lines = []
    for submitted in dict.fromkeys(one.submitted for one in plays):
        lines.append(f"- {', '.join(submitted)}")
        own = [one for one in plays if one.submitted == submitted]
        lines += [f"    - {one.order}: {'; '.join(move.text for move in one.moves) or 'none'}" for one in own]
    return "\n".join(lines)


def _wrong(plays: Sequence[Play]) -> str:
    return "; ".join(f"{one.order}: {', '.join(one.wrong)}" for one in plays if one.wrong)
