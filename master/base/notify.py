"""Wakes everybody who waits for a change; a change between two checks is not missed."""

from __future__ import annotations

import asyncio


class Notifier:
    """A counter that can be waited on."""

    def __init__(self) -> None:
        self._version = 0
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def version(self) -> int:
        return self._version

    def notify(self) -> None:
        self._version += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_beyond(self, version: int, timeout_s: float | None = None) -> None:
        """Return once the version is larger than this one, or after the timeout."""
        if self._version > version:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait({waiter}, timeout=timeout_s)
        finally:
            self._waiters.discard(waiter)
