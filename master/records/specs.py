"""Assignments: what sites are told to do, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from contract.tasks import ReadFrom
from master.base.errors import MasterError
from planner.graph.clientplan import ClientPlan
from planner.graph.ids import TaskId
from planner.graph.plan import Merge, Split
from planner.handover.model import Fork
from planner.relations.catalog import Catalog, Column, Function, Relation
from planner.values.adapting import Degrading
from planner.values.stages import StageKind


@dataclass(frozen=True, slots=True)
class ChannelInput:
    channel: TaskId
    site: str
    """The site that produces it."""
    view: str = ""
    columns: tuple[Column, ...] = ()
    """The columns of the channel, so that one without rows has a schema, too."""
    read_from: ReadFrom = ReadFrom.OWN
    event_delay: timedelta = timedelta(0)
    """How much later than an epoch's watermark the events of its rows may be."""
    first_bin: int = 0
    bins: int = 0
    """The number of bins, from the first on, whose rows it reads; 0: all rows."""
    from_epoch: int = 0
    """The first epoch that the channel ever has, because it continues another one."""
    behind: timedelta = timedelta(0)
    """The event times of its later rows may be so much before its watermark."""


@dataclass(frozen=True, slots=True, order=True)
class ChannelReader:
    site: str
    reader: str
    """The reader as the site's router knows it: a task's id, or `results:` and a query's id."""


@dataclass(frozen=True, slots=True)
class QueryReaders:
    """The readers of a channel that one query needs; a query without any never slows the producer down."""

    query_id: str
    readers: tuple[ChannelReader, ...]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Says what a task does for the one that takes its place."""

    successor: TaskId
    site: str
    """The successor's."""
    seed: Mapping[str, int] | None = None
    """It has, by input, the oldest epoch at the successor's site: the checkpoint that it gets is not from before; None:
    it has got one."""
    cut: bool = False
    """It is true when the task must end its channel in favour of the successor."""
    fork: Fork | None = None
    """One query goes on with another task than the successor."""
    join: ChannelInput | None = None
    """The channel of the same windows that the task's channel has to meet when it ends; `from_epoch` is the oldest
    epoch at the successor's site."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Whose place a task takes."""

    predecessor: TaskId
    site: str
    """The predecessor's."""
    seeded: bool = True
    """The task gets its predecessor's checkpoint; false: it reads other channels, from their beginning, or has no
    state, or begins `late`."""
    late: bool = False
    """The task begins in the middle of what its predecessor reads."""
    renumbers: bool = False
    """The predecessor's epochs have other numbers than those of the input of which the task makes its own."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One stage at one site."""

    task_id: TaskId
    query_id: str
    stage_id: str
    kind: StageKind
    sql: str
    relation: Relation | None = None
    """What it reads, or for a SINK writes into; with the binding of the task's site only."""
    read_columns: tuple[str, ...] = ()
    inputs: tuple[ChannelInput, ...] = ()
    merge: Merge | None = None
    consumers: tuple[str, ...] = ()
    """Sites whose routers read the output, in order of name."""
    epoch_interval: timedelta = timedelta(seconds=1)
    functions: tuple[Function, ...] = ()
    """Python functions that the SQL calls, by their versions."""
    split: Split | None = None
    """For a TABLE, the part of the table that it reads; None: all of it at the site."""
    paused: bool = False
    """It is paused, and keeps its place."""
    beside: bool = False
    """Tasks in whose place it will go on run beside it, and count the rows that are late."""
    readers: tuple[QueryReaders, ...] = ()
    """The readers of its output, if several queries read it: its pace is that of the query that keeps up best."""
    hand_over: HandOver | None = None
    """Set while another task gets its checkpoint, or takes its place."""
    take_over: TakeOver | None = None
    """Set until nobody needs the task any more whose place it takes."""
    client: ClientPlan | None = None
    """A REDUCE runs it instead of SQL."""
    degrading: Degrading | None = None
    """A SOURCE may leave rows out that wait for too long; None: it may not."""
    reuses: bool = False
    """Rows that other queries had made or sent are taken again where they are the same."""


@dataclass(frozen=True, slots=True)
class ResultsLimit:
    """A limit on the results that are kept of a query that is not over; the oldest epochs go first."""

    size_bytes: int = 1024 * 1024 * 1024
    age: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """Channels that the site keeps for clients."""

    query_id: str
    inputs: tuple[ChannelInput, ...] = ()
    limit: ResultsLimit | None = None
    """None: all results are kept."""
    reuses: bool = False
    """The site reuses rows that it received for other queries, as tasks do."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything one site has to do."""

    tasks: tuple[TaskSpec, ...] = ()
    results: tuple[ResultSpec, ...] = ()
    site_addresses: Mapping[str, str] = field(default_factory=dict)
    streams: tuple[Relation, ...] = ()
    """Streams that clients push to at the site, whether or not a query reads them, with that site's binding only."""


def relation_at(relation: Relation, site: str) -> Relation:
    """The relation, with its binding at that site only, and without what is known of its rows: a task does not depend
    on that."""
    return replace(relation, bindings=tuple(b for b in relation.bindings if b.site == site), statistics=None)


def bound_at(name: str | None, catalog: Catalog, *, site: str, query_id: str) -> Relation | None:
    """The relation that a task reads or writes at its site; None for a task that does neither.

    Raises:
        MasterError: the catalog does not have it there.
    """
    if name is None:
        return None
    relation = catalog.find(name)
    if relation is None or site not in relation.sites:
        raise MasterError(
            f"query {query_id} reads {name} at {site}, which the catalog does not have",
            ids={"query": query_id, "relation": name, "site": site},
        )
    return relation_at(relation, site)


@dataclass(frozen=True, slots=True)
class VersionedAssignment:
    """An assignment and its version, which never goes back."""

    version: int
    assignment: Assignment
