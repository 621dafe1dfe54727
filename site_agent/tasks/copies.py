"""Channels that end: read whole, as copies of tables are before a task's first epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from site_agent.base.errors import CorruptEpochError, SiteAgentError
from site_agent.channels.log import ChannelLog
from site_agent.tasks.context import TaskContext
from site_agent.tasks.spec import InputSpec


async def put_table_copies(context: TaskContext, copies: Sequence[InputSpec]) -> list[ChannelLog]:
    """Wait for every copy the task joins with and give it to the engine, one view per table.

    The copies are not acknowledged: a restarted task reads them again.

    Returns:
        The channel of each copy.
    """
    by_view: dict[str, list[InputSpec]] = {}
    for item in copies:
        by_view.setdefault(item.view, []).append(item)
    logs: dict[str, ChannelLog] = {}
    for view, shards in sorted(by_view.items()):
        tables: list[pa.Table] = []
        for shard in shards:
            logs[shard.channel], rows_of_shard = await _read_copy(context, shard)
            tables += rows_of_shard
        rows = pa.concat_tables(tables, promote_options="permissive") if tables else shards[0].columns
        async with context.attempt():
            await context.in_slot(partial(context.engine.put_table, context.spec.task_id, view, rows))
    return [logs[item.channel] for item in copies]


async def _read_copy(context: TaskContext, shard: InputSpec) -> tuple[ChannelLog, Sequence[pa.Table]]:
    spec = context.spec
    log = await context.router.subscribe(shard.channel, shard.site, reader=spec.task_id, query_id=spec.query_id)
    await until_ended(log)
    while True:
        try:
            return log, await context.in_thread(lambda: list(tables_of(log)))
        except CorruptEpochError as damage:
            await context.router.put_right(damage)


async def until_ended(log: ChannelLog) -> None:
    """Return once all of the channel is here.

    Raises:
        UnknownChannelError: the channel was removed.
    """
    while log.end is None:
        await log.state.wait(log.next_epoch)


def tables_of(log: ChannelLog) -> Iterator[pa.Table]:
    """All rows of a channel that has ended, epoch by epoch.

    Raises:
        CorruptEpochError: an epoch is damaged on disk.
        SiteAgentError: the first epochs are not kept any more.
    """
    check_whole(log)
    tables = (log.epochs.read(epoch) for epoch in range(log.next_epoch))
    yield from (table for table in tables if table is not None)


def check_whole(log: ChannelLog) -> None:
    """Raises SiteAgentError when the first epochs of a channel are not kept any more."""
    if log.first_epoch:
        raise SiteAgentError(f"channel {log.id} is no longer whole", ids={"channel": log.id})
