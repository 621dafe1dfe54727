"""REDUCE: the step of a batch query that needs all of its input: waits until every input is whole, then runs once.

Inputs go from disk to Spark epoch by epoch, through a file when they are many, and are never in memory together.
Without SQL the task copies them unchanged, without Spark. The result becomes visible whole: after a crash it is there,
or is made again. Inputs are not acknowledged: another task of the query may read them here later. They go with
the query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from contract.tasks import TaskState
from planner.values.names import INPUT_VIEW
from site_agent.base.errors import CorruptEpochError
from site_agent.base.waiting import first_of
from site_agent.channels.log import ChannelLog
from site_agent.engine import ChunksScan, EmptyScan, EpochRequest, EpochResult, Scan
from site_agent.tasks.context import TaskContext
from site_agent.tasks.copies import tables_of, until_ended
from site_agent.tasks.once import end, publish_copies, publish_whole
from site_agent.tasks.spec import InputSpec
from site_agent.tasks.task import Task


@dataclass(frozen=True, slots=True)
class PlacedInput:
    """An input with a site, and its channel as far as it is here."""

    spec: InputSpec
    log: ChannelLog

    @property
    def whole(self) -> bool:
        return self.log.end is not None


class ReduceTask(Task):
    """Publishes epoch 0 and ends its channel."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._inputs = context.spec.inputs
        self._changed = asyncio.Event()

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """These count from now on; when the job runs already, it runs again."""
        self._inputs = tuple(inputs)
        self._changed.set()

    async def run(self) -> None:
        """Wait, compute and publish, unless an earlier run did.

        Raises:
            SiteAgentError: an input is damaged or gone, or Spark refused or failed.
        """
        if self._context.log.next_epoch == 0:
            await self._make()
        end(self._context)

    async def close(self) -> None:
        """Nothing is held open: subscriptions stay, so that a restarted task finds what was fetched."""

    async def _make(self) -> None:
        """Publish what comes of the inputs of the newest assignment."""
        context = self._context
        while True:
            inputs = await self._whole_inputs()
            context.progress.enter(TaskState.RUNNING)
            try:
                async with context.attempt():
                    if await self._make_of(inputs):
                        return
            except CorruptEpochError as damage:
                await context.router.put_right(damage)

    async def _make_of(self, inputs: Sequence[PlacedInput]) -> bool:
        """Whether the result was published: other inputs may have come to count meanwhile."""
        context = self._context
        started_s = context.clock.monotonic()
        if not context.spec.sql and context.spec.client is None:
            await publish_copies(context, [item.log for item in inputs], started_s=started_s)
            return True
        result = await self._run_job(inputs)
        if tuple(item.spec for item in inputs) != self._inputs:
            result.chunks.close()
            return False
        rows_in = sum(item.log.epochs.rows_from(0) for item in inputs)
        await publish_whole(context, result, rows_in=rows_in, started_s=started_s)
        return True

    async def _whole_inputs(self) -> Sequence[PlacedInput]:
        """Wait until every input has a site and has ended. Those that have a site are fetched meanwhile."""
        while True:
            self._changed.clear()
            inputs = self._inputs
            placed = await self._subscribed([item for item in inputs if item.site])
            partial_logs = [item.log for item in placed if not item.whole]
            waiting = len(partial_logs) + len(inputs) - len(placed)
            if not waiting and inputs == self._inputs:
                return placed
            self._context.progress.enter(TaskState.STARTING, f"waits for {waiting} of {len(inputs)} inputs")
            await self._news(partial_logs)

    async def _subscribed(self, inputs: Sequence[InputSpec]) -> list[PlacedInput]:
        """Read exactly these channels. One that another site makes now is another channel, whatever its name."""
        router, spec = self._context.router, self._context.spec
        wanted = {item.channel: item.site for item in inputs}
        for channel, site in router.subscriptions(spec.task_id).items():
            if wanted.get(channel) != site:
                await router.unsubscribe(channel, spec.task_id)
        return [
            PlacedInput(i, await router.subscribe(i.channel, i.site, reader=spec.task_id, query_id=spec.query_id))
            for i in inputs
        ]

    async def _news(self, logs: Sequence[ChannelLog]) -> None:
        """Until one of these channels has ended, or other inputs count."""
        await first_of(map(until_ended, logs), self._changed)

    async def _run_job(self, inputs: Sequence[PlacedInput]) -> EpochResult:
        context, spec = self._context, self._context.spec
        views = _scans(inputs)
        scan = views.pop(INPUT_VIEW, EmptyScan(()))
        request = partial(EpochRequest, spec.task_id, spec.sql, scan, context.site)
        whole = partial(request, views=views, functions=spec.functions, chunked=True, client=spec.client)
        return await context.run(whole)


def _scans(inputs: Sequence[PlacedInput]) -> dict[str, Scan]:
    """By view; many channels may be one view."""
    by_view: dict[str, list[PlacedInput]] = {}
    for item in inputs:
        by_view.setdefault(item.spec.view, []).append(item)
    return {
        view: ChunksScan(partial(_rows_of, [item.log for item in items]), items[0].spec.columns)
        for view, items in by_view.items()
    }


def _rows_of(logs: Sequence[ChannelLog]) -> Iterator[pa.Table]:
    for log in logs:
        yield from tables_of(log)
