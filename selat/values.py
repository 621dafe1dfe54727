"""Frozen values that the client returns. Times are aware and UTC, durations are `timedelta`, sizes are bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum

import pyarrow as pa

from contract.figures import TaskFigures

Cursor = Mapping[str, int]
"""The position of a reader of results: channel -> the next epoch wanted. `json.dumps` takes it."""

END_OF_TIME = datetime.max.replace(tzinfo=UTC)
"""The watermark of a stream that has ended."""


class QueryState(Enum):
    """The state of a query."""

    DEPLOYING = "deploying"
    """Accepted and stored; its tasks are not all running yet."""
    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    """All its inputs ended and all results are at the gateway."""
    FAILED = "failed"
    PAUSED = "paused"
    """Its tasks are stopped and hold no slots; their unread input is kept."""
    RESUMING = "resuming"
    """Its tasks were told to go on; not all of them have reported that they run."""
    UNKNOWN = "unknown"
    """A state that this version of the client does not know."""

    @property
    def over(self) -> bool:
        """Whether the query can never change again."""
        return self in (QueryState.CANCELLED, QueryState.FINISHED, QueryState.FAILED)


class TaskState(Enum):
    """The state of a task."""

    STARTING = "starting"
    RUNNING = "running"
    BACK_PRESSURED = "back-pressured"
    """Admits no input because a retention budget is used up."""
    RETRYING = "retrying"
    """An epoch failed and is tried again."""
    ENDED = "ended"
    FAILED = "failed"
    PAUSED = "paused"
    """Stopped because all queries that need it are paused."""
    UNKNOWN = "unknown"


class SiteState(Enum):
    """What the master knows of a site's agent."""

    EXPECTED = "expected"
    """Named in the topology, never seen."""
    ALIVE = "alive"
    UNREACHABLE = "unreachable"
    """Its heartbeat is overdue."""
    UNKNOWN = "unknown"


class RelationKind(Enum):
    """A stream is unbounded and has an event-time column; a table is bounded; a view is a query with a name; queries
    write into a sink.
    """

    STREAM = "stream"
    TABLE = "table"
    VIEW = "view"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a relation or of a result."""

    name: str
    type: str
    """A Spark SQL type, as in `DECIMAL(10,2)`."""


@dataclass(frozen=True, slots=True)
class Function:
    """A Python scalar function that queries can call."""

    name: str
    parameters: tuple[Column, ...]
    returns: str
    """A Spark SQL type."""
    entry: str
    """The Python function's name in its module."""
    file: str
    """What the module's file was called."""
    source: str
    """The module's text."""
    vectorised: bool = False
    """Whether it takes and gives whole Arrow arrays; the master finds out."""
    version: str = ""
    """The name of this version in plans; the master gives it."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """One site's share of a relation."""

    site: str
    options: Mapping[str, str]
    """Connector options; `connector` names the connector."""
    has_log: bool | None = field(default=None, compare=False)
    """Whether clients push rows to the site's agent. The master finds out; None where it has not said."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream, a table or a sink, and the sites where it is bound; or a view. A sink may have no columns."""

    name: str
    kind: RelationKind
    columns: tuple[Column, ...]
    bindings: tuple[Binding, ...]
    event_time: str | None = None
    """Streams only: the event-time column; `arrived`, which is none of `columns`, when it is the time of arrival."""
    watermark_delay: timedelta = timedelta(0)
    """How far the watermark stays behind the event time."""
    comment: str = ""
    created_at: datetime | None = None
    """Set by the master."""
    definition: str = ""
    """Views only: the query. When a view is created, `columns` may be empty, and their types may be."""


@dataclass(frozen=True, slots=True)
class LinkUse:
    """The traffic of one directed link between two sites."""

    from_site: str
    to_site: str
    bytes: int
    epochs: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Link:
    """A directed link as the topology gives it."""

    from_site: str
    to_site: str
    bandwidth_bytes_per_s: float
    latency: timedelta


@dataclass(frozen=True)
class _Task:
    """What a task is, before its figures: so they stand first where a task is printed whole."""

    task_id: str
    query_id: str
    stage_id: str
    site: str
    state: TaskState
    reason: str
    watermark: datetime | None


