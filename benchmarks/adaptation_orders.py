"""Five queries at four sites, two of which share, when a link is cut to a third: the three orders of adaptation.

    sudo python -m benchmarks.adaptation_orders [--rounds 3] [--settle 80] [--watch 180] [--record FILE]

Each site is a network namespace with an agent and a JVM of its own. All queries read all sites, and their merges are at
the gateway, where results are read; so about as much of each crosses the link that is cut. They differ in their state:
some 3 to 60 seconds of what comes in. In each round the queries are submitted in another order, the same for `nako`,
`first` and `slo`, which run in turn, each with a cluster of its own. `--settle` seconds pass before the cut, `--watch`
seconds after it.

A window's delay is the time from its end until its last row came; one that has not come by the end of a run is as late
as it is then. The constrained time of a query is the time during which results were missing that should have been
there, for longer than is normal. Needs root; ends after nine times `--settle`, `--watch` and two minutes: an hour.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import selat
from benchmarks.constrained import (
    CUT_TO,
    GATEWAY,
    LINK,
    LINK_MBIT_PER_S,
    ORDERS,
    PAGES,
    PAIR,
    QUERIES,
    ROWS_PER_S,
    SITES,
    SLIDE_S,
    STREAM,
    VISITORS,
    Move,
    Need,
    Play,
    findings,
    parts_of,
    submissions,
    to_the_end,
    wrong_windows,
)
from benchmarks.namespaces import place
from benchmarks.report import make_parser, publish, say
from benchmarks.sharing_counts import between, link_bytes
from benchmarks.watching import EPOCH_S, Watched, delays_of, end, rates_of, sleep_until, wait_for_windows, watch
from selat.client.moves import MoveStep
from selat.errors import Detail
from selat.local.errors import DevError
from selat.wan.errors import WanError
from selat.wan.links import LinkChange

WAN = "orders"
TOPOLOGY = f"""
gateway: {GATEWAY}
sites: {{asia: {{slots: 12}}, eu: {{slots: 6}}, sa: {{slots: 6}}, us: {{slots: 6}}}}
default_link: {{bandwidth: {LINK_MBIT_PER_S:g}Mbit/s, latency: 40ms}}
"""
FEW_ROWS_PER_S = 20
"""While queries start: so no rows wait that would have them moved before the cut."""
TRIES = 3


class DisturbedError(Exception):
    """Something was moved before the cut: what follows cannot be compared."""


def run(root: Path, order: str, submitted: Sequence[str], times: argparse.Namespace) -> Play:
    """Cut the link once, with a cluster of its own.

    Args:
        root: a directory that is made.
        order: of adaptation.
        submitted: the queries, in the order of their submission.
        times: `settle` and `watch`.

    Raises:
        DisturbedError: a task was moved before the cut.
    """
    root.mkdir()
    arguments = ("--epoch-interval", f"{EPOCH_S * 1000:.0f}", "--adaptation", "on", "--adaptation-order", order)
    with place(root, WAN, TOPOLOGY, arguments) as at:
        watched = _begin(at.client, submitted)
        say(f"order {order}: {', '.join(watched)} run")
        wait_for_windows(watched)
        at.client.alter(STREAM, {"rows_per_second": str(ROWS_PER_S)})
        full_s = max(schedule[-1][0] for schedule in rates_of(at.client, STREAM, FEW_ROWS_PER_S))
        sleep_until(full_s)
        needs = _needs(watched, times.settle)
        if early := at.client.moves():
            raise DisturbedError(f"{early[0].stage} of {early[0].query_id} moved before the cut")
        before, begin_s = link_bytes(at.client.sites()), time.time()
        at.emulations.change(WAN, {LINK: LinkChange(bandwidth_bytes_per_s=LINK_MBIT_PER_S * 1e6 / 8 * CUT_TO)})
        say(f"the link {' > '.join(LINK)} carries {LINK_MBIT_PER_S * CUT_TO:.2f} Mbit/s from now on")
        moves = _followed(at.client, watched, begin_s, times.watch)
        end_s = time.time() - begin_s
        size = sum(between(before, link_bytes(at.client.sites())).values())
        end(watched)
    counts = {name: _counts(one, begin_s, full_s + QUERIES[name].window_s) for name, one in watched.items()}
    delays = to_the_end(tuple(delays_of(watched, begin_s)), SLIDE_S, end_s)
    return Play(order, tuple(submitted), end_s, delays, size, moves, wrong_windows(counts), needs)


def _undisturbed(root: Path, order: str, submitted: Sequence[str], times: argparse.Namespace) -> Play:
    """A play in which nothing moved before the cut. Raises DevError when there is none in some tries."""
    root.mkdir()
    for number in range(TRIES):
        try:
            return run(root / str(number), order, submitted, times)
        except DisturbedError as error:
            say(f"{error}; it is played again")
    raise DevError(
        f"tasks moved before the cut, {TRIES} times",
        detail=Detail(hint="this machine is too slow for the benchmark, or busy"),
    )


def _begin(client: selat.Client, submitted: Sequence[str]) -> dict[str, Watched]:
    places = ", ".join(f"AT {site}" for site in SITES)
    client.sql(
        f"CREATE STREAM {STREAM} (page BIGINT, visitor BIGINT, session BIGINT, seconds DOUBLE, scrolled DOUBLE, "
        "spent DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second') WITH ('connector' = 'generator', "
        f"'startup' = 'latest', 'rows_per_second' = '{FEW_ROWS_PER_S}', 'column.page' = 'uniform(1, {PAGES})', "
        f"'column.visitor' = 'uniform(1, {VISITORS})', 'column.session' = 'uniform(1, 1000000)') {places}"
    )
    watched = {}
    for name in submitted:
        # In both modes, merges are at the site of the first input, whatever the links' figures are.
        client.sql(f"SET sharing = '{'max-share' if name in PAIR else 'no-share'}'")
        watched[name] = watch(client, QUERIES[name].sql)
    tasks = {task.task_id: task for one in watched.values() for task in one.query.info().tasks}
    elsewhere = [task for task in tasks.values() if task.stage_id.startswith("m") and task.site != GATEWAY]
    if elsewhere:
        raise DevError(
            f"the merge {elsewhere[0].task_id} is at {elsewhere[0].site}, not at {GATEWAY}",
            detail=Detail(hint="queries are placed in another way than this benchmark was made for"),
        )
    return watched


def _needs(watched: Mapping[str, Watched], settle_s: float) -> dict[str, Need]:
    """Return the bytes that each query sends over the link and holds, once links have been as they are for a while."""
    before = {name: _sent_bytes(one.query.info()) for name, one in watched.items()}
    sleep_until(time.time() + settle_s)
    needs = {}
    for name, one in watched.items():
        info = one.query.info()
        held = sum(task.state_bytes for task in info.tasks if task.query_id == info.id)
        needs[name] = Need((_sent_bytes(info) - before[name]) / settle_s, held)
    return needs


def _counts(watched: Watched, begin_s: float, whole_s: float) -> dict[int, list[int]]:
    """The counts of the rows of each window, by the seconds from the cut to its end; whole ones since the cut."""
    return {
        int(end.timestamp() - begin_s): sorted(counts)
        for end, counts in watched.counts.items()
        if end.timestamp() >= max(begin_s, whole_s)
    }


def _sent_bytes(info: selat.QueryInfo) -> int:
    """Return the bytes that the query's own source gave out at the site where the link begins."""
    own = (task for task in info.tasks if task.query_id == info.id and task.site == LINK[0])
    return sum(task.bytes_out for task in own if task.stage_id.startswith("s"))


