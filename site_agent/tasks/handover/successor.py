"""A task that takes another one's place: a shadow first, then a task like any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from contract.handover import HandoverReport
from site_agent.base.errors import SiteAgentError
from site_agent.port import InputRead
from site_agent.tasks.checkpoint import CheckpointStore
from site_agent.tasks.combine import CombineTask
from site_agent.tasks.context import TaskContext
from site_agent.tasks.derive import DeriveTask
from site_agent.tasks.handover.control import release
from site_agent.tasks.handover.shadow import Shadow
from site_agent.tasks.handover.stateless import (
    StatelessShadow,
    taken_of_combined,
    taken_of_derived,
    taken_of_renumbered,
)
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver, InputSpec, TakeOver, WindowSpec
from site_agent.tasks.task import Task

logger = logging.getLogger(__name__)


Heir = MergeTask | CombineTask | DeriveTask


class SuccessorTask(Task):
    """Runs a spec that names a predecessor.

    Args:
        context: of the task.
        take_over: whose place it takes.
        shadow: what it is until it has taken over; its `run` returns when that is stored.
        heir: makes what it is from then on, which reads the predecessor's channel no more.
    """

    def __init__(
        self, context: TaskContext, take_over: TakeOver, shadow: Shadow | StatelessShadow, heir: Callable[[], Heir]
    ) -> None:
        self._context = context
        self._take_over = take_over
        self._inputs: Sequence[InputSpec] = context.spec.inputs
        self._hand_over = context.spec.hand_over
        self._shadow: Shadow | StatelessShadow | None = shadow
        self._make_heir = heir
        self._heir: Heir | None = None
        self._releasing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        if not await self._has_taken_over():
            assert self._shadow is not None
            await self._shadow.run()
        heir = await self._become_heir()
        self._releasing = asyncio.create_task(self._release())
        await heir.run()

    async def close(self) -> None:
        for task in (self._shadow, self._heir):
            if task is not None:
                await task.close()
        await self._stop_releasing()

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        self._inputs = inputs
        await self._now.set_inputs(inputs)

    async def set_handover(self, hand_over: HandOver | None, take_over: TakeOver | None) -> None:
        """A cut that is asked for before the task has taken over waits until it has."""
        self._hand_over = hand_over
        if self._heir is not None:
            await self._heir.set_handover(hand_over, take_over)
        if take_over is None and self._releasing is not None:
            await self._stop_releasing()
            await self._context.router.unsubscribe(self._take_over.predecessor_channel, self._context.spec.task_id)

    @property
    def handover(self) -> HandoverReport:
        if self._heir is None:
            return self._shadow.handover if self._shadow is not None else HandoverReport()
        found = self._heir.handover or HandoverReport()
        return replace(found, restored=True, caught_up=True, taken_over=self._heir.goes_on)

    @property
    def endures(self) -> bool:
        """Return whether the task is a shadow: its predecessor may have been told to end in its favour."""
        return self._heir is None

    @property
    def missed_inputs(self) -> tuple[str, ...]:
        return self._now.missed_inputs

    @property
    def reads(self) -> tuple[InputRead, ...]:
        return self._now.reads

    @property
    def _now(self) -> Task:
        found = self._heir or self._shadow
        assert found is not None
        return found

    async def _has_taken_over(self) -> bool:
        store = CheckpointStore(self._context.directory)
        saved = await self._context.in_thread(store.load_state)
        succession = saved.checkpoint.succession
        return succession is not None and succession.taken_over

    async def _become_heir(self) -> Heir:
        """The task that goes on from what is stored, as after a restart."""
        shadow, self._shadow, self._heir = self._shadow, None, self._make_heir()
        if shadow is not None:
            await shadow.close()
        await self._heir.set_inputs(self._inputs)
        await self._heir.set_handover(self._hand_over, self._take_over)
        return self._heir

    async def _release(self) -> None:
        context = self._context
        try:
            await release(context, self._take_over)
        except (SiteAgentError, OSError) as error:
            # The predecessor stays until the master knows otherwise; nothing of this task depends on it.
            logger.warning("not released site=%s task=%s: %s", context.site, context.spec.task_id, error)

    async def _stop_releasing(self) -> None:
        releasing, self._releasing = self._releasing, None
        if releasing is not None:
            releasing.cancel()
            await asyncio.gather(releasing, return_exceptions=True)


def windowed_successor(
    context: TaskContext, window: WindowSpec, take_over: TakeOver, *, waits_for_idle: bool = False
) -> SuccessorTask:
    """Return the task that takes the place of a MERGE or a FINAL."""

    def merge() -> MergeTask:
        beside = [take_over.predecessor_channel]
        return MergeTask(context, window, waits_for_idle=waits_for_idle, beside=beside)

    return SuccessorTask(context, take_over, Shadow(context, window, take_over, waits_for_idle=waits_for_idle), merge)


def combining_successor(context: TaskContext, window: WindowSpec, take_over: TakeOver) -> SuccessorTask:
    """Return the task that takes the place of a COMBINE."""
    heir = partial(CombineTask, context, window, beside=[take_over.predecessor_channel])
    return SuccessorTask(context, take_over, StatelessShadow(context, take_over, taken_of_combined), heir)


def derived_successor(context: TaskContext, take_over: TakeOver) -> SuccessorTask:
    """Return the task that takes the place of a DERIVE, or of a merge whose channel meets its input."""
    heir = partial(DeriveTask, context, beside=[take_over.predecessor_channel])
    taken = taken_of_renumbered if take_over.renumbers else taken_of_derived
    return SuccessorTask(context, take_over, StatelessShadow(context, take_over, taken), heir)
