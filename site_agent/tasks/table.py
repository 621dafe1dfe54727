"""TABLE: one table's needed rows and columns at this site, read once and published as one epoch.

Whole, the table is to be copied for a join and must be small. A split of it is what a map task of a batch query reads:
it may be joined with copies of other tables, and its rows are as many as a split has.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from contract.tasks import TaskState
from site_agent.base.errors import CorruptEpochError, SiteAgentError
from site_agent.channels.log import ChannelLog
from site_agent.connectors.sources import Table
from site_agent.engine import EpochRequest, EpochResult
from site_agent.tasks.context import TaskContext
from site_agent.tasks.copies import put_table_copies
from site_agent.tasks.dead_letters import DeadLetters
from site_agent.tasks.once import end, publish_again, publish_whole
from site_agent.tasks.outputs import GoneError, key_of
from site_agent.tasks.task import Task

logger = logging.getLogger(__name__)


class TableTask(Task):
    """Publishes epoch 0 and ends its channel."""

    def __init__(self, context: TaskContext, table: Table) -> None:
        self._context = context
        self._table = table

    async def run(self) -> None:
        """Read and publish, unless an earlier run did.

        Raises:
            SiteAgentError: the table is larger than what may be copied.
        """
        context = self._context
        if context.log.next_epoch == 0:
            copies = await put_table_copies(context, context.spec.inputs)
            key = await context.in_thread(lambda: self._key(copies)) if context.spec.reuses else b""
            async with context.outputs.one_at_a_time(key):
                if not await self._publish_again(key):
                    context.progress.enter(TaskState.RUNNING)
                    await context.wait_to_read()
                    async with context.attempt():
                        await self._make()
                    if key:
                        await context.in_thread(lambda: context.outputs.put(key, context.log))
        end(context)

    async def close(self) -> None:
        """Nothing is held open."""

    def _key(self, copies: Sequence[ChannelLog]) -> bytes:
        """Return the key of what the task reads and computes; empty if something is gone, which reading will report."""
        spec = self._context.spec
        with suppress(OSError, CorruptEpochError):
            return key_of(spec, self._context.site, self._table.scan(spec.split), copies)
        return b""

    async def _publish_again(self, key: bytes) -> bool:
        """Publish what another task made of the same; return False where that is not known, or not there."""
        context = self._context
        output = context.outputs.get(key) if key else None
        if output is None:
            return False
        try:
            await publish_again(context, output)
        except GoneError:
            return False
        logger.info("rows of another query taken site=%s task=%s", context.site, context.spec.task_id)
        return True

    async def _make(self) -> None:
        context = self._context
        started_s = context.clock.monotonic()
        result = await context.run(self._request)
        self._refuse_large(result)
        await publish_whole(context, result, rows_in=result.rows_read, started_s=started_s)

    def _request(self) -> EpochRequest:
        spec = self._context.spec
        name = spec.relation.name if spec.relation else ""
        letters = DeadLetters(
            self._context.dead_letters, relation=name, site=self._context.site, clock=self._context.clock
        )
        return EpochRequest(
            spec.task_id,
            spec.sql,
            self._table.scan(spec.split),
            self._context.site,
            tables=tuple(sorted({copy.view for copy in spec.inputs})),
            malformed=letters.sink(0),
            functions=spec.functions,
            chunked=True,
        )

    def _refuse_large(self, result: EpochResult) -> None:
        spec, limit = self._context.spec, self._context.limits.table_copy_bytes
        size = result.many.size_bytes if result.many else result.table.get_total_buffer_size()
        if spec.split is None and size > limit:
            result.chunks.close()
            name = spec.relation.name if spec.relation else spec.task_id
            raise SiteAgentError(
                f"table {name} needs {size} bytes for this join, more than the {limit} that may be copied",
                hint="use fewer columns or rows, or bind the table at the sites of what it is joined to, and join on "
                "a.site = b.site",
                ids={"task": spec.task_id},
            )
