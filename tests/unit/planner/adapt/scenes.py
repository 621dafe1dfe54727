"""A query of some sources, a merge in parts and a copy of its results, seen at two instants; and what may be wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from planner.adapt.model import (
    ChannelSeen,
    Counters,
    Edge,
    Graph,
    Links,
    Node,
    Phase,
    Role,
    Seen,
    Settings,
    TaskSeen,
)
from planner.adapt.situation import Situation
from planner.graph.ids import TaskId

START = datetime(2026, 11, 1, tzinfo=UTC)
SPAN_S = 20.0
SETTINGS = Settings()
ROW_BYTES = 100.0


@dataclass(frozen=True)
class Scene:
    """Rates of a query that keeps up, unless it is said otherwise."""

    sources: Mapping[str, float] = field(default_factory=lambda: {"a": 1000.0, "b": 1000.0})
    """Rows per second from outside, by site."""
    merges: tuple[str, ...] = ("hub",)
    home: str = "hub"
    query: str = "q"
    each_s: float = 0.0002
    """Of work, for a row that the merge takes."""
    selectivity: float = 0.1
    state_bytes: int = 1_000_000
    combined: bool = True
    most: int = 64
    late_s: float | None = None
    role: Role = Role.SINK
    shares: tuple[float, ...] = ()
    """Of the rows, by part of the merge; empty: equal ones."""
    links_carry: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Rows per second, of links that carry too little."""
    behind: Mapping[int, float] = field(default_factory=dict)
    """Rows that wait at a part of the merge."""
    tasks: Mapping[TaskId, tuple[TaskSeen, TaskSeen]] = field(default_factory=dict)
    """In the place of what follows from the rates."""
    age_s: float = 600.0

    def source(self, site: str) -> TaskId:
        return TaskId(self.query, "s1", sorted(self.sources).index(site))

    def merge(self, part: int = 0) -> TaskId:
        return TaskId(self.query, "m1", part)

    @property
    def results(self) -> TaskId:
        return TaskId(self.query, "results")

    @property
    def graph(self) -> Graph:
        sources = tuple(Node(self.source(site), Role.SOURCE, site) for site in sorted(self.sources))
        read = tuple(node.id for node in sources)
        merges = tuple(
            Node(
                self.merge(n),
                Role.OPERATOR,
                site,
                read,
                combined=self.combined,
                partials=True,
                most=self.most,
                late_s=self.late_s,
            )
            for n, site in enumerate(self.merges)
        )
        end = Node(self.results, self.role, self.home, tuple(node.id for node in merges))
        return Graph(self.query, (*sources, *merges, end))

    def seen(self) -> tuple[Seen, Seen]:
        """The same query, an interval apart."""
        return self._at(0), self._at(1)

    def _at(self, which: int) -> Seen:
        at = START + timedelta(seconds=self.age_s + which * SPAN_S)
        counters, channels = self._counters(self.age_s + which * SPAN_S)
        tasks = {name: TaskSeen(at, Phase.RUNNING, "i1", found) for name, found in counters.items()}
        for name, pair in self.tasks.items():
            tasks[name] = pair[which]
        return Seen(at, tasks, channels)

    def _counters(self, at_s: float) -> tuple[dict[TaskId, Counters], dict[Edge, ChannelSeen]]:
        shares = self.shares or (1 / len(self.merges),) * len(self.merges)
        tasks, channels = {}, {}
        taken = [0.0] * len(self.merges)
        for site, rate in self.sources.items():
            rows = rate * at_s
            tasks[self.source(site)] = Counters(
                at_s, int(rows), int(rows), int(rows * ROW_BYTES), at_s * 0.2, 0.0, 0.0, 0.0, 0
            )
            for part, target in enumerate(self.merges):
                carried = min(rate, self.links_carry.get((site, target), rate)) * shares[part]
                produced = rate * shares[part]
                behind = self.behind.get(part, 0.0) / len(self.sources) * at_s / (self.age_s + SPAN_S)
                # What a link is too slow for has waited for the last two intervals.
                late_s = at_s - self.age_s + SPAN_S
                stored = produced * at_s - (produced - carried) * late_s
                took = int(stored - behind)
                taken[part] += took
                channels[self.source(site), self.merge(part)] = ChannelSeen(int(produced * at_s), int(stored), took)
        for part, rows in enumerate(taken):
            out = int(rows * self.selectivity)
            busy_s = min(rows * self.each_s, at_s)
            size = int(out * ROW_BYTES)
            found = Counters(at_s, int(rows), out, size, busy_s, 0.0, 0.0, 0.0, None, self.state_bytes)
            tasks[self.merge(part)] = found
            channels[self.merge(part), self.results] = ChannelSeen(out, out, out)
        whole = int(sum(taken) * self.selectivity)
        tasks[self.results] = Counters(at_s, whole, 0, 0, 0.0, 0.0, 0.0, 0.0)
        return tasks, channels

    def situation(self, links: Links, slots: Mapping[str, int]) -> Situation:
        return Situation((self.graph,), *self.seen(), links, slots)

    def changed(self, task: TaskId, *, phase: Phase = Phase.RUNNING, ago_s: float = 0.0, **counters: object) -> Scene:
        """With the last counters of a task changed."""
        first, last = (one.tasks[task] for one in self.seen())
        changed = replace(last.counters, **counters)  # type: ignore[arg-type]
        news = replace(last, at=last.at - timedelta(seconds=ago_s), phase=phase, counters=changed)
        return replace(self, tasks={**self.tasks, task: (first, news)})


def mesh(sites: str | tuple[str, ...], bytes_per_s: float = 1e6, **others: float) -> Links:
    """All pairs alike, but for those named `a_b`."""
    pairs = [(x, y) for x in sites for y in sites if x != y]
    capacity = {pair: others.get("_".join(pair), bytes_per_s) for pair in pairs}
    return Links(capacity, dict.fromkeys(pairs, 0.04))


def later(situation: Situation, seconds: float) -> Situation:
    """The same picture at a later time."""
    shift = timedelta(seconds=seconds)

    def moved(seen: Seen) -> Seen:
        tasks = {name: replace(one, at=one.at + shift) for name, one in seen.tasks.items()}
        return replace(seen, at=seen.at + shift, tasks=tasks)

    return replace(situation, before=moved(situation.before), after=moved(situation.after))


def together(scenes: Sequence[Scene], links: Links, slots: Mapping[str, int]) -> Situation:
    """Return the queries of several scenes, seen at the same two instants."""
    seen = [scene.seen() for scene in scenes]
    before, after = (
        Seen(
            seen[0][n].at,
            {name: one for pair in seen for name, one in pair[n].tasks.items()},
            {edge: one for pair in seen for edge, one in pair[n].channels.items()},
        )
        for n in (0, 1)
    )
    return Situation(tuple(scene.graph for scene in scenes), before, after, links, slots)
