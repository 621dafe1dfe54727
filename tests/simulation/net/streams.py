"""The two ends of a call's stream of messages: those that arrived, and room for more under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

WINDOW_BYTES = 64 * 1024
"""What a call may have under way in one direction before its receiver takes something."""


class Inbox:
    """Messages that arrived.

    Args:
        taken: Told the size of each message that is taken.
    """

    def __init__(self, taken: Callable[[int], None]) -> None:
        self._items: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._taken = taken

    def put(self, data: bytes) -> None:
        self._items.append(data)
        self._wake()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._wake()

    def empty(self) -> None:
        """Drop what nobody has taken."""
        self._items.clear()

    async def get(self) -> bytes | None:
        """The next message; None at the end."""
        while not self._items:
            if self._ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = self._items.popleft()
        self._taken(len(data))
        return data

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Outbox:
    """The room for messages under way."""

    def __init__(self) -> None:
        self._under_way_bytes = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def room(self, size_bytes: int) -> None:
        """Wait until another message may be sent."""
        while self._under_way_bytes >= WINDOW_BYTES and not self._closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self._under_way_bytes += size_bytes

    def taken(self, size_bytes: int) -> None:
        """The receiver took a message."""
        self._under_way_bytes -= size_bytes
        self._wake()

    def close(self) -> None:
        """Nobody needs to wait any more."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
