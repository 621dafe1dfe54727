"""Implements what a merge and its shadow have in common: rows of open windows in, checkpoints, acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from machine.faults import reached
from site_agent.base.faults import FaultPoint
from site_agent.channels.manifest import EpochManifest, LateEpochs
from site_agent.engine import ArrowScan, EpochRequest
from site_agent.port import Origin, Port, PortBatch, PortInput
from site_agent.state.segments import without_bins
from site_agent.tasks.checkpoint import Checkpoint, Closing, Succession
from site_agent.tasks.context import TaskContext
from site_agent.tasks.emission import Emission, Emitted, age
from site_agent.tasks.handover.beginning import whole_after_us
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.progress import Sample, Totals
from site_agent.tasks.retaken import Retaken
from site_agent.tasks.spec import InputSpec, WindowSpec
from site_agent.tasks.task import PortTask


class GatheringTask(PortTask):
    """Takes rows from a port into the state of a merge. After a failed step it is of no more use."""

    def __init__(
        self, context: TaskContext, window: WindowSpec, *, waits_for_idle: bool = False, beside: Sequence[str] = ()
    ) -> None:
        """`beside` are channels that the task reads by itself, further to copies of tables."""
        self._context = context
        self._window = window
        self._views = frozenset(view.name for view in window.views)
        self._copies = tuple(i for i in context.spec.inputs if i.view not in self._views)
        self._port = Port(
            context.router,
            reader=context.spec.task_id,
            query_id=context.spec.query_id,
            beside=[*(copy.channel for copy in self._copies), *beside],
            waits_for_idle=waits_for_idle,
        )
        self._inputs = context.spec.inputs
        self._restored = False
        self._counts_late = not context.spec.beside
        self._begins_us: int | None = None
        """The start of the first window that is not left out; None: none is. What was told before an attempt failed, or
        the task was paused, is not what this one has left out."""
        self._state = MergeState(context, window, self._combined)
        self._checkpoint = Checkpoint()
        self._succession: Succession | None = None
        self._checkpoint_s = context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        self._held_bytes = 0
        self._totals = Totals()
        self._counted: Mapping[str, int] = {}
        self._retaken = Retaken()

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """Channels join and leave while the task runs; before the checkpoint is restored, they are noted alone.

        A task whose channel has ended in favour of another's reads nothing more.
        """
        self._inputs = tuple(inputs)
        if self._restored and not self._context.log.successor:
            await self._read_inputs()

    def count_late(self) -> None:
        """It has all windows whole by now."""
        self._counts_late, self._context.progress.starts_at_us = True, None

    async def close(self) -> None:
        self._state.close()
        await self._port.close()

    async def _read_inputs(self) -> None:
        waiting = [i for i in self._inputs if i.view in self._views]
        await self._port.set_inputs([self._port_input(i) for i in waiting])

    def _port_input(self, i: InputSpec) -> PortInput:
        by_bins = self._window.by_bins
        return PortInput(
            i.channel, i.site, i.view, i.read_from, i.event_delay_us, i.bins, by_bins, i.from_epoch, i.behind_us
        )

    async def _next(self) -> PortBatch | None:
        """Return the next batch; None when a checkpoint is due first, as sources may wait for what it acknowledges,
        or when the wait was interrupted."""
        if self._news:
            return None
        limits, clock = self._context.limits, self._context.clock
        moved = dict(self._port.cursors) != dict(self._checkpoint.cursors)
        due_s = self._checkpoint_s + limits.checkpoint_interval.total_seconds() - clock.monotonic()
        try:
            # Not wait_for: it swallows a cancellation that comes together with a batch, and the task would run on.
            async with asyncio.timeout(max(0.0, due_s) if moved else None) as self._waiting:
                return await self._port.next(max_bytes=limits.port_batch_bytes)
        except TimeoutError:
            return None
        finally:
            self._waiting = None

    def _checkpoint_is_due(self) -> bool:
        """Return whether a checkpoint is why `_next` returned nothing."""
        return not self._news and dict(self._port.cursors) != dict(self._checkpoint.cursors)

    async def _restore(self) -> None:
        context = self._context
        saved = await self._state.restore()
        for view, rows in saved.rows.items():
            self._state.open.add(view, rows)
        self._checkpoint = saved.checkpoint
        self._succession = self._checkpoint.succession
        emitted = Emitted.from_manifest(self._last_manifest)
        if not self._window.takes_again:
            closed = [c for c in (self._checkpoint.closed_us, emitted.closed_us) if c is not None]
            self._state.open.advance(max(closed, default=None))
        else:
            self._retaken = Retaken.after(self._last_manifest, self._checkpoint)
            await self._has_retaken(dict.fromkeys(self._retaken.cursors, 0) | dict(self._checkpoint.cursors))
        restored = self._checkpoint
        # Of the two records of what was read, the newer one holds.
        self._counted, self._totals = {**restored.cursors, **restored.counted}, restored.totals
        if age(emitted.totals) > age(restored.totals):
            self._counted, self._totals = emitted.cursors, emitted.totals
        context.progress.restore(self._totals, emitted.closed_us)
        # Not behind the windows that are out, although a channel that was idle then may have woken since.
        reached_us = max((w for w in (restored.watermark_us, emitted.closed_us) if w is not None), default=None)
        self._port.restore(restored.cursors, restored.ended, watermark_us=reached_us)

    async def _has_retaken(self, cursors: Mapping[str, int]) -> bool:
        """Return whether all that was read before a crash is read again, where that matters. What was out then is out
        from the moment on when it is."""
        retaken = self._retaken
        if retaken.watermark_us is None:
            return True
        closed_us = self._state.open.closed_us
        if retaken.is_over(cursors) or (closed_us is not None and closed_us >= retaken.watermark_us):
            await self._context.in_thread(partial(self._state.open.advance, retaken.watermark_us))
            retaken.watermark_us = None
        return retaken.watermark_us is None

    @property
    def _last_manifest(self) -> EpochManifest | None:
        return self._context.log.epochs.last_manifest

    def _take_all(self, batch: PortBatch) -> None:
        self._begin()
        for origin, table in zip(batch.origins, batch.tables, strict=True):
            self._take(origin, table)
        self._held_bytes = sum(table.get_total_buffer_size() for table in batch.tables)

    def _begin(self) -> None:
        """Leave out windows of which rows may be missing. None of them is out: the watermark waits for all channels."""
        until_us, progress = self._port.incomplete_until_us, self._context.progress
        if until_us is None:
            return
        begins_us = self._window.next_start_us(until_us)
        if self._begins_us is None or begins_us > self._begins_us:
            self._state.open.begin_at(begins_us)
            self._begins_us = progress.starts_at_us = begins_us

    def _take(self, origin: Origin, table: pa.Table) -> None:
        """Rows that were counted before a crash come again after it."""
        late_us = self._retaken.late_us(origin, self._state.open.closed_us)
        dropped = self._state.open.add(origin.view, table, late_us=late_us)
        if dropped and self._window.takes_again:
            self._retaken.note(origin, late_us)
        begins = self._context.progress.starts_at_us is not None
        if begins or not self._counts_late or not self._tells_late(origin):
            # Rows from before the beginning are not late.
            dropped = 0
        self._since_checkpoint_bytes += table.get_total_buffer_size()
        if origin.epoch >= self._counted.get(origin.channel, 0):
            self._totals = self._totals.plus(rows_in=table.num_rows, rows_late=dropped)

    def _counted_beyond(self, cursors: Mapping[str, int]) -> dict[str, int]:
        """Return, by channel, the next epoch that is not among the totals, where that is beyond these cursors."""
        return {channel: epoch for channel, epoch in self._counted.items() if epoch > cursors.get(channel, 0)}

    def _tells_late(self, origin: Origin) -> bool:
        """Return whether rows of windows that are out are late and unreported: a predecessor reports those it took."""
        succession = self._succession
        if succession is None:
            return True
        if succession.of_others:
            return False
        return succession.taken_over and origin.epoch >= succession.taken.get(origin.channel, 0)

    async def _maybe_checkpoint(self, batch: PortBatch) -> None:
        limits, clock = self._context.limits, self._context.clock
        waited_s = clock.monotonic() - self._checkpoint_s
        due = self._since_checkpoint_bytes >= self._state.due_bytes()
        due = due or waited_s >= limits.checkpoint_interval.total_seconds()
        moved = dict(batch.cursors) != dict(self._checkpoint.cursors)
        if moved and (due or batch.ended):
            await self._save_checkpoint(batch.cursors)

    @property
    def _whole_after_us(self) -> int | None:
        return whole_after_us(self._inputs, self._checkpoint, self._port.missed_inputs)

    async def _combined(self, sql: str, rows: pa.Table) -> pa.Table:
        """Fewer partials of the same."""
        spec, site = self._context.spec, self._context.site
        result = await self._context.run(partial(EpochRequest, spec.task_id, sql, ArrowScan(without_bins(rows)), site))
        return result.table

    async def _save_checkpoint(self, cursors: Mapping[str, int], closing: Closing | None = None) -> None:
        checkpoint = Checkpoint(
            self._checkpoint.number + 1,
            dict(cursors),
            self._port.ended_channels,
            closed_us=self._state.open.closed_us,
            watermark_us=self._watermark_us(),
            totals=self._totals,
            counted=self._counted_beyond(cursors),
            closing=closing,
            succession=self._succession,
            dropped=self._late_of(cursors),
        )
        await self._state.save(checkpoint)
        reached(FaultPoint.CHECKPOINT_DONE)
        self._checkpoint = checkpoint
        self._checkpoint_s = self._context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        await self._context.in_thread(lambda: self._port.acknowledge(checkpoint.cursors))
        reached(FaultPoint.CHECKPOINT_ACKNOWLEDGED)

    def _late_of(self, cursors: Mapping[str, int]) -> LateEpochs:
        """Return which epochs had late rows that are needed once there is a checkpoint with these cursors."""
        self._retaken.forget(cursors)
        return self._retaken.dropped

    def _watermark_us(self) -> int | None:
        """The watermark from which a restarted task goes on."""
        return self._port.watermark_us

    def _record(self, batch: PortBatch, started_s: float, emission: Emission) -> None:
        progress, clock = self._context.progress, self._context.clock
        progress.totals = self._totals
        progress.watermark_us = batch.watermark_us
        progress.measure(
            lag_rows=self._port.lag_rows, state_rows=self._state.open.rows, state_bytes=self._state.open.size_bytes
        )
        finished_s = clock.monotonic()
        progress.epoch_done(
            Sample(
                finished_s,
                finished_s - started_s,
                batch.rows,
                emission.rows,
                emission.size_bytes,
                held_bytes=self._held_bytes,
                operators=emission.operators,
                rows_by_bin=batch.rows_by_bin,
            )
        )
