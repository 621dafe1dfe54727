"""The work of a site: reconciles what runs here with the assignment after every change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from machine.clock import Clock
from machine.durations import Durations
from planner.values.stages import StageKind
from site_agent.agent.disk_use import SOURCES, TASKS
from site_agent.agent.results import ResultKeeper
from site_agent.agent.selections import copied_bins, reused_channels
from site_agent.agent.streams import pushed_streams, reads_pushed
from site_agent.base import posix
from site_agent.base.cpu import cpu_wait_s
from site_agent.base.errors import ChannelError, SiteAgentError
from site_agent.channels.store import ChannelStore
from site_agent.connectors.files.prepared import SHARED_NAME
from site_agent.connectors.registry import SINKS, find_connector, find_sink
from site_agent.connectors.sinks import SinkConnector
from site_agent.connectors.sources import Connector, SourceContext
from site_agent.engine import Engine
from site_agent.ingest.streams import PushStreams
from site_agent.router import Router
from site_agent.state.memory import StateMemory
from site_agent.tasks.combine import CombineTask
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.crashes import Crashes
from site_agent.tasks.dead_letters import DIRECTORY_NAME
from site_agent.tasks.derive import DeriveTask
from site_agent.tasks.final import FinalTask
from site_agent.tasks.handover.successor import combining_successor, derived_successor, windowed_successor
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.outputs import Outputs
from site_agent.tasks.pool import SendPool
from site_agent.tasks.progress import Progress
from site_agent.tasks.reduce import ReduceTask
from site_agent.tasks.runner import TaskRunner
from site_agent.tasks.sink import SinkTask
from site_agent.tasks.source import SourceTask, end_idleness
from site_agent.tasks.spec import Assignment, RelationSpec, TaskSpec
from site_agent.tasks.stretch import Stretch
from site_agent.tasks.table import TableTask
from site_agent.tasks.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SiteServices:
    """The parts of a site from which its tasks are built."""

    site: str
    directory: Path
    engine: Engine
    store: ChannelStore
    router: Router
    executor: Executor
    clock: Clock
    connectors: Mapping[str, Connector]
    sinks: Mapping[str, SinkConnector] = field(default_factory=lambda: SINKS)
    limits: TaskLimits = field(default_factory=TaskLimits)
    streams: PushStreams | None = None
    """None: clients cannot push to the site."""
    crashes: Crashes = field(default_factory=Crashes)
    """Counts crashes of the process, and so of all its sites."""
    stretch: Stretch = field(default_factory=Stretch)
    """Stretches the epoch intervals while CPU is short."""
    pool: SendPool = field(default_factory=SendPool)
    """What combining tasks have to send."""
    memory: StateMemory = field(default_factory=StateMemory)
    """What merges have of their state in memory; one for all sites of the process."""
    outputs: Outputs = field(default_factory=Outputs)
    """The site's cache of the outputs of tasks that read tables."""
    disk_full: Callable[[], str] = str
    """Returns the reason why tasks must not read new rows; empty when they may."""
    cpu_wait_s: Callable[[], float] = cpu_wait_s
    """How long the calling thread has waited for a CPU."""
    epochs: Durations = field(default_factory=Durations)
    """The durations of epochs, by kind of stage."""


