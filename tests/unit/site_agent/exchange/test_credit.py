from __future__ import annotations

import asyncio

import pytest

from site_agent.base.errors import ChannelRequestError
from site_agent.exchange.credit import Credit

pytestmark = pytest.mark.timeout(20)


async def step() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_is_taken_must_be_granted_again() -> None:
    credit = Credit(100)
    await credit.take(60)
    waiting = asyncio.create_task(credit.take(50))
    await step()
    assert not waiting.done()
    credit.grant(9)
    await step()
    assert not waiting.done()
    credit.grant(1)
    await waiting
    await credit.take(0)
    assert credit.take_now(0)
    assert not credit.take_now(1)


async def test_more_than_the_window_waits_for_the_whole_window() -> None:
    credit = Credit(100)
    await credit.take(1)
    waiting = asyncio.create_task(credit.take(500))
    await step()
    assert not waiting.done()
    credit.grant(1)
    await waiting
    credit.grant(400)
    assert not credit.take_now(1)
    credit.grant(100)
    assert credit.take_now(100)
    assert not credit.take_now(1)


async def test_a_reader_that_closes_ends_the_wait_but_not_what_is_left() -> None:
    credit = Credit(10)
    waiting = asyncio.create_task(credit.take(6))
    await waiting
    waiting = asyncio.create_task(credit.take(6))
    await step()
    credit.close()
    with pytest.raises(ChannelRequestError, match="used up"):
        await waiting
    await credit.take(4)


@pytest.mark.parametrize("window_bytes", [0, -1])
def test_no_credit_is_refused(window_bytes: int) -> None:
    with pytest.raises(ChannelRequestError, match="no credit"):
        Credit(window_bytes)
