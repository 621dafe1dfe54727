"""Whose turn it is: shares of calls that always want to send, whatever the order in which they came."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.exchange.turns import ACCEPTING_ROUNDS, EPOCH_COST_BYTES, MOST_ACCEPTING_ROUNDS, FairQueue, Flow, Turns

pytestmark = pytest.mark.timeout(20)


def serve(queue: FairQueue, flows: dict[Flow, int], turns: int) -> Counter[Flow]:
    """Bytes that each flow got when every one always wants its next epoch (of the size given)."""
    got: Counter[Flow] = Counter()
    for flow, size_bytes in flows.items():
        queue.push(flow, size_bytes)
    for _ in range(turns):
        flow, cost_bytes = queue.pop()
        got[flow] += cost_bytes
        queue.push(flow, flows[flow])
    return got


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20), st.integers(1, 500))
def test_shares_differ_by_one_epoch_at_most(sizes: list[int], turns: int) -> None:
    flows = {Flow(): size for size in sizes}
    got = serve(FairQueue(), flows, turns)
    shares = [got[flow] for flow in flows]
    assert max(shares) - min(shares) <= max(sizes)


def test_calls_that_were_accepted_later_catch_up() -> None:
    """Every call gets its turns while the others are accepted; in the end all have the same."""
    queue, flows, got = FairQueue(catch_up_bytes=1000), [], Counter[Flow]()
    for _ in range(20):
        flows.append(Flow())
        queue.push(flows[-1], 10)
        flow, cost_bytes = queue.pop()
        got[flow] += cost_bytes
        queue.push(flow, 10)
    got += serve_on(queue, 10, 380)
    assert {got[flow] for flow in flows} == {200}


def serve_on(queue: FairQueue, size_bytes: int, turns: int) -> Counter[Flow]:
    got: Counter[Flow] = Counter()
    for _ in range(turns):
        flow, cost_bytes = queue.pop()
        got[flow] += cost_bytes
        queue.push(flow, size_bytes)
    return got


@given(st.integers(0, 500), st.integers(1, 2000))
def test_a_new_call_holds_the_others_up_no_longer_than_it_may_catch_up(catch_up_bytes: int, before: int) -> None:
    queue, old, new = FairQueue(catch_up_bytes), Flow(), Flow()
    queue.push(old, 10)
    serve_on(queue, 10, before)
    queue.push(new, 10)
    turns = 0
    while queue.pop()[0] is new:
        turns += 1
        queue.push(new, 10)
    assert turns * 10 <= catch_up_bytes + 20


async def test_a_call_alone_never_waits() -> None:
    turns, flow = Turns(100_000), Flow()
    for _ in range(5):
        assert turns.take(flow, 1_000_000) is None
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_a_round_hands_out_so_much_and_no_more() -> None:
    turns = Turns(10 * EPOCH_COST_BYTES)
    flows = [Flow() for _ in range(30)]
    waits = [turns.take(flow, 0) for flow in flows]
    assert [wait is None for wait in waits].count(True) == 10
    await asyncio.sleep(0)
    assert sum(wait is not None and wait.done() for wait in waits) == 10
    await asyncio.sleep(0)
    assert all(wait is None or wait.done() for wait in waits)


async def test_a_call_that_ended_while_it_waited_costs_nothing() -> None:
    turns = Turns(EPOCH_COST_BYTES)
    first, ended, other = Flow(), Flow(), Flow()
    assert turns.take(first, 0) is None
    given_up, waiting = turns.take(ended, 0), turns.take(other, 0)
    assert given_up is not None
    assert waiting is not None
    given_up.cancel()
    await asyncio.sleep(0)
    assert waiting.done()


async def test_after_a_new_call_a_few_rounds_hand_out_nothing() -> None:
    turns = Turns()
    turns.accepted()
    turn = turns.take(Flow(), 0)
    assert turn is not None
    for _ in range(ACCEPTING_ROUNDS):
        await asyncio.sleep(0)
        assert not turn.done()
    await asyncio.sleep(0)
    assert turn.done()


async def test_calls_without_end_do_not_keep_others_from_sending() -> None:
    turns, rounds = Turns(), 0
    turns.accepted()
    turn = turns.take(Flow(), 0)
    assert turn is not None
    while not turn.done():
        turns.accepted()
        await asyncio.sleep(0)
        rounds += 1
    assert rounds == MOST_ACCEPTING_ROUNDS + 1


@pytest.mark.parametrize("late", [0, 150])
async def test_of_many_calls_none_starves_at_half_time(late: int) -> None:
    """As in `benchmarks.exchange`: 200 calls with 32 epochs of 64 KiB each, accepted one in every few rounds."""
    turns, epochs, size_bytes = Turns(), 32, 64 * 1024
    sent = [0] * 200
    halfway: list[int] = []

    async def call(number: int) -> None:
        flow = Flow()
        for _ in range(max(0, number - (200 - late)) * 2):
            await asyncio.sleep(0)
        for _ in range(epochs):
            turn = turns.take(flow, size_bytes)
            if turn is not None:
                await turn
            sent[number] += 1
            if not halfway and sum(sent) * 2 >= len(sent) * epochs:
                halfway.extend(sent)
            await asyncio.sleep(0)

    await asyncio.gather(*map(call, range(200)))
    assert min(halfway) >= 0.5 * sorted(halfway)[100]
