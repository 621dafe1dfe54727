"""SOURCE: a stream's rows at this site, epoch by epoch, filtered, joined and partially aggregated, without state."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from contract.tasks import TaskState
from machine.faults import reached
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.base.options import idle_timeout_of
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EpochManifest
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source
from site_agent.engine import Admission, EpochRequest, EpochResult
from site_agent.tasks.context import TaskContext
from site_agent.tasks.copies import put_table_copies
from site_agent.tasks.dead_letters import DeadLetters
from site_agent.tasks.progress import Sample, Totals
from site_agent.tasks.shedding import Shedding
from site_agent.tasks.spec import RelationSpec
from site_agent.tasks.task import Task

logger = logging.getLogger(__name__)

FIRST_LOOK_S = 0.02
"""How soon a source is asked again when it had no rows at first; the pause doubles up to the epoch interval."""

STALE_S = 0.05
"""How long an epoch may wait for a slot before the source is asked again."""
LEAST_EPOCH_ROWS = 10_000
"""Of a source that has fallen behind: fewer would cost more than they spare."""
EPOCHS_IN_BUDGET = 4

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a source task stands between two epochs; all of it is in the last manifest."""

    offset: Offset
    watermark_us: int | None
    totals: Totals
    ended: bool = False

    def to_commit(self) -> dict[str, Json]:
        return {"offset": dict(self.offset), "totals": self.totals.to_json(), "ended": self.ended}


def position_after(manifest: EpochManifest | None, initial: Offset) -> Position:
    """Where the task goes on, given its channel's last manifest (None: it never published)."""
    if manifest is None:
        return Position(initial, None, Totals())
    offset = manifest.commit.get("offset")
    return Position(
        offset if isinstance(offset, Mapping) else initial,
        manifest.watermark_us,
        Totals.from_json(manifest.commit.get("totals")),
        bool(manifest.commit.get("ended", False)),
    )


def advance_watermark(
    before_us: int | None, *, max_event_time_us: int | None, delay_us: int, floor_us: int | None
) -> int | None:
    """The watermark after an epoch: the newest event time less the delay, or what the source promises; never back."""
    candidates = [w for w in (before_us, floor_us) if w is not None]
    if max_event_time_us is not None:
        candidates.append(max_event_time_us - delay_us)
    return max(candidates, default=None)


def read_limit(rows: int, size_bytes: int, budget_bytes: int) -> ReadLimit:
    """What the next epoch may read, given that so many rows became so many bytes: a part of what the channel may keep.

    A source that had to wait finds all that came meanwhile. Were it one epoch, the next wait would be the longer, and
    so on: epochs would grow for as long as more comes than readers take, and the budget bound nothing.
    """
    most = ReadLimit()
    if not rows or not size_bytes:
        return most
    fitting = budget_bytes * rows // (EPOCHS_IN_BUDGET * size_bytes)
    return replace(most, rows=min(most.rows, max(LEAST_EPOCH_ROWS, fitting)))


def end_idleness(log: ChannelLog) -> None:
    """Publish that a source that was idle is not any more, so that readers wait for it.

    Called when a source is paused, and when it begins: the time in which nobody looked for rows is no silence. Nothing
    else may publish to the channel meanwhile.

    Raises:
        ChannelError: the disk refused.
    """
    last = log.epochs.last_manifest
    if last is not None and last.idle and log.end is None:
        log.publish(last.epoch + 1, None, watermark_us=last.watermark_us, commit=last.commit)


