"""What tasks share that run once: their channel is made in one go and ends, so a crash leaves all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from site_agent.channels.log import BYTES_OUT
from site_agent.engine import EpochResult
from site_agent.faults import FaultPoint, reached
from site_agent.tasks.context import TaskContext
from site_agent.tasks.progress import Sample, TaskState, Totals

EPOCH_BYTES = 16 * 1024 * 1024
"""Of rows in memory. Whoever passes a result on, or reads it, has an epoch in memory at a time."""


async def publish_whole(context: TaskContext, result: EpochResult, totals: Totals, *, started_s: float) -> None:
    """Publish the result as all that the channel will have: one epoch, or several of a large one.

    Args:
        started_s: When the work on it began.

    Raises:
        ChannelError: the result does not fit an epoch, or the disk refused.
    """
    reached(FaultPoint.EPOCH_COMPUTED)
    size_bytes = await context.in_thread(lambda: _publish(context, result.table, totals))
    finished_s = context.clock.monotonic()
    context.progress.epoch_done(
        Sample(
            finished_s,
            finished_s - started_s,
            totals.rows_in,
            totals.rows_out,
            size_bytes,
            held_bytes=result.table.nbytes,
            operators=result.operators,
        )
    )


def _publish(context: TaskContext, table: pa.Table, totals: Totals) -> int:
    """Bytes of what was published."""
    commit = {"totals": totals.to_json()}
    if table.nbytes <= EPOCH_BYTES:
        return context.log.publish(0, table, watermark_us=None, commit=commit).size_bytes
    return context.log.publish_all(_slices(table), commit)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in order, about so many bytes at a time."""
    rows = max(1, table.num_rows * EPOCH_BYTES // table.nbytes)
    yield from (table.slice(first, rows) for first in range(0, table.num_rows, rows))


def end(context: TaskContext) -> None:
    """End the channel, with the totals of its epochs, whoever published them."""
    manifest = context.log.last_manifest
    if manifest is not None:
        totals = Totals.from_json(manifest.commit.get("totals"))
        bytes_out = manifest.commit.get(BYTES_OUT, manifest.size_bytes)
        context.progress.restore(totals.plus(bytes_out=int(str(bytes_out))), None)
    context.log.finish()
    context.progress.enter(TaskState.ENDED)
