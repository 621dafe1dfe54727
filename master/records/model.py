"""The master's own values: queries, sites, and what sites report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from contract.figures import TaskFigures
from contract.handover import HandoverReport
from contract.tasks import TaskState
from planner.batch import TaskPhase
from planner.graph.ids import TaskId
from planner.graph.plan import BatchPlan, PhysicalPlan
from planner.sharing.deployment import Deployment
from planner.sharing.vertices import RESULTS


class QueryState(Enum):
    """The states of a query; docs/operations.md draws the moves."""

    DEPLOYING = "deploying"
    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FAILED = "failed"
    PAUSED = "paused"
    """Its tasks are kept but paused, except those that other queries need."""
    RESUMING = "resuming"
    """It was paused; not all of its tasks have been seen running again."""

    @property
    def over(self) -> bool:
        return self in (QueryState.CANCELLED, QueryState.FINISHED, QueryState.FAILED)

    @property
    def live(self) -> bool:
        """Whether its tasks run, or are to run."""
        return self in (QueryState.DEPLOYING, QueryState.RUNNING, QueryState.RESUMING)

    @property
    def held(self) -> bool:
        """Whether its tasks are, or are to be, at the sites: running or paused."""
        return self.live or self is QueryState.PAUSED

    @property
    def starting(self) -> bool:
        """Whether it is live, and not all of its tasks have been seen running."""
        return self in (QueryState.DEPLOYING, QueryState.RESUMING)


class SiteState(Enum):
    EXPECTED = "expected"
    """Named in the topology, never seen."""
    ALIVE = "alive"
    UNREACHABLE = "unreachable"
    """Its heartbeat is overdue; this moves and ends nothing."""


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """One of the operators fused in a stage, with the rows that it gave out since the agent started the task."""

    name: str
    rows_out: int = 0
    rows_out_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QueryBehind:
    """A query that is behind others in reading a channel."""

    query_id: str
    bytes: int
    """All bytes that wait for it."""
    sites: tuple[str, ...] = ()
    """The sites of its slowest readers."""
    left: bool = False
    """More waits for it than the channel keeps for queries that are behind."""


@dataclass(frozen=True, slots=True)
class TaskStatus(TaskFigures):
    """A task as its agent last reported it. Counts are totals since the query started, across restarts."""

    task_id: TaskId
    query_id: str
    stage_id: str
    site: str
    state: TaskState = TaskState.STARTING
    reason: str = ""
    next_epoch: int = 0
    watermark_us: int | None = None
    operators: tuple[OperatorStatus, ...] = ()
    """From the stage's input to its output."""
    missed_inputs: tuple[TaskId, ...] = ()
    """Channels that it was to read from the first epoch on, which was removed."""
    starts_at_us: int | None = None
    """The event time from which it reads, when it joined its inputs in the middle."""
    behind: tuple[QueryBehind, ...] = ()
    """Queries that are behind others in reading its channel."""
    handover: HandoverReport | None = None
    """It is set for a task that hands over or takes over; no progress has it."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of an agent's process, which all its sites share."""

    agent_bytes: int = 0
    jvm_bytes: int = 0
    heap_used_bytes: int = 0
    heap_committed_bytes: int = 0
    heap_max_bytes: int = 0
    sites: int = 0


