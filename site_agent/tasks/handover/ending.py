"""Ends a task's channel between two epochs, in favour of the one of the task that takes its place.

The assignment asks for it, and may take that back. An assignment without the cut is in force once the task has taken it
over: a cut that is being stored by then is waited for, and after it there is none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from contract.handover import HandoverReport
from machine.faults import reached
from site_agent.base.faults import FaultPoint
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark, LateEpochs
from site_agent.tasks.context import TaskContext
from site_agent.tasks.spec import HandOver

logger = logging.getLogger(__name__)


class Ending:
    """Serves one attempt of a task. Belongs to one event loop."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._wanted = context.spec.hand_over
        self._cutting = asyncio.Lock()

    async def want(self, wanted: HandOver | None) -> None:
        """Do this from now on. Returns when nothing else is done any more."""
        async with self._cutting:
            self._wanted = wanted

    @property
    def wants_cut(self) -> bool:
        """Return whether the channel is to end now."""
        wanted = self._wanted
        return wanted is not None and wanted.cut and self._context.log.end is None

    async def cut(
        self,
        cursors: Mapping[str, int],
        rows_late: int,
        totals: Mapping[str, int] | None = None,
        dropped: LateEpochs | None = None,
    ) -> None:
        """End the channel in favour of the successor's, unless that has been taken back. Call it between two epochs.

        Args:
            cursors: by input, the next epoch that the task has not taken.
            rows_late: how many rows were late of those before.
            totals: the task's counts by name, for a successor that gets no checkpoint.
            dropped: of sessions, the epochs of which rows were late that the successor takes again.
        """
        context, log = self._context, self._context.log
        async with self._cutting:
            wanted = self._wanted
            if wanted is None or not wanted.cut:
                return
            standing = log.standing
            end = EndMark(
                log.next_epoch - 1 if log.next_epoch else None,
                wanted.successor_channel,
                wanted.successor_site,
                standing.watermark_us if standing is not None else None,
                cursors,
                rows_late,
                totals or {},
                wanted.fork,
                dropped or {},
            )
            await context.in_thread(lambda: log.finish_as(end))
            reached(FaultPoint.CUT_STORED)
        logger.info("handed over site=%s task=%s to=%s", context.site, log.id, wanted.successor_channel)

    def report(self) -> HandoverReport | None:
        """None: the task hands nothing over."""
        cut = report_of_cut(self._context.log, self._context.site)
        return HandoverReport() if cut is None and self._wanted is not None else cut


def report_of_cut(log: ChannelLog, site: str) -> HandoverReport | None:
    """Return the report of a channel of this site that has ended in favour of another; None when it has not."""
    end = log.end
    if end is None or not end.successor_channel:
        return None
    return HandoverReport(cut=True, last_epoch=end.last_epoch, drained=log.readers.drained(site))


async def release_inputs(context: TaskContext, beside: Collection[str] = ()) -> None:
    """Unsubscribe what a task read that another one continues, but for channels that are read for something else."""
    router, reader = context.router, context.spec.task_id
    for channel in router.subscriptions(reader).keys() - frozenset(beside):
        await router.unsubscribe(channel, reader)
    reached(FaultPoint.INPUTS_RELEASED)
