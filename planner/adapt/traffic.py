"""What crosses which link, if all keep up: each channel once for a site that reads it, however many read it there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from planner.adapt.assign import Demand, Sites
from planner.adapt.model import Graph, Group, Node
from planner.adapt.rates import Rates, share_of
from planner.graph.ids import TaskId
from planner.values.links import Pair


@dataclass(frozen=True, slots=True)
class Look:
    """What was measured of one query, and what is to be expected."""

    graph: Graph
    found: Rates
    expected: Mapping[TaskId, float]
    """Rows per second that each node has to take."""

    def out_bytes_per_s(self, task: TaskId) -> float:
        """What a task would give out, if it kept up; 0 where nothing is known."""
        seen = self.found.tasks[task]
        return self.expected.get(task, 0.0) * (seen.selectivity or 0.0) * seen.bytes_per_row


def sites_of(nodes: Collection[Node]) -> Sites:
    """How many of the nodes are at each site."""
    found: dict[str, int] = defaultdict(int)
    for node in nodes:
        found[node.site] += 1
    return dict(found)


def link_uses(looks: Collection[Look], *, but: Collection[Group] = ()) -> Mapping[Pair, float]:
    """Bytes per second on each link; `but`: without the channels from and to the tasks of those operators."""
    channels: dict[tuple[TaskId, str], float] = {}
    pairs: dict[tuple[TaskId, str], Pair] = {}
    for look in looks:
        taken: dict[tuple[TaskId, str, Group], float] = defaultdict(float)
        for writer, reader in look.graph.edges:
            link, node = look.graph.link((writer, reader)), look.graph.node(reader)
            if link is None or node.group in but or look.graph.node(writer).group in but:
                continue
            taken[writer, node.site, node.group] += share_of(look.graph, look.found, (writer, reader))
            pairs[writer, node.site] = link
        for (writer, site, _), part in taken.items():
            size = look.out_bytes_per_s(writer) * min(1.0, part)
            channels[writer, site] = max(channels.get((writer, site), 0.0), size)
    uses: dict[Pair, float] = defaultdict(float)
    for channel, size in channels.items():
        uses[pairs[channel]] += size
    return dict(uses)


def carried(looks: Collection[Look], link: Pair) -> float:
    """Bytes per second that were stored at the end of a link."""
    channels: dict[tuple[TaskId, str], float] = {}
    for look in looks:
        for edge in look.graph.edges:
            if look.graph.link(edge) == link and (seen := look.found.channels.get(edge)) is not None:
                writer, site = edge[0], look.graph.node(edge[1]).site
                size = seen.stored_per_s * look.found.tasks[writer].bytes_per_row
                channels[writer, site] = max(channels.get((writer, site), 0.0), size)
    return sum(channels.values())


def demand_of(look: Look, group: Group, *, factor: float = 1.0) -> Demand:
    """What an operator takes and gives, all its tasks together; `factor`: so many times as much as is expected."""
    graph, tasks = look.graph, look.graph.tasks(group)
    inputs: dict[str, float] = defaultdict(float)
    outputs: dict[str, float] = defaultdict(float)
    for writer in dict.fromkeys(writer for node in tasks for writer in node.inputs):
        inputs[graph.node(writer).site] += factor * look.out_bytes_per_s(writer)
    given = sum(look.out_bytes_per_s(node.id) for node in tasks)
    readers: dict[Group, list[Node]] = defaultdict(list)
    for reader in graph.nodes:
        if any(node.id in reader.inputs for node in tasks):
            readers[reader.group].append(reader)
    for nodes in readers.values():
        for node in nodes:
            part = share_of(graph, look.found, (tasks[0].id, node.id)) if tasks[0].id in node.inputs else 1.0
            outputs[node.site] = min(factor * given, outputs[node.site] + factor * given * part)
    return Demand(dict(inputs), dict(outputs))
