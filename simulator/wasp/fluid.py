"""A query as a fluid: rows flow from sources through links and operators to a sink, and wait where too few pass."""

from __future__ import annotations

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


@dataclass
class Flow:
    """The state of a run. Tasks that hand over go on until the new ones take over what waits."""

    graph: Graph
    load: Load
    at_s: float = 0.0
    arrived: float = 0.0
    passed: float = 0.0
    """Rows that operators behind sources took."""
    dropped: float = 0.0
    """Rows of sources that were dropped before a link."""
    tasks: dict[TaskId, _Task] = field(default_factory=dict)
    channels: dict[Edge, _Channel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tasks = {node.id: _Task(self.at_s) for node in self.graph.nodes}
        self.channels = {edge: _Channel() for edge in self.graph.edges}

    def step(self, rates: Mapping[str, float], links: Links, paused: frozenset[Group]) -> None:
        """Half a second: arrivals by site, links as they are now, operators that stand still."""
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
        self._carry(links)

    @property
    def operators(self) -> frozenset[Group]:
        return frozenset(node.group for node in self.graph.nodes if node.role is Role.OPERATOR)

    def drop(self, rates: Mapping[str, float], after_s: float) -> None:
        """Drop what sources have given out and would wait longer than that, of the rows that have not left yet."""
        for (writer, reader), channel in self.channels.items():
            node = self.graph.node(writer)
            if node.role is not Role.SOURCE:
                continue
            due = rates[node.site] / len(self.graph.tasks(self.graph.node(reader).group))
            excess = min(channel.produced - channel.taken - due * after_s, channel.produced - channel.stored)
            if excess > 0:
                channel.produced -= excess
                self.dropped += excess

    def _give(self, node: Node, task: _Task, rows: float) -> None:
        task.rows_out += rows
        for reader in self.graph.readers(node.id):
            parts = sum(1 for other in self.graph.tasks(reader.group) if node.id in other.inputs)
            self.channels[node.id, reader.id].produced += rows / parts

    def _take(self, node: Node, task: _Task) -> None:
        waiting = {writer: self._behind((writer, node.id)) for writer in node.inputs}
        whole = sum(waiting.values())
        most = self.load.rows_per_s * STEP_S if node.role is Role.OPERATOR else whole
        part = min(1.0, most / whole) if whole > 0 else 0.0
        for writer, rows in waiting.items():
            self.channels[writer, node.id].taken += rows * part
            if self.graph.node(writer).role is Role.SOURCE:
                self.passed += rows * part
        task.rows_in += whole * part
        task.useful_s += whole * part / self.load.rows_per_s
        self._give(node, task, whole * part * (self.load.selectivity if node.role is Role.OPERATOR else 0.0))

    def _behind(self, edge: Edge) -> float:
        return self.channels[edge].stored - self.channels[edge].taken

    def _carry(self, links: Links) -> None:
        wanted: dict[tuple[str, str], float] = {}
        for edge, channel in self.channels.items():
            if (link := self.graph.link(edge)) is None:
                channel.stored = channel.produced
            else:
                wanted[link] = wanted.get(link, 0.0) + (channel.produced - channel.stored) * ROW_BYTES
        for edge, channel in self.channels.items():
            link = self.graph.link(edge)
            if link is not None and wanted[link] > 0:
                part = min(1.0, links.capacity[link] * STEP_S / wanted[link])
                channel.stored += (channel.produced - channel.stored) * part

    def delay_s(self, links: Links, rates: Mapping[str, float]) -> float:
        """Of the slowest way from a source to the sink: latencies, and rows that wait over what should pass."""
        expected: dict[TaskId, float] = {}
        until: dict[TaskId, float] = {}
        for node in self.graph.nodes:
            if not node.inputs:
                expected[node.id], until[node.id] = rates[node.site], 0.0
                continue
            ways, taken = [], 0.0
            parts = len(self.graph.tasks(node.group))
            for writer in node.inputs:
                edge = (writer, node.id)
                channel, link = self.channels[edge], self.graph.link(edge)
                due = expected[writer] / parts
                taken += due
                waits_s = (channel.produced - channel.taken) / due if due > 0 else 0.0
                ways.append(until[writer] + waits_s + (links.latency_s[link] if link else 0.0))
            until[node.id] = max(ways)
            expected[node.id] = taken * self.load.selectivity
        return max(until.values())

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
        parts = max(1, len(self.graph.tasks(node.group)))
        state = int(self.load.state_bytes / parts) if node.role is Role.OPERATOR else 0
        # Whatever arrives is taken at once: it waits before the link.
        size, lag = int(task.rows_out * ROW_BYTES), 0 if not node.inputs else None
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
            elif gone & set(node.inputs):
                nodes.append(replace(node, inputs=(*(i for i in node.inputs if i not in gone), *names)))
            else:
                nodes.append(node)
        before = self.channels
        self.graph = Graph(self.graph.query, tuple(nodes))
        self.tasks = {node.id: self.tasks.get(node.id) or _Task(self.at_s) for node in nodes}
        self.channels = {edge: before.get(edge) or _Channel() for edge in self.graph.edges}
        for (writer, reader), channel in before.items():
            if reader in gone and writer not in gone:
                for name in names:
                    self.channels[writer, name].produced += (channel.produced - channel.taken) / len(names)
            elif writer in gone:
                # What was given out already is read to its end.
                self.channels[names[0], reader].produced += channel.produced - channel.taken


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
