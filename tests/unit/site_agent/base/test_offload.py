from __future__ import annotations

import asyncio
import threading

import pytest

from site_agent.base.offload import Offload


async def test_closing_waits_for_a_call_whose_caller_was_cancelled() -> None:
    """Whoever opens the same files afterwards must not meet it."""
    offload, began, may_end, ended = Offload("test"), threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        may_end.wait(30)
        ended.set()

    task = asyncio.create_task(offload.run(call))
    await asyncio.to_thread(began.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    closing = asyncio.create_task(asyncio.to_thread(offload.close))
    await asyncio.sleep(0.02)
    assert not closing.done()
    may_end.set()
    await closing
    assert ended.is_set()
