"""Counts the calls that the master is answering, so that it can stop in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class _Count:
    """A counter; waits until it is 0."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def more(self) -> Iterator[None]:
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def none(self) -> None:
        await self._none.wait()


class PendingCalls:
    """Counts calls on one event loop: those that end by themselves, and those that follow something."""

    def __init__(self) -> None:
        self._ending = _Count()
        self._following = _Count()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count, within the block, a call that ends by itself."""
        with self._ending.more():
            yield

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Count, within the block, a call that follows something."""
        with self._following.more():
            yield

    async def ended(self) -> None:
        """Return when no call is pending that ends by itself."""
        await self._ending.none()

    async def left(self) -> None:
        """Return when no call is pending."""
        await self._ending.none()
        await self._following.none()
