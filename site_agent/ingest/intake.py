"""Group commit: pushes that arrive while the disk is busy are written, and synced, together."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass

from site_agent.base.errors import IngestError, SiteAgentError, UnknownStreamError
from site_agent.base.offload import Offload
from site_agent.ingest import Acknowledged, NoRoom, Push
from site_agent.ingest.log import PushLog
from site_agent.ingest.rows import RowFormat

logger = logging.getLogger(__name__)

MAX_GROUP_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Pending:
    push: Push
    answer: asyncio.Future[Acknowledged]


class Intake:
    """Takes one stream's pushes at one site, in the order in which `submit` is called."""

    def __init__(self, name: str, log: PushLog, rows: RowFormat, offload: Offload) -> None:
        self.name = name
        self.log = log
        self.rows = rows
        self.waiting = ""
        """Why pushes wait; empty when they do not."""
        self._offload = offload
        self._pending: deque[_Pending] = deque()
        self._arrived = 0
        self._closed = False
        self._loop = asyncio.create_task(self._commit(), name=f"intake-{name}")

    def submit(self, push: Push) -> asyncio.Future[Acknowledged]:
        """The outcome of a push, once it is durable; it waits while there is no room. If cancelled, it may still be
        stored.

        The answer fails with SequenceGapError, StreamEndedError, DiskFullError, IngestError; with UnknownStreamError
        when the stream is dropped meanwhile.
        """
        answer: asyncio.Future[Acknowledged] = asyncio.get_running_loop().create_future()
        if self._closed:
            answer.set_exception(self._gone())
            return answer
        self._pending.append(_Pending(push, answer))
        self._arrived += 1
        self.log.room.changes.wake()
        return answer

    async def finish(self) -> int:
        """See `PushLog.finish`."""
        return await self._offload.run(self.log.finish)

    async def close(self) -> None:
        """Refuse waiting pushes and all later ones."""
        self._closed = True
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)
        self.log.close()
        self._refuse(tuple(self._pending), self._gone())
        self._pending.clear()

    async def _commit(self) -> None:
        while True:
            arrived, room = self._arrived, self.log.room.count
            group = self._group()
            if not group or not await self._store(group):
                await self.log.room.changes.until(
                    lambda arrived=arrived, room=room: (  # type: ignore[misc]
                        self._arrived != arrived or (bool(self._pending) and self.log.room.count != room)
                    )
                )

    def _group(self) -> list[_Pending]:
        """The oldest pushes whose callers still wait."""
        while self._pending and self._pending[0].answer.cancelled():
            self._pending.popleft()
        group: list[_Pending] = []
        size_bytes = 0
        for item in self._pending:
            if size_bytes > MAX_GROUP_BYTES:
                break
            if not item.answer.cancelled():
                group.append(item)
                size_bytes += len(item.push.payload)
        return group

    async def _store(self, group: list[_Pending]) -> bool:
        """Write a group and resolve its pushes; returns whether one was resolved."""
        try:
            outcomes = await self._offload.run(self.log.append, [item.push for item in group])
        except SiteAgentError as error:
            self._refuse(group, error)
            self._forget(group)
            return True
        except Exception as error:
            # The top of the stream's loop: whatever the error was, clients must not wait for ever.
            logger.exception("unexpected error stream=%s", self.name)
            self._refuse(group, IngestError(f"internal error: {type(error).__name__}: {error}"))
            self._forget(group)
            return True
        answered = [item for item, outcome in zip(group, outcomes, strict=True) if not isinstance(outcome, NoRoom)]
        for item, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, IngestError):
                self._refuse((item,), outcome)
            elif isinstance(outcome, Acknowledged) and not item.answer.done():
                item.answer.set_result(outcome)
        self.waiting = next((o.reason for o in outcomes if isinstance(o, NoRoom)), "")
        self._forget(answered)
        return bool(answered)

    def _forget(self, items: list[_Pending]) -> None:
        done = {id(item) for item in items}
        self._pending = deque(item for item in self._pending if id(item) not in done)

    def _refuse(self, items: list[_Pending] | tuple[_Pending, ...], error: SiteAgentError) -> None:
        for item in items:
            if not item.answer.done():
                item.answer.set_exception(error)

    def _gone(self) -> UnknownStreamError:
        return UnknownStreamError(
            f"stream {self.name} was dropped, or the site's agent is ending", ids={"stream": self.name}
        )
