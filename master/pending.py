"""The calls that the master is answering now, for its end: those that end by themselves are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class PendingCalls:
    """Counts calls, on one event loop."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Around the answering of one call."""
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def ended(self) -> None:
        """Return when no call is pending."""
        await self._none.wait()
