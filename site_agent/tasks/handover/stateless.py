"""The successor of a task whose state is not sent, until it has taken over: it keeps the inputs that its predecessor
has not read, and waits.

A derived epoch is made of the input's epoch of the same number. A combining task publishes all that it holds before its
channel ends, and each of its epochs says how far its inputs are read. What is read is not needed of the inputs any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from contract.handover import HandoverReport
from contract.tasks import TaskState
from machine.faults import reached
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.channels.manifest import EndMark
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore, Succession
from site_agent.tasks.context import TaskContext
from site_agent.tasks.handover.control import Control, HeldInputs, follow, stay_behind
from site_agent.tasks.older import cursors_of
from site_agent.tasks.progress import Totals
from site_agent.tasks.spec import InputSpec, TakeOver
from site_agent.tasks.task import Task

NEAR_EPOCHS = 2
"""An input's copy may lack so many of the epochs that the predecessor has read: they may come at any moment."""

Taken = Callable[[Control, Sequence[InputSpec]], Mapping[str, int]]
"""It returns, by input, the next epoch that the predecessor had not taken when it published what was heard of it; not
of an input of which that is not known."""


def taken_of_derived(control: Control, inputs: Sequence[InputSpec]) -> Mapping[str, int]:
    """Return `Taken` of a DERIVE."""
    return {item.channel: control.heard for item in inputs}


def taken_of_renumbered(_: Control, __: Sequence[InputSpec]) -> Mapping[str, int]:
    """Return `Taken` of a DERIVE whose epochs have other numbers than the input's: only the end says it."""
    return {}


def taken_of_combined(control: Control, _: Sequence[InputSpec]) -> Mapping[str, int]:
    """Return `Taken` of a COMBINE."""
    return cursors_of(control.commit.get("cursors"))


class StatelessShadow(Task):
    """`run` returns when it is stored that the task has taken over.

    Args:
        context: of the task.
        take_over: whose place it takes.
        taken: see `Taken`.
    """

    def __init__(self, context: TaskContext, take_over: TakeOver, taken: Taken) -> None:
        self._context = context
        self._take_over = take_over
        self._inputs: Sequence[InputSpec] = context.spec.inputs
        self._taken = taken
        self._held = HeldInputs(context)
        self._control: Control | None = None

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        self._inputs = inputs
        await self._held.hold(self._inputs)

    @property
    def handover(self) -> HandoverReport:
        """The first epochs are told of all inputs, or of none."""
        control, known = self._control, self._held.first_epochs
        if control is None or not known:
            return HandoverReport()
        taken = self._taken(control, self._inputs)
        # The predecessor's cursors only grow, so inputs that are here from them on stay enough.
        restored = all(first <= taken.get(channel, first) for channel, first in known.items())
        near = all(log.next_epoch >= taken.get(name, 0) - NEAR_EPOCHS for name, log in self._held.logs.items())
        return HandoverReport(first_epochs=known, restored=restored, caught_up=restored and near)

    async def run(self) -> None:
        context = self._context
        await self._held.hold(self._inputs)
        self._control = control = await follow(context, self._take_over, 0)
        context.progress.enter(TaskState.RUNNING, f"follows {self._take_over.predecessor_channel}")
        while (end := await self._hear(control)) is None:
            await control.news()
        if end.for_query(context.spec.query_id).successor_channel != context.spec.task_id:
            await stay_behind(context, self._take_over.predecessor_channel, end)
        self._check_held(end)
        async with context.attempt():
            await context.in_thread(lambda: self._mark(control, end))
        reached(FaultPoint.TAKEOVER_MARKED)

    async def close(self) -> None:
        """The subscriptions stay, so that a restarted task goes on."""

    async def _hear(self, control: Control) -> EndMark | None:
        """Let go of what the predecessor's epochs are made of; return how its channel has ended, if so."""
        context = self._context
        await control.hear()
        context.progress.watermark_us = control.watermark_us
        taken = self._taken(control, self._inputs)
        for channel, log in self._held.logs.items():
            last = min(taken.get(channel, 0), log.next_epoch) - 1
            if last >= log.first_epoch:
                await context.in_thread(partial(context.router.acknowledge, channel, context.spec.task_id, last))
        await context.in_thread(lambda: control.acknowledge(control.heard))
        return control.end

    def _check_held(self, end: EndMark) -> None:
        """Raises SiteAgentError when an epoch is gone that the predecessor has not taken."""
        for channel, first in self._held.first_epochs.items():
            if first > end.cursors.get(channel, first):
                predecessor, epoch = self._take_over.predecessor_channel, end.cursors[channel]
                message = f"{predecessor} had read {channel} up to epoch {epoch}, and the oldest one here is {first}"
                raise SiteAgentError(message, ids={"channel": channel, "epoch": str(epoch)})

    def _mark(self, control: Control, end: EndMark) -> None:
        """Store that the task has taken over."""
        succession = Succession(
            self._take_over.predecessor_channel,
            heard=control.heard,
            from_epoch=end.next_epoch,
            closed_us=end.closed_us,
            idle=control.idle,
        )
        checkpoint = Checkpoint(
            1,
            dict(end.cursors),
            closed_us=end.closed_us,
            watermark_us=end.closed_us,
            totals=Totals.from_json(dict(end.totals)),
            out=end.next_epoch,
            succession=succession,
        )
        CheckpointStore(self._context.directory).save_state(checkpoint, {})
