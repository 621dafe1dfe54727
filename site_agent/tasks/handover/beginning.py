"""Begins the channel of a task that has taken over, where the one of its predecessor ended; and says from when on a
task that began in the middle of its inputs has all rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from contract.tasks import ReadFrom
from machine.faults import reached
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import Standing
from site_agent.tasks.checkpoint import Checkpoint, Succession
from site_agent.tasks.context import TaskContext
from site_agent.tasks.spec import InputSpec


async def begin_channel(context: TaskContext, succession: Succession | None) -> None:
    """Begin a successor's channel behind the last epoch of its predecessor. A task that succeeds nobody has begun.

    Raises:
        SiteAgentError: it has not taken over, and must not publish anything.
    """
    log = context.log
    if succession is None:
        return
    first, closed_us = succession.from_epoch, succession.closed_us
    if first is None:
        raise SiteAgentError(
            f"task {log.id} has not taken over from {succession.predecessor}",
            ids={"task": log.id, "channel": succession.predecessor},
        )
    if log.next_epoch < first:
        standing = Standing(first, closed_us, succession.idle, whole=True)
        await context.in_thread(lambda: log.begin_at(first, standing=standing))
    reached(FaultPoint.CHANNEL_BEGUN)


def goes_on(log: ChannelLog, succession: Succession | None) -> bool:
    """Return whether the task's channel goes on where that of its predecessor ended."""
    first = succession.from_epoch if succession is not None else None
    return first is not None and log.next_epoch >= first


def whole_after_us(inputs: Iterable[InputSpec], stored: Checkpoint, missed: Collection[str]) -> int | None:
    """All windows that end later are emitted, or will be, even after a crash; None: that is not known yet.

    It is known when each input has said how far its rows went before the first epoch that was taken.

    Args:
        inputs: the channels that the task reads.
        stored: its last checkpoint.
        missed: inputs that it cannot read.
    """
    began = any(item.read_from is ReadFrom.OLDEST for item in inputs)
    if not began or not stored.number or stored.watermark_us is None or missed:
        return None
    return stored.closed_us