class SourceTask(Task):
    """The epoch loop of a SOURCE stage at one site."""

    def __init__(self, context: TaskContext, relation: RelationSpec, source: Source) -> None:
        self._context = context
        self._relation = relation
        self._source = source
        self._letters = DeadLetters(
            context.dead_letters, relation=relation.name, site=context.site, clock=context.clock
        )
        self._shedding = Shedding(context.log, context.spec.degrading, context.clock)
        self._limit = ReadLimit()
        self._poll = Poll({}, empty=True)
        self._idle = False
        self._silent_since_s = context.clock.monotonic()
        self._had_input = False
        self._look_s = FIRST_LOOK_S / 2

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over changed connector options while running."""
        self._source.reconfigure(options)

    async def run(self) -> None:
        """Until the source ends. A failed epoch raises; run again, the task goes on after the last published one."""
        context = self._context
        async with context.attempt():
            initial = await context.in_thread(self._source.initial)
        position = position_after(context.log.epochs.last_manifest, initial)
        context.progress.restore(position.totals, position.watermark_us)
        await context.in_thread(lambda: end_idleness(context.log))
        await put_table_copies(context, context.spec.inputs)
        context.progress.enter(TaskState.RUNNING)
        while not position.ended:
            if await context.wait_to_read():
                self._silent_since_s = context.clock.monotonic()
            started_s = context.clock.monotonic()
            position = await self._epoch(position, started_s)
            if not position.ended:
                await self._pace(started_s)
        context.log.finish()
        context.progress.enter(TaskState.ENDED)

    async def close(self) -> None:
        await self._context.in_thread(self._source.close)

    async def _pace(self, started_s: float) -> None:
        """Until the next epoch; before the first rows look sooner, for most sources have some in a moment."""
        if self._had_input:
            await self._context.pace(started_s)
            return
        self._look_s = min(self._look_s * 2, self._context.spec.epoch_interval.total_seconds())
        await self._context.clock.sleep(self._look_s)

    async def _epoch(self, position: Position, started_s: float) -> Position:
        context = self._context
        now = context.clock.now()
        poll = await context.in_thread(lambda: self._source.poll(position.offset, now=now, limit=self._limit))
        context.progress.measure(lag_rows=poll.lag_rows)
        if context.spec.degrading is not None:
            self._shedding.look()
            context.progress.enter(TaskState.RUNNING, self._shedding.reason)
        if poll.empty:
            self._shedding.read(everything=True)
            return await self._without_rows(position, poll)
        self._idle, self._silent_since_s = False, started_s
        if not self._had_input:
            self._had_input = True
            logger.info("first input site=%s task=%s", context.site, context.spec.task_id)
        self._poll = poll
        async with context.attempt():
            result = await context.run(partial(self._request, position, context.clock.monotonic()))
            return await self._publish(position, self._poll, result, started_s)

    def _request(self, position: Position, polled_s: float) -> EpochRequest:
        """Made on the slot: what came while the epoch waited for it is in the epoch, and waits for no other one."""
        spec, clock = self._context.spec, self._context.clock
        if clock.monotonic() - polled_s >= STALE_S:
            self._poll = self._source.poll(position.offset, now=clock.now(), limit=self._limit)
        poll = self._poll
        return EpochRequest(
            task_id=spec.task_id,
            sql=spec.sql,
            scan=self._source.scan(position.offset, poll.end),
            site=self._context.site,
            admission=Admission(self._relation.event_time, position.watermark_us, self._shedding.share),
            tables=tuple(sorted({i.view for i in spec.inputs})),
            malformed=self._letters.sink(self._context.log.next_epoch),
            functions=spec.functions,
        )

    async def _publish(self, position: Position, poll: Poll, result: EpochResult, started_s: float) -> Position:
        context = self._context
        watermark_us = advance_watermark(
            position.watermark_us,
            max_event_time_us=result.max_event_time_us,
            delay_us=_delay_us(self._relation),
            floor_us=poll.event_time_floor_us,
        )
        sheds = self._shedding.share < 1
        totals = position.totals.plus(
            rows_in=result.rows_read,
            rows_out=result.table.num_rows,
            rows_late=0 if sheds else result.rows_late,
            rows_shed=result.rows_late if sheds else 0,
            rows_malformed=result.rows_malformed,
            bytes_in=result.input_bytes,
        )
        after = Position(poll.end, watermark_us, totals, poll.ended)
        reached(FaultPoint.EPOCH_COMPUTED)
        manifest = await context.in_thread(
            lambda: context.log.publish(
                context.log.next_epoch, result.table, watermark_us=watermark_us, commit=after.to_commit()
            )
        )
        self._shedding.published(manifest.epoch)
        # A connector that cannot tell what is left outside has nothing to give that an epoch has no room for.
        self._shedding.read(everything=not poll.lag_rows and result.rows_read < self._limit.rows)
        after = replace(after, totals=totals.plus(bytes_out=manifest.size_bytes))
        self._limit = read_limit(result.rows_read, manifest.size_bytes, context.limits.retained_bytes_per_channel)
        self._record(after, result, manifest, started_s)
        return after

    def _record(self, after: Position, result: EpochResult, manifest: EpochManifest, started_s: float) -> None:
        progress, clock = self._context.progress, self._context.clock
        progress.totals = after.totals
        progress.watermark_us = after.watermark_us
        finished_s = clock.monotonic()
        progress.epoch_done(
            Sample(
                finished_s,
                finished_s - started_s,
                result.rows_read,
                manifest.rows,
                manifest.size_bytes,
                held_bytes=result.table.get_total_buffer_size(),
                operators=result.operators,
            )
        )

    async def _without_rows(self, position: Position, poll: Poll) -> Position:
        """Nothing to read: tell readers of a watermark that moved, an end, or that this source has fallen silent."""
        context = self._context
        watermark_us = advance_watermark(
            position.watermark_us, max_event_time_us=None, delay_us=0, floor_us=poll.event_time_floor_us
        )
        silent_s = context.clock.monotonic() - self._silent_since_s
        timeout = idle_timeout_of(self._relation.options)
        falls_idle = not self._idle and poll.event_time_floor_us is None and silent_s >= timeout.total_seconds()
        after = Position(poll.end, watermark_us, position.totals, poll.ended)
        if falls_idle or watermark_us != position.watermark_us or (poll.ended and not position.ended):
            self._idle = self._idle or falls_idle
            epoch = context.log.next_epoch
            await context.in_thread(
                lambda: context.log.publish(
                    epoch, None, watermark_us=watermark_us, idle=self._idle, commit=after.to_commit()
                )
            )
            context.progress.watermark_us = watermark_us
        return after


def _delay_us(relation: RelationSpec) -> int:
    return relation.watermark_delay // _MICROSECOND
