"""One run: queries come one by one, the planner says what each shares and where it goes, and the streams flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.graph.ids import TaskId
from planner.sharing.modes import Sharing
from planner.sharing.plans import Action, Setting, SharingPlan
from planner.sharing.running import MutableRunning
from planner.sharing.schedule import deploy, share
from planner.sharing.vertices import RESULTS, Vertex
from planner.sharing.wan import Wan
from simulator.clock import Clock
from simulator.network import Link
from simulator.sana.fluid import STEP_S, ChannelUse, Fluid
from simulator.sana.queries import Drafts, Query
from simulator.sana.world import World

GAP_S = 10.0
"""Between two submissions, as in the source."""
SETTLE_S = 20.0
MEASURE_S = 40.0
FULL = 0.95
"""A link that carries this share of its bandwidth is full."""


@dataclass(frozen=True, slots=True)
class System:
    """What is compared."""

    name: str
    sharing: Sharing
    routers: bool = True
    """A site gets a channel once for all its readers; else each reader gets it by itself."""
    sources_wait: bool = True
    """A source that is shared goes at the pace of its slowest channel."""
    at_birthplaces: bool = False
    """Stages run where streams are born, as Selat has it; else whole records come to them, as in the source."""
    keeps_room: bool = True
    """Placement prefers sites whose links have room; else it goes by the cost alone, as in the source."""


@dataclass(frozen=True, slots=True)
class QueryRun:
    """Averages over the time that was measured."""

    name: str
    stream: str
    """The stream that it reads."""
    rows_per_s: float
    """Records of its stream that it processed: those that reached its results."""
    born_per_s: float
    """Records of its stream that were born at its sites."""
    latency_s: float
    """From the birth of a record to the result it is in, over the slowest way; the wait for a window's end left out."""
    wan_bytes_per_s: float
    """What several queries use is divided equally."""


@dataclass(frozen=True, slots=True)
class Outcome:
    queries: tuple[QueryRun, ...]
    wan_bytes_per_s: float
    full_links: int
    sharing_ratio: float
    """Vertices for which an operator of another query stands."""

    @property
    def rows_per_s(self) -> float:
        """Records that a query processed, mean over the queries."""
        return self.rows_in_all_per_s / len(self.queries)

    @property
    def rows_in_all_per_s(self) -> float:
        """Records that all queries processed: one that three queries processed counts three times."""
        return sum(query.rows_per_s for query in self.queries)

    @property
    def share_of_rows(self) -> float:
        """Records that were processed over those that were born for the queries."""
        return self.rows_in_all_per_s / sum(query.born_per_s for query in self.queries)

    @property
    def latency_s(self) -> float:
        """Mean over the queries."""
        return sum(query.latency_s for query in self.queries) / len(self.queries)

    @property
    def wan_bytes_per_row(self) -> float:
        return self.wan_bytes_per_s / self.rows_in_all_per_s

    def of_stream(self, stream: str) -> tuple[QueryRun, ...]:
        """The queries that read a stream."""
        return tuple(query for query in self.queries if query.stream == stream)

    def query(self, name: str) -> QueryRun:
        """Raises KeyError when there is none."""
        for query in self.queries:
            if query.name == name:
                return query
        raise KeyError(name)


def run(world: World, system: System, queries: Sequence[Query], drafts: Drafts) -> Outcome:
    """The queries submitted one after the other, and what they get when all run."""
    simulated = _Run(world, system, drafts)
    clock = Clock()
    for number, query in enumerate(queries):
        clock.at(number * GAP_S, simulated.at(clock, lambda query=query: simulated.submit(query, clock.now_s)))  # type: ignore[misc]  # bound now, not later
    begin_s = len(queries) * GAP_S + SETTLE_S
    clock.at(begin_s, simulated.at(clock, simulated.fluid.reset))
    end_s = begin_s + MEASURE_S
    at_s = world.settings.weather_s
    while at_s < end_s:
        clock.at(at_s, simulated.at(clock, lambda: None))
        at_s += world.settings.weather_s
    clock.at(end_s, simulated.at(clock, lambda: None))
    clock.run()
    return simulated.outcome(queries, begin_s)


