"""Calls that are waited for at the master's end."""

from __future__ import annotations

import asyncio

import pytest

from master.pending import PendingCalls


async def test_the_last_of_several_calls_is_waited_for() -> None:
    pending = PendingCalls()
    await pending.ended()
    with pending.counted():
        with pending.counted():
            pass
        waiting = asyncio.create_task(pending.ended())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_a_call_that_fails_has_ended() -> None:
    pending = PendingCalls()
    with pytest.raises(ValueError, match="no"), pending.counted():
        raise ValueError("no")
    await pending.ended()
