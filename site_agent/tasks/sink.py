"""SINK: the rows of a query's result channels, written into a sink at this site, each epoch once.

Rows are collected until there are enough of them, or until the oldest has waited long enough; then they are one commit
of the ledger, and only a commit that is done is acknowledged to the channels. Where more rows are waiting, those of two
commits are collected, encoded at the same time, and committed one after the other. What the disk refuses is tried
again for as long as it takes: the task says so in its reason and takes no further input, and what it has not taken
stays with the producers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from contract.tasks import TaskState
from machine.backoff import delay_after
from site_agent.base.errors import ChannelError, ConnectorError, CorruptEpochError, TrimmedEpochError
from site_agent.connectors.sinks import EncodedFile, EpochRange, SinkCommit, SinkConnector, SinkWriter
from site_agent.port import Port, PortBatch, PortInput
from site_agent.tasks.context import TaskContext
from site_agent.tasks.ledger import Ledger, Pending, Reached
from site_agent.tasks.progress import Sample
from site_agent.tasks.spec import InputSpec
from site_agent.tasks.task import PortTask

logger = logging.getLogger(__name__)

T = TypeVar("T")
Place = tuple[str, int]
"""Channel and epoch."""

RETRY_DELAYS_S: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Between attempts when the disk refuses; the last one from then on."""
TOGETHER_BYTES = 256 * 1024 * 1024
"""The most bytes of rows that two commits hold together when both are encoded at the same time."""


