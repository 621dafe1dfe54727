"""A query as a fluid: rows flow from sources through links and operators to a sink, and wait where too few pass.

A flow may be of several queries, where they share operators. Flows that share nothing but links are each their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from planner.adapt.model import (
    ChannelSeen,
    Counters,
    Edge,
    Graph,
    Group,
    Links,
    Node,
    Phase,
    Role,
    Seen,
    TaskSeen,
)
from planner.graph.ids import TaskId
from planner.values.links import Pair

START = datetime(2026, 1, 1, tzinfo=UTC)
ROW_BYTES = 75.0
STEP_S = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """What a query is like."""

    name: str
    state_bytes: float
    """Of each operator, all its tasks together."""
    selectivity: float = 0.1
    rows_per_s: float = 60_000.0
    """That a task can take."""
    most: int = 64
    row_bytes: float = ROW_BYTES


@dataclass(slots=True)
class _Task:
    began_s: float
    rows_in: float = 0.0
    rows_out: float = 0.0
    useful_s: float = 0.0


@dataclass(slots=True)
class _Channel:
    produced: float = 0.0
    stored: float = 0.0
    taken: float = 0.0


@dataclass(frozen=True, slots=True)
class _Wiring:
    """A graph, indexed by task and channel: each step asks for all of it."""

    nodes: Mapping[TaskId, Node]
    links: Mapping[Edge, Pair | None]
    outputs: Mapping[TaskId, tuple[tuple[Edge, int], ...]]
    """The channels to a task's readers, each with the number of parallel tasks that divide the rows."""
    parallel: Mapping[Group, int]

    @classmethod
    def of(cls, graph: Graph) -> _Wiring:
        nodes = {node.id: node for node in graph.nodes}
        links: dict[Edge, Pair | None] = {}
        readers: dict[TaskId, list[Node]] = defaultdict(list)
        for edge in graph.edges:
            ends = nodes[edge[0]].site, nodes[edge[1]].site
            links[edge] = None if ends[0] == ends[1] else ends
            readers[edge[0]].append(nodes[edge[1]])
        outputs = {}
        for writer, found in readers.items():
            parts = Counter(node.group for node in found)
            outputs[writer] = tuple(((writer, node.id), parts[node.group]) for node in found)
        return cls(nodes, links, outputs, Counter(node.group for node in graph.nodes))


