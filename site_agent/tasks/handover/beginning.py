"""Begins the channel of a task that has taken over, where the one of its predecessor ended."""

from __future__ import annotations

from machine.faults import reached
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import Standing
from site_agent.tasks.checkpoint import Succession
from site_agent.tasks.context import TaskContext


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
        standing = Standing(first, closed_us, succession.idle)
        await context.in_thread(lambda: log.begin_at(first, standing=standing))
    reached(FaultPoint.CHANNEL_BEGUN)


def goes_on(log: ChannelLog, succession: Succession | None) -> bool:
    """Return whether the task's channel goes on where that of its predecessor ended."""
    first = succession.from_epoch if succession is not None else None
    return first is not None and log.next_epoch >= first
