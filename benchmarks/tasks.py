"""Tasks of a site without an agent around them: real engine, connector and channels, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from machine.clock import SystemClock
from planner.values.stages import StageKind
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.connectors.registry import find_connector, make_connectors
from site_agent.connectors.sources import SourceContext
from site_agent.engine import Field
from site_agent.engine.spark import SparkEngine
from site_agent.exchange.options import connect
from site_agent.router import Router
from site_agent.tasks.combine import CombineTask
from site_agent.tasks.context import TaskContext, TaskLimits
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.progress import Progress
from site_agent.tasks.source import SourceTask
from site_agent.tasks.spec import InputSpec, RelationSpec, TaskSpec, WindowSpec

SITE = "us"


@dataclass(frozen=True, slots=True)
class Stage:
    """A source stage: what it reads and what it makes of it."""

    columns: tuple[Field, ...]
    event_time: str
    options: Mapping[str, str]
    sql: str
    epoch_interval: timedelta
    watermark_delay: timedelta = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task, its channel and its counts."""

    task: SourceTask | MergeTask | CombineTask
    log: ChannelLog
    progress: Progress


class Site:
    """Makes source tasks over one engine and one directory."""

    def __init__(self, engine: SparkEngine, root: Path, slots: Executor, limits: TaskLimits | None = None) -> None:
        self._limits = limits or TaskLimits(retained_bytes_per_channel=2**40)
        self._engine = engine
        self._root = root
        self._slots = slots
        self._store = ChannelStore(root / "channels")
        self._router = Router(SITE, self._store, connect)
        self._connectors = make_connectors(engine)

    def make_task(self, name: str, stage: Stage) -> RunningTask:
        """A task that nobody reads: what it publishes stays."""
        relation = RelationSpec(
            name, stage.columns, stage.event_time, stage.watermark_delay, stage.options, datetime.now(UTC)
        )
        spec = TaskSpec(name, name, "s1", StageKind.SOURCE, stage.sql, stage.epoch_interval, relation)
        directory = self._root / name
        directory.mkdir()
        columns = tuple(column.name for column in stage.columns)
        context = SourceContext(
            name, SITE, stage.columns, columns, stage.event_time, stage.options, directory, relation.created_at
        )
        source = find_connector(self._connectors, stage.options).open_source(context)
        made = self._context(spec, directory)
        return RunningTask(SourceTask(made, relation, source), made.log, made.progress)

    def make_channel(self, name: str) -> ChannelLog:
        """A channel of the site that tasks of the site read."""
        log = self._store.open(name)
        log.set_consumers([SITE])
        return log

    def make_merge(
        self, name: str, sql: str, inputs: Sequence[ChannelLog], window: WindowSpec, bins: Sequence[int] = ()
    ) -> RunningTask:
        """A merge of channels of this site, with the checkpoints of an agent; its output has no readers.

        Of some bins, it is a part.
        """
        specs = tuple(InputSpec(log.id, SITE, window.views[0].name, bins=tuple(bins)) for log in inputs)
        made = self._reading(
            TaskSpec(name, name, "m1", StageKind.MERGE, sql, timedelta(0), inputs=specs, window=window)
        )
        return RunningTask(MergeTask(made, window), made.log, made.progress)

    def make_combine(self, name: str, sql: str, inputs: Sequence[ChannelLog], window: WindowSpec) -> RunningTask:
        """A combining task over channels of this site; its output is kept for the reader `check`."""
        specs = tuple(InputSpec(log.id, SITE, window.views[0].name) for log in inputs)
        made = self._reading(
            TaskSpec(name, name, "c1", StageKind.COMBINE, sql, timedelta(0), inputs=specs, window=window)
        )
        made.log.set_consumers([name, "check"])
        return RunningTask(CombineTask(made, window), made.log, made.progress)

    def _reading(self, spec: TaskSpec) -> TaskContext:
        directory = self._root / spec.task_id
        directory.mkdir()
        return self._context(spec, directory)

    def _context(self, spec: TaskSpec, directory: Path) -> TaskContext:
        clock = SystemClock()
        return TaskContext(
            site=SITE,
            spec=spec,
            engine=self._engine,
            log=self._store.open(spec.task_id),
            router=self._router,
            directory=directory,
            dead_letters=directory / "dead-letters",
            executor=self._slots,
            clock=clock,
            limits=self._limits,
            progress=Progress(clock.monotonic()),
        )

    async def close(self) -> None:
        await self._router.close()
