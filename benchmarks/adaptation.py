"""Three queries at four sites while load, links and a site change: with adaptation, without it, and dropping.

    sudo python -m benchmarks.adaptation [--settle 120] [--record FILE]

Each site is a network namespace with an agent and a JVM of its own. The queries: campaigns of the Yahoo streaming
benchmark, the top topics of posts, and events of interest. Links carry 1.6 times what the busiest of them is used for
at first. Then the rate doubles and is restored, the links to the site of the most merges carry half and then all again,
and a site is down for 60 s; `--settle` seconds lie between two changes. All of it is played twice, with adaptation on
and off; `benchmarks.adaptation_no_share` plays it with queries that are placed without regard to links. *Dropping* is
the run without adaptation, less the windows that were late by more than 10 s.

A window's delay is the time from its end until its last row came. The processing ratio is the part of the rows born in
the run that the sources took and no merge refused as late. Needs root; ends after 16 times `--settle` and ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import selat
from benchmarks.namespaces import Place, place
from benchmarks.report import make_parser, median, publish, quantile, say, table
from benchmarks.watching import EPOCH_S, Delay, Watched, delays_of, end, normal_s, rates_of, wait_for_windows, watch
from selat.local.errors import DevError
from selat.wan.errors import WanError
from selat.wan.links import LinkChange
from selat.wan.player import ClusterRates, Stage, play
from selat.wan.scenario import Event, parse_scenario

WAN = "adapt"
SITES = ("us", "eu", "asia", "sa")
LOST = "asia"
LOST_S = 60
NET, NO_SHARE = "net", "no-share"
"""The modes of sharing with which queries are placed."""
PLACED = {
    NET: "Queries are placed by the links' figures (`SET sharing = 'net'`, the default).",
    NO_SHARE: "Queries are placed without regard to links (`SET sharing = 'no-share'`).",
}
ROOM = 1.6
"""Of what the busiest link is used for, each link carries so much."""
WINDOW_S = 10
DROPPED_AFTER_S = 10.0
ROWS_PER_S = 1000
"""Of each stream at each site."""
USED_S = 20.0

TOPOLOGY = """
gateway: us
sites: {us: {slots: 6}, eu: {slots: 6}, asia: {slots: 6}, sa: {slots: 6}}
default_link: {bandwidth: 20Mbit/s, latency: 40ms}
"""
STREAMS = {
    "ad_events": ("ysb", "ad_id STRING, event_type STRING, user_id STRING"),
    "posts": ("posts", "country STRING, user_id STRING, topic STRING"),
}
QUERIES = {
    "campaigns": "SELECT window.end AS e, campaign_id, count(*) AS n FROM ad_events JOIN ads "
    "ON ad_events.ad_id = ads.ad_id WHERE event_type = 'view' GROUP BY window(ts, '10 seconds'), campaign_id",
    "topics": "SELECT window.end AS e, country, topic, count(*) AS n FROM posts "
    "GROUP BY window(ts, '10 seconds'), country, topic "
    "QUALIFY row_number() OVER (PARTITION BY window, country ORDER BY count(*) DESC, topic) <= 10",
    "interest": "SELECT window.end AS e, user_id, country, topic, count(*) AS n FROM posts "
    "WHERE country IN ('my', 'sg', 'us', 'de', 'br') GROUP BY window(ts, '10 seconds'), user_id, country, topic",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What was changed, in seconds from the first change."""

    text: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """One play of the scenario."""

    adaptation: str
    changes: tuple[Change, ...]
    delays: tuple[Delay, ...]
    taken: int
    """Rows that sources took."""
    late: int
    born: int
    moves: int

    @property
    def ratio(self) -> float:
        return (self.taken - self.late) / self.born


def recovered_s(run: Run, change: Change) -> float:
    """How long after a change results were late for the last time, until the next change; 0: never.

    A window whose delay is not normal counts until its last row came.
    """
    next_s = min((one.at_s for one in run.changes if one.at_s > change.at_s), default=float("inf"))
    late = [
        one.end_s + one.delay_s - change.at_s
        for one in run.delays
        if change.at_s <= one.end_s + one.delay_s and one.end_s < next_s
        if one.delay_s > normal_s(run.delays, one.query)
    ]
    return max(late, default=0.0)


def dropping_ratio(run: Run) -> float:
    """The part of all rows that is counted where what is late by more than `DROPPED_AFTER_S` is dropped."""
    rows = sum(one.rows for one in run.delays)
    in_time = sum(one.rows for one in run.delays if one.delay_s <= DROPPED_AFTER_S)
    return run.ratio * in_time / max(1, rows)


