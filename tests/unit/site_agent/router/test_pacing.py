from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from site_agent.router.pacing import Paced
from tests.unit.site_agent.router.hand import HandClock, HandPace


async def messages(*sizes: int) -> AsyncIterator[bytes]:
    for number, size in enumerate(sizes):
        yield bytes([number]) * size


async def arrivals(paced: Paced, clock: HandClock) -> list[tuple[float, int]]:
    async with paced:
        return [(round(clock.now_s - 100.0, 6), message[0]) async for message in paced]


async def test_messages_come_when_the_link_has_carried_them() -> None:
    clock = HandClock()
    pace = HandPace(1000.0, 0.5, clock)
    assert await arrivals(Paced(messages(1000, 500, 500), pace), clock) == [(1.5, 0), (2.0, 1), (2.5, 2)]


async def test_the_delay_is_of_the_way_and_not_of_each_message() -> None:
    clock = HandClock()
    came = await arrivals(Paced(messages(*[10] * 50), HandPace(1e6, 1.0, clock)), clock)
    assert came[-1][0] == pytest.approx(1.0005)


async def test_transfers_share_the_link() -> None:
    clock = HandClock()
    pace = HandPace(1000.0, 0.0, clock)
    first, second = await asyncio.gather(
        arrivals(Paced(messages(1000, 1000), pace), clock), arrivals(Paced(messages(1000, 1000), pace), clock)
    )
    assert max(first + second)[0] == 4.0


async def test_what_a_transfer_that_ends_had_under_way_does_not_fill_the_link() -> None:
    clock = HandClock()
    pace = HandPace(1000.0, 0.5, clock)
    async with Paced(messages(1000, 1000, 1000), pace) as paced:
        await anext(paced)
    # The first message came after 1.5 s; the second one was half on its way, and counts for nothing.
    assert await arrivals(Paced(messages(1000), pace), clock) == [(3.0, 0)]


async def test_no_more_is_under_way_than_the_link_holds() -> None:
    clock, taken = HandClock(), 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(100_000)

    pace = HandPace(1e6, 0.1, clock)
    async with Paced(endless(), pace) as paced:
        await anext(paced)
    assert taken <= pace.buffer_bytes // 100_000 + 3


async def test_an_error_comes_after_what_came_before_it() -> None:
    clock = HandClock()

    async def broken() -> AsyncIterator[bytes]:
        yield b"a"
        raise ConnectionError("cut")

    async with Paced(broken(), HandPace(10.0, 0.1, clock)) as paced:
        assert await anext(paced) == b"a"
        with pytest.raises(ConnectionError):
            await anext(paced)
