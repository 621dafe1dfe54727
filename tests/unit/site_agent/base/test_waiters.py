from __future__ import annotations

import asyncio
import threading

import pytest

from site_agent.base.waiters import Waiters

pytestmark = pytest.mark.timeout(20)


async def test_a_change_in_another_thread_wakes_all() -> None:
    waiters, reached = Waiters(), threading.Event()
    waiting = [asyncio.create_task(waiters.until(reached.is_set)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)

    def change() -> None:
        waiters.wake()
        reached.set()
        waiters.wake()

    thread = threading.Thread(target=change)
    thread.start()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)
    thread.join()


async def test_a_condition_that_holds_is_not_waited_for() -> None:
    await Waiters().until(lambda: True)


async def test_a_cancelled_waiter_leaves_the_others_alone() -> None:
    waiters, reached = Waiters(), threading.Event()
    first, second = (asyncio.create_task(waiters.until(reached.is_set)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    reached.set()
    waiters.wake()
    await second
    assert first.cancelled()


async def test_only_those_whose_condition_holds_are_woken() -> None:
    waiters, now = Waiters(), [0]
    early = asyncio.create_task(waiters.until(lambda: now[0] > 0))
    late = asyncio.create_task(waiters.until(lambda: now[0] > 1))
    await asyncio.sleep(0)
    now[0] = 1
    waiters.wake()
    await early
    assert not late.done()
    late.cancel()


def test_waiters_of_several_loops_and_of_one_that_is_gone() -> None:
    waiters, reached, entered = Waiters(), threading.Event(), threading.Barrier(3)

    async def wait() -> None:
        task = asyncio.create_task(waiters.until(reached.is_set))
        await asyncio.sleep(0)
        await asyncio.to_thread(entered.wait, 5)
        await task

    async def leave() -> None:
        asyncio.ensure_future(waiters.until(reached.is_set))  # noqa: RUF006
        await asyncio.sleep(0)

    gone = asyncio.new_event_loop()
    gone.run_until_complete(leave())
    gone.close()
    threads = [threading.Thread(target=lambda: asyncio.run(wait())) for _ in range(2)]
    for thread in threads:
        thread.start()
    entered.wait(5)
    reached.set()
    waiters.wake()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
