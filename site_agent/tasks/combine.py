"""COMBINE: partials of a source at this site in, each group of a window out, as late as the link allows.

A site between other sites and the reader of their partials has one of these too: it reads what theirs send, beside its
own source where there is one, and tells them how long before a window's groups are due theirs should be here.

A window's groups leave when the input's watermark passes its end, or, where they are more than the link carries in a
moment, some of them before (`planner.combining`). A source that falls idle is not waited for by those that read the
partials, so all that is held leaves with the epoch that says so, and the windows stay open.

Exactly once rests on three facts. All rows of a group that leaves are in one epoch, combined, and that epoch's manifest
has how far the input was read: the rename makes both true at once. What was decided and not published never was. And
the task is a consumer of its own channel, from its last checkpoint on: after a crash it takes its input up to where
each of its epochs says, and removes the groups that are in that epoch. Whatever was decided then, the rest is what it
held.

What is held lies on disk as the open rows of a merge do (`site_agent.tasks.merge_state`); memory has as much of it as
fits, and many groups leave range by range.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from contract.tasks import TaskState
from machine.faults import reached
from planner.combining.clock import LEAST_STEP_S
from planner.combining.patience import fits_one_job, is_worth_a_job, patience_s
from planner.values.names import GROUP_COLUMN, INPUT_VIEW
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EpochManifest
from site_agent.port import Port, PortBatch, PortInput, Waiting
from site_agent.tasks.checkpoint import Checkpoint, SavedState
from site_agent.tasks.combiner import Combiner
from site_agent.tasks.context import TaskContext
from site_agent.tasks.departures import Departures
from site_agent.tasks.held import (
    EVERYTHING_US,
    HeldGroups,
    held_spec,
    together,
    without_numbers,
)
from site_agent.tasks.leaving import Said, Work, publish_leaving
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.older import closed_by_older, cursors_of, is_of_older, rows_by_older
from site_agent.tasks.progress import Totals
from site_agent.tasks.spec import InputSpec, WindowSpec
from site_agent.tasks.task import PortTask
from site_agent.tasks.views import OpenViews

EPOCH_BYTES = 4 * 1024 * 1024
"""What closes a window is published in epochs of about this size: the first are stored while others are under way."""


class CombineTask(PortTask):
    """The loop of a COMBINE stage at one site. After a failed epoch a new one goes on from the checkpoint."""

    def __init__(self, context: TaskContext, window: WindowSpec) -> None:
        self._context = context
        self._window = window
        spec, log = context.spec, context.log
        self._port = Port(context.router, reader=spec.task_id, query_id=spec.query_id)
        self._inputs = spec.inputs
        self._restored = False
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
        self._last: PortBatch | None = None
        self._work = Work()

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """Channels join and leave while the task runs; before the checkpoint is restored, they are noted alone."""
        self._inputs = tuple(inputs)
        self._departures.read(inputs)
        if self._restored:
            await self._read_inputs()

    async def close(self) -> None:
        self._state.close()
        self._departures.close()
        await self._port.close()

    async def run(self) -> None:
        """Until every channel of the port has ended."""
        context = self._context
        # What it keeps for itself slows it down no more than what sites keep.
        context.log.readers.set_awaited(context.spec.task_id, None)
        async with context.attempt():
            await self._restore()
        batch: PortBatch | None = None
        if context.log.end is None:
            self._restored = True
            await self._read_inputs()
            batch = await self._catch_up()
        else:
            await context.in_thread(self._acknowledge_own)
        context.progress.enter(TaskState.RUNNING)
        while context.log.end is None:
            batch = batch or await self._next()
            if batch is None:
                await self._use_silence()
                continue
            await self._step(batch)
            batch = None
        context.progress.enter(TaskState.ENDED)

    async def _read_inputs(self) -> None:
        await self._port.set_inputs(list(map(_port_input, self._inputs)))

    async def _next(self) -> PortBatch | None:
        """What is new; None when nothing came for a while in which something is to be done."""
        if self._departures.are_only_closings(self._held, self._context.clock.monotonic()):
            most_s = patience_s(self._context.spec.epoch_interval.total_seconds(), self._checkpoint_due_s())
            await self._port.let_come(self._is_enough, most_s=most_s)
        taking = self._port.next(max_bytes=self._context.limits.port_batch_bytes)
        waits_s = [wait_s for wait_s in (self._checkpoint_due_s(), self._departure_due_s()) if wait_s is not None]
        if not waits_s:
            return await taking
        try:
            # Not wait_for: it swallows a cancellation that comes together with a batch, and the task would run on.
            async with asyncio.timeout(max(0.0, min(waits_s))):
                return await taking
        except TimeoutError:
            return None

    def _is_enough(self, waiting: Waiting) -> bool:
        return is_worth_a_job(waiting.rows, ends_window=self._held.crosses_boundary(waiting.watermark_us))

    def _checkpoint_due_s(self) -> float | None:
        """How long until a checkpoint is due, which acknowledges what was read; None: none will be."""
        if dict(self._port.cursors) == dict(self._checkpoint.cursors):
            return None
        interval_s = self._context.limits.checkpoint_interval.total_seconds()
        return self._quiet_since_s + interval_s - self._context.clock.monotonic()

    def _departure_due_s(self) -> float | None:
        """How long until groups may have to leave although nothing came; None: not before something does.

        Other sites that combine send seldom, and what they sent has to go on in time.
        """
        waits = self._last is not None and not self._last.idle and self._held.rows and self._departures.behind
        return max(LEAST_STEP_S, self._context.spec.epoch_interval.total_seconds()) if waits else None

    async def _use_silence(self) -> None:
        """Do what is due first while nothing comes."""
        context = self._context
        checkpoint_s, departure_s = self._checkpoint_due_s(), self._departure_due_s()
        async with context.attempt():
            if checkpoint_s is not None and (departure_s is None or checkpoint_s <= departure_s):
                await self._save_checkpoint(self._port.cursors)
            elif self._last is not None and not context.limits.pressure_of(context.log).waits:
                await self._send_early(self._last)
        self._tell()

    def _tell(self) -> None:
        """Say to the site's other tasks what is left to send, and to sites behind how much earlier theirs is due."""
        self._departures.tell(self._held, self._context.clock.monotonic())
        for channel in self._departures.behind:
            self._context.router.set_onward(channel, round(self._departures.onward_s(self._held) * 1e6))

    async def _step(self, batch: PortBatch) -> None:
        """Hold what came, and publish what is to leave."""
        context, clock = self._context, self._context.clock
        started_s = clock.monotonic()
        self._work = Work(held_bytes=sum(table.get_total_buffer_size() for table in batch.tables))
        self._combiner.operators = ()
        if _closes_at_once(batch, self._held, context.limits.rows_at_once):
            await context.wait_for_room()
            async with context.attempt():
                await self._hold_and_close(batch)
                await self._maybe_checkpoint(batch)
        else:
            async with context.attempt():
                self._count(batch, await self._combiner.hold(self._held, self._admitted(batch)))
            await self._let_leave(batch)
        self._last = replace(batch, tables=(), origins=(), rows=0)
        self._tell()
        self._quiet_since_s = clock.monotonic()
        self._record(batch, started_s)

    async def _let_leave(self, batch: PortBatch) -> None:
        """Publish what is to leave, of what is held."""
        context = self._context
        self._departures.came(self._held, batch.watermark_us, context.clock.monotonic())
        closes = self._held.crosses_boundary(batch.watermark_us) or batch.ended or _changes_idleness(batch, context.log)
        if closes:
            await context.wait_for_room()
        async with context.attempt():
            if closes:
                await self._close_windows(batch)
            elif not context.limits.pressure_of(context.log).waits:
                await self._send_early(batch)
            if batch.ended:
                context.log.finish()
            await self._maybe_checkpoint(batch)

    async def _hold_and_close(self, batch: PortBatch) -> None:
        """Publish what is held of the windows that end, with what came of them, and hold the rest."""
        clock, watermark_us, started_s = self._context.clock, batch.watermark_us, self._context.clock.monotonic()
        assert watermark_us is not None
        closing, dropped = await self._combiner.close(self._held, self._admitted(batch), watermark_us)
        self._count(batch, dropped)
        self._departures.came(self._held, watermark_us, clock.monotonic())
        await self._publish(closing, batch, closes=True)
        if closing is not None:
            self._departures.closed(clock.monotonic() - started_s)

    def _admitted(self, batch: PortBatch) -> pa.Table | None:
        until_us, progress = self._port.incomplete_until_us, self._context.progress
        if until_us is not None:
            # Left out are windows of which rows may be missing. None is out: the watermark waits for all channels.
            progress.starts_at_us = self._held.begin_behind(until_us, progress.starts_at_us)
        taken = [
            table
            for origin, table in zip(batch.origins, batch.tables, strict=True)
            # A version before this one may have sent these rows, although their windows are open.
            if origin.epoch >= self._released.get(origin.channel, 0)
        ]
        return together(taken)

    def _count(self, batch: PortBatch, dropped: int) -> None:
        if self._context.progress.starts_at_us is not None:
            # Rows from before the beginning are not late.
            dropped = 0
        self._since_checkpoint_bytes += sum(table.get_total_buffer_size() for table in batch.tables)
        pairs, counted = zip(batch.origins, batch.tables, strict=True), self._counted
        new = [table.num_rows for origin, table in pairs if origin.epoch >= counted.get(origin.channel, 0)]
        self._totals = self._totals.plus(rows_in=sum(new), rows_late=dropped if new else 0)

    async def _close_windows(self, batch: PortBatch) -> None:
        """Publish all groups of the windows that the watermark has passed; of an input that fell idle or ended, all."""
        context, started_s = self._context, self._context.clock.monotonic()
        everything = batch.idle or batch.ended
        due_us = EVERYTHING_US if everything else batch.watermark_us
        found = False
        ranges = self._held.ranges(due_us, rows_at_once=context.limits.rows_at_once)
        for bins in ranges:
            rows = await context.in_thread(partial(self._held.closing, due_us, bins))
            found = found or rows is not None
            if rows is not None or bins is ranges[-1]:
                made = await self._combiner.one_of_each(rows) if rows is not None else None
                await self._publish(made, batch, last=bins is ranges[-1], closes=True)
        if everything:
            self._held.clear()
        if found:
            self._departures.closed(context.clock.monotonic() - started_s)
        if len(ranges) > 1:
            await context.in_thread(pa.default_memory_pool().release_unused)

    async def _send_early(self, batch: PortBatch) -> None:
        """Publish groups of open windows, if there are more than the link carries after their end."""
        now_s = self._context.clock.monotonic()
        rows = await self._context.in_thread(lambda: self._held.take_each(self._departures.due(self._held, now_s)))
        if rows is not None:
            await self._publish(await self._combiner.one_of_each(rows), batch)

    async def _publish(
        self, made: pa.Table | None, batch: PortBatch, *, last: bool = True, closes: bool = False
    ) -> None:
        """Publish one row for each of some groups: the last of those that leave now, of windows that close."""
        parts: Sequence[pa.Table | None] = [made]
        if made is not None and GROUP_COLUMN in made.column_names:
            # Of groups without numbers, nobody would know after a crash which of them have left.
            parts = self._departures.epochs_of(without_numbers(made), EPOCH_BYTES)
        self._totals = self._totals.plus(rows_out=0 if made is None else made.num_rows)
        commit: dict[str, Json] = {"cursors": dict(batch.cursors), "totals": self._totals.to_json()}
        said = Said(batch.watermark_us, batch.idle, commit)
        reached(FaultPoint.WINDOW_CLOSED)
        closed = partial(self._held.advance, batch.watermark_us) if closes else None
        for manifest in await publish_leaving(self._context, parts, said, last=last, closed=closed):
            self._totals = self._totals.plus(bytes_out=manifest.size_bytes)
            self._departures.left(manifest.rows, manifest.size_bytes)
            self._work.published(manifest)

    def _opened(self, saved: SavedState) -> OpenViews:
        number, closed_us, sql = saved.checkpoint.number, saved.checkpoint.closed_us, self._context.spec.sql
        self._held = HeldGroups(self._window, sql=sql, closed_us=closed_us, runs=saved.runs, checkpoint=number)
        return self._held.open

    async def _restore(self) -> None:
        context = self._context
        saved = await self._state.restore()
        checkpoint, last = saved.checkpoint, context.log.epochs.last_manifest
        self._checkpoint = checkpoint
        self._totals, self._counted = _newer(checkpoint, last)
        rows: pa.Table | None = saved.rows.get(INPUT_VIEW)
        if last is not None and is_of_older(checkpoint, last):
            self._held.advance(closed_by_older(checkpoint, last))
            self._released, rows = rows_by_older(checkpoint, last, rows)
        if rows is not None:
            combined = await self._combiner.combined(rows)
            await context.in_thread(lambda: self._held.add(combined))
        watermark_us = last.watermark_us if last is not None else None
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

    async def _maybe_checkpoint(self, batch: PortBatch) -> None:
        moved = dict(batch.cursors) != dict(self._checkpoint.cursors)
        fewer = self._departures.is_time_for_fewer(self._held, self._context.clock.monotonic())
        if batch.ended or fewer or (moved and self._since_checkpoint_bytes >= self._state.due_bytes()):
            await self._save_checkpoint(batch.cursors, one_of_each=fewer)

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
        """What the checkpoint is past is not needed any more, of the input and of its own channel."""
        self._port.acknowledge(self._checkpoint.cursors)
        self._acknowledge_own()

    def _acknowledge_own(self) -> None:
        context = self._context
        out = (self._checkpoint.out or 0) if context.log.end is None else context.log.next_epoch
        if out:
            context.log.acknowledge(context.spec.task_id, out - 1)

    def _record(self, batch: PortBatch, started_s: float) -> None:
        progress, clock, work = self._context.progress, self._context.clock, self._work
        progress.totals = self._totals
        progress.watermark_us = batch.watermark_us
        progress.measure(
            lag_rows=self._port.lag_rows, state_rows=self._held.rows, state_bytes=self._held.open.size_bytes
        )
        progress.epoch_done(work.sample(batch.rows, started_s, clock.monotonic(), self._combiner.operators))


def _changes_idleness(batch: PortBatch, log: ChannelLog) -> bool:
    """Return whether the input has fallen idle, or has woken, since the last epoch was published."""
    return batch.idle != (log.standing is not None and log.standing.idle)


def _closes_at_once(batch: PortBatch, held: HeldGroups, rows_at_once: int) -> bool:
    """Return whether one job takes what came together with all that is held of the windows that end with it."""
    if batch.idle or batch.ended or not held.crosses_boundary(batch.watermark_us):
        return False
    return fits_one_job(batch.rows, held.ends_by(batch.watermark_us), most_rows=rows_at_once)


def _port_input(i: InputSpec) -> PortInput:
    return PortInput(i.channel, i.site, i.view, i.read_from, i.event_delay_us, from_epoch=i.from_epoch)


def _newer(checkpoint: Checkpoint, last: EpochManifest | None) -> tuple[Totals, Mapping[str, int]]:
    """Return the newer of the two records: what was counted, and the cursors up to which it was read."""
    emitted = Totals.from_json(last.commit.get("totals")) if last is not None else Totals()
    if last is None or emitted.rows_in < checkpoint.totals.rows_in:
        return checkpoint.totals, checkpoint.cursors
    return emitted, cursors_of(last.commit.get("cursors"))
