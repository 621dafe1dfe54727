"""Groups that leave a COMBINE stage, and what was done for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from machine.faults import reached
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.channels.manifest import EpochManifest
from site_agent.engine import OperatorRows
from site_agent.tasks.context import TaskContext
from site_agent.tasks.progress import Sample


@dataclass(frozen=True, slots=True)
class Said:
    """What the epochs say in which groups leave."""

    watermark_us: int | None
    idle: bool
    commit: Mapping[str, Json]
    """How far the input was read."""


async def publish_leaving(
    context: TaskContext,
    parts: Sequence[pa.Table | None],
    said: Said,
    *,
    last: bool,
    closed: Callable[[], None] | None = None,
) -> list[EpochManifest]:
    """Publish each part in an epoch.

    Args:
        context: the task's.
        parts: one at least.
        said: the watermark and idleness are those of the last epoch.
        last: whether all rows that leave with that watermark are out then.
        closed: is called once they are.
    """
    log, published = context.log, []
    before_us = log.standing.watermark_us if log.standing is not None else None
    for number, part in enumerate(parts):
        # Until the last of them, not all rows of the windows that the watermark ends are out.
        ends = last and number == len(parts) - 1
        watermark_us = said.watermark_us if ends else before_us
        publish = partial(log.publish, log.next_epoch, part, watermark_us=watermark_us, commit=said.commit)
        publish = partial(publish, idle=said.idle and ends)
        published.append(await context.in_thread(partial(_published, publish, closed if ends else None)))
        reached(FaultPoint.WINDOW_PUBLISHED if ends else FaultPoint.RANGE_PUBLISHED)
    return published


def _published(publish: Callable[[], EpochManifest], closed: Callable[[], None] | None) -> EpochManifest:
    manifest = publish()
    if closed is not None:
        closed()
    return manifest


class Work:
    """What one step did."""

    def __init__(self, *, held_bytes: int = 0) -> None:
        self.held_bytes = held_bytes
        self.rows = 0
        self.size_bytes = 0
        self.operators: tuple[OperatorRows, ...] = ()

    def published(self, manifest: EpochManifest) -> None:
        """Count an epoch."""
        self.rows += manifest.rows
        self.size_bytes += manifest.size_bytes
        self.held_bytes += manifest.raw_bytes

    def sample(self, rows_in: int, started_s: float, finished_s: float) -> Sample:
        """The step, as progress counts it."""
        return Sample(
            finished_s,
            finished_s - started_s,
            rows_in,
            self.rows,
            self.size_bytes,
            held_bytes=self.held_bytes,
            operators=self.operators,
        )