def born_rows(schedule: Sequence[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """Rows of a generator that are born in a time, given the times from which its rates hold."""
    total = 0.0
    for number, (since_s, rate) in enumerate(schedule):
        until_s = schedule[number + 1][0] if number + 1 < len(schedule) else float("inf")
        total += rate * max(0.0, min(until_s, end_s) - max(since_s, begin_s))
    return total


def scenario(busy: str, link_bytes_per_s: float, settle_s: int) -> tuple[Event, ...]:
    """All changes; the links to the site `busy` are those that carry less."""
    mbit_per_s = link_bytes_per_s * 8 / 1e6
    rates: list[dict[str, object]] = [
        {"at": f"{at}s", "rate": stream, "factor": factor}
        for at, factor in ((0, 2), (settle_s, 1))
        for stream in STREAMS
    ]
    links = [
        {"at": f"{2 * settle_s}s", "set": f"*->{busy}", "bandwidth": f"{mbit_per_s / 2:.3f}Mbit/s"},
        {"at": f"{3 * settle_s}s", "set": f"*->{busy}", "bandwidth": f"{mbit_per_s:.3f}Mbit/s"},
    ]
    site = [
        {"at": f"{4 * settle_s}s", "kill": LOST},
        {"at": f"{4 * settle_s + LOST_S}s", "revive": LOST},
    ]
    return parse_scenario([*rates, *links, *site], SITES)


def run(root: Path, adaptation: str, settle_s: int, sharing: str = NET) -> Run:
    """Play the scenario once, with clusters of its own."""
    root.mkdir()
    with place(root, WAN, TOPOLOGY, ("--epoch-interval", f"{EPOCH_S * 1000:.0f}")) as at:
        watched = _begin(at.client, adaptation, sharing)
        say(f"adaptation {adaptation}: {len(watched)} queries run")
        wait_for_windows(watched)
        link_bytes_per_s = _narrow(at)
        time.sleep(settle_s)
        begin_s, before = time.time(), _taken(watched)
        changes: list[Change] = []

        def report(event: Event, at_s: float) -> None:
            say(f"{at_s:.0f} s: {event.text}")
            if not changes or at_s - changes[-1].at_s > 1:
                changes.append(Change(event.text, at_s))

        play(
            scenario(_busy(watched), link_bytes_per_s, settle_s),
            Stage(at.emulations, at.record, ClusterRates(at.client)),
            speed=1,
            report=report,
        )
        time.sleep(settle_s)
        end_s, after = time.time(), _taken(watched)
        born = sum(
            born_rows(schedule, begin_s, end_s)
            for one in QUERIES.values()
            for stream in STREAMS
            if f" {stream} " in one
            for schedule in rates_of(at.client, stream, ROWS_PER_S)
        )
        delays = tuple(delays_of(watched, begin_s))
        end(watched)
        moves = len(at.client.moves())
        return Run(adaptation, tuple(changes), delays, after[0] - before[0], after[1] - before[1], round(born), moves)


def _begin(client: selat.Client, adaptation: str, sharing: str) -> dict[str, Watched]:
    everywhere = ", ".join(f"AT {site}" for site in SITES)
    for name, (preset, columns) in STREAMS.items():
        client.sql(
            f"CREATE STREAM {name} ({columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second') "
            f"WITH ('connector' = 'generator', 'preset' = '{preset}', 'startup' = 'latest', "
            f"'rows_per_second' = '{ROWS_PER_S}') {everywhere}"
        )
    client.sql(
        "CREATE TABLE ads (ad_id STRING, campaign_id BIGINT) AT us WITH ('connector' = 'generator', 'rows' = '1000', "
        "'column.ad_id' = 'sequence', 'seed' = '1')"
    )
    client.sql(f"SET sharing = '{sharing}'")
    client.sql(f"SET adaptation = '{adaptation}'")
    return {name: watch(client, text) for name, text in QUERIES.items()}


def _narrow(at: Place) -> float:
    """Give every link `ROOM` times what the busiest is used for; returns that, in bytes per second."""
    used: Counter[tuple[str, str]] = Counter()
    looks = int(USED_S)
    for _ in range(looks):
        for link in at.client.links():
            used[link.from_site, link.to_site] += round(link.used_bytes_per_s / looks)
        time.sleep(1)
    most = max(20_000, *used.values())
    change = LinkChange(bandwidth_bytes_per_s=ROOM * most)
    at.emulations.change(WAN, {(a, b): change for a in SITES for b in SITES if a != b})
    say(f"links carry {ROOM * most * 8 / 1e6:.2f} Mbit/s from now on")
    return ROOM * most


def _busy(watched: dict[str, Watched]) -> str:
    """The site of the most merges."""
    merges = Counter(t.site for one in watched.values() for t in one.query.info().tasks if t.stage_id.startswith("m"))
    return merges.most_common(1)[0][0]


def _taken(watched: dict[str, Watched]) -> tuple[int, int]:
    """Rows that sources took, and that merges refused as late."""
    tasks = [task for one in watched.values() for task in one.query.info().tasks]
    taken = sum(task.rows_in for task in tasks if task.stage_id.startswith("s"))
    return taken, sum(task.rows_late for task in tasks if not task.stage_id.startswith("s"))


def plot(runs: Sequence[Run], width: int = 100) -> str:
    """The worst delay of any query over time, a row of digits for each run: seconds, `+` from 10 on, `.` no window."""
    last_s = max(one.end_s for each in runs for one in each.delays)
    lines = []
    marks = [" "] * width
    for change in runs[0].changes:
        marks[min(width - 1, int(change.at_s / last_s * width))] = "|"
    for each in runs:
        cells = ["."] * width
        for one in each.delays:
            if one.end_s >= 0:
                cell = min(width - 1, int(one.end_s / last_s * width))
                cells[cell] = max(cells[cell].replace(".", "0"), _digit(one.delay_s), key=_rank)
        lines.append(f"{each.adaptation:>4}  {''.join(cells)}")
    return "\n".join([f"      {''.join(marks)}", *lines])


def _digit(delay_s: float) -> str:
    return "+" if delay_s >= 10 else str(int(delay_s))


def _rank(cell: str) -> int:
    return 10 if cell == "+" else int(cell)


def parts_of(runs: Sequence[Run], sharing: str = NET) -> list[str]:
    head = ["run", "processing ratio", "delay, median", "95 %", "most", "rows late", "moves"]
    lines = []
    for each in runs:
        delays = [one.delay_s for one in each.delays if one.end_s >= 0]
        values = (median(delays), quantile(delays, 0.95), max(delays)) if delays else ()
        shown = [f"{value:.1f} s" for value in values] or ["no window"] * 3
        lines.append([f"adaptation {each.adaptation}", f"{each.ratio:.3f}", *shown, str(each.late), str(each.moves)])
    lines.append(["dropping", f"{dropping_ratio(runs[-1]):.3f}", "", "", "", "", ""])
    changes = [
        [one.text, *(f"{recovered_s(each, each.changes[number]):.0f} s" for each in runs)]
        for number, one in enumerate(runs[0].changes)
    ]
    return [
        f"Four sites in namespaces, {len(QUERIES)} queries with windows of {WINDOW_S} s, {ROWS_PER_S:,} rows/s of each "
        f"stream at each site; links carry {ROOM} times what the busiest of them is used for at first. "
        f"{PLACED[sharing]}",
        table(head, lines),
        "How long after a change results were late for the last time:",
        table(["change", *(f"adaptation {each.adaptation}" for each in runs)], changes),
        "The longest delay of a window over time, in seconds (`+`: 10 and more; changes above):",
        f"```\n{plot(runs)}\n```",
    ]


def played(sharing: str, description: str | None) -> tuple[list[Run], argparse.Namespace] | None:
    """Play the changes with each mode; None: the network could not be made, which is told."""
    parser = make_parser(description)
    parser.add_argument("--settle", type=int, default=120, metavar="S", help="seconds between changes")
    parser.add_argument("--modes", nargs="+", choices=["on", "off"], default=["on", "off"], help="of adaptation")
    arguments: argparse.Namespace = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="selat-adaptation-", ignore_cleanup_errors=True) as directory:
            root = Path(directory)
            return [run(root / mode, mode, arguments.settle, sharing) for mode in arguments.modes], arguments
    except (WanError, DevError) as error:
        say(f"{error.message} ({error.hint})")
        return None


def main() -> int:
    done = played(NET, __doc__)
    if done is None:
        return 1
    runs, arguments = done
    found = runs[0]
    findings = {
        "ratio": found.ratio,
        "back": max(recovered_s(found, change) for change in found.changes),
        "kept": 1.0 - found.late / max(1, found.taken),
    }
    publish("adaptation", "Queries while a WAN changes", parts_of(runs), arguments.record, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
