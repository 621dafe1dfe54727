"""The epochs that a site has received and not stored yet, and the order in which they are stored.

First come, first served would leave both to the calls that began first: they fill the backlog before the last ones have
begun, and keep their lead. So both go to the call that was given least, as turns do at the sender.
"""

from __future__ import annotations

import asyncio

from site_agent.exchange.turns import FairQueue, Flow


class FairRoom:
    """A limit on the bytes held at a time. While it is reached, the flow that was given least is next. Of one event
    loop."""

    def __init__(self, limit: int, *, queue: FairQueue | None = None) -> None:
        self._limit = limit
        self._left = limit
        self._queue = queue or FairQueue()
        self._waiting: dict[Flow, tuple[int, asyncio.Future[None]]] = {}

    async def take(self, flow: Flow, size: int, *, cost_bytes: int) -> None:
        """Wait for room; a request larger than the limit waits until nothing else is held.

        A flow asks once at a time, and not after its call has ended.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting[flow] = size, future
        self._queue.push(flow, cost_bytes)
        self._hand_out()
        try:
            await future
        except asyncio.CancelledError:
            self.give_back(0 if future.cancelled() else size)
            raise

    def give_back(self, size: int) -> None:
        self._left += size
        self._hand_out()

    def _hand_out(self) -> None:
        """Grant requests in order: one behind a large request does not take the room that the large one waits for."""
        while self._queue:
            size, future = self._waiting[self._queue.first]
            ended = future.done()
            if not ended and self._left < min(size, self._limit):
                return
            flow, _ = self._queue.pop()
            del self._waiting[flow]
            if not ended:
                self._left -= size
                future.set_result(None)


class Backlog:
    """The backlog of all calls of a site.

    Args:
        limit_bytes: That may be held before they are stored.
        writers: How many calls may store at a time.
    """

    def __init__(self, limit_bytes: int, *, writers: int) -> None:
        self.bytes = FairRoom(limit_bytes)
        self.writers = FairRoom(writers)
