"""The tasks of a batch query as its scheduler needs them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from master.queries.batch_tasks import map_id
from master.records.model import BatchQuery, BatchTask
from planner.batch import SentShares, Shard, Task
from planner.values.stages import StageKind


def tasks_of(record: BatchQuery) -> Iterator[tuple[int | None, BatchTask]]:
    """All tasks of a query, by the number of their split; None is the REDUCE."""
    yield from enumerate(record.batch.maps)
    yield None, record.batch.reduce


def scheduled(record: BatchQuery, number: int | None, sent: SentShares | None = None) -> Task:
    """The MAP of the split with that number, or for None the REDUCE: what it reads, and which tasks it resembles.

    `sent` says how much of a split is sent when it is read for a MAP elsewhere; None: all of it.
    """
    kind = StageKind.REDUCE if number is None else StageKind.MAP
    sql = record.plan.stage(record.plan.result_stage if number is None else record.plan.splits[number].stage).sql
    model = f"{kind.value} {hashlib.sha256(sql.encode()).hexdigest()[:16]}"
    if number is None:
        return Task(f"{record.id}/reduce", record.id, model, tuple(_outputs(record)), kind.value)
    split = record.plan.splits[number]
    share = sent.share(model) if sent is not None else 1.0
    shards = (Shard(split.site, split.size_bytes),)
    return Task(f"{record.id}/{number}", record.id, model, shards, kind.value, share, is_read_there=True)


def _outputs(record: BatchQuery) -> Iterator[Shard]:
    """The sizes of the MAPs' outputs, by site."""
    sizes: dict[str, int] = {}
    for number, task in enumerate(record.batch.maps):
        if task.placed:
            status = record.progress.tasks.get(map_id(record, number))
            sizes[task.site] = sizes.get(task.site, 0) + (status.bytes_out if status else 0)
    for site, size_bytes in sorted(sizes.items()):
        yield Shard(site, size_bytes)
