"""Credit: the payload bytes that a sender may still send."""

from __future__ import annotations

import asyncio

from site_agent.base.errors import ChannelRequestError


class Credit:
    """A window of bytes that the reader opens and refills."""

    def __init__(self, window_bytes: int) -> None:
        if window_bytes <= 0:
            raise ChannelRequestError("no credit was given", hint="open with credit_bytes above 0")
        self._window_bytes = window_bytes
        self._available_bytes = window_bytes
        """Negative after an epoch that was larger than the window."""
        self._closed = False
        self._changed = asyncio.Event()

    def grant(self, size_bytes: int) -> None:
        self._available_bytes += size_bytes
        self._changed.set()

    def close(self) -> None:
        """The reader will grant nothing more."""
        self._closed = True
        self._changed.set()

    async def take(self, size_bytes: int) -> None:
        """Wait until an epoch of this size may be sent; one larger than the window waits for a full window.

        Raises:
            ChannelRequestError: the reader stopped granting.
        """
        while not self.take_now(size_bytes):
            if self._closed:
                hint = "grant what was read, or open with more credit"
                raise ChannelRequestError("the credit is used up and the reader closed its side", hint=hint)
            self._changed.clear()
            await self._changed.wait()

    def take_now(self, size_bytes: int) -> bool:
        """Take the credit if it suffices now; returns whether it did."""
        if self._available_bytes < min(size_bytes, self._window_bytes):
            return False
        self._available_bytes -= size_bytes
        return True
