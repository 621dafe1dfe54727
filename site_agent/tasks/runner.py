"""One task's life: built, run, built again after a failure or a pause, until it ends, fails for good, or is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from contract.figures import values_of
from contract.tasks import TaskState
from machine.backoff import delay_after
from machine.clock import Clock
from planner.values.stages import StageKind
from site_agent.base.disk import NO_SPACE_HINT, lacks_space
from site_agent.base.errors import (
    EngineError,
    FunctionLimitError,
    FunctionsRefusedError,
    LostChannelError,
    NoSpaceError,
    PathRefusedError,
    SiteAgentError,
)
from site_agent.channels.log import ChannelLog
from site_agent.port import InputRead
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.handover.ending import report_of_cut
from site_agent.tasks.progress import Progress, TaskStatus
from site_agent.tasks.spec import TaskSpec
from site_agent.tasks.task import Task

logger = logging.getLogger(__name__)

RETRY_DELAYS_S: Sequence[float] = (0.5, 1.0, 2.0, 4.0)
"""A task that fails this many times in a row, without an epoch that counts in between, fails for good.

Unless the disk is full: that is not the task's fault, and passes.
"""
WAITS_FROM = 0.5
"""The `waiting_ratio` from which a running task says that it waits."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    reason: str
    passing: bool = False
    """To be tried again for as long as it takes."""
    final: bool = False
    """Not to be retried: that would not help."""


