"""Rates between two instants, and those that are to be expected.

True rates are per second of useful time (DS2): they do not fall when a task waits for rows or for room. Expected rates
follow from what arrives outside the engine, in topological order: under back-pressure the observed rates of all tasks
behind the bottleneck, and before it, say nothing of what there is to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from planner.adapt.model import Counters, Edge, Graph, Node, Phase, Role, Seen, Settings, TaskSeen
from planner.graph.ids import TaskId


class Condition(Enum):
    """Whether the figures of a task can be judged, and if not, why."""

    MEASURED = "measured"
    IDLE = "idle"
    """It had nothing to do."""
    CATCHING_UP = "catching up"
    """More passes than arrives: what it is behind gets less."""
    MISSING = "missing"
    """Its agent has not reported it, or does not measure what is needed."""
    STALE = "stale"
    """The report is old."""
    RESTARTED = "restarted"
    PAUSED = "paused"
    ENDED = "ended"

    @property
    def usable(self) -> bool:
        return self in (Condition.MEASURED, Condition.IDLE, Condition.CATCHING_UP, Condition.ENDED)


@dataclass(frozen=True, slots=True)
class TaskRates:
    """A task between two instants. Shares are of the time."""

    condition: Condition
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    bytes_per_row: float = 0.0
    """Of what it gave out."""
    useful: float = 0.0
    slot: float = 0.0
    disk: float = 0.0
    room: float = 0.0
    true_in_per_s: float | None = None
    """None: it did nothing."""
    arrived_per_s: float | None = None
    """SOURCE: rows that came from outside; None: nobody can tell."""
    behind_rows: int = 0
    """SOURCE: rows that are outside and not taken."""
    state_bytes: int = 0
    busiest_bin: float = 0.0
    """The share of what it takes that is in one bin, which one task has to take; 0: not known."""

    @property
    def selectivity(self) -> float | None:
        """Rows out for a row in; None: it took none."""
        return self.out_per_s / self.in_per_s if self.in_per_s > 0 else None


@dataclass(frozen=True, slots=True)
class ChannelRates:
    """A channel on its way to one reader."""

    produced_per_s: float = 0.0
    stored_per_s: float = 0.0
    taken_per_s: float = 0.0
    before_rows: float = 0.0
    """Published, and not at the reader's site."""
    behind_rows: float = 0.0
    """At the reader's site, and not taken."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Everything between two instants."""

    tasks: Mapping[TaskId, TaskRates]
    channels: Mapping[Edge, ChannelRates]

    def behind_rows(self, node: Node) -> float:
        """Rows that are at a node's site, and that it has not taken."""
        return sum(self.channels[w, node.id].behind_rows for w in node.inputs if (w, node.id) in self.channels)


def rates(graph: Graph, before: Seen, after: Seen, settings: Settings) -> Rates:
    """What passed between two instants."""
    tasks = {node.id: _task(node, before, after, settings) for node in graph.nodes}
    bursts = {node.id for node in graph.nodes if node.combined}
    channels = {e: _channel(e, before, after, bursts=e[0] in bursts) for e in graph.edges if e in after.channels}
    return Rates(tasks, channels)


def expected_in(graph: Graph, found: Rates) -> Mapping[TaskId, float]:
    """Rows per second that each node has to take, so that the query keeps up with its sources.

    The share of an input that each of several parallel readers takes is as measured. Nodes behind one of which nothing
    is known are missing.
    """
    expected: dict[TaskId, float] = {}
    out: dict[TaskId, float] = {}
    for node in graph.nodes:
        seen = found.tasks[node.id]
        if node.role is Role.SOURCE and not node.inputs:
            taken = seen.in_per_s if seen.arrived_per_s is None else seen.arrived_per_s
            if not seen.condition.usable:
                continue
        elif all(writer in out for writer in node.inputs):
            taken = sum(out[writer] * share_of(graph, found, (writer, node.id)) for writer in node.inputs)
        else:
            continue
        expected[node.id] = taken
        if seen.condition.usable:
            # A task that took nothing gives nothing out, as far as anybody knows.
            out[node.id] = taken * (seen.selectivity or 0.0)
    return expected


def busiest_bin(tasks: Sequence[TaskRates]) -> float:
    """Return the share of what the parallel tasks of an operator take that is in one bin; 0: not known."""
    taken = sum(task.in_per_s for task in tasks)
    return max(task.busiest_bin * task.in_per_s for task in tasks) / taken if taken > 0 else 0.0


