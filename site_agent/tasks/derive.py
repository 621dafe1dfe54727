"""DERIVE: what is left of a stage whose rows are part of what another query's task sends, epoch by epoch.

Epoch n of the output is made of epoch n of the input, and has its watermark. Where several epochs wait, all of their
rows are in the first and the others have none: readers make the same of that. Only where the task has taken the place
of another whose channel met the input, the numbers of the two differ, and always by as many.

Exactly once rests on the numbers: what is read next is the number of what is published next, and an epoch says up to
which one its rows go, so that the empty ones behind it can be made up for after a crash. A reader of the output that
may begin in the middle is told so by the number of its first epoch, as by the input's own.

For the same reason its place is taken without any state: the successor makes the epochs behind the last one of its
predecessor, and needs nothing but the input from there on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from contract.handover import HandoverReport
from contract.tasks import ReadFrom, TaskState
from machine.faults import reached
from site_agent.base.errors import CorruptEpochError, SiteAgentError, TrimmedEpochError
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.base.waiting import first_of
from site_agent.channels.codec import decode
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark, EpochManifest
from site_agent.engine import ArrowScan, EpochRequest, EpochResult
from site_agent.port import InputRead
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore, Succession
from site_agent.tasks.context import TaskContext
from site_agent.tasks.handover.beginning import begin_channel, goes_on
from site_agent.tasks.handover.ending import Ending, release_inputs
from site_agent.tasks.progress import Sample, Totals
from site_agent.tasks.spec import HandOver, InputSpec, TakeOver
from site_agent.tasks.task import Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Taken:
    """Epochs of the input that follow each other, at least one."""

    manifests: tuple[EpochManifest, ...]
    rows: pa.Table | None
    """All of theirs; None: they have none."""


class DeriveTask(Task):
    """The loop over the epochs of one channel; it has no state but its own output channel."""

    def __init__(self, context: TaskContext, *, beside: Collection[str] = ()) -> None:
        """`beside`: channels that the task's id reads for something else."""
        if len(context.spec.inputs) != 1:
            message = f"task {context.spec.task_id} is to be made of {len(context.spec.inputs)} channels"
            raise SiteAgentError(message, ids={"task": context.spec.task_id})
        self._context = context
        (self._input,) = context.spec.inputs
        self._listed = self._input
        self._totals = Totals()
        self._through = -1
        self._ahead = 0
        """The number of an epoch is greater by this than that of the input's epoch that it is made of."""
        self._missed = False
        self._source: ChannelLog | None = None
        self._beside = frozenset(beside)
        self._succession: Succession | None = None
        self._ending = Ending(context)
        self._changed = asyncio.Event()

    async def set_handover(self, hand_over: HandOver | None, take_over: TakeOver | None) -> None:
        """Return once no cut is under way that this takes back."""
        await self._ending.want(hand_over)
        self._changed.set()

    @property
    def handover(self) -> HandoverReport | None:
        return self._ending.report()

    @property
    def goes_on(self) -> bool:
        """Return whether the task's channel goes on where that of its predecessor ended."""
        return goes_on(self._context.log, self._succession)

    @property
    def missed_inputs(self) -> tuple[str, ...]:
        """The channel, when it is not read because its first epochs are gone."""
        return (self._input.channel,) if self._missed else ()

    @property
    def reads(self) -> tuple[InputRead, ...]:
        """How far it has come in the channel."""
        source, cursor = self._source, self._next_input
        if source is None:
            return ()
        lag_rows, totals = self._context.progress.measured.lag_rows, self._totals
        return (InputRead(source.id, source.next_epoch, cursor, lag_rows, totals.rows_in),)

    async def run(self) -> None:
        """Until the input ends, or a successor's channel continues the task's own.

        A failed epoch raises; run again, the task goes on after the last published one.
        """
        context, spec = self._context, self._context.spec
        async with context.attempt():
            await self._restore()
        context.progress.enter(TaskState.RUNNING)
        while context.log.end is None:
            source = await context.router.subscribe(
                self._input.channel, self._input.site, spec.task_id, query_id=spec.query_id
            )
            self._source = source
            held_from = context.router.held_from(source.id, ())
            if held_from is None or held_from > self._next_input:
                # Parts of a merge read some bins of it here, so the copy has no others.
                await self._give_up()
            await self._acknowledge(source)
            await self._unsubscribe_others()
            await self._follow(source)
        if context.log.successor:
            await release_inputs(context, self._beside)
        context.progress.enter(TaskState.ENDED)

    @property
    def _next_input(self) -> int:
        """The epoch of the input that the next epoch is made of."""
        return self._context.log.next_epoch - self._ahead

    async def close(self) -> None:
        """Nothing is held open; the subscription stays, so that a restarted task goes on."""

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """Take over the input: when another channel continues it, the assignment names that one after a while."""
        if len(inputs) == 1:
            (self._listed,) = inputs
            await self._unsubscribe_others()

    async def _unsubscribe_others(self) -> None:
        """Give up the channels that it has read to their end, once the assignment names another."""
        router, reader = self._context.router, self._context.spec.task_id
        for channel in router.subscriptions(reader):
            if self._source is not None and channel not in {self._listed.channel, self._source.id, *self._beside}:
                await router.unsubscribe(channel, reader)

    async def _restore(self) -> None:
        context = self._context
        saved = await context.in_thread(CheckpointStore(context.directory).load_state)
        self._succession = saved.checkpoint.succession
        self._ahead = _ahead(saved.checkpoint)
        await begin_channel(context, self._succession)
        self._totals = saved.checkpoint.totals
        last, standing = context.log.epochs.last_manifest, context.log.standing
        if last is not None:
            through = last.commit.get("through")
            self._through = through if isinstance(through, int) else last.epoch
            self._totals = Totals.from_json(last.commit.get("totals"))
        context.progress.restore(self._totals, standing.watermark_us if standing is not None else None)

    async def _follow(self, source: ChannelLog) -> None:
        context, log = self._context, self._context.log
        while log.end is None:
            await context.wait_for_room(unless=lambda: self._ends_now)
            await self._wait(source)
            if not await self._is_in_reach(source):
                await self._give_up()
            if self._ends_now:
                await self._ending.cut({source.id: self._next_input}, 0, asdict(self._totals))
                continue
            started_s = context.clock.monotonic()
            if self._next_input >= source.next_epoch:
                # Otherwise only the place where it begins is known yet.
                if source.end is not None:
                    self._pass_end(source.end)
                    return
            elif log.next_epoch <= self._through:
                await self._make_up(source)
            elif await self._step(source, started_s):
                await context.pace(started_s)

    async def _wait(self, source: ChannelLog) -> None:
        """Return once the next epoch is here, the input has ended, or a handover is asked for."""
        self._changed.clear()
        if not self._ends_now:
            await first_of([source.state.wait(self._next_input)], self._changed)

    @property
    def _ends_now(self) -> bool:
        """Return whether the channel is to end, and a successor can go on here: all rows before the next epoch are out,
        and it is known which rows of the first epoch are not for this query."""
        log = self._context.log
        begun = self.goes_on or log.next_epoch == 0 or log.epochs.last_manifest is not None
        return self._ending.wants_cut and begun and self._through < log.next_epoch

    async def _is_in_reach(self, source: ChannelLog) -> bool:
        """Whether the next epoch is there or will come; makes the output begin in the middle where it may.

        Raises:
            TrimmedEpochError: epochs are missing in the middle.
        """
        log = self._context.log
        if source.first_epoch <= self._next_input:
            return True
        if self._succession is not None or log.epochs.last_manifest is not None:
            raise TrimmedEpochError(
                f"channel {source.id} no longer holds epoch {self._next_input}, which was not read yet",
                hint=f"its oldest epoch is {source.first_epoch}",
                ids={"channel": source.id, "epoch": str(self._next_input)},
            )
        if self._input.read_from is ReadFrom.FIRST and source.first_epoch > self._input.from_epoch:
            return False
        if source.standing is None:
            await source.state.wait(source.first_epoch, or_standing=True)
        first = source.first_epoch
        if first >= source.next_epoch and source.end is not None:
            # It has ended, and nothing of it is left.
            return False
        known = source.standing
        standing = known if known is not None and known.next_epoch == first else None
        await self._context.in_thread(lambda: log.begin_at(first, standing=standing))
        return True

    async def _give_up(self) -> None:
        """Nothing need be kept for it; the master gives the query a task of its own instead, and ends this one."""
        self._missed = True
        await self._context.router.unsubscribe(self._input.channel, self._context.spec.task_id)
        await asyncio.Event().wait()

    def _pass_end(self, end: EndMark) -> None:
        """Nothing more comes in this channel: the task ends, or goes on with the one that continues it."""
        end = end.for_query(self._context.spec.query_id)
        if end.successor_channel:
            site = end.successor_site or self._input.site
            self._input = replace(self._input, channel=end.successor_channel, site=site, from_epoch=end.next_epoch)
        else:
            self._context.log.finish()

    async def _step(self, source: ChannelLog, started_s: float) -> bool:
        """Publish what the waiting epochs give; whether Spark was asked."""
        context = self._context
        taken = await self._undamaged(lambda: self._read(source))
        rows, result = taken.rows, None
        async with context.attempt():
            if rows is not None:
                result = await context.run(partial(self._request, rows))
            reached(FaultPoint.EPOCH_COMPUTED)
            await self._publish(taken, result, started_s)
        await self._acknowledge(source)
        with suppress(CorruptEpochError):
            context.progress.measure(lag_rows=source.epochs.rows_from(self._next_input))
        return result is not None

    async def _undamaged(self, read: Callable[[], T]) -> T:
        while True:
            try:
                return await self._context.in_thread(read)
            except CorruptEpochError as damage:
                await self._context.router.put_right(damage)

    def _read(self, source: ChannelLog) -> Taken:
        """As many epochs as one step may hold."""
        manifests: list[EpochManifest] = []
        tables: list[pa.Table] = []
        size_bytes, most_bytes = 0, self._context.limits.port_batch_bytes
        for epoch in range(self._next_input, source.next_epoch):
            manifest, encoded = source.epochs.read_encoded(epoch)
            size_bytes += manifest.raw_bytes
            if manifests and size_bytes > most_bytes:
                break
            manifests.append(manifest)
            if encoded is not None and not self._leaves_out(manifest):
                tables.append(decode(encoded))
        rows = pa.concat_tables(tables, promote_options="permissive") if tables else None
        return Taken(tuple(manifests), rows)

    def _leaves_out(self, manifest: EpochManifest) -> bool:
        """Whether the rows of an epoch are not for this query: it begins in the middle, at a window.

        An epoch of a MERGE has whole windows, but nothing says which of them were in the epochs that are gone. All that
        end after its watermark are still to come, and no others where it is known what was said before this epoch.
        """
        context, window = self._context, self._context.spec.window
        begun = self.goes_on or context.log.epochs.last_manifest is not None
        begins = not begun and manifest.epoch == context.log.next_epoch > 0
        before = context.log.standing
        watermark_us = manifest.watermark_us if before is None else before.watermark_us
        if not begins or window is None or watermark_us is None:
            return False
        context.progress.starts_at_us = window.first_open_us(watermark_us)
        return before is None

    def _request(self, rows: pa.Table) -> EpochRequest:
        spec = self._context.spec
        return EpochRequest(spec.task_id, spec.sql, ArrowScan(rows), self._context.site, functions=spec.functions)

    async def _publish(self, taken: Taken, result: EpochResult | None, started_s: float) -> None:
        context, log, first = self._context, self._context.log, taken.manifests[0]
        table = result.table if result is not None else None
        rows_in = taken.rows.num_rows if taken.rows is not None else 0
        rows_out = table.num_rows if table is not None else 0
        self._totals = self._totals.plus(rows_in=rows_in, rows_out=rows_out)
        self._through = taken.manifests[-1].epoch + self._ahead
        commit, idle = self._commit(), first.idle and not rows_in
        manifest = await context.in_thread(
            lambda: log.publish(
                first.epoch + self._ahead, table, watermark_us=first.watermark_us, idle=idle, commit=commit
            )
        )
        self._totals = self._totals.plus(bytes_out=manifest.size_bytes)
        await self._publish_empty(taken.manifests[1:])
        finished_s = context.clock.monotonic()
        progress = context.progress
        progress.totals, progress.watermark_us = self._totals, taken.manifests[-1].watermark_us
        held_bytes = sum(rows.get_total_buffer_size() for rows in (taken.rows, table) if rows is not None)
        progress.epoch_done(
            Sample(
                finished_s,
                finished_s - started_s,
                rows_in,
                rows_out,
                manifest.size_bytes,
                held_bytes=held_bytes,
                operators=result.operators if result is not None else (),
            )
        )

    async def _make_up(self, source: ChannelLog) -> None:
        """After a crash: the epochs whose rows are in one that was published before it."""
        epochs = range(self._next_input, min(self._through + 1 - self._ahead, source.next_epoch))
        manifests = await self._undamaged(lambda: [source.epochs.manifest(epoch) for epoch in epochs])
        await self._publish_empty(manifests)
        await self._acknowledge(source)

    async def _publish_empty(self, manifests: Sequence[EpochManifest]) -> None:
        log, commit = self._context.log, self._commit()
        empty = [
            (EpochManifest(m.epoch + self._ahead, 0, 0, 0, m.watermark_us, m.idle, (), commit), None) for m in manifests
        ]
        await self._context.in_thread(lambda: log.append_all(empty))

    def _commit(self) -> dict[str, Json]:
        return {"through": self._through, "totals": self._totals.to_json()}

    async def _acknowledge(self, source: ChannelLog) -> None:
        """What is published is not needed any more, even after a crash."""
        context, channel = self._context, source.id
        last = min(self._next_input, source.next_epoch) - 1
        if last >= source.first_epoch and context.log.epochs.last_manifest is not None:
            await context.in_thread(lambda: context.router.acknowledge(channel, context.spec.task_id, last))


def _ahead(stored: Checkpoint) -> int:
    """Return by how much the numbers of a task's epochs differ from those of its input, by what it has taken over."""
    succession = stored.succession
    if succession is None or succession.from_epoch is None or not stored.cursors:
        return 0
    return succession.from_epoch - max(stored.cursors.values())
