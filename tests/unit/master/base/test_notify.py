"""Waiting for changes."""

from __future__ import annotations

import asyncio

from master.base.notify import Notifier


async def test_a_change_that_came_before_the_wait_is_not_missed() -> None:
    notifier = Notifier()
    seen = notifier.version
    notifier.notify()
    await notifier.wait_beyond(seen)
    assert notifier.version == seen + 1


async def test_every_waiter_is_woken() -> None:
    notifier = Notifier()
    waiters = [asyncio.create_task(notifier.wait_beyond(0)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(w.done() for w in waiters)
    notifier.notify()
    await asyncio.gather(*waiters)


async def test_a_wait_ends_with_its_timeout() -> None:
    notifier = Notifier()
    await notifier.wait_beyond(0, timeout_s=0)
    assert notifier.version == 0


async def test_a_cancelled_waiter_leaves_the_others_alone() -> None:
    notifier = Notifier()
    first, second = (asyncio.create_task(notifier.wait_beyond(0)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    notifier.notify()
    await second
    assert first.cancelled()
