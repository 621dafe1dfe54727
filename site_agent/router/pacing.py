"""Emulates links where they end, with the bandwidth and delay of a topology file and without privileges.

All transfers over one link share its pace: what arrives is handed on when the last byte would have come over a link of
that bandwidth, and the delay later. Nothing is lost and nothing overtakes. What waits counts against the credit that
the reader has granted, so the sender feels it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable, Callable
from types import TracebackType
from typing import Self

_LEAST_BUFFER_BYTES = 256 * 1024


class LinkPace:
    """One directed link. Belongs to one event loop."""

    def __init__(
        self, bandwidth_bytes_per_s: float, latency_s: float, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.latency_s = latency_s
        self.now_s = now_s
        self._free_s = 0.0

    @property
    def buffer_bytes(self) -> int:
        """The bytes that one transfer may have under way: what the link holds, and some more."""
        return _LEAST_BUFFER_BYTES + int(self.bandwidth_bytes_per_s * self.latency_s)

    def take(self, size_bytes: int) -> float:
        """Put this many bytes on the link; returns the time at which they have arrived, on the clock of `now_s`."""
        self._free_s = max(self.now_s(), self._free_s) + size_bytes / self.bandwidth_bytes_per_s
        return self._free_s + self.latency_s

    def give_back(self, size_bytes: int) -> None:
        """These bytes are not sent after all: nobody waits for them any more."""
        self._free_s = max(self.now_s(), self._free_s - size_bytes / self.bandwidth_bytes_per_s)

    async def wait_until(self, due_s: float) -> None:
        await asyncio.sleep(max(0.0, due_s - self.now_s()))


class Paced:
    """The messages of one transfer, each delayed until it has arrived. Iterate over it inside `async with`."""

    def __init__(self, messages: AsyncIterable[bytes], pace: LinkPace) -> None:
        self._messages = messages
        self._pace = pace
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self._receiving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._receiving = asyncio.create_task(self._receive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._receiving is not None
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)
        # A transfer that ends would otherwise occupy the link for everything that it had under way.
        arrived_s = self._pace.now_s() + self._pace.latency_s
        self._pace.give_back(sum(len(message) for due_s, message in self._under_way if due_s > arrived_s))
        self._under_way.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next message. Raises the error of the call after all messages before it."""
        while not self._under_way:
            assert self._receiving is not None
            if self._receiving.done():
                self._receiving.result()
                raise StopAsyncIteration
            self._came.clear()
            await self._came.wait()
        due_s, message = self._under_way[0]
        await self._pace.wait_until(due_s)
        self._under_way.popleft()
        self._held_bytes -= len(message)
        self._room.set()
        return message

    async def _receive(self) -> None:
        try:
            async for message in self._messages:
                while self._held_bytes > self._pace.buffer_bytes:
                    self._room.clear()
                    await self._room.wait()
                self._held_bytes += len(message)
                self._under_way.append((self._pace.take(len(message)), message))
                self._came.set()
        finally:
            # The reader checks whether this is done only when it runs again: after this task has ended.
            asyncio.get_running_loop().call_soon(self._came.set)
