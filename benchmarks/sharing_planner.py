"""Planning a new query beside thousands that run: parse, draft, fingerprints, both algorithms of docs/sharing.md.

    python -m benchmarks.sharing_planner [--queries 100 1000 10000] [--sites 1000] [--record FILE]

Streams are bound at five of the sites each, at random; every stream has its share of the running queries. Their texts
differ in filters, keys, aggregates and windows; from 1 000 queries on, texts come again. None of them shares anything,
so that all have operators of their own to be compared with. The new query is over a stream of its own (nothing in
common with the others), over one of the streams, or one that runs already. Baseline: the same query planned without
sharing (`net`). Nothing is run, no JVM is started. Ends within two minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from benchmarks.report import make_parser, median, publish, say, table
from planner.estimate.rates import task_rates
from planner.graph.plan import Statistics
from planner.planning import draft_query
from planner.relations.catalog import Binding, Catalog, Column, Relation, RelationKind
from planner.sharing.modes import Sharing
from planner.sharing.plans import Setting, SharingPlan
from planner.sharing.running import MutableRunning
from planner.sharing.schedule import deploy, share
from planner.sharing.vertices import Vertex, vertices_of
from planner.sharing.wan import Wan
from planner.sql import SelectQuery, parse_script
from planner.values.topology import Link, Site, Topology

STREAMS = 400
SITES_OF_A_STREAM = 5
REPEATS = 9
TEXTS = 1000
"""Distinct ones among the running queries."""
COLUMNS = tuple(
    Column(name, type_)
    for name, type_ in (("k", "INT"), ("w", "STRING"), ("v", "INT"), ("d", "DOUBLE"), ("ts", "TIMESTAMP"))
)
KEYS = ("k", "w", "k, w", "upper(w)")
AGGREGATES = ("count(*) AS n", "count(*) AS n, sum(v) AS t", "avg(v) AS a", "max(d) AS m, count(*) AS n")
WINDOWS = ("'10 seconds'", "'30 seconds'", "'1 minute'")


class Mesh(Mapping[tuple[str, str], Link]):
    """A link between any two sites, made when it is asked for: a million of them would not be worth their memory."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: index for index, name in enumerate(names)}

    def __getitem__(self, pair: tuple[str, str]) -> Link:
        source, target = (self._places[name] for name in pair)
        if source == target:
            raise KeyError(pair)
        mixed = source * 31 + target * 17
        return Link(*pair, 2.5e6 * (1 + mixed % 14), timedelta(milliseconds=5 + mixed % 150))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((a, b) for a in self._places for b in self._places if a != b)

    def __len__(self) -> int:
        return len(self._places) * (len(self._places) - 1)


