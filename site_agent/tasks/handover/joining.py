"""Watches the channel that a merge's readers are to go on with, to end the merge's own channel where the two meet.

Rows of it are not read: what its epochs say is enough. Where it is a little behind, the merge stands still until it is
not; it goes on by itself after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from planner.handover.meeting import Said, is_behind, meeting_epoch, next_meeting
from site_agent.base.errors import SiteAgentError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import Standing
from site_agent.port import PortBatch
from site_agent.tasks.context import TaskContext
from site_agent.tasks.handover.control import PATIENCE_S, undamaged
from site_agent.tasks.spec import JoinSpec, WindowSpec

logger = logging.getLogger(__name__)

STANDS_STILL_S = 5.0
"""A merge waits at most so long for a channel that is behind; then it goes on until the channel is not."""


class Joining:
    """Serves one attempt of a merge. Belongs to one event loop.

    Args:
        context: of the merge.
        window: its windows.
        join: the channel.
        tell: is called when more is known of the channel.
    """

    def __init__(self, context: TaskContext, window: WindowSpec, join: JoinSpec, tell: Callable[[], None]) -> None:
        self._context = context
        self._window = window
        self.join = join
        self._tell = tell
        self._said: list[Said] = []
        self._behind_since_s: float | None = None
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Watch no longer; the subscription stays."""
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def give_up(self) -> None:
        """Watch no longer, and need nothing of the channel."""
        await self.close()
        await self._context.router.unsubscribe(self.join.channel, self._context.spec.task_id)

    @property
    def cursor(self) -> Mapping[str, int] | None:
        """Return, by the channel, the epoch with which readers go on there now; None: the two do not meet."""
        found = meeting_epoch(self._said, self._out_us)
        if found is None or found + 1 < self.join.first_epoch:
            return None
        return {self.join.channel: found + 1}

    def bounded(self, batch: PortBatch) -> PortBatch:
        """Return a batch that closes no window which the channel may have in its next epoch, so that the two meet."""
        if batch.ended or batch.watermark_us is None:
            return batch
        upto_us = self._window.last_end_us(batch.watermark_us)
        found = next_meeting(self._said, self._out_us, upto_us)
        if found is None or found.watermark_us is None or found.epoch + 1 < self.join.first_epoch:
            return batch
        return replace(batch, watermark_us=min(found.watermark_us, batch.watermark_us))

    def stands_still_s(self, now_s: float) -> float:
        """Return how long the merge waits now for the channel, which is behind; 0: it is not, or has been for long."""
        if not self._said or not is_behind(self._said, self._out_us):
            self._behind_since_s = None
            return 0.0
        if self._behind_since_s is None:
            self._behind_since_s = now_s
        return max(0.0, self._behind_since_s + STANDS_STILL_S - now_s)

    @property
    def _out_us(self) -> int | None:
        """The end of the last window that is out."""
        return self._end_us(self._context.log.standing.watermark_us) if self._context.log.standing is not None else None

    def _end_us(self, watermark_us: int | None) -> int | None:
        return None if watermark_us is None else self._window.last_end_us(watermark_us)

    async def _watch(self) -> None:
        context, spec, join = self._context, self._context.spec, self.join
        log: ChannelLog | None = None
        heard = 0
        while log is None or log.end is None or heard < log.next_epoch:
            try:
                if log is None:
                    log = await context.router.subscribe(join.channel, join.site, spec.task_id, query_id=spec.query_id)
                heard = await self._hear(log, heard)
                # Before there is an epoch, its standing may say enough.
                await log.state.wait(heard, or_standing=log.standing is None)
            except (SiteAgentError, OSError) as error:
                # An earlier attempt of the merge has acknowledged epochs, which may go at any moment.
                logger.warning("heard nothing site=%s task=%s: %s", context.site, spec.task_id, error)
                await context.clock.sleep(PATIENCE_S)

    async def _hear(self, log: ChannelLog, heard: int) -> int:
        """Take in what the epochs that are here say; return the next one."""
        context, first, found = self._context, max(heard, log.first_epoch), []
        # While they are read, more may come.
        upto = max(first, log.next_epoch)
        if first > heard and (before := log.standing) is not None and before.next_epoch == first:
            found.append(self._of(before))
        for epoch in range(first, upto):
            manifest = await undamaged(context, partial(log.epochs.manifest, epoch))
            found.append(self._of(manifest.standing))
        if upto > 0:
            await context.in_thread(partial(context.router.acknowledge, log.id, context.spec.task_id, upto - 1))
        # Epochs before the windows that are out do not matter any more, but the last one tells whether it is behind.
        out_us, known = self._out_us, [*self._said, *found]
        self._said = [one for one in known if out_us is None or (one.end_us or 0) >= out_us] or known[-1:]
        self._tell()
        return upto

    def _of(self, known: Standing) -> Said:
        return Said(known.next_epoch - 1, known.watermark_us, self._end_us(known.watermark_us), known.whole)
