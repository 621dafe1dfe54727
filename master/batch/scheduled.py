"""The tasks of a batch query as its scheduler sees them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from master.queries.batch_tasks import map_id
from master.records.model import BatchState, BatchTask, QueryRecord
from planner.batch import SentShares, Shard, Task
from planner.graph.plan import StageKind


def tasks_of(record: QueryRecord) -> Iterator[tuple[int | None, BatchTask]]:
    """All tasks of a query by the number of their split; the REDUCE has none. None for one that reads streams."""
    if record.batch is not None:
        yield from enumerate(record.batch.maps)
        yield None, record.batch.reduce


def with_tasks(state: BatchState, found: Mapping[int | None, BatchTask]) -> BatchState:
    """The state with these tasks, by the number of their split, in the place of what was known of them."""
    maps = tuple(found.get(number, task) for number, task in enumerate(state.maps))
    return BatchState(maps, found.get(None, state.reduce))


def scheduled(record: QueryRecord, number: int | None, sent: SentShares | None = None) -> Task:
    """A MAP by the number of its split, or for None the REDUCE: what it reads, and what it is like.

    `sent` says how much of a split is sent when it is read for a MAP elsewhere; None: all of it.
    """
    batch = record.plan.batch
    assert batch is not None
    kind = StageKind.REDUCE if number is None else StageKind.MAP
    sql = record.plan.stage(record.plan.result_stage if number is None else batch.splits[number].stage).sql
    model = f"{kind.value} {hashlib.sha256(sql.encode()).hexdigest()[:16]}"
    if number is None:
        return Task(f"{record.id}/reduce", record.id, model, tuple(_outputs(record)), kind.value)
    split = batch.splits[number]
    share = sent.share(model) if sent is not None else 1.0
    return Task(f"{record.id}/{number}", record.id, model, (Shard(split.site, split.size_bytes),), kind.value, share)


def _outputs(record: QueryRecord) -> Iterator[Shard]:
    """What the MAPs gave, by site."""
    assert record.batch is not None
    sizes: dict[str, int] = {}
    for number, task in enumerate(record.batch.maps):
        if task.placed:
            status = record.progress.tasks.get(map_id(record, number))
            sizes[task.site] = sizes.get(task.site, 0) + (status.bytes_out if status else 0)
    for site, size_bytes in sorted(sizes.items()):
        yield Shard(site, size_bytes)