@dataclass(frozen=True)
class TaskStatus(TaskFigures, _Task):
    """One task of a query, with the figures of docs/metrics.md: `task.lag_rows`, `task.rows_in_per_s`, and so on."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """The tasks of one stage of a query, as far as they have a site."""

    stage_id: str
    tasks: int
    ended: int
    rows_in: int
    rows_out: int
    bytes_out: int
    """It counts the compressed bytes of their output."""


@dataclass(frozen=True, slots=True)
class BatchWait:
    """What a task of a batch query waits for."""

    task: str
    slot: str
    """The slot that it waits for, as in `eu/3`; empty: it waits for something else."""
    until: datetime | None
    """When it is expected to start; None: unknown."""
    reason: str


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The tasks of a query over tables: one for each split of the first table, and one that ends it."""

    tasks: int
    waiting: int
    running: int
    done: int
    local: int
    """How many of the tasks that have or had a slot ran near their input."""
    size_bytes: int
    """Bytes of all splits."""
    done_bytes: int
    """Bytes of the splits that are done."""
    scheduler: str
    waits: tuple[BatchWait, ...] = ()

    @property
    def share(self) -> float:
        """Share of the tasks that are done, 0 to 1."""
        return self.done / self.tasks if self.tasks else 0.0

    @property
    def local_share(self) -> float | None:
        """Share of the tasks with a slot, now or before, that ran near their input; None: no task has had one."""
        placed = self.running + self.done
        return self.local / placed if placed else None


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A query as the master knew it when it was asked."""

    id: str
    name: str
    sql: str
    state: QueryState
    reason: str
    """Why it is in this state, where there is something to say."""
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    columns: tuple[Column, ...]
    gateway: str
    """The site whose agent keeps the results for clients."""
    tasks: tuple[TaskStatus, ...]
    links: tuple[LinkUse, ...]
    """The traffic of this query's channels, per link."""
    rows_in: int
    rows_out: int
    rows_late: int
    rows_malformed: int
    """Set aside at the site because they do not fit their columns; not in `rows_in`."""
    watermark: datetime | None
    upsert_by: tuple[str, ...] | None = None
    """With EMIT EVERY, results are changes: the columns that say which row a change is of. None: results are rows."""
    rows_shed: int = 0
    """Left out because others waited for too long, where `SET allow_degrade` says so; rows that were late then are
    among them."""
    sink: str = ""
    """INSERT INTO: the sink it writes into; `rows_out` are the rows written, and there are no results to read."""
    sink_site: str = ""
    batch: BatchProgress | None = None
    """None: it reads streams."""
    sharing: QuerySharing | None = None
    """The tasks that it shares with other queries; None: sharing is off for it."""
    disk_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes on disk for it, by site."""
    owner: str = ""
    """Who submitted it; empty: the master checked no callers then."""
    input_bytes: int = 0
    """Bytes of the rows that it read from streams and tables, as stored at their sites."""
    wan_bytes: int = 0
    """Bytes that crossed links; set in a summary too, which has no `links`."""
    wan_cost: float | None = None
    """The price of that, in `currency`; None: the topology file has no prices."""
    currency: str = ""

    @property
    def over(self) -> bool:
        """Whether the query can never change again."""
        return self.state.over

    @property
    def stages(self) -> tuple[StageProgress, ...]:
        """The sums over the tasks of each stage."""
        stages = dict.fromkeys(task.stage_id for task in self.tasks)
        return tuple(_stage(stage, [task for task in self.tasks if task.stage_id == stage]) for stage in stages)

    @property
    def link_bytes(self) -> int:
        """Bytes moved between sites, all links together."""
        return self.wan_bytes or sum(link.bytes for link in self.links)


def _stage(stage_id: str, tasks: Sequence[TaskStatus]) -> StageProgress:
    return StageProgress(
        stage_id=stage_id,
        tasks=len(tasks),
        ended=sum(task.state is TaskState.ENDED for task in tasks),
        rows_in=sum(task.rows_in for task in tasks),
        rows_out=sum(task.rows_out for task in tasks),
        bytes_out=sum(task.bytes_out for task in tasks),
    )


@dataclass(frozen=True, slots=True)
class SharedLink:
    """The output of a shared operator over one link."""

    from_site: str
    to_site: str
    bytes: int
    bytes_saved: int
    """Bytes that would have been sent in addition, had each query that reads the output run alone."""


@dataclass(frozen=True, slots=True)
class SharedOperator:
    """A task that several queries need."""

    task_id: str
    """Begins with the id of the query that deployed the task."""
    kind: str
    site: str
    queries: tuple[str, ...]
    """The queries that need the task now, in order of submission."""
    links: tuple[SharedLink, ...]
    bytes_out_per_s: float

    @property
    def bytes_saved(self) -> int:
        """Bytes that sharing saves on all links together."""
        return sum(link.bytes_saved for link in self.links)


@dataclass(frozen=True, slots=True)
class QuerySharing:
    """What a query shares with others."""

    mode: str
    start: str
    starts_at: datetime | None
    """Set when the query began in the middle of its inputs: its results are complete from this event time on."""
    operators: tuple[SharedOperator, ...]
    """The tasks that it needs and other queries need too."""
    bytes_saved: int
    """Bytes that it would have sent over links in addition, had it run alone."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of an agent's process; all sites that run in it share it, and report the same."""

    agent_bytes: int
    """Resident memory of the Python process."""
    jvm_bytes: int
    """Resident memory of Spark's JVM and all other processes of the agent."""
    heap_used_bytes: int
    """Objects and garbage in the JVM's heap."""
    heap_committed_bytes: int
    heap_max_bytes: int
    sites: int
    """How many sites share it."""


