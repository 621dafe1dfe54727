"""Who is given room: as much for the last as for the first, whatever the order in which they came."""

from __future__ import annotations

import asyncio

import pytest

from site_agent.exchange.turns import FairQueue, Flow
from site_agent.router.backlog import FairRoom

pytestmark = pytest.mark.timeout(20)


async def test_room_goes_to_whoever_was_given_least() -> None:
    room, ahead, behind = FairRoom(10), Flow(), Flow()
    for _ in range(10):
        await room.take(ahead, 1, cost_bytes=1)
    order: list[str] = []

    async def take(name: str, flow: Flow) -> None:
        for _ in range(5):
            await room.take(flow, 1, cost_bytes=1)
            order.append(name)

    takers = [asyncio.create_task(take("ahead", ahead)), asyncio.create_task(take("behind", behind))]
    for _ in range(10):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        room.give_back(1)
    await asyncio.gather(*takers)
    assert order == ["behind"] * 5 + ["ahead"] * 5


async def test_something_large_waits_for_its_room_and_is_not_overtaken() -> None:
    room, order = FairRoom(2), list[str]()
    await room.take(Flow(), 2, cost_bytes=0)

    async def take(name: str, size: int) -> None:
        await room.take(Flow(), size, cost_bytes=0)
        order.append(name)

    takers = [asyncio.create_task(take("large", 5)), asyncio.create_task(take("small", 1))]
    await asyncio.sleep(0)
    room.give_back(1)
    await asyncio.sleep(0)
    assert order == []
    room.give_back(1)
    await takers[0]
    assert order == ["large"]
    room.give_back(5)
    await takers[1]


async def test_a_call_that_ended_while_it_waited_holds_nobody_up() -> None:
    room, flows = FairRoom(10), [Flow() for _ in range(4)]
    await room.take(flows[0], 5, cost_bytes=5)
    large = asyncio.create_task(room.take(flows[1], 10, cost_bytes=10))
    small = asyncio.create_task(room.take(flows[2], 5, cost_bytes=5))
    await asyncio.sleep(0)
    assert not small.done()
    large.cancel()
    await small
    room.give_back(10)
    await room.take(flows[3], 10, cost_bytes=10)


async def test_room_that_was_given_to_a_call_that_ends_is_free_again() -> None:
    room, flows = FairRoom(10), [Flow() for _ in range(3)]
    await room.take(flows[0], 10, cost_bytes=10)
    ending = asyncio.create_task(room.take(flows[1], 10, cost_bytes=10))
    await asyncio.sleep(0)
    room.give_back(10)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    await room.take(flows[2], 10, cost_bytes=10)


@pytest.mark.parametrize("limit", [1, 40, 400])
async def test_calls_that_begin_later_are_not_left_behind(limit: int) -> None:
    """In each step a call begins, and an epoch of whoever was given room first is stored."""
    calls, epochs = 100, 20
    room = FairRoom(limit, queue=FairQueue(catch_up_bytes=epochs))
    held: list[int] = []
    stored = [0] * calls

    async def receive(number: int) -> None:
        flow = Flow()
        for _ in range(epochs):
            await room.take(flow, 1, cost_bytes=1)
            held.append(number)

    receiving: list[asyncio.Task[None]] = []
    while sum(stored) * 2 < calls * epochs:
        if len(receiving) < calls:
            receiving.append(asyncio.create_task(receive(len(receiving))))
        for _ in range(3):
            await asyncio.sleep(0)
        if held:
            stored[held.pop(0)] += 1
            room.give_back(1)
    for task in receiving:
        task.cancel()
    assert min(stored) * 2 >= sorted(stored)[calls // 2]