def share_of(graph: Graph, found: Rates, edge: Edge) -> float:
    """Of a channel's rows, those that one of several parallel readers takes."""
    writer, reader = edge
    siblings = [(writer, node.id) for node in graph.tasks(graph.node(reader).group) if writer in node.inputs]
    if len(siblings) < 2:
        return 1.0
    produced = [found.channels[e].produced_per_s if e in found.channels else 0.0 for e in siblings]
    whole = sum(produced)
    return produced[siblings.index(edge)] / whole if whole > 0 else 1.0 / len(siblings)


def _task(node: Node, before: Seen, after: Seen, settings: Settings) -> TaskRates:
    first, last = before.tasks.get(node.id), after.tasks.get(node.id)
    if last is None:
        return TaskRates(Condition.MISSING)
    condition = _condition(first, last, after, settings)
    if first is None or condition is not None:
        return TaskRates(condition or Condition.MISSING, state_bytes=last.counters.state_bytes)
    return _between(node, first.counters, last.counters)


def _condition(first: TaskSeen | None, last: TaskSeen, after: Seen, settings: Settings) -> Condition | None:
    """Why nothing is measured; None: it is."""
    if last.phase is Phase.PAUSED:
        return Condition.PAUSED
    if last.phase is Phase.ENDED:
        return Condition.ENDED
    if (after.at - last.at).total_seconds() > settings.interval_s / 2:
        return Condition.STALE
    if first is None:
        # It began meanwhile, or whoever looks did.
        return Condition.RESTARTED if last.counters.running_s < 2 * settings.interval_s else Condition.MISSING
    begun_anew = first.incarnation != last.incarnation or last.counters.running_s <= first.counters.running_s
    if begun_anew or Phase.STARTING in (first.phase, last.phase) or first.phase is Phase.PAUSED:
        return Condition.RESTARTED
    return None


def _between(node: Node, first: Counters, last: Counters) -> TaskRates:
    span_s = last.running_s - first.running_s
    rows_in, rows_out = _grown(first.rows_in, last.rows_in), _grown(first.rows_out, last.rows_out)
    size_bytes = _grown(first.bytes_out, last.bytes_out)
    waits = (_seconds(first.slot_s, last.slot_s), _seconds(first.disk_s, last.disk_s))
    useful_s, room_s = _seconds(first.useful_s, last.useful_s), _seconds(first.room_s, last.room_s)
    if useful_s is None or room_s is None or None in waits:
        return TaskRates(Condition.MISSING, state_bytes=last.state_bytes)
    slot_s, disk_s = (wait or 0.0 for wait in waits)
    arrived_per_s, behind = None, 0
    if node.role is Role.SOURCE and first.lag_rows is not None and last.lag_rows is not None:
        arrived_per_s = max(0.0, (rows_in + last.lag_rows - first.lag_rows) / span_s)
        behind = last.lag_rows
    in_per_s = rows_in / span_s
    catches_up = arrived_per_s is not None and first.lag_rows and behind < first.lag_rows and in_per_s > arrived_per_s
    condition = Condition.CATCHING_UP if catches_up else Condition.MEASURED if rows_in else Condition.IDLE
    return TaskRates(
        condition,
        in_per_s=in_per_s,
        out_per_s=rows_out / span_s,
        bytes_per_row=size_bytes / rows_out if rows_out else 0.0,
        useful=min(1.0, useful_s / span_s),
        slot=min(1.0, slot_s / span_s),
        disk=min(1.0, disk_s / span_s),
        room=min(1.0, room_s / span_s),
        true_in_per_s=rows_in / useful_s if useful_s > 0 and rows_in else None,
        arrived_per_s=arrived_per_s,
        behind_rows=behind,
        state_bytes=last.state_bytes,
        busiest_bin=last.busiest_bin,
    )


def _channel(edge: Edge, before: Seen, after: Seen, *, bursts: bool) -> ChannelRates:
    """`bursts`: its rows come all at once when a window closes; so what waited at both instants is its queue."""
    last = after.channels[edge]
    first = before.channels.get(edge, last)
    writer = edge[0]
    span_s = _span_s(before.tasks.get(writer), after.tasks.get(writer))
    counts = ((first.produced, last.produced), (first.stored, last.stored), (first.taken, last.taken))
    produced, stored, taken = (_grown(a, b) / span_s if span_s > 0 else 0.0 for a, b in counts)
    ends = (first, last) if bursts else (last,)
    before_rows = min(max(0, end.produced - end.stored) for end in ends)
    behind_rows = min(max(0, end.stored - end.taken) for end in ends)
    return ChannelRates(produced, stored, taken, float(before_rows), float(behind_rows))


def _span_s(first: TaskSeen | None, last: TaskSeen | None) -> float:
    if first is None or last is None:
        return 0.0
    return max(0.0, last.counters.running_s - first.counters.running_s)


def _grown(first: int, last: int) -> int:
    return max(0, last - first)


def _seconds(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else max(0.0, last - first)
