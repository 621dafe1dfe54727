"""What tasks share that run once: their channel is one epoch and an end, so a crash leaves all of it or nothing."""

from __future__ import annotations

from site_agent.engine import EpochResult
from site_agent.faults import FaultPoint, reached
from site_agent.tasks.context import TaskContext
from site_agent.tasks.progress import Sample, TaskState, Totals


async def publish_whole(context: TaskContext, result: EpochResult, totals: Totals, *, started_s: float) -> None:
    """Publish the result as the channel's only epoch.

    Args:
        started_s: When the work on it began.

    Raises:
        ChannelError: the result does not fit an epoch, or the disk refused.
    """
    reached(FaultPoint.EPOCH_COMPUTED)
    commit = {"totals": totals.to_json()}
    manifest = await context.in_thread(lambda: context.log.publish(0, result.table, watermark_us=None, commit=commit))
    finished_s = context.clock.monotonic()
    context.progress.epoch_done(
        Sample(
            finished_s,
            finished_s - started_s,
            totals.rows_in,
            totals.rows_out,
            manifest.size_bytes,
            held_bytes=result.table.get_total_buffer_size(),
            operators=result.operators,
        )
    )


def end(context: TaskContext) -> None:
    """End the channel, with the totals of its epoch, whoever published it."""
    manifest = context.log.last_manifest
    if manifest is not None:
        totals = Totals.from_json(manifest.commit.get("totals")).plus(bytes_out=manifest.size_bytes)
        context.progress.restore(totals, None)
    context.log.finish()
    context.progress.enter(TaskState.ENDED)
