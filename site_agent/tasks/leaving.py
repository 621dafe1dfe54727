"""Publishes the groups that leave a COMBINE stage, and counts the work of its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from machine.faults import reached
from site_agent.base.faults import FaultPoint
from site_agent.base.json import Json
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EpochManifest
from site_agent.engine import OperatorRows
from site_agent.tasks.context import TaskContext
from site_agent.tasks.progress import Sample


@dataclass(frozen=True, slots=True)
class Said:
    """The standing and the commit of the epochs in which groups leave."""

    watermark_us: int | None
    idle: bool
    commit: Mapping[str, Json]
    """It says how far the input was read."""


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
        own = said if ends else replace(said, watermark_us=before_us, idle=False)
        published.append(await context.in_thread(partial(_publish, log, part, own, closed if ends else None)))
        reached(FaultPoint.WINDOW_PUBLISHED if ends else FaultPoint.RANGE_PUBLISHED)
    return published


def _publish(log: ChannelLog, rows: pa.Table | None, said: Said, closed: Callable[[], None] | None) -> EpochManifest:
    epoch, idle, commit = log.next_epoch, said.idle, said.commit
    manifest = log.publish(epoch, rows, watermark_us=said.watermark_us, idle=idle, commit=commit)
    if closed is not None:
        closed()
    return manifest


class Work:
    """Counts the work of one step."""

    def __init__(self, *, held_bytes: int = 0) -> None:
        self.held_bytes = held_bytes
        self.rows = 0
        self.size_bytes = 0

    def published(self, manifest: EpochManifest) -> None:
        """Count an epoch."""
        self.rows += manifest.rows
        self.size_bytes += manifest.size_bytes
        self.held_bytes += manifest.raw_bytes

    def sample(
        self, rows_in: int, started_s: float, finished_s: float, operators: tuple[OperatorRows, ...] = ()
    ) -> Sample:
        """Return the step as progress counts it; `operators` has the rows of its job's operators."""
        return Sample(
            finished_s,
            finished_s - started_s,
            rows_in,
            self.rows,
            self.size_bytes,
            held_bytes=self.held_bytes,
            operators=operators,
        )
