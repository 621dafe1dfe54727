"""MERGE: partial aggregates of all sites in, one row per window and key out, when the window closes.

The rows of several streams, a view each, are joined in the same way: they wait, too, until their window closes.

Exactly once rests on three facts. The port's watermark never runs ahead of rows not handed over, so a window that
closes is whole. The epoch that emits a window and the watermark that closed it are one manifest, so after a crash
the rows of emitted windows, read again, are known and dropped. A channel is acknowledged only up to a checkpoint, so
all rows of open windows can be read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from contract.tasks import TaskState
from machine.faults import reached
from planner.combining.packing import ONCE_SPARE_S, worth_packing
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.channels.codec import THOROUGH_LEVEL, USUAL_LEVEL
from site_agent.channels.manifest import EpochManifest
from site_agent.engine import ArrowScan, EpochRequest, EpochResult, Field, OperatorRows
from site_agent.port import Origin, Port, PortBatch, PortInput
from site_agent.state.segments import ALL_BINS, without_bins
from site_agent.tasks.checkpoint import Checkpoint, Closing
from site_agent.tasks.context import TaskContext
from site_agent.tasks.copies import put_table_copies
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.over_ranges import OverRanges
from site_agent.tasks.progress import Sample, Totals
from site_agent.tasks.spec import InputSpec, WindowSpec
from site_agent.tasks.task import PortTask
from site_agent.tasks.views import Rows, scans_of

_CLOSING = "closing"
"""In the commit of an epoch that has a range of the groups of closed windows: which windows, and the bins so far."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """What the last published epoch says: windows up to `closed_us` are out, from input before `cursors`."""

    closed_us: int | None = None
    cursors: Mapping[str, int] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)

    @classmethod
    def from_manifest(cls, manifest: EpochManifest | None) -> Emitted:
        if manifest is None:
            return cls()
        cursors = manifest.commit.get("cursors")
        return cls(
            manifest.watermark_us,
            {k: v for k, v in cursors.items() if isinstance(v, int)} if isinstance(cursors, Mapping) else {},
            Totals.from_json(manifest.commit.get("totals")),
        )


@dataclass(frozen=True, slots=True)
class Emission:
    """What the windows that an epoch closed gave out."""

    rows: int = 0
    size_bytes: int = 0
    operators: tuple[OperatorRows, ...] = ()
    computed: bool = False
    """Whether Spark computed it: there were rows."""

    def with_range(self, rows: int, size_bytes: int, result: EpochResult | None) -> Emission:
        """With what one more range of their groups gave out."""
        found = result.operators if result is not None else ()
        together = _added(self.operators, found)
        computed = self.computed or result is not None
        return Emission(self.rows + rows, self.size_bytes + size_bytes, together, computed)


class MergeTask(PortTask):
    """The loop of a MERGE stage. After a failed epoch it is of no more use: a new one goes on from the checkpoint."""

    def __init__(self, context: TaskContext, window: WindowSpec, *, waits_for_idle: bool = False) -> None:
        self._context = context
        self._window = window
        self._views = frozenset(view.name for view in window.views)
        self._copies = tuple(i for i in context.spec.inputs if i.view not in self._views)
        self._port = Port(
            context.router,
            reader=context.spec.task_id,
            query_id=context.spec.query_id,
            beside=[copy.channel for copy in self._copies],
            waits_for_idle=waits_for_idle,
        )
        self._inputs = context.spec.inputs
        self._restored = False
        self._state = MergeState(context, window, self._combined)
        self._checkpoint = Checkpoint()
        self._checkpoint_s = context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        self._held_bytes = 0
        self._totals = Totals()
        self._counted: Mapping[str, int] = {}

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """Channels join and leave while the task runs; before the checkpoint is restored, they are noted alone."""
        self._inputs = tuple(inputs)
        if self._restored:
            await self._read_inputs()

    async def _read_inputs(self) -> None:
        waiting = [i for i in self._inputs if i.view in self._views]
        await self._port.set_inputs(
            [
                PortInput(i.channel, i.site, i.view, i.read_from, i.event_delay_us, i.bins, self._window.by_bins)
                for i in waiting
            ]
        )

    async def run(self) -> None:
        """Until every channel of the port has ended."""
        context = self._context
        async with context.attempt():
            await self._restore()
        if context.log.end is None:
            # Before the tables are waited for: others that read the same here must not have it trimmed meanwhile.
            self._restored = True
            await self._read_inputs()
        await put_table_copies(context, self._copies)
        context.progress.enter(TaskState.RUNNING)
        if context.log.end is None and (closing := self._unfinished()) is not None:
            async with context.attempt():
                ranges = self._state.ranges(closing.watermark_us, first=_bins_done(self._last_manifest, closing))
                await self._close_ranges(ranges, self._checkpoint.cursors, closing)
        while context.log.end is None:
            await context.wait_for_room()
            batch = await self._next()
            if batch is None:
                async with context.attempt():
                    await self._save_checkpoint(self._port.cursors)
                continue
            started_s = context.clock.monotonic()
            async with context.attempt():
                computed = await self._epoch(batch, started_s)
            if computed and not batch.ended:
                # Only what runs Spark is paced: a window must not wait because rows of another site came just before.
                await context.pace(started_s)
        context.progress.enter(TaskState.ENDED)

    async def close(self) -> None:
        self._state.close()
        await self._port.close()

    async def _next(self) -> PortBatch | None:
        """What is new; None when a checkpoint is due first, because sources may wait for what it acknowledges."""
        limits, clock = self._context.limits, self._context.clock
        taking = self._port.next(max_bytes=limits.port_batch_bytes)
        if dict(self._port.cursors) == dict(self._checkpoint.cursors):
            return await taking
        due_s = self._checkpoint_s + limits.checkpoint_interval.total_seconds() - clock.monotonic()
        try:
            # Not wait_for: it swallows a cancellation that comes together with a batch, and the task would run on.
            async with asyncio.timeout(max(0.0, due_s)):
                return await taking
        except TimeoutError:
            return None

    async def _restore(self) -> None:
        context = self._context
        saved = await self._state.restore()
        for view, rows in saved.rows.items():
            self._state.open.add(view, rows)
        self._checkpoint = saved.checkpoint
        emitted = Emitted.from_manifest(self._last_manifest)
        closed = [c for c in (self._checkpoint.closed_us, emitted.closed_us) if c is not None]
        self._state.open.advance(max(closed, default=None))
        restored = self._checkpoint
        # Of the two records of what was read, the newer one holds.
        newer = restored if _age(restored.totals) >= _age(emitted.totals) else emitted
        self._counted, self._totals = newer.cursors, newer.totals
        context.progress.restore(self._totals, emitted.closed_us)
        # Not behind the windows that are out, although a channel that was idle then may have woken since.
        reached_us = max((w for w in (restored.watermark_us, emitted.closed_us) if w is not None), default=None)
        self._port.restore(restored.cursors, restored.ended, watermark_us=reached_us)

    async def _epoch(self, batch: PortBatch, started_s: float) -> bool:
        """Whether Spark computed something."""
        self._begin()
        for origin, table in zip(batch.origins, batch.tables, strict=True):
            self._take(origin, table)
        self._held_bytes = sum(table.get_total_buffer_size() for table in batch.tables)
        emission = Emission()
        closes = self._state.open.crosses_boundary(batch.watermark_us) or batch.ended or batch.idle != self._is_idle()
        if closes:
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

    def _begin(self) -> None:
        """Leave out windows of which rows may be missing. None of them is out: the watermark waits for all channels."""
        until_us, progress = self._port.incomplete_until_us, self._context.progress
        if until_us is None:
            return
        period_us = self._window.slide_us
        starts_at_us = (until_us // period_us + 1) * period_us
        if progress.starts_at_us is None or starts_at_us > progress.starts_at_us:
            self._state.open.begin_at(starts_at_us)
            progress.starts_at_us = starts_at_us

    def _take(self, origin: Origin, table: pa.Table) -> None:
        """Rows that were counted before a crash come again after it."""
        dropped = self._state.open.add(origin.view, table)
        if self._context.progress.starts_at_us is not None:
            # Rows from before the beginning are not late.
            dropped = 0
        self._since_checkpoint_bytes += table.get_total_buffer_size()
        if origin.epoch >= self._counted.get(origin.channel, 0):
            self._totals = self._totals.plus(rows_in=table.num_rows, rows_late=dropped)

    async def _emit(self, batch: PortBatch) -> Emission:
        await self._state.know_bins(batch.watermark_us)
        # What needs the groups of all ranges is out at once.
        ranges = self._state.ranges(batch.watermark_us) if not self._window.ranges else (ALL_BINS,)
        closing = None if batch.watermark_us is None else Closing(batch.watermark_us, batch.idle)
        if len(ranges) == 1 or closing is None:
            return await self._close(batch.watermark_us, ranges, batch.cursors, idle=batch.idle)
        # What is stored now is what the windows are made of: after a crash, the ranges that are left are made of it.
        await self._save_checkpoint(batch.cursors, closing)
        reached(FaultPoint.CLOSING_STORED)
        return await self._close_ranges(ranges, batch.cursors, closing)

    @property
    def _last_manifest(self) -> EpochManifest | None:
        return self._context.log.epochs.last_manifest

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
            commit: dict[str, Json] = {"cursors": dict(cursors), "totals": self._totals.to_json()}
            reached(FaultPoint.WINDOW_CLOSED)
            if last:
                manifest = await self._publish(merged, watermark_us, commit, idle=idle)
                reached(FaultPoint.WINDOW_PUBLISHED)
            else:
                commit[_CLOSING] = {"watermark_us": watermark_us, "bins_done": bins.stop}
                manifest = await self._publish(merged, before_us, commit, idle=False)
                reached(FaultPoint.RANGE_PUBLISHED)
            self._totals = self._totals.plus(bytes_out=manifest.size_bytes)
            emission = emission.with_range(rows_out, manifest.size_bytes, result)
        await self._context.in_thread(partial(self._state.open.advance, watermark_us))
        return emission

    async def _publish(
        self, rows: pa.Table | None, watermark_us: int | None, commit: Mapping[str, Json], *, idle: bool
    ) -> EpochManifest:
        log = self._context.log
        thorough = rows is not None and worth_packing(rows.nbytes, spare_s=ONCE_SPARE_S)
        level = THOROUGH_LEVEL if thorough else USUAL_LEVEL
        publish = partial(log.publish, log.next_epoch, rows, watermark_us=watermark_us, idle=idle, commit=commit)
        return await self._context.in_thread(partial(publish, level=level))

    async def _result(self, watermark_us: int | None, bins: range) -> EpochResult | None:
        """What the windows that the watermark ends give out of these bins; None: nothing."""
        ranges = self._state.ranges(watermark_us) if self._window.ranges else ()
        if len(ranges) > 1:
            over = OverRanges(self._window, self._run)
            for some in ranges:
                await over.add(await self._closing(watermark_us, some))
            found = await over.result()
            # Its operators are not those of the stage.
            return None if found is None else replace(found, operators=())
        closed = await self._closing(watermark_us, bins)
        return await self._run(self._context.spec.sql, closed) if self._state.open.can_match(closed) else None

    async def _closing(self, watermark_us: int | None, bins: range) -> Rows:
        return await self._context.in_thread(partial(self._state.open.closing, watermark_us, bins))

    async def _run(self, sql: str, rows: Rows) -> EpochResult:
        """A statement over the rows of closed windows, or over what was made of them."""
        spec, site = self._context.spec, self._context.site
        scan, views = scans_of(rows, self._columns())
        copies = tuple(sorted({copy.view for copy in self._copies}))
        request = partial(EpochRequest, spec.task_id, sql, scan, site)
        return await self._context.run(partial(request, tables=copies, views=views, functions=spec.functions))

    def _columns(self) -> dict[str, tuple[Field, ...]]:
        """Of the views whose rows wait."""
        columns: dict[str, tuple[Field, ...]] = dict.fromkeys(sorted(self._views), ())
        return columns | {i.view: i.columns for i in self._context.spec.inputs if i.view in self._views}

    async def _maybe_checkpoint(self, batch: PortBatch) -> None:
        limits, clock = self._context.limits, self._context.clock
        waited_s = clock.monotonic() - self._checkpoint_s
        due = self._since_checkpoint_bytes >= self._state.due_bytes()
        due = due or waited_s >= limits.checkpoint_interval.total_seconds()
        moved = dict(batch.cursors) != dict(self._checkpoint.cursors)
        if moved and (due or batch.ended):
            await self._save_checkpoint(batch.cursors)

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
            watermark_us=self._port.watermark_us,
            totals=self._totals,
            closing=closing,
        )
        await self._state.save(checkpoint)
        reached(FaultPoint.CHECKPOINT_DONE)
        self._checkpoint = checkpoint
        self._checkpoint_s = self._context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        await self._context.in_thread(lambda: self._port.acknowledge(checkpoint.cursors))
        reached(FaultPoint.CHECKPOINT_ACKNOWLEDGED)

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
            )
        )


def _age(totals: Totals) -> tuple[int, int, int]:
    """Of two records of one task, the later has the greater."""
    return totals.rows_in, totals.rows_out, totals.bytes_out


def _bins_done(last: EpochManifest | None, closing: Closing) -> int:
    """Up to which bin the windows that are being closed are out."""
    said = last.commit.get(_CLOSING) if last is not None else None
    if not isinstance(said, Mapping) or said.get("watermark_us") != closing.watermark_us:
        return 0
    return int(str(said.get("bins_done", 0)))


def _added(some: Sequence[OperatorRows], others: Sequence[OperatorRows]) -> tuple[OperatorRows, ...]:
    """The rows of the same operators of a statement that ran twice, together."""
    if len(some) != len(others):
        return tuple(others or some)
    return tuple(replace(one, rows=one.rows + other.rows) for one, other in zip(some, others, strict=True))
