"""Placing running operators anew: one over a thousand sites, and all of a large query in one step.

    python -m benchmarks.placing [--sites 1000] [--operators 20] [--record FILE]

The one operator has ten tasks, reads at five sites or at all of them, and gives to one. The query is a chain of
operators over sixteen sites, with inputs at three of them, and a tree of as many. Where the integer program does not
prove its placement the best in its time, what it found counts, or what placing one by one gives; the table says which.
Baseline: each operator by itself. No process is started. Ends within a minute.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from benchmarks.report import make_parser, median, publish, say, table
from planner.adapt.assign import Demand, assign
from planner.adapt.model import Group, Links, Settings
from planner.adapt.program import Placeable, one_by_one, place_together

T = TypeVar("T")

REPEATS = 9
TASKS = 10
SITES_OF_A_QUERY = 16
RATE_BYTES_PER_S = 200_000.0
SETTINGS = Settings()


def links_of(sites: Sequence[str], drawn: random.Random) -> Links:
    """A mesh with capacities of 2.5 to 35 MB/s and latencies of 5 to 155 ms."""
    pairs = [(a, b) for a in sites for b in sites if a != b]
    capacity = {pair: 2.5e6 * drawn.randint(1, 14) for pair in pairs}
    return Links(capacity, {pair: drawn.randint(5, 155) / 1000 for pair in pairs})


def timed(place: Callable[[], T]) -> tuple[float, T]:
    """Return the median time in seconds, and what was found."""
    times = []
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        found = place()
        times.append(time.perf_counter() - began_s)
    return median(times), found


def chain(number: int, sites: Sequence[str]) -> list[Placeable]:
    """Operators one after the other, each giving out nine tenths of what it takes."""
    names: list[Group] = [("q", f"m{place}") for place in range(number)]
    made = []
    for place, name in enumerate(names):
        inputs = dict.fromkeys(sites[:3], RATE_BYTES_PER_S / 3) if place == 0 else {}
        outputs = {sites[-1]: RATE_BYTES_PER_S * 0.9**number} if place == number - 1 else {}
        feeds = {names[place + 1]: RATE_BYTES_PER_S * 0.9 ** (place + 1)} if place < number - 1 else {}
        made.append(Placeable(name, 1 + place % 2, Demand(inputs, outputs), feeds))
    return made


def tree(number: int, sites: Sequence[str]) -> list[Placeable]:
    """Operators of which each feeds one that two feed; those without others before them read at a site of their own."""
    names: list[Group] = [("q", f"m{place}") for place in range(number)]
    fed_by: dict[int, list[int]] = {}
    for place in range(number - 1):
        fed_by.setdefault(number - 1 - (number - 2 - place) // 2, []).append(place)
    reader = {place: target for target, places in fed_by.items() for place in places}
    made = []
    for place, name in enumerate(names):
        inputs = {} if place in fed_by else {sites[place % len(sites)]: RATE_BYTES_PER_S}
        outputs = {sites[-1]: RATE_BYTES_PER_S} if place == number - 1 else {}
        feeds = {names[reader[place]]: RATE_BYTES_PER_S} if place in reader else {}
        made.append(Placeable(name, 1, Demand(inputs, outputs), feeds))
    return made


def one_operator(sites: int) -> tuple[list[list[str]], float]:
    """Return rows of the table, and the longest time in seconds."""
    drawn = random.Random(7)
    names = [f"site-{number:04}" for number in range(sites)]
    links, slots = links_of(names, drawn), {name: drawn.randint(1, 4) for name in names}
    rows, longest_s = [], 0.0
    for count in (5, sites):
        demand = Demand(dict.fromkeys(names[:count], RATE_BYTES_PER_S / count), {names[-1]: RATE_BYTES_PER_S / 10})
        time_s, placed = timed(partial(assign, demand, TASKS, slots, links, share=SETTINGS.link_share))
        say(f"one operator that reads at {count} of {sites} sites: {time_s * 1000:.1f} ms")
        name = f"{TASKS} tasks, reading at {count:,} of {sites:,} sites"
        rows.append([name, f"{time_s * 1000:.1f} ms", str(len(placed or {}))])
        longest_s = max(longest_s, time_s)
    return rows, longest_s


def a_query(number: int) -> tuple[list[list[str]], float]:
    """Return rows of the table, and the longest time in seconds."""
    drawn = random.Random(7)
    names = [f"site-{place:02}" for place in range(SITES_OF_A_QUERY)]
    links, slots, share = links_of(names, drawn), dict.fromkeys(names, 8), SETTINGS.link_share
    rows, longest_s = [], 0.0
    for kind, operators in (("a chain", chain(number, names)), ("a tree", tree(number, names))):
        together = partial(place_together, operators, slots, links, share=share, time_s=SETTINGS.program_s)
        time_s, found = timed(together)
        base_s, alone = timed(partial(one_by_one, operators, slots, links, share=share))
        say(f"{kind} of {number} operators: {time_s * 1000:.0f} ms, one by one {base_s * 1000:.1f} ms")
        if found is None:
            raise SystemExit(f"no placement of {kind}")
        cells = [f"{time_s * 1000:.0f} ms", f"{found.cost_s:.3f} s", "the best" if found.proven else "not proven"]
        base = [f"{base_s * 1000:.1f} ms", "none" if alone is None else f"{alone.cost_s:.3f} s"]
        rows.append([f"{kind} of {number} operators at {SITES_OF_A_QUERY} sites", *cells, *base])
        longest_s = max(longest_s, time_s)
    return rows, longest_s


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--operators", type=int, default=20)
    arguments: argparse.Namespace = parser.parse_args()
    operator_rows, operator_s = one_operator(arguments.sites)
    query_rows, longest_s = a_query(arguments.operators)
    parts = [
        f"The median of {REPEATS} times, in one process. Latency is summed over the pairs of a task and an end of its "
        "flows.",
        table(["operator", "time", "sites it gets"], operator_rows),
        table(["query", "time", "latency", "that is", "one by one", "its latency"], query_rows),
    ]
    findings = {"operator": operator_s * 1000, "query": longest_s * 1000}
    publish("placing", "Placing running operators anew", parts, arguments.record, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
