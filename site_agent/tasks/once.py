"""What tasks share that run once: their channel is made in one go and ends, so a crash leaves all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa

from contract.tasks import TaskState
from machine.faults import reached
from planner.values.stages import StageKind
from site_agent.base.faults import FaultPoint
from site_agent.channels.codec import FAST_LEVEL, EncodedRows, decode, encode
from site_agent.channels.log import BYTES_OUT, ChannelLog
from site_agent.engine import EpochResult
from site_agent.engine.chunks import CHUNK_BYTES, Chunks, gathered
from site_agent.tasks.context import TaskContext
from site_agent.tasks.copies import check_whole
from site_agent.tasks.outputs import Output
from site_agent.tasks.progress import Sample, Totals

SMALL_BYTES = 2 * 1024 * 1024
"""The largest size to which small copied epochs are combined."""


async def publish_whole(context: TaskContext, result: EpochResult, *, rows_in: int, started_s: float) -> None:
    """Publish the result as all that the channel will have: an epoch for each of its chunks.

    Args:
        rows_in: The number of rows that the task has taken.
        started_s: The time at which the work on it began.

    Raises:
        ChannelError: the disk refused.
    """
    reached(FaultPoint.EPOCH_COMPUTED)
    with result.chunks as chunks:
        totals = Totals(
            rows_in=rows_in,
            rows_out=chunks.rows,
            rows_malformed=result.rows_malformed,
            bytes_in=result.input_bytes if context.spec.kind is StageKind.TABLE else 0,
        )
        size_bytes = await context.in_thread(lambda: _publish(context.log, chunks, totals))
        held_bytes = min(chunks.size_bytes, CHUNK_BYTES)
    finished_s = context.clock.monotonic()
    counts = totals.rows_in, totals.rows_out, size_bytes
    context.progress.epoch_done(
        Sample(finished_s, finished_s - started_s, *counts, held_bytes=held_bytes, operators=result.operators)
    )


async def publish_copies(context: TaskContext, logs: Sequence[ChannelLog], *, started_s: float) -> None:
    """Publish the epochs of these channels, one channel after the other, as all that the channel will have.

    Raises:
        CorruptEpochError: an epoch is damaged on disk.
        ChannelError: the disk refused.
    """
    reached(FaultPoint.EPOCH_COMPUTED)
    rows = sum(log.epochs.rows_from(0) for log in logs)
    totals = Totals(rows_in=rows, rows_out=rows)
    size_bytes = await context.in_thread(lambda: _copy(context.log, logs, totals))
    finished_s = context.clock.monotonic()
    sample = Sample(finished_s, finished_s - started_s, rows, rows, size_bytes, held_bytes=CHUNK_BYTES)
    context.progress.epoch_done(sample)


async def publish_again(context: TaskContext, output: Output) -> None:
    """Publish what another task has made as all that the channel will have.

    Raises:
        GoneError: the rows are not kept any more; nothing is published.
        ChannelError: the disk refused.
    """
    started_s, totals = context.clock.monotonic(), output.totals
    size_bytes = await context.in_thread(lambda: _again(context.log, context.outputs.rows(output), totals))
    finished_s = context.clock.monotonic()
    context.progress.epoch_done(
        Sample(finished_s, finished_s - started_s, totals.rows_in, totals.rows_out, size_bytes, held_bytes=CHUNK_BYTES)
    )


def _again(log: ChannelLog, epochs: Iterable[EncodedRows], totals: Totals) -> int:
    """Bytes of what was published."""
    commit = {"totals": totals.to_json()}
    if totals.rows_out:
        return log.publish_all(epochs, commit)
    return log.publish(0, None, watermark_us=None, commit=commit).size_bytes


def _publish(log: ChannelLog, chunks: Chunks, totals: Totals) -> int:
    """Bytes of what was published."""
    commit = {"totals": totals.to_json()}
    tables = map(pa.concat_tables, gathered(chunks.tables))
    first = list(islice(tables, 2))
    if len(first) > 1:
        return log.publish_all((encode(table, level=FAST_LEVEL) for table in chain(first, tables)), commit)
    rows = first[0] if first else None
    return log.publish(0, rows, watermark_us=None, commit=commit).size_bytes


def _copy(log: ChannelLog, sources: Sequence[ChannelLog], totals: Totals) -> int:
    """Bytes of what was published."""
    commit = {"totals": totals.to_json()}
    for source in sources:
        check_whole(source)
    if totals.rows_out:
        return log.publish_all(_together(_epochs_of(sources)), commit)
    return log.publish(0, None, watermark_us=None, commit=commit).size_bytes


def _epochs_of(logs: Iterable[ChannelLog]) -> Iterator[EncodedRows]:
    for log in logs:
        for epoch in range(log.next_epoch):
            _, encoded = log.epochs.read_encoded(epoch)
            if encoded is not None:
                yield encoded


def _together(epochs: Iterable[EncodedRows]) -> Iterator[EncodedRows]:
    """The same rows, with consecutive small epochs of one schema combined, because each costs a sync of the disk."""
    small: list[EncodedRows] = []
    for encoded in epochs:
        alike = small and small[0].schema == encoded.schema
        if small and not (alike and _raw_bytes(small) + encoded.raw_bytes <= SMALL_BYTES):
            yield _one(small)
            small = []
        small.append(encoded)
    if small:
        yield _one(small)


def _one(epochs: Sequence[EncodedRows]) -> EncodedRows:
    return epochs[0] if len(epochs) == 1 else encode(pa.concat_tables(map(decode, epochs)))


def _raw_bytes(epochs: Iterable[EncodedRows]) -> int:
    return sum(encoded.raw_bytes for encoded in epochs)


def end(context: TaskContext) -> None:
    """End the channel, with the totals of its epochs, whoever published them."""
    manifest = context.log.epochs.last_manifest
    if manifest is not None:
        totals = Totals.from_json(manifest.commit.get("totals"))
        bytes_out = manifest.commit.get(BYTES_OUT, manifest.size_bytes)
        context.progress.restore(totals.plus(bytes_out=int(str(bytes_out))), None)
    context.log.finish()
    context.progress.enter(TaskState.ENDED)