class World:
    """Running queries, and time for a new one."""

    def __init__(self, sites: int) -> None:
        names = [f"site-{number:04}" for number in range(sites)]
        self.random = random.Random(7)
        self.topology = Topology({name: Site(name) for name in names}, Mesh(names), names[0])
        relations = [self._stream(f"stream_{number}") for number in range(STREAMS + 1)]
        self.catalog = Catalog({relation.name: relation for relation in relations})
        self.running = MutableRunning()
        self.count = 0
        self.texts: dict[str, tuple[Vertex, ...]] = {}

    def _stream(self, name: str) -> Relation:
        places = self.random.sample(sorted(self.topology.sites), SITES_OF_A_STREAM)
        bindings = tuple(Binding(place, {"connector": "files", "path": f"/data/{name}"}) for place in sorted(places))
        return Relation(name, RelationKind.STREAM, COLUMNS, bindings, event_time="ts")

    def query(self, stream: str) -> str:
        """Any query over a stream."""
        pick = self.random.choice
        keys = pick(KEYS)
        where = f"v > {self.random.randrange(20)}" + pick(
            ("", " AND w <> 'none'", f" AND k = {self.random.randrange(9)}")
        )
        having = pick(("", f" HAVING count(*) > {self.random.randrange(50)}"))
        group = f"window(ts, {pick(WINDOWS)}), {keys}"
        return f"SELECT {pick(AGGREGATES)} FROM {stream} WHERE {where} GROUP BY {group}{having}"

    def vertices(self, text: str, owner: str) -> tuple[Vertex, ...]:
        (statement,) = parse_script(text)
        assert isinstance(statement, SelectQuery)
        draft = draft_query(statement, self.catalog)
        rates = task_rates(draft, Statistics())
        return vertices_of(draft, self.catalog.relations, rates, owner=owner, gateway=self.topology.gateway)

    def fill(self, queries: int) -> None:
        """Until so many run."""
        while len(self.texts) < min(queries, TEXTS):
            text = self.query(f"stream_{len(self.texts) % STREAMS}")
            self.texts[text] = self.vertices(text, "")
        known = list(self.texts.values())
        while self.count < queries:
            plan = share(f"q-{self.count:05}", known[self.count % len(known)], self._setting(Sharing.NO_SHARE))
            deploy(plan, self.running)
            self.count += 1

    def _setting(self, sharing: Sharing) -> Setting:
        return Setting(self.running, Wan(self.topology), frozenset(self.topology.sites), sharing)

    def plan_s(self, text: str, sharing: Sharing) -> tuple[float, SharingPlan]:
        """Seconds to plan a query, which is not deployed."""
        started_s = time.perf_counter()
        plan = share("new", self.vertices(text, "new"), self._setting(sharing))
        return time.perf_counter() - started_s, plan

    def new(self, kind: str) -> str:
        if kind == "runs already":
            return self.random.choice(list(self.texts))
        return self.query(f"stream_{STREAMS if kind == 'nothing in common' else self.random.randrange(STREAMS)}")


KINDS = ("nothing in common", "over a stream that is read", "runs already")


def measure(sizes: Sequence[int], sites: int) -> tuple[list[str], dict[str, float]]:
    """Returns the parts of the section, and its findings."""
    world = World(sites)
    rows: list[list[str]] = []
    medians: dict[tuple[str, int], float] = {}
    slowest_s = 0.0
    for size in sizes:
        world.fill(size)
        say(f"{size} queries run, {len(world.running)} operators")
        for kind in KINDS:
            texts = [world.new(kind) for _ in range(REPEATS)]
            # The modes take turns text by text, so that neither profits more often from caches that the other filled.
            pairs = [(world.plan_s(text, Sharing.SANA), world.plan_s(text, Sharing.NET)) for text in texts]
            found, plain_s = [mine for mine, _ in pairs], median([base_s for _, (base_s, _) in pairs])
            times_s = [seconds for seconds, _ in found]
            medians[kind, size] = median(times_s)
            slowest_s = max(slowest_s, *times_s)
            compared = median([plan.compared for _, plan in found])
            cells = [medians[kind, size], max(times_s), plain_s]
            figures = [f"{seconds * 1e3:.1f} ms" for seconds in cells]
            rows.append([f"{size:,}, {kind}", *figures, f"{compared:.0f}"])
    head = [
        "running queries, new query",
        "median",
        "slowest",
        "median without sharing",
        "operators compared",
    ]
    growth = medians[KINDS[0], sizes[-1]] / medians[KINDS[0], sizes[0]]
    times = sizes[-1] / sizes[0]
    note = (
        f"{sites:,} sites, {STREAMS} streams at {SITES_OF_A_STREAM} sites each. {times:g} times as many unrelated "
        f"queries take {growth:.2f} times as long."
    )
    return [table(head, rows), note], {"slowest": slowest_s, "growth": growth / times}


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--queries", type=int, nargs="+", default=[100, 1000, 10_000], help="that run, growing")
    parser.add_argument("--sites", type=int, default=1000)
    arguments: argparse.Namespace = parser.parse_args()
    parts, findings = measure(sorted(arguments.queries), arguments.sites)
    publish("sharing_planner", "Planning a query beside those that run", parts, arguments.record, findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
