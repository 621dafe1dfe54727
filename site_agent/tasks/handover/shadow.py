"""A task that is to take another one's place, until it has: it takes all input, keeps checkpoints, publishes nothing.

It begins with a checkpoint of the other task, its seed, which it stores as its own first one before it acknowledges
any input. Where it reads other channels than the other task, it begins with nothing, at their first epochs; where it
begins late, in the middle of them, and leaves out the windows of which it may lack rows. It drops the windows that the
other task's channel says are out. When that channel has ended in its favour, it drops those up to the last watermark
and stores a checkpoint that says so: from then on it never looks at the channel again, so windows that are out stay
out.

Where results come out at instants of their own, as sessions do, it takes no input: which rows are late is for the other
task to say until its channel has ended. The inputs stay here, and are taken then as after a crash
(`site_agent.tasks.retaken`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from contract.handover import HandoverReport
from contract.tasks import TaskState
from machine.faults import reached
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.port import PortBatch
from site_agent.tasks.checkpoint import Checkpoint, Closing, Succession
from site_agent.tasks.context import TaskContext
from site_agent.tasks.copies import check_whole
from site_agent.tasks.emission import Emission
from site_agent.tasks.gather import GatheringTask
from site_agent.tasks.handover.control import (
    Control,
    HeldInputs,
    follow,
    patiently,
    stay_behind,
    undamaged,
    until_ended,
)
from site_agent.tasks.handover.seed import SeedHead, head_of, rows_of
from site_agent.tasks.merge_state import TAIL_SHARE
from site_agent.tasks.spec import InputSpec, TakeOver, WindowSpec

LOOKS_AGAIN_S = 60.0
"""A shadow that takes no input waits for news of its predecessor, at most so long at a time."""
NEAR_EPOCHS = 2
"""A shadow that has no more epochs of an input to take has caught up: so many may come at any moment."""


class Shadow(GatheringTask):
    """`run` returns when it is stored that the task has taken over."""

    def __init__(
        self, context: TaskContext, window: WindowSpec, take_over: TakeOver, *, waits_for_idle: bool = False
    ) -> None:
        super().__init__(
            context,
            window,
            waits_for_idle=waits_for_idle,
            beside=[take_over.predecessor_channel, take_over.seed_channel],
        )
        self._take_over = take_over
        self._held = HeldInputs(context)
        self._tables = HeldInputs(context)
        self._control: Control | None = None
        self._followed = asyncio.Event()

    @property
    def handover(self) -> HandoverReport:
        """The first epochs are told of all inputs, or of none."""
        restored = self._checkpoint.number > 0
        reads_all = self._restored and not self._port.missed_inputs
        return HandoverReport(
            first_epochs=self._held.first_epochs,
            restored=restored,
            caught_up=restored and reads_all and (self._waits or self._port.is_near(NEAR_EPOCHS)),
            whole_after_us=self._whole_after_us if self._take_over.late else None,
        )

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        await super().set_inputs(inputs)
        await self._hold_inputs()

    async def run(self) -> None:
        context = self._context
        async with context.attempt():
            await self._restore()
        await self._hold_inputs()
        self._control = control = await follow(context, self._take_over, 0)
        predecessor = self._take_over.predecessor_channel
        if not self._checkpoint.number:
            await self._begin_state()
        if self._take_over.seed_channel:
            await context.router.unsubscribe(self._take_over.seed_channel, context.spec.task_id)
        assert self._succession is not None
        control.heard = self._succession.heard
        self._restored = True
        await self._read_inputs()
        context.progress.enter(TaskState.RUNNING, f"follows {predecessor}")
        following = asyncio.create_task(self._follow(control))
        try:
            while (end := await self._hear(control)) is None:
                await self._step()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        if end.for_query(context.spec.query_id).successor_channel != context.spec.task_id:
            await stay_behind(context, predecessor, end)
        async with context.attempt():
            await self._mark(control, end)

    async def _hold_inputs(self) -> None:
        """Keep all inputs until the state has come and they are read."""
        held, done = self._held.logs, self._checkpoint.ended
        waiting = [item for item in self._inputs if item.channel in held or item.channel not in done]
        await self._held.hold(item for item in waiting if item.view in self._views)
        await self._tables.hold(item for item in waiting if item.view not in self._views)

    async def _begin_state(self) -> None:
        predecessor = self._take_over.predecessor_channel
        if self._take_over.seed_channel:
            self._context.progress.enter(TaskState.RUNNING, f"waits for the state of {predecessor}")
            await self._restore_seed()
            return
        async with self._context.attempt():
            succession = Succession(predecessor, of_others=not self._take_over.late)
            await self._begin_with(Checkpoint(1, {}, succession=succession))

    async def _restore_seed(self) -> None:
        """Make the predecessor's checkpoint one's own.

        Raises:
            SiteAgentError: it is not whole, or needs epochs of the inputs that this site does not hold.
        """
        context, channel = self._context, self._take_over.seed_channel
        log = await context.router.subscribe(
            channel, self._take_over.predecessor_site, context.spec.task_id, query_id=context.spec.query_id
        )
        await until_ended(context, log)
        check_whole(log)
        head = head_of(await undamaged(context, lambda: log.epochs.read(0)), channel)
        await self._check_held(head)
        await self._fill(log, head)
        async with context.attempt():
            checkpoint = replace(
                head.checkpoint,
                number=1,
                succession=Succession(self._take_over.predecessor_channel, heard=head.next_epoch),
            )
            await self._begin_with(checkpoint)

    async def _begin_with(self, checkpoint: Checkpoint) -> None:
        """Begin with a checkpoint as after a restart, so that there is one way to do so."""
        await self._state.save(checkpoint)
        reached(FaultPoint.SEED_RESTORED)
        self._state.close()
        await self._restore()

    async def _fill(self, log: ChannelLog, head: SeedHead) -> None:
        """Take in the rows of a seed; what is much is written to disk on the way."""
        state = self._state
        state.open.advance(head.checkpoint.closed_us)
        much_bytes = state.memory.limit_bytes // TAIL_SHARE
        spilled = 0
        for epoch in range(1, log.next_epoch):
            table = await undamaged(self._context, partial(log.epochs.read, epoch))
            if table is None:
                continue
            view, rows = rows_of(table, head, log.id)
            if view not in self._views:
                raise SiteAgentError(f"channel {log.id} has rows of {view!r}, which the task does not know")
            state.open.add(view, rows)
            if sum(windows.fresh_bytes for windows in state.open.windows.values()) > much_bytes:
                await state.spill(spilled)
                spilled += 1

    async def _check_held(self, head: SeedHead) -> None:
        """Raises SiteAgentError when a checkpoint needs an epoch that this site does not hold."""
        for channel, log in list(self._held.logs.items()):
            cursor = head.checkpoint.cursors.get(channel)
            if cursor is None or channel in head.checkpoint.ended:
                continue
            while (first := self._held.first_epoch(channel)) is None:
                await patiently(self._context, log, 0)
            if cursor < first:
                raise SiteAgentError(
                    f"the state of {self._take_over.predecessor_channel} needs epoch {cursor} of {channel},"
                    f" and the oldest one here is {first}",
                    ids={"channel": channel, "epoch": str(cursor)},
                )

    async def _follow(self, control: Control) -> None:
        """Interrupt the task's wait whenever the predecessor's channel has news."""
        while True:
            self._followed.clear()
            await control.news()
            self._interrupt()
            await self._followed.wait()

    async def _hear(self, control: Control) -> EndMark | None:
        """Drop what is out; how the predecessor's channel has ended, if it has."""
        self._news = False
        await control.hear()
        self._totals = self._totals.plus(rows_out=control.rows, bytes_out=control.size_bytes)
        control.rows = control.size_bytes = 0
        assert self._succession is not None
        self._succession = replace(self._succession, heard=control.heard)
        if control.watermark_us is not None and not self._waits:
            await self._context.in_thread(partial(self._state.open.advance, control.watermark_us))
        self._followed.set()
        return control.end

    @property
    def _waits(self) -> bool:
        """Return whether it takes no input."""
        return self._window.takes_again

    async def _step(self) -> None:
        context = self._context
        if self._waits:
            if not self._news:
                await self._stand_still(LOOKS_AGAIN_S)
            return
        batch = await self._next()
        if batch is None:
            if self._checkpoint_is_due():
                async with context.attempt():
                    await self._save_checkpoint(self._port.cursors)
            return
        started_s = context.clock.monotonic()
        async with context.attempt():
            await self._take_in(batch, started_s)

    async def _take_in(self, batch: PortBatch, started_s: float) -> None:
        self._take_all(batch)
        await self._maybe_checkpoint(batch)
        self._record(batch, started_s, Emission())

    async def _save_checkpoint(self, cursors: Mapping[str, int], closing: Closing | None = None) -> None:
        """Store a checkpoint, which counts as an epoch does: the work of a task that publishes nothing is in these."""
        await super()._save_checkpoint(cursors, closing)
        self._context.crashes.completed(self._context.spec.task_id)
        control, succession = self._control, self._checkpoint.succession
        if control is not None and succession is not None and not succession.taken_over:
            await self._context.in_thread(lambda: control.acknowledge(succession.heard))

    async def _mark(self, control: Control, end: EndMark) -> None:
        """Store that the task has taken over, with the windows that are out.

        Raises:
            SiteAgentError: it lacks rows of windows that are not.
        """
        lacks_us = self._state.open.closed_us
        if self._take_over.late and lacks_us is not None and (end.closed_us is None or lacks_us > end.closed_us):
            message = f"{self._take_over.predecessor_channel} ended before the windows were out that are not whole here"
            raise SiteAgentError(message, ids={"channel": self._take_over.predecessor_channel})
        # From here on it has every window whole, and rows may be late.
        self._context.progress.starts_at_us = None
        if end.closed_us is not None and not self._waits:
            await self._context.in_thread(partial(self._state.open.advance, end.closed_us))
        assert self._succession is not None
        self._succession = replace(
            self._succession,
            from_epoch=end.next_epoch,
            closed_us=end.closed_us,
            idle=control.idle,
            taken=end.cursors,
            dropped=end.dropped,
        )
        self._totals = replace(self._totals, rows_late=end.rows_late)
        await self._save_checkpoint(self._port.cursors)
        reached(FaultPoint.TAKEOVER_MARKED)

    def _watermark_us(self) -> int | None:
        """Once the task has taken over, from the windows that are out: those behind them are still to be emitted."""
        succession = self._succession
        return succession.closed_us if succession is not None and succession.taken_over else super()._watermark_us()
