"""What is known of the tasks and channels of queries at one instant.

Counters are totals that only grow; the difference of two instants gives rates, whatever the interval. `None` in the
place of a counter: whoever runs the task does not measure it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Self

from planner.graph.ids import TaskId
from planner.values.adapting import Order
from planner.values.links import Pair
from planner.wan.snapshot import WanSnapshot


class Role(Enum):
    """What a node does, as far as adaptation is concerned."""

    SOURCE = "source"
    """It stays with its data."""
    OPERATOR = "operator"
    """It may run elsewhere."""
    SINK = "sink"
    """It stays with its directory, or keeps results for clients."""


class Phase(Enum):
    """Whether a task is at work."""

    RUNNING = "running"
    PAUSED = "paused"
    STARTING = "starting"
    """Or tried again after a failure."""
    ENDED = "ended"


Group = tuple[str, str]
"""An operator, which may have several parallel tasks: the query that brought it, and its stage."""


@dataclass(frozen=True, slots=True)
class Node:
    """A task, or a copy of a query's results, that needs the output of others."""

    id: TaskId
    role: Role
    site: str
    inputs: tuple[TaskId, ...] = ()
    """The tasks whose channels it reads."""
    combined: bool = False
    """What it gives out does not follow the rate of what it takes: it holds rows until a window closes."""
    partials: bool = False
    """It takes partials: a task on the way may combine those of several inputs."""
    most: int = 1
    """How many parallel tasks its operator may have: bins of its input, or one."""
    late_s: float | None = None
    """Until a new task in its place has all windows whole that are not out, if no state is sent; None: it has to be
    sent."""

    @property
    def group(self) -> Group:
        """The operator that the task is a part of."""
        return self.id.query, self.id.stage


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of a task."""

    running_s: float
    """The time that the counters are of, by the clock of the task's site that nobody sets."""
    rows_in: int = 0
    rows_out: int = 0
    bytes_out: int = 0
    useful_s: float | None = None
    slot_s: float | None = None
    """It waited for a slot, or in a slot for a CPU."""
    disk_s: float | None = None
    room_s: float | None = None
    """It waited until its readers, or the site's disk, had room."""
    lag_rows: int | None = None
    """SOURCE: rows that are outside and not taken. Not a total."""
    state_bytes: int = 0
    busiest_bin: float = 0.0
    """The share of the rows, lately taken, that are in one bin; 0: they are in no bins. Not a total."""


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """A task as its site last reported it."""

    at: datetime
    """When the report came."""
    phase: Phase
    incarnation: str
    """Of the agent: its counters of time begin anew with it."""
    counters: Counters


@dataclass(frozen=True, slots=True)
class ChannelSeen:
    """A channel as one reader sees it. Rows are counted from the channel's first."""

    produced: int
    stored: int
    """At the reader's site, before the reader takes them."""
    taken: int


Edge = tuple[TaskId, TaskId]
"""A channel, named by the task that writes it, and its reader."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything at one instant."""

    at: datetime
    tasks: Mapping[TaskId, TaskSeen] = field(default_factory=dict)
    channels: Mapping[Edge, ChannelSeen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Links:
    """What links carry, and what of it may be planned with."""

    capacity: Mapping[Pair, float]
    """In bytes per second; a link that is missing does not exist."""
    latency_s: Mapping[Pair, float]

    @classmethod
    def of(cls, wan: WanSnapshot) -> Self:
        """Return the links as the WAN monitor knows them."""
        figures = {pair: link.figures for pair, link in wan.links.items()}
        return cls(
            {pair: one.capacity_bytes_per_s for pair, one in figures.items()},
            {pair: one.latency.total_seconds() for pair, one in figures.items()},
        )


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes of one query, each behind those it reads."""

    query: str
    nodes: tuple[Node, ...]

    def node(self, task: TaskId) -> Node:
        """Raises KeyError when the query has no such task."""
        for node in self.nodes:
            if node.id == task:
                return node
        raise KeyError(task)

    def readers(self, task: TaskId) -> tuple[Node, ...]:
        """Those that read a task's channel."""
        return tuple(node for node in self.nodes if task in node.inputs)

    def tasks(self, group: Group) -> tuple[Node, ...]:
        """The parallel tasks of an operator."""
        return tuple(node for node in self.nodes if node.group == group)

    def link(self, edge: Edge) -> Pair | None:
        """The link that a channel crosses on its way to a reader; None: it stays at its site."""
        writer, reader = self.node(edge[0]).site, self.node(edge[1]).site
        return None if writer == reader else (writer, reader)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The operators, each behind those that it reads."""
        return tuple(dict.fromkeys(node.group for node in self.nodes))

    @property
    def edges(self) -> tuple[Edge, ...]:
        return tuple((writer, node.id) for node in self.nodes for writer in node.inputs)


@dataclass(frozen=True, slots=True)
class Settings:
    """When adaptation looks, and what it counts as much. The reasons for the values are in docs/adaptation.md."""

    interval_s: float = 20.0
    """Between two looks; rates are over so long."""
    link_share: float = 0.7
    """Of a link's capacity: more is not planned with."""
    queue_s: float = 2.0
    """Rows of so many seconds are a queue, where less passes than comes."""
    long_queue_s: float = 8.0
    """So many are one in any case."""
    least_deficit: float = 0.03
    least_wait: float = 0.15
    """A task that waits for its disk, or for room, for more than this share of the time, is held up by that."""
    least_lost: float = 0.10
    """The share of the time that is neither work nor a wait with a name, from which on it says something."""
    busy: float = 0.85
    idle: float = 0.7
    skewed: float = 1.5
    """A task that is offered so many times its siblings' mean has the hot keys."""
    catch_up_s: float = 20.0
    """A queue of so many seconds doubles what a link has to carry beyond..."""
    most_catch_up: float = 0.5
    """... this share of the expected rate, which is the most."""
    most_extra: int = 3
    """Parallel tasks more than now, in one step for want of bandwidth."""
    load: float = 0.85
    """The share of its time that a task is to work at most, after a step."""
    adapt_s: float = 30.0
    """A change that takes longer is made only for want of a faster one."""
    longest_adapt_s: float = 300.0
    """No change takes longer."""
    seed_share: float = 0.5
    """Of a link: what the state of a task that moves gets of it."""
    prepare_s: float = 4.0
    """Before a new task shadows the old one."""
    least_gain_s: float = 3.0
    """Of delay over the horizon: what gains less is not done."""
    horizon_s: float = 300.0
    least_relief: float = 1 / 3
    """Where nothing fits, a placement must take away so much of the overload."""
    figures_s: float = 600.0
    """Of the figures of a link in so long..."""
    figures_quantile: float = 0.1
    """...this quantile is planned with, or the last one, if that is less."""
    scale_in_s: float = 600.0
    """An operator that would do with a task less for so long gets it."""
    scale_in_share: float = 0.65
    scale_in_load: float = 0.7
    fails: int = 2
    """Actions without much effect, after which the operator is left alone for a while."""
    quiet_s: float = 600.0
    """So long, and twice as long with each more."""
    healthy: int = 8
    """Intervals without a cause, after which what failed before is forgotten."""
    order: Order = Order.NAKO
    alpha: float = 0.5
    """The weight of resources in the cost of an action, beside the overhead's."""
    prune: bool = True
    """Operators whose link has room after the actions before are left alone; False: to compare with."""
    most_actions: int | None = None
    """In one round; None: as many as it takes."""
    program_s: float = 0.3
    """The time for an integer program: where it is not done by then, it seldom finds more than placing one by one."""
