"""Does a merge's part for the task that takes its place: sends a checkpoint, or finds where its channel meets another
one; then ends it.

All of it is asked for by the assignment, and may be taken back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from contract.handover import HandoverReport
from site_agent.base.errors import SiteAgentError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import LateEpochs
from site_agent.port import PortBatch
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.context import TaskContext
from site_agent.tasks.handover.ending import Ending
from site_agent.tasks.handover.joining import Joining
from site_agent.tasks.handover.seed import Seed, SeedHead, SeedWithdrawnError, publish
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.spec import HandOver, JoinSpec, WindowSpec

logger = logging.getLogger(__name__)

RETRY_S = 5.0
"""After a seed that could not be published the next one is begun so much later."""


class HandingOver(Ending):
    """Hands over for one attempt of a merge.

    `tell` is called when a cut may be due: a seed is published, or is to be tried again, or more is known of the
    channel that is joined.
    """

    def __init__(self, context: TaskContext, window: WindowSpec, tell: Callable[[], None] = lambda: None) -> None:
        super().__init__(context)
        self._window = window
        self._joining: Joining | None = None
        self._seeding: asyncio.Task[None] | None = None
        self._again: asyncio.Task[None] | None = None
        self._closed = False
        self._tell = tell

    async def want(self, wanted: HandOver | None) -> None:
        before = self._wanted
        await super().want(wanted)
        if _seed_channel(before) != _seed_channel(wanted):
            await self._stop_seeding()
        await self._join(wanted.join if wanted is not None else None)

    async def close(self) -> None:
        self._closed = True
        await self._stop_seeding()
        if self._joining is not None:
            await self._joining.close()

    async def _join(self, join: JoinSpec | None) -> None:
        """Watch this channel and no other. A task whose channel has ended needs none."""
        joining = self._joining
        if (joining.join if joining is not None else None) == join:
            return
        if joining is not None:
            self._joining = None
            await joining.give_up()
        if join is not None and self._context.log.end is None and not self._closed:
            self._joining = Joining(self._context, self._window, join, self._tell)

    def bounded(self, batch: PortBatch) -> PortBatch:
        """Return the batch as far as the channel may go with it."""
        return batch if self._joining is None or not super().wants_cut else self._joining.bounded(batch)

    @property
    def stands_still_s(self) -> float:
        """Return how long the task takes no further batch, for the channel that is joined is behind."""
        if self._joining is None or not super().wants_cut:
            return 0.0
        return self._joining.stands_still_s(self._context.clock.monotonic())

    async def cut(
        self,
        cursors: Mapping[str, int],
        rows_late: int,
        totals: Mapping[str, int] | None = None,
        dropped: LateEpochs | None = None,
    ) -> None:
        """End the channel; the successor of one that joins another begins with an epoch of that, which the mark names
        in the place of the inputs."""
        if self._joining is None:
            await super().cut(cursors, rows_late, dropped=dropped)
        elif (joined := self._joining.cursor) is not None:
            await super().cut(joined, rows_late, totals)

    async def begin(self) -> None:
        """Do what the assignment asked for when the attempt began."""
        await self._join(self._wanted.join if self._wanted is not None else None)

    @property
    def is_wanted(self) -> bool:
        """Return whether another task is to take this one's place."""
        return self._wanted is not None

    @property
    def wants_cut(self) -> bool:
        """Return whether the channel is to end now: not before the successor has what it is to go on with."""
        wanted = self._wanted
        if not super().wants_cut or wanted is None or not (wanted.seed is None or self._seeded):
            return False
        return wanted.join is None or (self._joining is not None and self._joining.cursor is not None)

    def wants_seed(self, cursors: Mapping[str, int]) -> bool:
        """Return whether a checkpoint with these cursors is to be made and published."""
        seed = self._wanted.seed if self._wanted is not None else None
        under_way = any(task is not None and not task.done() for task in (self._seeding, self._again))
        if seed is None or under_way or self._seeded:
            return False
        return all(cursors.get(c, first) >= first for c, first in seed.first_epochs.items())

    def seed(self, checkpoint: Checkpoint, state: MergeState) -> None:
        """Publish this checkpoint, which was stored just now, while the task goes on."""
        channel = _seed_channel(self._wanted)
        if channel:
            head = SeedHead(checkpoint, self._context.log.next_epoch)
            self._seeding = asyncio.create_task(self._publish(channel, Seed(head, self._window, state.pin()), state))

    def report(self) -> HandoverReport | None:
        found = super().report()
        return None if found is None else replace(found, seeded=self._seeded)

    @property
    def _seeded(self) -> bool:
        channel = _seed_channel(self._wanted)
        return bool(channel) and self._seed_log(channel).end is not None

    def _still_wants(self, channel: str) -> bool:
        return not self._closed and _seed_channel(self._wanted) == channel

    def _seed_log(self, channel: str) -> ChannelLog:
        return self._context.router.store.open(channel)

    async def _publish(self, channel: str, seed: Seed, state: MergeState) -> None:
        context = self._context
        try:
            log = self._seed_log(channel)
            await context.in_thread(lambda: publish(log, seed, lambda: self._still_wants(channel)))
        except SeedWithdrawnError:
            return
        except SiteAgentError as error:
            # The task itself goes on, and its successor waits.
            logger.warning("no seed yet site=%s task=%s: %s", context.site, context.log.id, error.message)
            self._again = asyncio.create_task(self._wait_to_retry())
        finally:
            state.unpin()
        self._tell()

    async def _wait_to_retry(self) -> None:
        await self._context.clock.sleep(RETRY_S)
        self._tell()

    async def _stop_seeding(self) -> None:
        seeding, self._seeding = self._seeding, None
        if self._again is not None:
            self._again.cancel()
        if seeding is not None:
            # Not cancelled: its thread looks whether it is still wanted.
            await asyncio.wait({seeding})


def _seed_channel(wanted: HandOver | None) -> str:
    return wanted.seed.channel if wanted is not None and wanted.seed is not None else ""