class SiteRuntime:
    """Starts, changes and stops tasks. `apply` is idempotent; it may be called at any time, one call at a time."""

    def __init__(self, services: SiteServices) -> None:
        self._services = services
        self._runners: dict[str, TaskRunner] = {}
        self._results = ResultKeeper(services.router)
        self.version = 0
        self.news = asyncio.Event()
        """Set when the agent should report at once, for example because a task has ended and its slot is free."""

    @property
    def runners(self) -> Mapping[str, TaskRunner]:
        return self._runners

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def results(self) -> ResultKeeper:
        return self._results

    @property
    def epochs(self) -> Durations:
        """The durations of epochs, by kind of stage."""
        return self._services.epochs

    def expect_confirmation(self) -> None:
        """From now on, a missing channel counts as unconfirmed until the master has said which channels there are."""
        self._services.store.confirmed = False

    def confirm(self) -> None:
        """The master has said which channels there are, and its assignment is in force."""
        self._services.store.confirmed = True

    async def apply(self, assignment: Assignment) -> None:
        """Reconcile: stop what the assignment lacks, start what is new, change what differs, then remove unnamed
        channels."""
        self._services.router.set_addresses(assignment.site_addresses)
        self._services.router.set_bins(copied_bins(assignment))
        self._services.router.set_reused(reused_channels(assignment))
        wanted = {spec.task_id: spec for spec in assignment.tasks}
        for task_id in wanted:
            # A task may have to wait for others to stop; its readers must not take its channel for a lost one.
            self._services.store.open(task_id)
        for seed, reader in seeds_of(assignment).items():
            log = self._services.store.open(seed)
            log.yields = True
            log.set_consumers([reader])
        pausing = [wanted[name] for name, runner in self._runners.items() if _pauses(runner, wanted.get(name))]
        ending = asyncio.gather(
            *map(self._end, sorted(self._runners.keys() - wanted.keys())), *map(self._pause, pausing)
        )
        try:
            # Before any of them reads: what one acknowledges may be trimmed before another has begun to read it.
            await self._results.apply(assignment.results)
            for _, spec in sorted(wanted.items()):
                await self._hold_inputs(spec)
            # A task that is being stopped may be in the middle of a long epoch: new tasks do not wait for it.
            for _, spec in sorted(wanted.items()):
                if not reads_pushed(spec):
                    await self._ensure(spec)
        finally:
            await ending
        # After the readers of dropped streams have stopped, and before the readers of new streams start.
        if self._services.streams is not None:
            await self._services.streams.apply(pushed_streams(assignment))
        for _, spec in sorted(wanted.items()):
            if reads_pushed(spec):
                await self._ensure(spec)
        await self._services.router.keep_only(wanted.keys() | self._results.readers)
        self._forget(wanted, seeds_of(assignment))
        self.version = assignment.version

    async def close(self) -> None:
        """Stop all tasks where they are; they resume when the agent starts again."""
        await asyncio.gather(*(runner.stop() for runner in self._runners.values()))

    async def _ensure(self, spec: TaskSpec) -> None:
        log = self._services.store.open(spec.task_id)
        # A combining task reads its own channel after a crash. It is a consumer of its own, beside the sites: what a
        # site has acknowledged is what its known readers have, and the merge there may not be known yet.
        own = [spec.task_id] if spec.kind is StageKind.COMBINE else []
        log.set_consumers([*spec.consumers, *own])
        log.readers.set_queries(spec.readers)
        runner = self._runners.get(spec.task_id)
        if runner is None:
            services = self._services
            failed = services.crashes.why_failed(spec.task_id, services.site)
            runner = TaskRunner(
                spec, self._build, site=services.site, log=log, clock=services.clock, limits=services.limits
            )
            runner.ended = self.news.set
            runner.time_epochs(partial(_observe, services.epochs, spec.kind))
            self._runners[spec.task_id] = runner
            if failed:
                runner.fail(failed)
            else:
                await self._end_idleness(spec)
                runner.start()
                logger.info("task started site=%s task=%s kind=%s", services.site, spec.task_id, spec.kind.value)
        elif runner.spec != spec and not _pauses(runner, spec):
            await runner.update(spec)

    async def _end(self, task_id: str) -> None:
        runner = self._runners.pop(task_id)
        await runner.stop()
        await asyncio.to_thread(self._services.engine.drop_task, task_id)
        self._services.crashes.forget(task_id)
        logger.info("task ended site=%s task=%s", self._services.site, task_id)

    async def _hold_inputs(self, spec: TaskSpec) -> None:
        """Keep the inputs that are new to a task: other tasks here may read the same channels, and begin earlier."""
        runner = self._runners.get(spec.task_id)
        if runner is not None:
            known = frozenset(item.channel for item in runner.spec.inputs)
        elif (self._task_root() / spec.task_id).exists():
            # It ran before the agent was restarted. What it has read to the end is not fetched again.
            return
        else:
            known = frozenset()
        router, log = self._services.router, self._services.store.open(spec.task_id)
        for item in spec.inputs if not log.successor else ():
            # One without a site is not made yet; one of another site's is taken over by its reader.
            if item.channel not in known and item.site and router.may_join(item.channel, item.site, spec.task_id):
                await router.subscribe(item.channel, item.site, spec.task_id, query_id=spec.query_id)

    async def _pause(self, spec: TaskSpec) -> None:
        await self._runners[spec.task_id].pause(spec)
        await self._end_idleness(spec)
        await asyncio.to_thread(self._services.engine.drop_task, spec.task_id)
        logger.info("task paused site=%s task=%s", self._services.site, spec.task_id)

    async def _end_idleness(self, spec: TaskSpec) -> None:
        """Publish that a paused source is not idle, and what combines its partials neither.

        If its channel cannot be written now, the source publishes this when it resumes, or fails for the same reason.
        """
        if spec.paused and spec.kind in (StageKind.SOURCE, StageKind.COMBINE):
            try:
                await asyncio.to_thread(end_idleness, self._services.store.open(spec.task_id))
            except ChannelError as error:
                logger.warning("still idle site=%s task=%s: %s", self._services.site, spec.task_id, error.message)

    def _forget(self, wanted: Mapping[str, TaskSpec], seeds: Collection[str]) -> None:
        """Remove the channels and directories of tasks that are neither assigned nor kept for clients."""
        store = self._services.store
        # A task reads more channels than its spec names: a channel that ended may have a successor.
        keep = wanted.keys() | self._results.channels | self._services.router.subscribed | set(seeds)
        for channel in sorted(set(store.ids()) - keep):
            store.remove(channel)
        for directory in (self._task_root(), self._source_root()):
            for path in directory.iterdir() if directory.exists() else ():
                if path.name not in wanted and path.name != SHARED_NAME:
                    posix.remove_tree(path)

    def _task_root(self) -> Path:
        return self._services.directory / TASKS

    def _source_root(self) -> Path:
        return self._services.directory / SOURCES

    def _build(self, spec: TaskSpec, progress: Progress) -> Task:
        services = self._services
        directory = self._task_root() / spec.task_id
        directory.mkdir(parents=True, exist_ok=True)
        context = TaskContext(
            site=services.site,
            spec=spec,
            engine=services.engine,
            log=services.store.open(spec.task_id),
            router=services.router,
            directory=directory,
            dead_letters=services.directory / DIRECTORY_NAME / spec.task_id,
            executor=services.executor,
            clock=services.clock,
            limits=services.limits,
            progress=progress,
            crashes=services.crashes,
            stretch=services.stretch,
            pool=services.pool,
            memory=services.memory,
            outputs=services.outputs,
            disk_full=services.disk_full,
            cpu_wait_s=services.cpu_wait_s,
        )
        if (windowed := _WINDOWED.get(spec.kind)) is not None:
            if spec.window is None:
                raise SiteAgentError(f"task {spec.task_id} of windows has no window", ids={"task": spec.task_id})
            if spec.take_over is None:
                return windowed(context, spec.window)
            if spec.kind is StageKind.COMBINE:
                return combining_successor(context, spec.window, spec.take_over)
            final = spec.kind is StageKind.FINAL
            return windowed_successor(context, spec.window, spec.take_over, waits_for_idle=final)
        if spec.kind is StageKind.REDUCE:
            return ReduceTask(context)
        if spec.kind is StageKind.DERIVE:
            return DeriveTask(context) if spec.take_over is None else derived_successor(context, spec.take_over)
        return self._build_bound(context)

    def _build_bound(self, context: TaskContext) -> Task:
        """A task of a relation: the relation's options name the connector that reads or writes it."""
        spec = context.spec
        relation = spec.relation
        if relation is None:
            raise SiteAgentError(f"task {spec.task_id} names no relation", ids={"task": spec.task_id})
        if spec.kind is StageKind.SINK:
            return SinkTask(context, find_sink(relation.options, self._services.sinks), relation.options)
        connector = find_connector(self._services.connectors, relation.options)
        source_context = self._source_context(spec, relation)
        if spec.kind is StageKind.TABLE:
            return TableTask(context, connector.open_table(source_context))
        return SourceTask(context, relation, connector.open_source(source_context))

    def _source_context(self, spec: TaskSpec, relation: RelationSpec) -> SourceContext:
        directory = self._source_root() / spec.task_id
        directory.mkdir(parents=True, exist_ok=True)
        return SourceContext(
            relation=relation.name,
            site=self._services.site,
            columns=relation.columns,
            read_columns=spec.read_columns,
            event_time=relation.event_time,
            options=relation.options,
            directory=directory,
            created_at=relation.created_at,
            reader=spec.task_id,
        )


_WINDOWED: Mapping[StageKind, type[MergeTask] | type[CombineTask]] = {
    StageKind.MERGE: MergeTask,
    StageKind.FINAL: FinalTask,
    StageKind.COMBINE: CombineTask,
}
"""Tasks whose rows wait until their window closes."""


def seeds_of(assignment: Assignment) -> Mapping[str, str]:
    """The channels with checkpoints for successors, each with the site of its only reader."""
    found = [(task.hand_over.seed, task.hand_over) for task in assignment.tasks if task.hand_over is not None]
    return {seed.channel: hand_over.successor_site for seed, hand_over in found if seed is not None}


def _observe(epochs: Durations, kind: StageKind, busy_s: float) -> None:
    epochs.observe(busy_s, kind.value)


def _pauses(runner: TaskRunner, spec: TaskSpec | None) -> bool:
    return spec is not None and spec.paused and not runner.spec.paused