@dataclass(frozen=True, slots=True)
class StreamLog:
    """The log that a site keeps of a stream that is pushed to there."""

    stream: str
    size_bytes: int
    """Bytes of the log on disk."""
    rows: int
    """Rows that are kept."""
    batches: int
    """Batches that are kept; a batch is what one push stored."""
    rows_stored: int
    """Rows that were ever stored in the log."""
    limit_bytes: int
    """The option `retention_bytes`: beyond it, records that every reader has passed are removed."""
    ended: bool
    reason: str
    """Why nothing can be pushed to it; empty when it can."""


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes that a site's agent keeps on disk; Spark's scratch files are not in them."""

    query_bytes: Mapping[str, int]
    """By the id of the query: channels, copies of them, results, checkpoints, positions, and rows set aside."""
    replay_bytes: int
    """Sorted copies of files, for replays; several queries may read them."""
    stream_log_bytes: int
    """The logs of the streams that are pushed to at the site."""
    budget_bytes: int
    """While more is kept, no task takes rows from outside; 0: there is no budget."""
    free_bytes: int
    """Free bytes on the file system of the agent's directory."""

    @property
    def used_bytes(self) -> int:
        """The bytes of all three together."""
        return sum(self.query_bytes.values()) + self.replay_bytes + self.stream_log_bytes


@dataclass(frozen=True, slots=True)
class SiteWork:
    """Something that keeps a draining site from being empty."""

    kind: str
    """The stage's kind, as `source` or `merge`, for a task; else `results`, `stream` or `lease`."""
    query_id: str
    task_id: str
    subject: str
    """The relation that a task reads or writes here, the stream that is pushed to here, or the slot of a lease."""
    movable: bool
    """Whether it could run at another site."""
    reason: str
    """The reason why it is here, and what ends it."""


@dataclass(frozen=True, slots=True)
class Location:
    """Latitude and longitude in degrees."""

    lat: float
    lon: float


@dataclass(frozen=True, slots=True)
class Site:
    """One region: its agent, its tasks, its links."""

    name: str
    state: SiteState
    address: str
    slots: int
    version: str
    last_report: datetime | None
    memory_bytes: int
    """Resident memory of the agent's process and its JVM."""
    memory: MemoryUse
    gateway: bool
    """Whether it keeps results for clients."""
    tasks: tuple[TaskStatus, ...]
    links: tuple[LinkUse, ...]
    """Bytes received, per incoming link."""
    outgoing: tuple[Link, ...]
    stream_logs: tuple[StreamLog, ...]
    """The logs of the streams that are pushed to at the site, by name."""
    draining_since: datetime | None = None
    """Since when it gets no new work; None: it is not draining."""
    work: tuple[SiteWork, ...] = ()
    """The work that is still at a draining site that was asked for by name."""
    disk: DiskUse | None = None
    """None: its agent has not reported it."""
    label: str = ""
    """A name for people, from the topology file."""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The answer to SHOW and DESCRIBE: text in rows and columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __iter__(self) -> Iterator[dict[str, str]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A query's plan: for people in `text`, the same as one JSON object in `json`."""

    text: str
    json: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Done:
    """The confirmation of a statement that returns nothing."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """One epoch of one result channel."""

    batch: pa.RecordBatch
    epoch: int
    channel: str
    watermark: datetime | None
    """No later row has an event time before this."""
    cursor: Cursor = field(default_factory=dict)
    """Hand this to `Query.results(cursor=...)` to go on right after this batch."""


@dataclass(frozen=True, slots=True)
class PushTotals:
    """What became of the batches that a producer sent."""

    rows: int = 0
    """Rows that were stored."""
    batches: int = 0
    bytes: int = 0
    """Bytes of the stored batches, as sent."""
    duplicates: int = 0
    """Batches that the site had already, and did not store again."""
    duplicate_rows: int = 0
