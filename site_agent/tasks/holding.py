"""Implements how a combining task holds rows: it takes them in, stores checkpoints, and finds them again after a crash.

What is held lies on disk as the open rows of a merge do (`site_agent.tasks.merge_state`); memory has as much of it as
fits. The task is a consumer of its own channel, from its last checkpoint on: after a crash it takes its input up to
where each of its epochs says, and removes the groups that are in that epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from contract.tasks import ReadFrom
from machine.faults import reached
from planner.values.names import INPUT_VIEW
from site_agent.base.faults import FaultPoint
from site_agent.channels.manifest import EpochManifest
from site_agent.port import Port, PortBatch, PortInput
from site_agent.tasks.checkpoint import Checkpoint, SavedState
from site_agent.tasks.combiner import Combiner
from site_agent.tasks.context import TaskContext
from site_agent.tasks.departures import Departures
from site_agent.tasks.handover.beginning import begin_channel
from site_agent.tasks.held import HeldGroups, held_spec, together
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.older import closed_by_older, cursors_of, is_of_older, rows_by_older
from site_agent.tasks.progress import Totals
from site_agent.tasks.spec import InputSpec, WindowSpec
from site_agent.tasks.task import PortTask
from site_agent.tasks.views import OpenViews


class HoldingTask(PortTask):
    """Takes rows from a port, and holds them. After a failed step it is of no more use."""

    def __init__(self, context: TaskContext, window: WindowSpec, *, beside: Collection[str] = ()) -> None:
        """`beside`: channels that the task's id reads for something else."""
        self._context = context
        self._window = window
        spec, log = context.spec, context.log
        self._port = Port(context.router, reader=spec.task_id, query_id=spec.query_id, beside=beside)
        self._inputs = spec.inputs
        self._restored = False
        self._counts_late = not context.spec.beside
        self._begins_us: int | None = None
        """The start of the first window that this attempt does not leave out; None: it leaves none out."""
        self._combiner = Combiner(context)
        self._state = MergeState(context, held_spec(window, spec.sql), self._combiner.fewer, self._opened)
        self._checkpoint = Checkpoint()
        self._quiet_since_s = context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        self._held = HeldGroups(window)
        self._departures = Departures(spec, context.site, log, context.pool)
        self._totals = Totals()
        self._counted: Mapping[str, int] = {}
        self._released: Mapping[str, int] = {}

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """Channels join and leave while the task runs; before the checkpoint is restored, they are noted alone.

        A task whose channel has ended in favour of another's reads nothing more.
        """
        self._inputs = tuple(inputs)
        self._departures.read(inputs)
        if self._restored and not self._context.log.successor:
            await self._read_inputs()

    def count_late(self) -> None:
        """It has all windows whole by now."""
        self._counts_late, self._context.progress.starts_at_us = True, None

    async def close(self) -> None:
        self._state.close()
        self._departures.close()
        await self._port.close()

    async def _read_inputs(self) -> None:
        await self._port.set_inputs(list(map(_port_input, self._inputs)))

    def _admitted(self, batch: PortBatch) -> pa.Table | None:
        until_us, progress = self._port.incomplete_until_us, self._context.progress
        if until_us is not None:
            # Left out are windows of which rows may be missing. None is out: the watermark waits for all channels.
            begins_us = self._held.begin_behind(until_us, self._begins_us)
            if begins_us != self._begins_us:
                self._begins_us = progress.starts_at_us = begins_us
        taken = [
            table
            for origin, table in zip(batch.origins, batch.tables, strict=True)
            # A version before this one may have sent these rows, although their windows are open.
            if origin.epoch >= self._released.get(origin.channel, 0)
        ]
        return together(taken)

    def _count(self, batch: PortBatch, dropped: int) -> None:
        if self._context.progress.starts_at_us is not None or not self._counts_late:
            # Rows from before the beginning are not late.
            dropped = 0
        self._since_checkpoint_bytes += sum(table.get_total_buffer_size() for table in batch.tables)
        pairs, counted = zip(batch.origins, batch.tables, strict=True), self._counted
        new = [table.num_rows for origin, table in pairs if origin.epoch >= counted.get(origin.channel, 0)]
        self._totals = self._totals.plus(rows_in=sum(new), rows_late=dropped if new else 0)

    def _opened(self, saved: SavedState) -> OpenViews:
        number, closed_us, sql = saved.checkpoint.number, saved.checkpoint.closed_us, self._context.spec.sql
        self._held = HeldGroups(self._window, sql=sql, closed_us=closed_us, runs=saved.runs, checkpoint=number)
        return self._held.open

    async def _restore(self) -> None:
        context = self._context
        saved = await self._state.restore()
        checkpoint, last = saved.checkpoint, context.log.epochs.last_manifest
        await begin_channel(context, checkpoint.succession)
        self._checkpoint = checkpoint
        self._totals, self._counted = _newer(checkpoint, last)
        rows: pa.Table | None = saved.rows.get(INPUT_VIEW)
        if last is not None and is_of_older(checkpoint, last):
            self._held.advance(closed_by_older(checkpoint, last))
            self._released, rows = rows_by_older(checkpoint, last, rows)
        if rows is not None:
            combined = await self._combiner.combined(rows)
            await context.in_thread(lambda: self._held.add(combined))
        watermark_us = context.log.standing.watermark_us if context.log.standing is not None else None
        context.progress.restore(self._totals, watermark_us)
        # Not behind the windows that are out, although a channel that was idle then may have woken since.
        reached_us = max((w for w in (checkpoint.watermark_us, watermark_us) if w is not None), default=None)
        self._port.restore(checkpoint.cursors, checkpoint.ended, watermark_us=reached_us)

    async def _catch_up(self) -> PortBatch | None:
        """Hold again what was held before the crash.

        Returns:
            What the input said last, without rows; None: nothing was taken. It may not be published yet.
        """
        context, log = self._context, self._context.log
        last = log.epochs.last_manifest
        older = last is not None and is_of_older(self._checkpoint, last)
        batch: PortBatch | None = None
        first = log.next_epoch - 1 if older else self._checkpoint.out or 0
        for epoch in range(max(0, first), log.next_epoch):
            manifest = await context.in_thread(partial(log.epochs.manifest, epoch))
            cursors = cursors_of(manifest.commit.get("cursors"))
            while taken := await self._port.take_before(cursors, max_bytes=context.limits.port_batch_bytes):
                batch = taken
                async with context.attempt():
                    self._count(batch, await self._combiner.hold(self._held, self._admitted(batch)))
            if not older:
                async with context.attempt():
                    await self._combiner.remove(self._held, log, manifest)
        if older:
            async with context.attempt():
                await self._save_checkpoint(self._port.cursors)
        await context.in_thread(self._acknowledge)
        return replace(batch, tables=(), origins=(), rows=0) if batch is not None else None

    def _checkpoint_due_s(self) -> float | None:
        """Return how long it is until a checkpoint is due, which acknowledges what was read; None: none will be."""
        if dict(self._port.cursors) == dict(self._checkpoint.cursors):
            return None
        interval_s = self._context.limits.checkpoint_interval.total_seconds()
        return self._quiet_since_s + interval_s - self._context.clock.monotonic()

    async def _maybe_checkpoint(self, batch: PortBatch) -> None:
        moved = dict(batch.cursors) != dict(self._checkpoint.cursors)
        fewer = self._departures.is_time_for_fewer(self._held, self._context.clock.monotonic())
        due = self._is_asked() or self._since_checkpoint_bytes >= self._state.due_bytes()
        if batch.ended or fewer or (moved and due):
            await self._save_checkpoint(batch.cursors, one_of_each=fewer)

    def _is_asked(self) -> bool:
        """Return whether a handover waits for what a checkpoint says: from when on the task has windows whole."""
        begins_late = any(item.read_from is ReadFrom.OLDEST for item in self._inputs)
        can_say = self._held.closed_us is not None and self._port.watermark_us is not None
        return begins_late and can_say and self._checkpoint.closed_us is None

    async def _save_checkpoint(self, cursors: Mapping[str, int], *, one_of_each: bool = False) -> None:
        context = self._context
        checkpoint = Checkpoint(
            self._checkpoint.number + 1,
            dict(cursors),
            self._port.ended_channels,
            closed_us=self._held.closed_us,
            watermark_us=self._port.watermark_us,
            totals=self._totals,
            out=context.log.next_epoch,
            succession=self._checkpoint.succession,
        )
        await self._state.save(checkpoint, one_of_each=one_of_each)
        self._held.checkpoint = checkpoint.number
        reached(FaultPoint.CHECKPOINT_DONE)
        self._checkpoint = checkpoint
        self._quiet_since_s = context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        await context.in_thread(self._acknowledge)
        reached(FaultPoint.CHECKPOINT_ACKNOWLEDGED)

    def _acknowledge(self) -> None:
        """Let go of what the checkpoint is past, in the inputs and in the task's own channel."""
        self._port.acknowledge(self._checkpoint.cursors)
        self._acknowledge_own()

    def _acknowledge_own(self) -> None:
        context = self._context
        out = (self._checkpoint.out or 0) if context.log.end is None else context.log.next_epoch
        if out:
            context.log.acknowledge(context.spec.task_id, out - 1)

    def _pass_own_end(self) -> None:
        """Let go of the task's own channel, which has ended in favour of another."""
        self._acknowledge_own()
        self._context.log.passed_end(self._context.spec.task_id)


def _port_input(i: InputSpec) -> PortInput:
    return PortInput(i.channel, i.site, i.view, i.read_from, i.event_delay_us, from_epoch=i.from_epoch)


def _newer(checkpoint: Checkpoint, last: EpochManifest | None) -> tuple[Totals, Mapping[str, int]]:
    """Return the newer of the two records: what was counted, and the cursors up to which it was read."""
    emitted = Totals.from_json(last.commit.get("totals")) if last is not None else Totals()
    if last is None or emitted.rows_in < checkpoint.totals.rows_in:
        return checkpoint.totals, checkpoint.cursors
    return emitted, cursors_of(last.commit.get("cursors"))
