"""MERGE: partial aggregates of all sites in, one row per window and key out, when the window closes.

The rows of several streams, a view each, are joined in the same way: they wait, too, until their window closes.

Exactly once rests on three facts. The port's watermark never runs ahead of rows not handed over, so a window that
closes is whole. The epoch that emits a window and the watermark that closed it are one manifest, so after a crash
the rows of emitted windows, read again, are known and dropped. A channel is acknowledged only up to a checkpoint, so
all rows of open windows can be read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import pyarrow as pa

from contract.handover import HandoverReport
from contract.tasks import TaskState
from contract.times import to_us
from machine.faults import reached
from planner.values.flags import flags_of
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.channels.manifest import END_OF_TIME_US, EpochManifest, LateEpochs
from site_agent.engine import EpochRequest, EpochResult, Field
from site_agent.port import PortBatch
from site_agent.state.segments import ALL_BINS
from site_agent.tasks.checkpoint import Closing
from site_agent.tasks.context import Run, TaskContext
from site_agent.tasks.copies import put_table_copies
from site_agent.tasks.emission import CLOSING, Emission, Emitted, bins_done
from site_agent.tasks.gather import GatheringTask
from site_agent.tasks.handover.beginning import begin_channel, goes_on
from site_agent.tasks.handover.ending import release_inputs
from site_agent.tasks.handover.predecessor import HandingOver
from site_agent.tasks.over_ranges import OverRanges
from site_agent.tasks.spec import HandOver, TakeOver, WindowSpec
from site_agent.tasks.views import Rows, scans_of


class MergeTask(GatheringTask):
    """The loop of a MERGE stage. After a failed epoch it is of no more use: a new one goes on from the checkpoint."""

    def __init__(
        self, context: TaskContext, window: WindowSpec, *, waits_for_idle: bool = False, beside: Sequence[str] = ()
    ) -> None:
        super().__init__(context, window, waits_for_idle=waits_for_idle, beside=beside)
        self._beside = frozenset(beside)
        self._handing = HandingOver(context, window, self._interrupt)
        self._stops_at_us: int | None = None
        """The watermark of the step that is being taken on the way to the port's; None: it is the last one."""

    async def set_handover(self, hand_over: HandOver | None, take_over: TakeOver | None) -> None:
        """Returns once the task has taken this over: what it has begun for a successor by then is done."""
        self._leave_alone(hand_over)
        await self._handing.want(hand_over)
        self._interrupt()

    def _leave_alone(self, hand_over: HandOver | None) -> None:
        """The channel that is joined is none of the port's."""
        if hand_over is not None and hand_over.join is not None:
            self._port.leave_alone(hand_over.join.channel)

    @property
    def handover(self) -> HandoverReport | None:
        report, whole_after_us = self._handing.report(), self._whole_after_us
        if whole_after_us is None:
            return report
        return replace(report or HandoverReport(), whole_after_us=whole_after_us)

    @property
    def goes_on(self) -> bool:
        """Return whether the task's channel goes on where that of its predecessor ended."""
        return goes_on(self._context.log, self._succession)

    async def run(self) -> None:
        """Until every channel of the port has ended, or a successor's channel continues the task's own."""
        context = self._context
        async with context.attempt():
            await self._restore()
            await begin_channel(context, self._succession)
        if context.log.end is None:
            # Before the tables are waited for: others that read the same here must not have it trimmed meanwhile.
            self._restored = True
            self._leave_alone(context.spec.hand_over)
            await self._read_inputs()
            await self._handing.begin()
        await put_table_copies(context, self._copies if context.log.end is None else ())
        context.progress.enter(TaskState.RUNNING)
        if context.log.end is None and (closing := self._unfinished()) is not None:
            async with context.attempt():
                ranges = self._state.ranges(closing.watermark_us, first=bins_done(self._last_manifest, closing))
                await self._close_ranges(ranges, self._checkpoint.cursors, closing)
        while context.log.end is None:
            await self._hand_over()
            if context.log.end is None:
                await self._step()
        await self._release_inputs()
        context.progress.enter(TaskState.ENDED)

    async def close(self) -> None:
        await self._handing.close()
        await super().close()

    async def _hand_over(self) -> None:
        """Do what is due for a successor, between two batches."""
        self._news = False
        if self._handing.wants_cut:
            cursors = self._port.cursors
            counted, totals = {**cursors, **self._counted_beyond(cursors)}, self._totals
            await self._handing.cut(counted, totals.rows_late, asdict(totals), self._retaken.dropped)
        elif self._handing.wants_seed(self._port.cursors):
            async with self._context.attempt():
                await self._save_checkpoint(self._port.cursors)
            self._handing.seed(self._checkpoint, self._state)

    def _late_of(self, cursors: Mapping[str, int]) -> LateEpochs:
        """A successor begins with an earlier checkpoint than the last one."""
        return self._retaken.dropped if self._handing.is_wanted else super()._late_of(cursors)

    async def _release_inputs(self) -> None:
        """A task that another continues needs nothing of what comes, after a restart neither."""
        if self._context.log.successor:
            await self._port.close()
            await release_inputs(self._context, self._beside)

    async def _step(self) -> None:
        context = self._context
        await context.wait_for_room(unless=lambda: self._news)
        if (most_s := self._handing.stands_still_s) and not self._news:
            await self._stand_still(most_s)
            return
        batch = await self._next()
        if batch is None:
            if self._checkpoint_is_due():
                async with context.attempt():
                    await self._save_checkpoint(self._port.cursors)
            return
        started_s = context.clock.monotonic()
        async with context.attempt():
            computed = await self._epoch(self._handing.bounded(batch), started_s)
        if computed and not batch.ended:
            # Only what runs Spark is paced: a window must not wait because rows of another site came just before.
            await context.pace(started_s)

    async def _epoch(self, batch: PortBatch, started_s: float) -> bool:
        """Whether Spark computed something."""
        self._take_all(batch)
        emission = Emission()
        retaken = await self._has_retaken(batch.cursors)
        closes = self._state.open.crosses_boundary(batch.watermark_us) or batch.ended or batch.idle != self._is_idle()
        if closes and retaken:
            emission = await self._emit(batch)
        if batch.ended:
            self._context.log.finish()
        await self._maybe_checkpoint(batch)
        self._record(batch, started_s, emission)
        return emission.computed

    def _is_idle(self) -> bool:
        """True when the output channel's standing says that it is idle."""
        standing = self._context.log.standing
        return standing is not None and standing.idle

    async def _emit(self, batch: PortBatch) -> Emission:
        *before, last_us = await self._context.in_thread(partial(self._state.open.steps, batch.watermark_us))
        emission = Emission()
        for watermark_us in before:
            self._stops_at_us = watermark_us
            emission = emission.plus(await self._emit_step(watermark_us, batch.cursors, idle=False))
            await self._state.compact()
        self._stops_at_us = None
        return emission.plus(await self._emit_step(last_us, batch.cursors, idle=batch.idle))

    def _watermark_us(self) -> int | None:
        """Return that of the step between steps: to a restarted task, the port's is news then, and it goes on."""
        return super()._watermark_us() if self._stops_at_us is None else self._stops_at_us

    async def _emit_step(self, watermark_us: int | None, cursors: Mapping[str, int], *, idle: bool) -> Emission:
        await self._state.know_bins(watermark_us)
        # Results that need the groups of all ranges are published in a single epoch.
        ranges = self._state.ranges(watermark_us) if not self._window.ranges else (ALL_BINS,)
        closing = None if watermark_us is None else Closing(watermark_us, idle)
        if len(ranges) == 1 or closing is None:
            return await self._close(watermark_us, ranges, cursors, idle=idle)
        # What is stored now is what the windows are made of: after a crash, the ranges that are left are made of it.
        await self._save_checkpoint(cursors, closing)
        reached(FaultPoint.CLOSING_STORED)
        return await self._close_ranges(ranges, cursors, closing)

    def _unfinished(self) -> Closing | None:
        """The windows of which a crash has left some ranges of groups."""
        closing, emitted_us = self._checkpoint.closing, Emitted.from_manifest(self._last_manifest).closed_us
        if closing is None or (emitted_us is not None and emitted_us >= closing.watermark_us):
            return None
        return closing

    async def _close_ranges(self, ranges: Sequence[range], cursors: Mapping[str, int], closing: Closing) -> Emission:
        emission = await self._close(closing.watermark_us, ranges, cursors, idle=closing.idle)
        await self._context.in_thread(pa.default_memory_pool().release_unused)
        await self._save_checkpoint(cursors)
        return emission

    async def _close(
        self, watermark_us: int | None, ranges: Sequence[range], cursors: Mapping[str, int], *, idle: bool
    ) -> Emission:
        """Publish the windows that the watermark ends: the rows of each range of bins in an epoch of their own. The
        last of them has the watermark."""
        emission, standing = Emission(), self._context.log.standing
        before_us = standing.watermark_us if standing is not None else None
        for bins in ranges:
            last = bins is ranges[-1]
            result = await self._result(watermark_us, bins)
            if result is None and not last:
                continue
            merged = result.table if result is not None else None
            rows_out = merged.num_rows if merged is not None else 0
            self._held_bytes = max(self._held_bytes, merged.get_total_buffer_size() if merged is not None else 0)
            self._totals = self._totals.plus(rows_out=rows_out)
            counted: dict[str, Json] = {**cursors, **self._counted_beyond(cursors)}
            commit: dict[str, Json] = {"cursors": counted, "totals": self._totals.to_json(), **self._retaken.told()}
            reached(FaultPoint.WINDOW_CLOSED)
            if last:
                manifest = await self._publish(merged, watermark_us, commit, idle=idle, last=True)
                reached(FaultPoint.WINDOW_PUBLISHED)
            else:
                commit[CLOSING] = {"watermark_us": watermark_us, "bins_done": bins.stop}
                manifest = await self._publish(merged, before_us, commit, idle=False)
                reached(FaultPoint.RANGE_PUBLISHED)
            self._totals = self._totals.plus(bytes_out=manifest.size_bytes)
            emission = emission.with_range(rows_out, manifest.size_bytes, result)
        if emission.rows and watermark_us is not None and watermark_us < END_OF_TIME_US:
            now_us = to_us(self._context.clock.now())
            self._context.progress.emitted((now_us - self._window.last_end_us(watermark_us)) / 1e6)
        return emission

    async def _publish(
        self,
        rows: pa.Table | None,
        watermark_us: int | None,
        commit: Mapping[str, Json],
        *,
        idle: bool,
        last: bool = False,
    ) -> EpochManifest:
        """Publish an epoch; after the `last` of those that the watermark ends, their windows are closed."""
        log, windows = self._context.log, self._state.open

        def publish() -> EpochManifest:
            manifest = log.publish(
                log.next_epoch, rows, watermark_us=watermark_us, idle=idle, commit=commit, whole=last
            )
            if last:
                windows.advance(watermark_us)
            return manifest

        return await self._context.in_thread(publish)

    async def _result(self, watermark_us: int | None, bins: range) -> EpochResult | None:
        """Return the output, from these bins, of the windows that the watermark ends; None when there is none."""
        ranges = self._state.ranges(watermark_us) if self._window.ranges else ()
        if len(ranges) > 1:
            over = OverRanges(self._window, self._run)
            for some in ranges:
                await over.add(await self._closing(watermark_us, some))
            found = await over.result()
            # Its operators are not those of the stage.
            return None if found is None else replace(found, operators=())
        windows = self._state.open

        def close(run: Run) -> EpochResult | None:
            closed = windows.closing(watermark_us, bins)
            return run(self._request(self._context.spec.sql, closed)) if windows.can_match(closed) else None

        return await self._context.compute(close) if windows.ends_by(watermark_us) else None

    async def _closing(self, watermark_us: int | None, bins: range) -> Rows:
        return await self._context.in_thread(partial(self._state.open.closing, watermark_us, bins))

    async def _run(self, sql: str, rows: Rows) -> EpochResult:
        """A statement over what was made of the rows of closed windows."""
        return await self._context.run(lambda: self._request(sql, rows))

    def _request(self, sql: str, rows: Rows) -> EpochRequest:
        """A statement over the rows of closed windows, or over what was made of them."""
        spec, site = self._context.spec, self._context.site
        scan, views = scans_of(rows, self._columns())
        copies = tuple(sorted({copy.view for copy in self._copies}))
        return EpochRequest(spec.task_id, sql, scan, site, tables=copies, views=views, functions=spec.functions)

    def _columns(self) -> dict[str, tuple[Field, ...]]:
        """Of the views whose rows wait."""
        columns: dict[str, tuple[Field, ...]] = dict.fromkeys(sorted(self._views), ())
        flags = tuple(Field(name, type_) for name, type_ in flags_of(self._window).items())
        return columns | {i.view: (*i.columns, *flags) for i in self._context.spec.inputs if i.view in self._views}
