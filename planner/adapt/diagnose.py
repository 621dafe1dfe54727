"""Why a query does not keep up: the cause and its place, never its victims.

Where rows wait tells a slow link from a slow task: rates are equal all along a path that is throttled, but the queue is
before the bottleneck. Rules in this order; `queue` is rows of some seconds of the expected rate.

    paused, stale, restarted, missing   nothing else is said of the task
    source     nothing arrives from outside; the rest is judged as usual
    disk       a task waits for its disk
    link       a queue before the link, and little behind it
    (victims)  no queue waits at the task, or it waits for room: never named
    sink       a queue before it
    starved    a queue, and much of the time neither work nor a wait with a name: garbage collection, or no CPU
    skew       a queue, busy, and a bin of its rows is too much for one task; or, where its bins are not known,
               offered far more than its siblings, which are not busy
    compute    a queue, and busy; `slots` where no site has a free one
    unknown    a queue, and none of these; nothing is done about it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import mean

from planner.adapt.model import Edge, Graph, Node, Role, Settings
from planner.adapt.rates import Condition, Rates, TaskRates
from planner.adapt.scale import is_undivided
from planner.graph.ids import TaskId


class Cause(Enum):
    """Why a query does not keep up."""

    PAUSED = "paused"
    STALE = "stale"
    RESTARTED = "restarted"
    MISSING = "missing"
    SOURCE = "source"
    DISK = "disk"
    LINK = "link"
    SINK = "sink"
    STARVED = "starved"
    SKEW = "skew"
    COMPUTE = "compute"
    SLOTS = "slots"
    UNKNOWN = "unknown"
    SPARE = "spare"
    """Not slow: it has a task more than it needs."""

    @property
    def state(self) -> bool:
        """Whether it says that nothing can be judged, rather than what is wrong."""
        return self in _STATES.values()


_STATES = {
    Condition.PAUSED: Cause.PAUSED,
    Condition.STALE: Cause.STALE,
    Condition.RESTARTED: Cause.RESTARTED,
    Condition.MISSING: Cause.MISSING,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause and its place."""

    cause: Cause
    task: TaskId
    """That is slow; of a link, the reader behind it."""
    site: str
    """Of the task; of a link, where it begins."""
    to_site: str = ""
    """Where the link ends."""
    expected_per_s: float = 0.0
    """Rows that would have to pass."""
    passed_per_s: float = 0.0
    queued_rows: float = 0.0
    seen: str = ""
    """What it was told by, for people."""

    @property
    def deficit(self) -> float:
        """The share of the rows that do not pass, 0 to 1."""
        if self.expected_per_s <= 0:
            return 0.0
        return min(1.0, max(0.0, 1 - self.passed_per_s / self.expected_per_s))

    @property
    def queued_s(self) -> float:
        """The time that the queued rows took to come."""
        return self.queued_rows / self.expected_per_s if self.expected_per_s > 0 else 0.0


def diagnose(
    graph: Graph,
    found: Rates,
    expected: Mapping[TaskId, float],
    settings: Settings,
    *,
    free_slots: bool = True,
) -> tuple[Finding, ...]:
    """The causes, in the order of the nodes; none: the query keeps up.

    Args:
        graph: the query's nodes.
        found: what passed.
        expected: what each node has to take.
        settings: what counts as much.
        free_slots: whether any site has one.
    """
    findings: list[Finding] = []
    for node in graph.nodes:
        seen = found.tasks[node.id]
        if not seen.condition.usable:
            findings.append(Finding(_STATES[seen.condition], node.id, node.site, seen=f"{seen.condition.value}"))
            continue
        if node.id not in expected:
            # Something before it is not measured, and that is said there.
            continue
        due = expected[node.id]
        findings += _links(graph, found, node, due, settings)
        cause, told = _of_task(graph, found, node, due, settings)
        if cause is Cause.COMPUTE and not free_slots:
            cause = Cause.SLOTS
        if cause is not None:
            queued = float(seen.behind_rows) if node.role is Role.SOURCE else found.behind_rows(node)
            finding = Finding(cause, node.id, node.site, "", due, seen.in_per_s, queued, told)
            findings.append(finding)
    return tuple(findings)


