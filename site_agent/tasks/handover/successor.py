"""A task that takes another one's place: a shadow first, then a merge like any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from contract.handover import HandoverReport
from site_agent.base.errors import SiteAgentError
from site_agent.port import InputRead
from site_agent.tasks.checkpoint import CheckpointStore
from site_agent.tasks.context import TaskContext
from site_agent.tasks.handover.control import release
from site_agent.tasks.handover.shadow import Shadow
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import HandOver, InputSpec, TakeOver, WindowSpec
from site_agent.tasks.task import Task

logger = logging.getLogger(__name__)


class SuccessorTask(Task):
    """Runs a spec that names a predecessor."""

    def __init__(
        self, context: TaskContext, window: WindowSpec, take_over: TakeOver, *, waits_for_idle: bool = False
    ) -> None:
        self._context = context
        self._window = window
        self._take_over = take_over
        self._waits_for_idle = waits_for_idle
        self._inputs: Sequence[InputSpec] = context.spec.inputs
        self._hand_over = context.spec.hand_over
        self._shadow: Shadow | None = Shadow(context, window, take_over, waits_for_idle=waits_for_idle)
        self._merge: MergeTask | None = None
        self._releasing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        if not await self._has_taken_over():
            assert self._shadow is not None
            await self._shadow.run()
        merge = await self._become_merge()
        self._releasing = asyncio.create_task(self._release())
        await merge.run()

    async def close(self) -> None:
        for task in (self._shadow, self._merge):
            if task is not None:
                await task.close()
        await self._stop_releasing()

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        self._inputs = inputs
        await self._now.set_inputs(inputs)

    async def set_handover(self, hand_over: HandOver | None, take_over: TakeOver | None) -> None:
        """A cut that is asked for before the task has taken over waits until it has."""
        self._hand_over = hand_over
        if self._merge is not None:
            await self._merge.set_handover(hand_over, take_over)
        if take_over is None and self._releasing is not None:
            await self._stop_releasing()
            await self._context.router.unsubscribe(self._take_over.predecessor_channel, self._context.spec.task_id)

    @property
    def handover(self) -> HandoverReport:
        if self._merge is None:
            return self._shadow.handover if self._shadow is not None else HandoverReport()
        found = self._merge.handover or HandoverReport()
        return replace(found, restored=True, caught_up=True, taken_over=self._merge.goes_on)

    @property
    def endures(self) -> bool:
        """Return whether the task is a shadow: its predecessor may have been told to end in its favour."""
        return self._merge is None

    @property
    def missed_inputs(self) -> tuple[str, ...]:
        return self._now.missed_inputs

    @property
    def reads(self) -> tuple[InputRead, ...]:
        return self._now.reads

    @property
    def _now(self) -> Task:
        found = self._merge or self._shadow
        assert found is not None
        return found

    async def _has_taken_over(self) -> bool:
        store = CheckpointStore(self._context.directory)
        saved = await self._context.in_thread(store.load_state)
        succession = saved.checkpoint.succession
        return succession is not None and succession.taken_over

    async def _become_merge(self) -> MergeTask:
        """The merge that goes on from the checkpoint, as after a restart."""
        merge = MergeTask(
            self._context,
            self._window,
            waits_for_idle=self._waits_for_idle,
            beside=[self._take_over.predecessor_channel],
        )
        shadow, self._shadow, self._merge = self._shadow, None, merge
        if shadow is not None:
            await shadow.close()
        await merge.set_inputs(self._inputs)
        await merge.set_handover(self._hand_over, self._take_over)
        return merge

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
