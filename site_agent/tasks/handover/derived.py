"""The successor of a DERIVE until it has taken over: it keeps the input that its predecessor has not read, and waits.

A derived epoch is made of the input's epoch of the same number, so no state is sent. What the predecessor's channel has
is not needed of the input any more.
"""

from __future__ import annotations

from contract.handover import HandoverReport
from contract.tasks import TaskState
from machine.faults import reached
from site_agent.base.faults import FaultPoint
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore, Succession
from site_agent.tasks.context import TaskContext
from site_agent.tasks.handover.control import Control, first_epoch, follow, stay_behind
from site_agent.tasks.progress import Totals
from site_agent.tasks.spec import TakeOver
from site_agent.tasks.task import Task

NEAR_EPOCHS = 2
"""The input's copy may lack so many of the epochs that the predecessor has read: they may come at any moment."""


class DerivedShadow(Task):
    """`run` returns when it is stored that the task has taken over."""

    def __init__(self, context: TaskContext, take_over: TakeOver) -> None:
        self._context = context
        self._take_over = take_over
        (self._input,) = context.spec.inputs
        self._source: ChannelLog | None = None
        self._control: Control | None = None

    @property
    def handover(self) -> HandoverReport:
        source, control = self._source, self._control
        first = first_epoch(self._context, source, self._input) if source is not None else None
        if source is None or control is None or first is None:
            return HandoverReport()
        heard = control.heard
        # The predecessor's next epoch only grows, so an input that is here from there on stays enough.
        restored = first <= heard
        near = source.next_epoch >= heard - NEAR_EPOCHS
        return HandoverReport(first_epochs={self._input.channel: first}, restored=restored, caught_up=restored and near)

    async def run(self) -> None:
        context, spec = self._context, self._context.spec
        self._source = source = await context.router.subscribe(
            self._input.channel, self._input.site, spec.task_id, query_id=spec.query_id
        )
        self._control = control = await follow(context, self._take_over, 0)
        context.progress.enter(TaskState.RUNNING, f"follows {self._take_over.predecessor_channel}")
        while (end := await self._hear(control, source)) is None:
            await control.news()
        if end.successor_channel != spec.task_id:
            await stay_behind(context, self._take_over.predecessor_channel, end)
        async with context.attempt():
            await context.in_thread(lambda: self._mark(control, end))
        reached(FaultPoint.TAKEOVER_MARKED)

    async def close(self) -> None:
        """The subscriptions stay, so that a restarted task goes on."""

    async def _hear(self, control: Control, source: ChannelLog) -> EndMark | None:
        """Let go of the input that the predecessor's epochs are made of; return how its channel has ended, if so."""
        context = self._context
        await control.hear()
        context.progress.watermark_us = control.watermark_us
        last = min(control.heard, source.next_epoch) - 1
        if last >= source.first_epoch:
            await context.in_thread(lambda: context.router.acknowledge(source.id, context.spec.task_id, last))
        await context.in_thread(lambda: control.acknowledge(control.heard))
        return control.end

    def _mark(self, control: Control, end: EndMark) -> None:
        """Store that the task has taken over."""
        succession = Succession(
            self._take_over.predecessor_channel,
            heard=control.heard,
            from_epoch=end.next_epoch,
            closed_us=end.closed_us,
            idle=control.idle,
        )
        checkpoint = Checkpoint(1, {}, totals=Totals.from_json(dict(end.totals)), succession=succession)
        CheckpointStore(self._context.directory).save_state(checkpoint, {})