def _links(graph: Graph, found: Rates, node: Node, due: float, settings: Settings) -> Iterator[Finding]:
    """The links on the way to a node that hold rows up."""
    for writer in node.inputs:
        edge: Edge = (writer, node.id)
        link, channel = graph.link(edge), found.channels.get(edge)
        if link is None or channel is None or not found.tasks[writer].condition.usable:
            continue
        # A writer that waits for room gives out what the link takes, not what there is to send.
        wanted = max(channel.produced_per_s, _wanted(found, due, edge, node))
        if not _is_queue(channel.before_rows, wanted, channel.stored_per_s, settings):
            continue
        if channel.behind_rows >= channel.before_rows / 4:
            continue
        seconds = channel.before_rows / wanted if wanted > 0 else 0.0
        told = (
            f"{channel.before_rows:.0f} rows ({seconds:.1f} s) wait before the link, "
            f"{channel.behind_rows:.0f} behind it; {channel.stored_per_s:.0f} of {wanted:.0f} rows/s pass"
        )
        yield Finding(Cause.LINK, node.id, *link, wanted, channel.stored_per_s, channel.before_rows, told)


def _wanted(found: Rates, due: float, edge: Edge, node: Node) -> float:
    """Rows per second of a node's input that a channel should bring, by the shares that the channels have now."""
    produced = {w: found.channels[w, node.id].produced_per_s for w in node.inputs if (w, node.id) in found.channels}
    whole = sum(produced.values())
    return due * produced[edge[0]] / whole if whole > 0 else 0.0


def _is_queue(rows: float, wanted_per_s: float, passed_per_s: float, settings: Settings) -> bool:
    if rows <= 0:
        return False
    if rows > settings.long_queue_s * wanted_per_s:
        return True
    short = passed_per_s < (1 - settings.least_deficit) * wanted_per_s
    return short and rows > settings.queue_s * wanted_per_s


def _of_task(graph: Graph, found: Rates, node: Node, due: float, settings: Settings) -> tuple[Cause | None, str]:
    seen = found.tasks[node.id]
    if node.role is Role.SOURCE and seen.arrived_per_s == 0 and not seen.behind_rows:
        return Cause.SOURCE, "nothing arrives from outside"
    if seen.disk > settings.least_wait:
        return Cause.DISK, f"it waits for its disk {seen.disk:.0%} of the time"
    queued = float(seen.behind_rows) if node.role is Role.SOURCE else found.behind_rows(node)
    if not _is_queue(queued, due, seen.in_per_s, settings) or seen.room > settings.least_wait:
        return None, ""
    waits = f"{queued:.0f} rows wait at it"
    if node.role is Role.SINK:
        return Cause.SINK, waits
    if seen.slot > settings.least_lost:
        return Cause.STARVED, f"{waits}; {seen.slot:.0%} of the time it waits for a slot or a CPU"
    if seen.useful > settings.busy:
        told = f"{waits}; it works {seen.useful:.0%} of the time"
        if _is_undivided(seen, due, settings):
            return Cause.SKEW, f"{told}, and {seen.busiest_bin:.0%} of its rows are in one bin"
        return (Cause.SKEW if _is_skewed(graph, found, node, settings) else Cause.COMPUTE), told
    return Cause.UNKNOWN, f"{waits}, but it works only {seen.useful:.0%} of the time"


def _is_undivided(seen: TaskRates, due: float, settings: Settings) -> bool:
    """Return whether the busiest bin of a task would be too much for a task of its own."""
    rate = seen.true_in_per_s
    return rate is not None and is_undivided(due / rate, seen.busiest_bin, load=settings.load)


def _is_skewed(graph: Graph, found: Rates, node: Node, settings: Settings) -> bool:
    """Return whether a task has much more to do than its siblings, where nobody knows the rows of its bins."""
    siblings = [other for other in graph.tasks(node.group) if other.id != node.id]
    if not siblings or node.role is not Role.OPERATOR or found.tasks[node.id].busiest_bin:
        return False
    offered = {n.id: _offered(found, n) for n in (node, *siblings)}
    busiest = max(_useful(found.tasks[n.id]) for n in siblings)
    return offered[node.id] > settings.skewed * mean(offered[n.id] for n in siblings) and busiest < settings.idle


def _offered(found: Rates, node: Node) -> float:
    """Rows per second that are meant for a node, taken or not."""
    return sum(found.channels[w, node.id].produced_per_s for w in node.inputs if (w, node.id) in found.channels)


def _useful(seen: TaskRates) -> float:
    return seen.useful
