"""Wakes coroutines of any event loop when a channel changes in any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress


class Waiters:
    """Coroutines that wait for a condition over state that other threads change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds. The thread that calls `wake` evaluates it, so it must be quick."""
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            # Registered before the condition is checked: a change in between wakes the waiter.
            self._waiting[future] = condition
        try:
            if not condition():
                await future
        finally:
            with self._lock:
                self._waiting.pop(future, None)

    def wake(self) -> None:
        """Check every condition again. Called after the state has changed."""
        with self._lock:
            ready = [future for future, condition in self._waiting.items() if condition()]
            for future in ready:
                del self._waiting[future]
        for future in ready:
            # A closed loop has no waiter left.
            with suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
