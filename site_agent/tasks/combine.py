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
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from functools import partial

import pyarrow as pa

from contract.handover import HandoverReport
from contract.tasks import TaskState
from machine.faults import reached
from planner.combining.clock import LEAST_STEP_S
from planner.combining.patience import fits_one_job, is_worth_a_job, patience_s
from planner.values.names import GROUP_COLUMN
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.channels.log import ChannelLog
from site_agent.port import PortBatch, Waiting
from site_agent.tasks.context import TaskContext
from site_agent.tasks.handover.beginning import goes_on, whole_after_us
from site_agent.tasks.handover.ending import Ending, release_inputs
from site_agent.tasks.held import EVERYTHING_US, HeldGroups, without_numbers
from site_agent.tasks.holding import HoldingTask
from site_agent.tasks.leaving import Said, Work, publish_leaving
from site_agent.tasks.spec import HandOver, TakeOver, WindowSpec

EPOCH_BYTES = 4 * 1024 * 1024
"""What closes a window is published in epochs of about this size: the first are stored while others are under way."""


class CombineTask(HoldingTask):
    """The loop of a COMBINE stage at one site. After a failed epoch a new one goes on from the checkpoint."""

    def __init__(self, context: TaskContext, window: WindowSpec, *, beside: Collection[str] = ()) -> None:
        super().__init__(context, window, beside=beside)
        self._beside = frozenset(beside)
        self._ending = Ending(context)
        self._last: PortBatch | None = None
        """What the input said last, without rows."""
        self._work = Work()

    async def set_handover(self, hand_over: HandOver | None, take_over: TakeOver | None) -> None:
        """Return once no cut is under way that this takes back."""
        await self._ending.want(hand_over)
        self._interrupt()

    @property
    def handover(self) -> HandoverReport | None:
        report = self._ending.report()
        whole_us = whole_after_us(self._inputs, self._checkpoint, self._port.missed_inputs)
        return report if whole_us is None else replace(report or HandoverReport(), whole_after_us=whole_us)

    @property
    def goes_on(self) -> bool:
        """Return whether the task's channel goes on where that of its predecessor ended."""
        return goes_on(self._context.log, self._checkpoint.succession)

    async def run(self) -> None:
        """Until every channel of the port has ended, or a successor's channel continues the task's own."""
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
            self._news = False
            if batch is None and self._ending.wants_cut and self._held.are_numbered:
                await self._end_for_successor()
            elif (batch := batch or await self._next()) is not None:
                await self._step(batch)
                batch = None
            elif not self._news:
                await self._use_silence()
        await self._release_inputs()
        context.progress.enter(TaskState.ENDED)

    async def _end_for_successor(self) -> None:
        """Publish all that is held, and end the channel: the successor begins with nothing."""
        context, standing = self._context, self._context.log.standing
        cursors = self._port.cursors
        watermark_us = standing.watermark_us if standing is not None else None
        idle = standing is not None and standing.idle
        if self._held.rows:
            await context.wait_for_room(unless=lambda: self._news)
            if self._news:
                # It may be taken back.
                return
            async with context.attempt():
                said = PortBatch((), (), cursors, watermark_us, ended=False, rows=0, idle=idle)
                await self._close_windows(said, everything=True)
        await self._ending.cut(cursors, self._totals.rows_late, asdict(self._totals))

    async def _release_inputs(self) -> None:
        """A task that another continues needs nothing of what comes nor of its own channel, after a restart neither."""
        if self._context.log.successor:
            await self._context.in_thread(self._pass_own_end)
            await self._port.close()
            await release_inputs(self._context, self._beside)

    async def _next(self) -> PortBatch | None:
        """Return the next batch; None when nothing came until something else is due, or the wait was interrupted."""
        if self._news:
            return None
        try:
            # Not wait_for: it swallows a cancellation that comes together with a batch, and the task would run on.
            async with asyncio.timeout(None) as self._waiting:
                return await self._come()
        except TimeoutError:
            return None
        finally:
            self._waiting = None

    async def _come(self) -> PortBatch | None:
        if self._departures.are_only_closings(self._held, self._context.clock.monotonic()):
            most_s = patience_s(self._context.spec.epoch_interval.total_seconds(), self._checkpoint_due_s())
            await self._port.let_come(self._is_enough, most_s=most_s)
        taking = self._port.next(max_bytes=self._context.limits.port_batch_bytes)
        waits_s = [wait_s for wait_s in (self._checkpoint_due_s(), self._departure_due_s()) if wait_s is not None]
        if not waits_s:
            return await taking
        try:
            async with asyncio.timeout(max(0.0, min(waits_s))):
                return await taking
        except TimeoutError:
            return None

    def _is_enough(self, waiting: Waiting) -> bool:
        return is_worth_a_job(waiting.rows, ends_window=self._held.crosses_boundary(waiting.watermark_us))

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
                await self._close_windows(batch, everything=batch.idle or batch.ended)
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

    async def _close_windows(self, batch: PortBatch, *, everything: bool) -> None:
        """Publish all groups of the windows that the watermark has passed, or all that are held."""
        context, started_s = self._context, self._context.clock.monotonic()
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