@dataclass(slots=True)
class _Run:
    world: World
    system: System
    drafts: Drafts
    running: MutableRunning = field(default_factory=MutableRunning)
    plans: dict[str, SharingPlan] = field(default_factory=dict)
    streams: dict[TaskId, tuple[str, str, float]] = field(default_factory=dict)
    """Stream, site and records per second when it was planned, by source."""
    fluid: Fluid = field(init=False)
    _moved_s: float = 0.0
    _looked_s: float = 0.0

    def __post_init__(self) -> None:
        self.fluid = Fluid(self.world.topology, routers=self.system.routers, sources_wait=self.system.sources_wait)

    def at(self, clock: Clock, action: Callable[[], object]) -> Callable[[], None]:
        """The action, after all has flowed until then."""

        def act() -> None:
            passed_s = clock.now_s - self._moved_s
            if passed_s >= STEP_S and len(self.running):
                self.fluid.advance(passed_s, self._offered(self._moved_s))
            self._moved_s = clock.now_s
            action()

        return act

    def _offered(self, at_s: float) -> dict[TaskId, float]:
        """Bytes per second that each source has to send."""
        rates = {}
        for name, (stream, site, planned) in self.streams.items():
            rows = self.world.rows_per_s(stream, site, at_s)
            rates[name] = self.running.task(name).vertex.output_bytes_per_s * rows / planned
        return rates

    def submit(self, query: Query, now_s: float) -> None:
        births = self.world.births_at(now_s)
        own = self.system.at_birthplaces
        vertices = (self.drafts.vertices if own else self.drafts.carried)(query, births)
        setting = Setting(
            running=self.running,
            wan=Wan(self.world.topology, self._spare(now_s)),
            alive=frozenset(self.world.topology.sites),
            sharing=self.system.sharing,
            open_sites=None if own else self.world.compute,
            keeps_room=self.system.keeps_room,
        )
        plan = share(query.name, vertices, setting)
        deploy(plan, self.running)
        self.plans[query.name] = plan
        for one in plan.deployed:
            if not one.inputs:
                stream, site = self._stream(query, one.vertex), self.running.site(one.id)
                self.streams[one.id] = (stream, site, births.rows_per_s[stream, site])
        self.fluid.deploy(self.running)

    def _stream(self, query: Query, vertex: Vertex) -> str:
        """What a source reads; one that only carries records is called by it."""
        relations = {stage.id: stage.relation for stage in self.drafts.of(query).stages}
        return relations.get(vertex.stage) or vertex.stage

    def _spare(self, now_s: float) -> dict[Link, float]:
        """What a monitor measures: bandwidth without what the links carried since the last submission."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        carried = self.fluid.carried()
        if not passed_s:
            return {}
        links = self.world.topology.links
        return {link: max(0.0, links[link].bandwidth_bytes_per_s - b / passed_s) for link, b in carried.items()}

    def outcome(self, queries: Sequence[Query], begin_s: float) -> Outcome:
        uses = self.fluid.uses()
        wan = [use for use in uses if use.channel.link[0]]
        carried: dict[Link, float] = {}
        for use in wan:
            carried[use.channel.link] = carried.get(use.channel.link, 0.0) + use.bytes_per_s
        links = self.world.topology.links
        decisions = [decision for plan in self.plans.values() for decision in plan.decisions]
        return Outcome(
            queries=tuple(self._queries(queries, uses, begin_s)),
            wan_bytes_per_s=sum(carried.values()),
            full_links=sum(rate >= FULL * links[link].bandwidth_bytes_per_s for link, rate in carried.items()),
            sharing_ratio=sum(decision.action is Action.SHARED for decision in decisions) / len(decisions),
        )

    def _queries(self, queries: Sequence[Query], uses: Sequence[ChannelUse], begin_s: float) -> list[QueryRun]:
        times = [begin_s + offset for offset in range(0, int(MEASURE_S), int(self.world.settings.weather_s))]
        offered = {name: sum(self._offered(at_s)[name] for at_s in times) / len(times) for name in self.streams}
        rows = {
            name: sum(self.world.rows_per_s(stream, site, at_s) for at_s in times) / len(times)
            for name, (stream, site, _) in self.streams.items()
        }
        latencies = self._latencies(uses)
        found = []
        for query in queries:
            used = self._used(query.name)
            sources = sorted(name for name in used if name in self.streams)
            taken = self._taken(used, uses)
            found.append(
                QueryRun(
                    name=query.name,
                    stream=self.streams[sources[0]][0],
                    rows_per_s=sum(rows[name] * taken[name] / offered[name] for name in sources),
                    born_per_s=sum(rows[name] for name in sources),
                    latency_s=max(latencies[name] for name in self._ends(query.name)),
                    wan_bytes_per_s=self._part(query.name, uses),
                )
            )
        return found

    def _taken(self, used: set[TaskId], uses: Sequence[ChannelUse]) -> dict[TaskId, float]:
        """Bytes per second of each source that came to all of its readers among these operators."""
        found: dict[TaskId, float] = {}
        for use in uses:
            name = use.channel.producer
            if name in self.streams and used.intersection(self.fluid.readers(use.channel)):
                found[name] = min(use.bytes_per_s, found.get(name, use.bytes_per_s))
        return found

    def _ends(self, query: str) -> list[TaskId]:
        """The operators that make a query's results."""
        ends = [d for d in self.plans[query].decisions if d.vertex.stage == RESULTS]
        shared = [d.operator for d in ends if d.action is Action.SHARED]
        own = [TaskId.of(query, d.vertex) for d in ends if d.action is not Action.SHARED]
        return [name for name in (*shared, *own) if name is not None]

    def _used(self, query: str) -> set[TaskId]:
        """All that a query's results are made by."""
        found: set[TaskId] = set()
        stack = self._ends(query)
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack += self.running.task(name).inputs
        return found

    def _latencies(self, uses: Sequence[ChannelUse]) -> dict[TaskId, float]:
        """Of each operator's output: over the slowest of its inputs."""
        links = self.world.topology.links
        arriving: dict[TaskId, list[tuple[TaskId, float]]] = {one.id: [] for one in self.running.deployed}
        for use in uses:
            way_s = links[use.channel.link].latency.total_seconds() if use.channel.link[0] else 0.0
            for reader in self.fluid.readers(use.channel):
                arriving[reader].append((use.channel.producer, use.wait_s + way_s))
        found: dict[TaskId, float] = {}
        for name in arriving:  # each stands behind those it reads
            found[name] = max((found[producer] + delay_s for producer, delay_s in arriving[name]), default=0.0)
        return found

    def _part(self, query: str, uses: Sequence[ChannelUse]) -> float:
        part = 0.0
        for use in uses:
            if use.channel.link[0]:
                users = {user for reader in self.fluid.readers(use.channel) for user in self.running.users(reader)}
                part += use.bytes_per_s / len(users) if query in users else 0.0
        return part