@dataclass(slots=True)
class Collected:
    """Rows taken and not committed, by the epoch that they are of."""

    tables: dict[Place, pa.Table] = field(default_factory=dict)
    size_bytes: int = 0
    rows: int = 0

    def add(self, place: Place, table: pa.Table) -> None:
        self.tables[place] = table
        self.size_bytes += table.get_total_buffer_size()
        self.rows += table.num_rows

    def cut(self, size_bytes: int) -> list[Collected]:
        """The same rows by channel and epoch, in parts of about the same size: at least so many bytes, if there are."""
        count = max(1, self.size_bytes // size_bytes)
        parts = [Collected()]
        for place, table in sorted(self.tables.items()):
            if parts[-1].size_bytes * count >= self.size_bytes:
                parts.append(Collected())
            parts[-1].add(place, table)
        return parts

    def ranges(self) -> dict[str, EpochRange]:
        epochs: dict[str, list[int]] = {}
        for channel, epoch in self.tables:
            epochs.setdefault(channel, []).append(epoch)
        return {channel: EpochRange(min(found), max(found) + 1) for channel, found in sorted(epochs.items())}

    def in_order(self) -> pa.Table:
        """By channel and epoch, however they came: the same epochs give the same rows in the same order."""
        return pa.concat_tables([table for _, table in sorted(self.tables.items())], promote_options="permissive")


class SinkTask(PortTask):
    """The loop of a SINK stage. After an error it is of no more use: a new one goes on from the ledger."""

    def __init__(self, context: TaskContext, connector: SinkConnector, options: Mapping[str, str]) -> None:
        self._context = context
        self._connector = connector
        self._options = options
        self._policy = connector.policy(options)
        self._port = Port(context.router, reader=context.spec.task_id, query_id=context.spec.query_id)
        self._inputs = context.spec.inputs
        self._restored = False
        self._ledger = Ledger(context.directory, context.router.store.files)
        self._writer: SinkWriter | None = None
        self._collected = Collected()
        self._waiting_since_s = context.clock.monotonic()
        self._sites: dict[str, str] = {}

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """Channels join and leave while the task runs; before the ledger is restored, they are noted alone."""
        self._inputs = tuple(inputs)
        if self._restored:
            await self._read_inputs()

    async def _read_inputs(self) -> None:
        await self._port.set_inputs([_port_input(i) for i in self._inputs])

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over when to commit; where to is for queries to come."""
        try:
            self._policy = self._connector.policy(options)
        except ConnectorError as error:
            context = self._context
            logger.warning(
                "options left as they are site=%s task=%s: %s", context.site, context.spec.task_id, error.message
            )

    async def run(self) -> None:
        """Until every channel has ended and all rows are committed."""
        context, ledger = self._context, self._ledger
        await context.in_thread(ledger.load)
        context.progress.restore(ledger.reached.totals, ledger.reached.watermark_us)
        if context.log.end is None:
            await self._write(await self._ready())
        context.progress.enter(TaskState.ENDED)

    async def close(self) -> None:
        """Nothing half written stays; what is pending is written by the task that comes next, if one comes."""
        await self._port.close()
        if self._writer is not None:
            await self._context.in_thread(self._writer.close)

    async def _write(self, writer: SinkWriter) -> None:
        context, ledger = self._context, self._ledger
        await self._redo(writer)
        reached = ledger.reached
        self._port.restore(reached.cursors, reached.ended, watermark_us=reached.watermark_us)
        self._restored = True
        await self._keep_trying(self._read_inputs)
        context.progress.enter(TaskState.RUNNING)
        while context.log.end is None:
            batch = await self._next()
            if batch is not None:
                self._take(batch)
            ended = batch is not None and batch.ended
            if ended or self._due():
                await self._commit(writer)
            if ended:
                await self._in_thread(context.log.finish)

    async def _ready(self) -> SinkWriter:
        """A writer to where this query began to write, whatever the options say now."""
        ledger, connector = self._ledger, self._connector
        fixed = {name: self._options[name] for name in connector.fixed_options if name in self._options}
        await self._in_thread(lambda: ledger.keep_options(fixed))
        open_options = {k: v for k, v in self._options.items() if k not in connector.fixed_options}
        writer = self._writer = connector.open({**open_options, **ledger.options}, self._context.spec.query_id)
        await self._in_thread(writer.prepare)
        return writer

    async def _redo(self, writer: SinkWriter) -> None:
        """Write the commit that was under way, of exactly the epochs it had."""
        pending = self._ledger.pending
        if pending is None:
            return
        for channel, epochs in pending.commit.epochs.items():
            for epoch in range(epochs.first, epochs.next):
                table = await self._read(channel, pending.sites[channel], epoch)
                if table is not None:
                    self._collected.add((channel, epoch), table)
        started_s = self._context.clock.monotonic()
        (files,) = await self._encoded(writer, [(pending.commit, self._collected)])
        await self._perform(writer, files, started_s)
        self._collected = Collected()
        self._show()

    async def _read(self, channel: str, site: str, epoch: int) -> pa.Table | None:
        context = self._context
        log = await context.router.subscribe(channel, site, context.spec.task_id, query_id=context.spec.query_id)
        while True:
            await log.state.wait(epoch)
            try:
                return await context.in_thread(lambda: log.epochs.read(epoch))
            except CorruptEpochError as damage:
                await context.router.put_right(damage)

    async def _next(self) -> PortBatch | None:
        """What is new; None when it is time to commit what there is."""
        limit = min(self._context.limits.port_batch_bytes, self._policy.size_bytes)
        taking = self._port.next(max_bytes=limit)
        if not self._collected.rows and not self._moved():
            return await taking
        due_s = self._waiting_since_s + self._policy.interval_s - self._context.clock.monotonic()
        try:
            # Not wait_for: it swallows a cancellation that comes together with a batch.
            async with asyncio.timeout(max(0.0, due_s)):
                return await taking
        except TimeoutError:
            return None

    def _take(self, batch: PortBatch) -> None:
        if batch.rows and not self._collected.rows:
            # The first rows: their age counts from now, not from the last commit.
            self._waiting_since_s = self._context.clock.monotonic()
        until_us = self._port.incomplete_until_us
        if until_us is not None:
            # Rows of events before may be missing: these epochs were the oldest that were still there.
            self._context.progress.starts_at_us = until_us + 1
        self._sites.update({item.channel: item.site for item in self._port.inputs})
        for origin, table in zip(batch.origins, batch.tables, strict=True):
            self._collected.add((origin.channel, origin.epoch), table)
        self._show()

    def _moved(self) -> bool:
        return dict(self._port.cursors) != dict(self._ledger.reached.cursors)

    def _due(self) -> bool:
        size_bytes = self._policy.size_bytes
        if self._collected.size_bytes >= size_bytes:
            enough = self._collected.size_bytes >= 2 * size_bytes or 2 * size_bytes > TOGETHER_BYTES
            return enough or not self._port.lag_rows
        waited_s = self._context.clock.monotonic() - self._waiting_since_s
        return self._moved() and waited_s >= self._policy.interval_s

    async def _commit(self, writer: SinkWriter) -> None:
        """All that was taken; epochs without rows only move the cursors."""
        port = self._port
        after = Reached(port.cursors, port.ended_channels, port.watermark_us, self._ledger.reached.totals)
        if self._collected.rows:
            await self._commit_rows(writer, after)
        else:
            await self._in_thread(lambda: self._ledger.advance(after))
        cursors = self._ledger.reached.cursors
        await self._in_thread(lambda: self._port.acknowledge(cursors))
        self._waiting_since_s = self._context.clock.monotonic()

    async def _commit_rows(self, writer: SinkWriter, after: Reached) -> None:
        """One commit, or several; a crash between two leaves those that are done. `after` is reached with the last."""
        query_id, number = self._context.spec.query_id, self._ledger.number
        parts = self._collected.cut(self._policy.size_bytes)
        commits = [SinkCommit(query_id, number + n, part.ranges()) for n, part in enumerate(parts, 1)]
        started_s = self._context.clock.monotonic()
        encoded = await self._encoded(writer, list(zip(commits, parts, strict=True)))
        for commit, part, files in zip(commits, parts, encoded, strict=True):
            reached = after if part is parts[-1] else _moved_on(self._ledger.reached, commit)
            totals = self._ledger.reached.totals.plus(rows_in=part.rows, rows_out=part.rows)
            sites = {channel: self._sites[channel] for channel in commit.epochs}
            pending = Pending(commit, sites, replace(reached, totals=totals))
            await self._in_thread(partial(self._ledger.prepare, pending))
            started_s = await self._perform(writer, files, started_s)
        self._collected = Collected()
        self._show()

    async def _encoded(
        self, writer: SinkWriter, commits: Sequence[tuple[SinkCommit, Collected]]
    ) -> Sequence[Sequence[EncodedFile]]:
        context = self._context
        async with context.attempt():
            works = [partial(writer.encode, commit, part.in_order()) for commit, part in commits]
            return await asyncio.gather(*map(context.in_thread, works))

    async def _perform(self, writer: SinkWriter, files: Sequence[EncodedFile], started_s: float) -> float:
        """Write the pending commit; returns when it was done."""
        size_bytes = await self._keep_trying(lambda: self._attempt(writer, files))
        self._context.crashes.completed(self._context.spec.task_id)
        finished_s = self._context.clock.monotonic()
        rows = sum(file.rows for file in files)
        self._context.progress.epoch_done(Sample(finished_s, finished_s - started_s, rows, rows, size_bytes))
        return finished_s

    async def _attempt(self, writer: SinkWriter, files: Sequence[EncodedFile]) -> int:
        async with self._context.attempt():
            return await self._context.in_thread(lambda: self._ledger.perform(writer, files))

    def _show(self) -> None:
        progress, reached = self._context.progress, self._ledger.reached
        progress.totals = reached.totals.plus(rows_in=self._collected.rows)
        progress.watermark_us = reached.watermark_us
        progress.measure(
            lag_rows=self._port.lag_rows, state_rows=self._collected.rows, state_bytes=self._collected.size_bytes
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._keep_trying(lambda: self._context.in_thread(work))

    async def _keep_trying(self, work: Callable[[], Awaitable[T]]) -> T:
        """Until the disk takes it."""
        progress, failures = self._context.progress, 0
        while True:
            try:
                result = await work()
            except (OSError, ChannelError) as error:
                if isinstance(error, CorruptEpochError | TrimmedEpochError):
                    raise
                reason = _why(error)
                context = self._context
                logger.warning("sink waits site=%s task=%s reason=%s", context.site, context.spec.task_id, reason)
                progress.enter(TaskState.RETRYING, reason)
                await self._context.clock.sleep(delay_after(failures, RETRY_DELAYS_S))
                failures += 1
            else:
                if failures:
                    progress.enter(TaskState.RUNNING)
                return result


def _port_input(item: InputSpec) -> PortInput:
    return PortInput(
        item.channel,
        item.site,
        read_from=item.read_from,
        event_delay_us=item.event_delay_us,
        from_epoch=item.from_epoch,
    )


def _moved_on(reached: Reached, commit: SinkCommit) -> Reached:
    """Behind the commit's epochs; what is said of channels besides is true only behind all that was taken with them."""
    passed = {channel: epochs.next for channel, epochs in commit.epochs.items()}
    return replace(reached, cursors={**reached.cursors, **passed})


def _why(error: OSError | ChannelError) -> str:
    if isinstance(error, ChannelError):
        return error.message
    return f"{error.strerror or type(error).__name__}: {error.filename}; trying again"
