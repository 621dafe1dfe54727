"""Waiting for the master to come back, and for the first of several events."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

RECONNECT_DELAYS_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Between attempts to reach the master."""


async def first_of(waits: Iterable[Coroutine[Any, Any, object]], event: asyncio.Event) -> None:
    """Wait until one of the awaitables has ended or the event is set; the others are cancelled.

    Raises:
        What those raise that had ended.
    """
    waiting = [asyncio.create_task(wait) for wait in waits]
    waiting.append(asyncio.create_task(event.wait()))
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