def _followed(client: selat.Client, watched: Mapping[str, Watched], begin_s: float, watch_s: float) -> tuple[Move, ...]:
    """Look at the queries for so long; all moves."""
    names = {one.query.id: name for name, one in watched.items()}
    found: dict[tuple[str, str, float], Move] = {}
    while time.time() < begin_s + watch_s:
        for one in client.moves():
            asked_s = one.asked_at.timestamp() - begin_s
            took_s = (one.since - one.asked_at).total_seconds() if one.step.over else None
            move = Move(
                names[one.query_id], one.stage, one.from_site, one.to_site, asked_s, took_s, one.step is MoveStep.MOVED
            )
            if found.get((one.query_id, one.stage, asked_s)) != move:
                found[one.query_id, one.stage, asked_s] = move
                say(f"{time.time() - begin_s:.0f} s: {move.text}")
        sleep_until(time.time() + 1)
    return tuple(sorted(found.values(), key=lambda move: move.asked_s))


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of all orders")
    parser.add_argument("--settle", type=int, default=80, metavar="S", help="seconds before the cut")
    parser.add_argument("--watch", type=int, default=180, metavar="S", help="seconds after the cut")
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS), help="of adaptation")
    arguments: argparse.Namespace = parser.parse_args()
    plays: list[Play] = []
    try:
        with tempfile.TemporaryDirectory(prefix="selat-orders-", ignore_cleanup_errors=True) as directory:
            for number, submitted in enumerate(submissions(arguments.rounds)):
                for order in arguments.orders:
                    plays.append(_undisturbed(Path(directory) / f"{number}-{order}", order, submitted, arguments))
                    say(plays[-1].text)
    except (WanError, DevError) as error:
        say(f"{error.message} ({error.hint})")
        return 1
    found = findings(plays)
    publish("adaptation_orders", "Which query is adapted first", parts_of(plays), arguments.record, found)
    return 0 if all(one.whole for one in plays) else 1


if __name__ == "__main__":
    sys.exit(main())