@dataclass
class Flow:
    """The state of a run. Tasks that hand over go on until the new ones take over what waits."""

    graph: Graph
    load: Load
    loads: Mapping[Group, Load] = field(default_factory=dict)
    """The loads of operators that are unlike the others."""
    at_s: float = 0.0
    arrived: float = 0.0
    passed: float = 0.0
    """Rows that operators behind sources took."""
    dropped: float = 0.0
    """Rows of sources that were dropped before a link."""
    crossed_bytes: float = 0.0
    """The bytes that crossed links."""
    tasks: dict[TaskId, _Task] = field(default_factory=dict)
    channels: dict[Edge, _Channel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tasks = {node.id: _Task(self.at_s) for node in self.graph.nodes}
        self.channels = {edge: _Channel() for edge in self.graph.edges}
        self._wiring = _Wiring.of(self.graph)

    def step(self, rates: Mapping[str, float], links: Links, paused: frozenset[Group]) -> None:
        """Half a second: arrivals by site, links as they are now, operators that stand still."""
        self.work(rates, paused)
        carry([self], links)

    def work(self, rates: Mapping[str, float], paused: frozenset[Group]) -> None:
        """Do what a step does at sites: sources give rows out, operators take what has arrived."""
        self.at_s += STEP_S
        for node in self.graph.nodes:
            task = self.tasks[node.id]
            if not node.inputs:
                new = rates[node.site] * STEP_S
                task.rows_in += new
                self.arrived += new
                self._give(node, task, new)
            elif node.group not in paused:
                self._take(node, task)

    @property
    def operators(self) -> frozenset[Group]:
        return frozenset(node.group for node in self.graph.nodes if node.role is Role.OPERATOR)

    def drop(self, rates: Mapping[str, float], after_s: float) -> None:
        """Drop what sources have given out and would wait longer than that, of the rows that have not left yet."""
        for (writer, reader), channel in self.channels.items():
            node = self._wiring.nodes[writer]
            if node.role is not Role.SOURCE:
                continue
            due = rates[node.site] / self._wiring.parallel[self._wiring.nodes[reader].group]
            excess = min(channel.produced - channel.taken - due * after_s, channel.produced - channel.stored)
            if excess > 0:
                channel.produced -= excess
                self.dropped += excess

    def _give(self, node: Node, task: _Task, rows: float) -> None:
        task.rows_out += rows
        for edge, parts in self._wiring.outputs.get(node.id, ()):
            self.channels[edge].produced += rows / parts

    def _load(self, group: Group) -> Load:
        return self.loads.get(group, self.load)

    def _take(self, node: Node, task: _Task) -> None:
        load = self._load(node.group)
        waiting = {writer: self._behind((writer, node.id)) for writer in node.inputs}
        whole = sum(waiting.values())
        most = load.rows_per_s * STEP_S if node.role is Role.OPERATOR else whole
        part = min(1.0, most / whole) if whole > 0 else 0.0
        for writer, rows in waiting.items():
            self.channels[writer, node.id].taken += rows * part
            if self._wiring.nodes[writer].role is Role.SOURCE:
                self.passed += rows * part
        task.rows_in += whole * part
        task.useful_s += whole * part / load.rows_per_s
        self._give(node, task, whole * part * (load.selectivity if node.role is Role.OPERATOR else 0.0))

    def _behind(self, edge: Edge) -> float:
        return self.channels[edge].stored - self.channels[edge].taken

    def sends(self) -> Mapping[Pair, float]:
        """Return the bytes that wait before each link."""
        wanted: dict[Pair, float] = {}
        for edge, channel in self.channels.items():
            if (link := self._wiring.links[edge]) is not None:
                size = (channel.produced - channel.stored) * self._load(edge[0][:2]).row_bytes
                wanted[link] = wanted.get(link, 0.0) + size
        return wanted

    def arrive(self, parts: Mapping[Pair, float]) -> None:
        """Let what waits before each link pass, or this part of it; what crosses none is there at once."""
        for edge, channel in self.channels.items():
            link = self._wiring.links[edge]
            if link is None:
                channel.stored = channel.produced
            elif link in parts:
                rows = (channel.produced - channel.stored) * parts[link]
                channel.stored += rows
                self.crossed_bytes += rows * self._load(edge[0][:2]).row_bytes

    def delay_s(self, links: Links, rates: Mapping[str, float]) -> float:
        """Return the delay of the slowest way to a sink: latencies, and waiting rows over the rate due."""
        return max(self.delays_s(links, rates).values())

    def delays_s(self, links: Links, rates: Mapping[str, float]) -> Mapping[TaskId, float]:
        """Return that of the slowest way to each task."""
        expected: dict[TaskId, float] = {}
        until: dict[TaskId, float] = {}
        for node in self.graph.nodes:
            if not node.inputs:
                expected[node.id], until[node.id] = rates[node.site], 0.0
                continue
            ways, taken = [], 0.0
            parts = self._wiring.parallel[node.group]
            for writer in node.inputs:
                edge = (writer, node.id)
                channel, link = self.channels[edge], self._wiring.links[edge]
                due = expected[writer] / parts
                taken += due
                waits_s = (channel.produced - channel.taken) / due if due > 0 else 0.0
                ways.append(until[writer] + waits_s + (links.latency_s[link] if link else 0.0))
            until[node.id] = max(ways)
            expected[node.id] = taken * self._load(node.group).selectivity
        return until

    def seen(self) -> Seen:
        """What agents would report."""
        at = START + timedelta(seconds=self.at_s)
        tasks = {
            node.id: TaskSeen(at, Phase.RUNNING, "i", self._counters(node, self.tasks[node.id]))
            for node in self.graph.nodes
        }
        channels = {e: ChannelSeen(int(c.produced), int(c.stored), int(c.taken)) for e, c in self.channels.items()}
        return Seen(at, tasks, channels)

    def _counters(self, node: Node, task: _Task) -> Counters:
        load = self._load(node.group)
        state = int(load.state_bytes / self._wiring.parallel[node.group]) if node.role is Role.OPERATOR else 0
        # Whatever arrives is taken at once: it waits before the link.
        size, lag = int(task.rows_out * load.row_bytes), 0 if not node.inputs else None
        times = (self.at_s - task.began_s, int(task.rows_in), int(task.rows_out), size, task.useful_s)
        return Counters(*times, 0.0, 0.0, 0.0, lag, state)

    def place(self, group: Group, sites: Mapping[str, int], generation: int) -> None:
        """An operator's tasks at these sites, in the place of those that it has; what waited goes to the new ones."""
        old = self.graph.tasks(group)
        places = [site for site in sorted(sites) for _ in range(sites[site])]
        new = [
            replace(old[0], id=TaskId(group[0], group[1], n, generation=generation), site=site)
            for n, site in enumerate(places)
        ]
        names, gone = tuple(node.id for node in new), {node.id for node in old}
        nodes: list[Node] = []
        for node in self.graph.nodes:
            if node.id in gone:
                nodes += [one for one in new if one not in nodes]
            else:
                nodes.append(_reading(node, gone, names))
        before = self._rewired(nodes)
        for (writer, reader), channel in before.items():
            if reader in gone and writer not in gone:
                for name in names:
                    self.channels[writer, name].produced += (channel.produced - channel.taken) / len(names)
            elif writer in gone:
                # What was given out already is read to its end.
                self.channels[names[0], reader].produced += channel.produced - channel.taken

    def split_off(self, query: str, shared: Group, site: str) -> None:
        """Give a query a task of its own in the place of one that it shares; it begins in the middle of its inputs."""
        (old,) = self.graph.tasks(shared)
        new = replace(old, id=TaskId(query, shared[1]), site=site)
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes.append(_reading(node, {old.id}, (new.id,)) if node.id.query == query else node)
            if node is old:
                nodes.append(new)
        self.loads = {**self.loads, new.group: self._load(shared)}
        before = self._rewired(nodes)
        for (writer, reader), channel in before.items():
            if writer == old.id and reader.query == query:
                self.channels[new.id, reader].produced += channel.produced - channel.taken

    def _rewired(self, nodes: Sequence[Node]) -> Mapping[Edge, _Channel]:
        """Go on with these nodes, and return the channels that there were; those that are new are empty."""
        before = self.channels
        self.graph = Graph(self.graph.query, tuple(nodes))
        self._wiring = _Wiring.of(self.graph)
        self.tasks = {node.id: self.tasks.get(node.id) or _Task(self.at_s) for node in nodes}
        self.channels = {edge: before.get(edge) or _Channel() for edge in self.graph.edges}
        return before


def _reading(node: Node, gone: set[TaskId], names: tuple[TaskId, ...]) -> Node:
    """Return a node that reads others in the place of those that are gone, if it read any of them."""
    if gone.isdisjoint(node.inputs):
        return node
    return replace(node, inputs=(*(i for i in node.inputs if i not in gone), *names))


def carry(flows: Sequence[Flow], links: Links) -> None:
    """Do what a step does on links. Flows share a link evenly; what one needs less than its share is the others'."""
    sends = [flow.sends() for flow in flows]
    passing: list[dict[Pair, float]] = [{} for _ in flows]
    users: dict[Pair, list[int]] = defaultdict(list)
    for number, wanted in enumerate(sends):
        for link, size in wanted.items():
            if size > 0:
                users[link].append(number)
    for link, numbers in users.items():
        room = links.capacity[link] * STEP_S
        # The smallest first: what it leaves of its share goes to those after it.
        for place, number in enumerate(sorted(numbers, key=lambda n: sends[n][link])):
            size = sends[number][link]
            granted = min(size, room / (len(numbers) - place))
            passing[number][link] = granted / size
            room -= granted
    for flow, parts in zip(flows, passing, strict=True):
        flow.arrive(parts)


def views(graph: Graph) -> tuple[Graph, ...]:
    """Return the graph of each query: its sink, and all that it needs, shared or not."""
    found = []
    for sink in (node for node in graph.nodes if node.role is Role.SINK):
        needed = {sink.id}
        for node in reversed(graph.nodes):
            if node.id in needed:
                needed.update(node.inputs)
        found.append(Graph(sink.id.query, tuple(node for node in graph.nodes if node.id in needed)))
    return tuple(found)


def query(load: Load, sources: Sequence[str], near: Sequence[str], home: str) -> Graph:
    """Two sources to each operator, all operators to a merge, and that to a sink."""
    name = load.name
    nodes = [Node(TaskId(name, f"s{n}"), Role.SOURCE, site) for n, site in enumerate(sources)]
    operators = [
        Node(
            TaskId(name, f"c{n}"),
            Role.OPERATOR,
            site,
            (nodes[2 * n].id, nodes[2 * n + 1].id),
            most=load.most,
        )
        for n, site in enumerate(near)
    ]
    merge = Node(TaskId(name, "m"), Role.OPERATOR, home, tuple(node.id for node in operators), most=load.most)
    return Graph(name, (*nodes, *operators, merge, Node(TaskId(name, "sink"), Role.SINK, home, (merge.id,))))