@dataclass(frozen=True, slots=True)
class StreamLog:
    """The log of a pushed stream at a site."""

    stream: str
    size_bytes: int = 0
    rows: int = 0
    batches: int = 0
    rows_stored: int = 0
    limit_bytes: int = 0
    ended: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes that a site keeps on disk."""

    query_bytes: Mapping[str, int] = field(default_factory=dict)
    """By the id of the query."""
    replay_bytes: int = 0
    stream_log_bytes: int = 0
    budget_bytes: int = 0
    """0: there is none."""
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ChannelUse:
    """A query's use of one incoming link since the agent's start."""

    channel: TaskId
    query_id: str
    from_site: str
    bytes: int
    epochs: int = 0
    readers: int = 1


@dataclass(frozen=True, slots=True)
class ResultStatus:
    """A query's results at its gateway."""

    query_id: str
    rows: int
    bytes: int = 0
    complete: bool = False
    watermark_us: int | None = None
    starts_at_us: int | None = None
    """The event time from which results are complete, when shared channels were joined in the middle."""


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Traffic over one directed link."""

    from_site: str
    to_site: str
    bytes: int
    epochs: int = 0
    bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class InputStatus:
    """How far a reader at a site has come in a channel."""

    reader: TaskId
    """A task, or what keeps the results of a query."""
    channel: TaskId
    stored_epoch: int = 0
    """The next epoch that the site does not hold."""
    next_epoch: int = 0
    """The next one that the reader takes."""
    waiting_rows: int = 0
    taken_rows: int = 0
    """Since the agent started the reader."""
    watermark_us: int | None = None

    @property
    def of_results(self) -> bool:
        return self.reader.stage == RESULTS


@dataclass(frozen=True, slots=True)
class SiteReport:
    """One heartbeat."""

    site: str
    incarnation: str
    assignment_version: int = 0
    tasks: tuple[TaskStatus, ...] = ()
    channels: tuple[ChannelUse, ...] = ()
    results: tuple[ResultStatus, ...] = ()
    links: tuple[LinkUse, ...] = ()
    memory_bytes: int = 0
    memory: MemoryUse = MemoryUse()
    stream_logs: tuple[StreamLog, ...] = ()
    disk: DiskUse = DiskUse()
    inputs: tuple[InputStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelCounter:
    """Bytes that one site received of one channel, over all incarnations of its agent: `earlier_*` plus `current_*`."""

    channel: TaskId
    from_site: str
    to_site: str
    incarnation: str
    current_bytes: int = 0
    current_epochs: int = 0
    earlier_bytes: int = 0
    earlier_epochs: int = 0

    @property
    def total_bytes(self) -> int:
        return self.earlier_bytes + self.current_bytes

    @property
    def total_epochs(self) -> int:
        return self.earlier_epochs + self.current_epochs


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a query has come."""

    tasks: Mapping[TaskId, TaskStatus] = field(default_factory=dict)
    counters: tuple[ChannelCounter, ...] = ()
    result: ResultStatus | None = None
    complete_since: datetime | None = None
    """When the gateway first reported that it holds all results, or the sink that it has written them."""
    rows_late_before: int = 0
    """They were counted by tasks in whose place others have gone on."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A MAP or the REDUCE of a batch query: its state, and its slot."""

    phase: TaskPhase = TaskPhase.WAITING
    site: str = ""
    slot: int = 0
    fencing: int = 0
    """Of its newest lease."""
    placed_at: datetime | None = None
    ended_at: datetime | None = None
    predicted_s: float = 0.0
    """The estimate, at its placement, of how long it needs the slot."""
    local: bool = False
    """Its input was near when it was placed."""

    @property
    def placed(self) -> bool:
        return self.phase is not TaskPhase.WAITING


@dataclass(frozen=True, slots=True)
class BatchState:
    """The states of a batch query's tasks, in the order of the plan's splits."""

    maps: tuple[BatchTask, ...]
    reduce: BatchTask = BatchTask()

    @property
    def mapped(self) -> bool:
        return all(task.phase is TaskPhase.DONE for task in self.maps)

    def with_tasks(self, found: Mapping[int | None, BatchTask]) -> BatchState:
        """With these states of tasks, by the number of their split (None: the REDUCE)."""
        maps = tuple(found.get(number, task) for number, task in enumerate(self.maps))
        return BatchState(maps, found.get(None, self.reduce))


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A query as it is stored: a StreamQuery, or a BatchQuery."""

    id: str
    name: str
    sql: str
    plan: PhysicalPlan
    state: QueryState
    submitted_at: datetime
    reason: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    progress: Progress = field(default_factory=Progress)
    owner: str = ""
    """Who submitted it; empty: callers were not checked then."""


@dataclass(frozen=True, slots=True)
class StreamQuery(QueryRecord):
    """A query that reads streams."""

    deployment: Deployment | None = None
    """What it shares with others; None: nothing."""


@dataclass(frozen=True, slots=True)
class BatchQuery(QueryRecord):
    """A query that reads tables only, and ends."""

    plan: BatchPlan
    batch: BatchState = field(kw_only=True)
    """The states of its tasks."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a query's state, as its log has it."""

    query_id: str
    source: QueryState | None
    """None: the query was accepted."""
    target: QueryState
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SiteRecord:
    """A site's agent as it is stored."""

    name: str
    address: str
    incarnation: str
    slots: int
    version: str
    last_report_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AssignmentMark:
    """The assignment that a site was last given: its version and a digest of its content."""

    site: str
    version: int
    digest: str
