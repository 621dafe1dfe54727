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
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from contract.tasks import TaskState
from machine.faults import reached
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.channels.manifest import EpochManifest
from site_agent.engine import ArrowScan, EpochRequest, EpochResult, Field, OperatorRows
from site_agent.port import Origin, Port, PortBatch, PortInput
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore
from site_agent.tasks.context import TaskContext
from site_agent.tasks.copies import put_table_copies
from site_agent.tasks.progress import Sample, Totals
from site_agent.tasks.spec import InputSpec, WindowSpec
from site_agent.tasks.task import PortTask
from site_agent.tasks.views import OpenViews, Rows, scans_of


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
        self._checkpoints = CheckpointStore(context.directory)
        self._checkpoint = Checkpoint()
        self._checkpoint_s = context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        self._saved_bytes = 0
        self._open = OpenViews(window)
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
            [PortInput(i.channel, i.site, i.view, i.read_from, i.event_delay_us, i.bins) for i in waiting]
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
        while context.log.end is None:
            await context.wait_for_room()
            batch = await self._next()
            if batch is None:
                async with context.attempt():
                    await self._compact()
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
        self._checkpoint, rows = await context.in_thread(self._checkpoints.load)
        emitted = Emitted.from_manifest(context.log.epochs.last_manifest)
        closed = [c for c in (self._checkpoint.closed_us, emitted.closed_us) if c is not None]
        self._open = OpenViews(self._window, closed_us=max(closed, default=None))
        for view, table in rows.items():
            self._open.add(view, table)
        restored = self._checkpoint
        # Of the two records of what was read, the newer one holds.
        newer = restored if restored.totals.rows_in >= emitted.totals.rows_in else emitted
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
        closes = self._open.crosses_boundary(batch.watermark_us) or batch.ended or batch.idle != self._is_idle()
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
            self._open.begin_at(starts_at_us)
            progress.starts_at_us = starts_at_us

    def _take(self, origin: Origin, table: pa.Table) -> None:
        """Rows that were counted before a crash come again after it."""
        dropped = self._open.add(origin.view, table)
        if self._context.progress.starts_at_us is not None:
            # Rows from before the beginning are not late.
            dropped = 0
        self._since_checkpoint_bytes += table.get_total_buffer_size()
        if origin.epoch >= self._counted.get(origin.channel, 0):
            self._totals = self._totals.plus(rows_in=table.num_rows, rows_late=dropped)

    async def _emit(self, batch: PortBatch) -> Emission:
        context = self._context
        closed = self._open.close(batch.watermark_us)
        result = await self._join(closed) if self._open.can_match(closed) else None
        merged = result.table if result is not None else None
        rows_out = merged.num_rows if merged is not None else 0
        self._held_bytes += merged.get_total_buffer_size() if merged is not None else 0
        self._totals = self._totals.plus(rows_out=rows_out)
        commit: dict[str, Json] = {"cursors": dict(batch.cursors), "totals": self._totals.to_json()}
        epoch = context.log.next_epoch
        reached(FaultPoint.WINDOW_CLOSED)
        manifest = await context.in_thread(
            lambda: context.log.publish(epoch, merged, watermark_us=batch.watermark_us, idle=batch.idle, commit=commit)
        )
        reached(FaultPoint.WINDOW_PUBLISHED)
        self._totals = self._totals.plus(bytes_out=manifest.size_bytes)
        if result is None:
            return Emission(rows_out, manifest.size_bytes)
        return Emission(rows_out, manifest.size_bytes, result.operators, computed=True)

    async def _join(self, closed: Rows) -> EpochResult:
        """The result of closed windows."""
        spec, site = self._context.spec, self._context.site
        scan, views = scans_of(closed, self._columns())
        copies = tuple(sorted({copy.view for copy in self._copies}))
        request = partial(EpochRequest, spec.task_id, spec.sql, scan, site)
        return await self._context.run(partial(request, tables=copies, views=views, functions=spec.functions))

    def _columns(self) -> dict[str, tuple[Field, ...]]:
        """Of the views whose rows wait."""
        columns: dict[str, tuple[Field, ...]] = dict.fromkeys(sorted(self._views), ())
        return columns | {i.view: i.columns for i in self._context.spec.inputs if i.view in self._views}

    async def _maybe_checkpoint(self, batch: PortBatch) -> None:
        limits, clock = self._context.limits, self._context.clock
        waited_s = clock.monotonic() - self._checkpoint_s
        # Waiting for as much input as the last state took keeps the cost of writing states in proportion.
        due_bytes = max(limits.checkpoint_bytes, self._saved_bytes)
        due = self._since_checkpoint_bytes >= due_bytes or waited_s >= limits.checkpoint_interval.total_seconds()
        moved = dict(batch.cursors) != dict(self._checkpoint.cursors)
        if moved and (due or batch.ended):
            await self._compact()
            await self._save_checkpoint(batch.cursors)

    async def _compact(self) -> None:
        spec, site = self._context.spec, self._context.site
        for view, rows in self._open.grown():
            combined = await self._context.run(
                partial(EpochRequest, spec.task_id, view.combine_sql, ArrowScan(rows), site)
            )
            self._open.compact(view.name, combined.table)

    async def _save_checkpoint(self, cursors: Mapping[str, int]) -> None:
        checkpoint = Checkpoint(
            self._checkpoint.number + 1,
            dict(cursors),
            self._port.ended_channels,
            closed_us=self._open.closed_us,
            watermark_us=self._port.watermark_us,
            totals=self._totals,
        )
        rows = self._open.tables()
        await self._context.in_thread(lambda: self._checkpoints.save(checkpoint, rows))
        reached(FaultPoint.CHECKPOINT_DONE)
        self._checkpoint = checkpoint
        self._checkpoint_s = self._context.clock.monotonic()
        self._since_checkpoint_bytes = 0
        self._saved_bytes = self._open.size_bytes
        await self._context.in_thread(lambda: self._port.acknowledge(checkpoint.cursors))
        reached(FaultPoint.CHECKPOINT_ACKNOWLEDGED)

    def _record(self, batch: PortBatch, started_s: float, emission: Emission) -> None:
        progress, clock = self._context.progress, self._context.clock
        progress.totals = self._totals
        progress.watermark_us = batch.watermark_us
        progress.measure(lag_rows=self._port.lag_rows, state_rows=self._open.rows, state_bytes=self._open.size_bytes)
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