class TaskRunner:
    """Runs a task; `build` makes it anew from the spec that is in force."""

    def __init__(  # noqa: PLR0913 - each is a part of its own
        self,
        spec: TaskSpec,
        build: Callable[[TaskSpec, Progress], Task],
        *,
        site: str,
        log: ChannelLog,
        clock: Clock,
        limits: TaskLimits | None = None,
    ) -> None:
        self.spec = spec
        self._build = build
        self._site = site
        self._log = log
        self._clock = clock
        self._limits = limits or TaskLimits()
        self.ended: Callable[[], None] = lambda: None
        """Called when the task has ended by itself, successfully or not."""
        self._progress = Progress(clock.monotonic())
        self._task: Task | None = None
        self._running: asyncio.Task[None] | None = None

    def time_epochs(self, timed: Callable[[float], None]) -> None:
        """Have it told how many seconds each epoch takes."""
        self._progress.timed = timed

    def fail(self, reason: str) -> None:
        """The task has failed for good: it is not run, now or later."""
        self._progress.enter(TaskState.FAILED, reason)
        logger.error("task failed site=%s task=%s reason=%s", self._site, self.spec.task_id, reason)

    def start(self) -> None:
        """Run the task, unless it has failed for good before, or its spec says that it is paused."""
        if self._progress.state is TaskState.FAILED:
            return
        if self.spec.paused:
            self._progress.enter(TaskState.PAUSED)
            return
        self._running = asyncio.create_task(self._run(), name=self.spec.task_id)

    async def stop(self) -> None:
        """Return when nothing of the task runs any more."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        self._running = self._task = None

    async def pause(self, spec: TaskSpec) -> None:
        """Stop; an epoch under way is done again when the task goes on, from the last one that is stored."""
        self.spec = spec
        await self.stop()
        if self.spec.paused:
            self._progress.enter(TaskState.PAUSED)

    async def update(self, spec: TaskSpec) -> None:
        """Take over a changed spec; inputs, connector options and handovers are all that can change while it runs.

        Returns once the task itself has taken it over.
        """
        before, self.spec = self.spec, spec
        if before.paused and not spec.paused:
            if self._progress.state is TaskState.PAUSED:
                self._progress.enter(TaskState.STARTING)
            self.start()
            return
        if self._task is not None and before.inputs != spec.inputs:
            await self._task.set_inputs(spec.inputs)
        if self._task is not None and (before.hand_over, before.take_over) != (spec.hand_over, spec.take_over):
            await self._task.set_handover(spec.hand_over, spec.take_over)
        if self._task is not None and before.beside and not spec.beside:
            self._task.count_late()
        if self._task is not None and _options(before) != _options(spec):
            self._task.reconfigure(_options(spec))

    @property
    def reads(self) -> tuple[InputRead, ...]:
        """How far the task has come in its inputs; empty while it does not run."""
        return self._task.reads if self._task is not None else ()

    def status(self) -> TaskStatus:
        progress, now_s = self._progress, self._clock.monotonic()
        progress.measure(retained_bytes=self._log.epochs.retained_bytes)
        state, reason = progress.state, progress.reason
        figures = progress.figures(now_s)
        if state is TaskState.RUNNING and not reason:
            reason = _short_of_cpu(progress.interval_s, figures.waiting_ratio)
        if self._log.epochs.damage is not None:
            # What the task made and somebody still needs cannot be read, and it is not made twice.
            state, reason = TaskState.FAILED, self._log.epochs.damage.message
        return TaskStatus(
            task_id=self.spec.task_id,
            query_id=self.spec.query_id,
            stage_id=self.spec.stage_id,
            state=state,
            reason=reason,
            next_epoch=self._log.next_epoch,
            watermark_us=progress.watermark_us,
            operators=progress.operators(now_s),
            missed_inputs=self._task.missed_inputs if self._task else (),
            starts_at_us=progress.starts_at_us,
            behind=self._limits.pressure_of(self._log).behind,
            handover=self._task.handover if self._task else report_of_cut(self._log, self._site),
            **values_of(figures),
        )

    async def _run(self) -> None:
        failures, retries = 0, 0
        while True:
            made_before = self._made()
            failure = await self._attempt()
            if failure is None:
                self.ended()
                return
            if self._made() > made_before:
                failures, retries = 0, 0
            retries += 1
            self._progress.failures += 1
            failures += not failure.passing
            if failure.final or failures > len(RETRY_DELAYS_S):
                self.fail(failure.reason)
                self.ended()
                return
            self._progress.enter(TaskState.RETRYING, failure.reason)
            logger.warning(
                "epoch failed site=%s task=%s attempt=%d reason=%s",
                self._site,
                self.spec.task_id,
                retries,
                failure.reason,
            )
            await self._clock.sleep(delay_after(retries - 1, RETRY_DELAYS_S))

    def _made(self) -> int:
        """Grows with each epoch that counts: published, or of a sink, which has no output channel, committed."""
        return self._progress.epochs if self.spec.kind is StageKind.SINK else self._log.next_epoch

    async def _attempt(self) -> Failure | None:
        """Run the task once; None when it ended, else why it failed."""
        try:
            self._task = task = self._build(self.spec, self._progress)
            try:
                await task.run()
            finally:
                await task.close()
        except (SiteAgentError, OSError) as error:
            failure = _failure(error)
        except Exception as error:
            # The top of the task's loop: whatever it was must reach the user.
            logger.exception("unexpected error site=%s task=%s", self._site, self.spec.task_id)
            failure = Failure(f"internal error: {type(error).__name__}: {error}")
        else:
            return None
        endures = self._task is not None and self._task.endures
        return replace(failure, passing=True, final=False) if endures else failure


def _failure(error: SiteAgentError | OSError) -> Failure:
    passing = lacks_space(error)
    if isinstance(error, OSError):
        where = f": cannot write {error.filename}" if error.filename else ""
        error = NoSpaceError(f"the disk is full{where}", hint=NO_SPACE_HINT) if passing else SiteAgentError(str(error))
    elif passing and isinstance(error, EngineError):
        error = NoSpaceError(f"the disk is full: {error.message}", hint=NO_SPACE_HINT)
    final = isinstance(error, LostChannelError | PathRefusedError | FunctionLimitError | FunctionsRefusedError)
    return Failure(f"{error.message} ({error.hint})" if error.hint else error.message, passing, final)


def _options(spec: TaskSpec) -> Mapping[str, str]:
    return spec.relation.options if spec.relation else {}


def _short_of_cpu(interval_s: float | None, waiting_ratio: float) -> str:
    """What a running task says when its site has too much to do; empty: it has not."""
    if interval_s is not None:
        return f"CPU is short at its site: an epoch every {interval_s:.1f} s"
    if waiting_ratio >= WAITS_FROM:
        return "waits for a CPU or a slot most of the time: its site has too much to do"
    return ""
