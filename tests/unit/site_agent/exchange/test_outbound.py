from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.exchange.outbound import DATA_SHARE, LITTLE_BYTES, STRETCH_S, YIELDING_BYTES, Outbound


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


RATE = 100_000.0
WAY_S = 0.2
"""What a transfer takes however small it is."""


def transfer(outbound: Outbound, clock: Clock, *sizes: int, rate: float = RATE) -> None:
    """Epochs, one after the other, over an idle link."""
    call = outbound.call("us", "q.c1.eu", 0)
    for epoch, size_bytes in enumerate(sizes):
        call.sent(epoch, size_bytes)
        clock.now_s += WAY_S + size_bytes / rate
        call.stored(size_bytes)
        clock.now_s += 1


def test_of_a_link_that_nothing_was_sent_over_nothing_is_known() -> None:
    outbound = Outbound(Clock())
    assert outbound.rate("us") is None
    assert outbound.stored_before("us", "q.c1.eu") is None
    transfer(outbound, Clock(), 100, 200)
    assert outbound.rate("us") is None, "a few bytes do not tell"


def test_transfers_of_different_sizes_tell_the_rate() -> None:
    clock = Clock()
    outbound = Outbound(clock)
    transfer(outbound, clock, 100_000)
    first = outbound.rate("us")
    assert first is not None
    assert first.bytes_per_s == pytest.approx(100_000 / 1.2)
    transfer(outbound, clock, 60_000)
    rate = outbound.rate("us")
    assert rate is not None
    assert rate.bytes_per_s == pytest.approx(RATE)
    assert rate.age_s == pytest.approx(1)
    transfer(outbound, clock, 50_000, rate=RATE / 2)
    halved = outbound.rate("us")
    assert halved is not None
    assert halved.bytes_per_s < 0.7 * RATE


def test_a_small_transfer_over_a_fast_link_does_not_slow_it_down() -> None:
    clock = Clock()
    outbound = Outbound(clock)
    transfer(outbound, clock, 20_000_000, 100, rate=10e6)
    before = outbound.rate("us")
    transfer(outbound, clock, 20_000, rate=10e6)
    after = outbound.rate("us")
    assert before is not None
    assert after is not None
    assert after.bytes_per_s == before.bytes_per_s


def test_a_link_that_stays_busy_is_measured_anew() -> None:
    clock = Clock()
    outbound = Outbound(clock)
    call = outbound.call("us", "q.c1.eu", 0)
    for epoch in range(40):
        call.sent(epoch, 50_000)
    for epoch in range(40):
        clock.now_s += 50_000 / (RATE if epoch < 20 else RATE / 4)
        call.stored(50_000)
    rate = outbound.rate("us")
    assert rate is not None
    assert rate.bytes_per_s == pytest.approx(RATE / 4)
    assert 20 * 50_000 / RATE > STRETCH_S


def test_what_is_under_way_crosses_the_link_unless_it_is_overdue() -> None:
    clock = Clock()
    outbound = Outbound(clock)
    transfer(outbound, clock, 100_000, 30_000)
    call = outbound.call("us", "q.c1.eu", 7)
    assert outbound.stored_before("us", "q.c1.eu") == 7
    call.sent(7, 50_000)
    call.sent(8, 0)
    clock.now_s += 0.25
    assert outbound.crossed_bytes("us") == pytest.approx(25_000)
    clock.now_s += 0.5
    assert outbound.crossed_bytes("us") == 50_000
    clock.now_s += 10
    assert outbound.crossed_bytes("us") == 0, "it is stuck"
    call.stored(50_000)
    assert outbound.stored_before("us", "q.c1.eu") == 9
    outbound.end("us", "q.c1.eu", call)
    assert outbound.stored_before("us", "q.c1.eu") is None
    assert outbound.crossed_bytes("us") == 0


@given(st.lists(st.tuples(st.sampled_from(["sent", "stored", "again"]), st.integers(0, 10**6), st.floats(0, 3))))
def test_whatever_a_reader_does_figures_make_sense(steps: list[tuple[str, int, float]]) -> None:
    clock = Clock()
    outbound = Outbound(clock)
    call, epoch = outbound.call("us", "c", 0), 0
    for what, size_bytes, wait_s in steps:
        clock.now_s += wait_s
        if what == "sent":
            call.sent(epoch, size_bytes)
            epoch += 1
        elif what == "stored":
            call.stored(size_bytes)
        else:
            outbound.end("us", "c", call)
            epoch = call.next_epoch
            call = outbound.call("us", "c", epoch)
        stored = outbound.stored_before("us", "c")
        assert stored is not None
        assert stored <= epoch
        assert outbound.crossed_bytes("us") >= 0
        rate = outbound.rate("us")
        assert rate is None or rate.bytes_per_s > 0


SEED_BYTES = 200_000
BUSY_BYTES = LITTLE_BYTES + 1


def test_what_yields_sends_while_hardly_any_data_is_on_its_way() -> None:
    outbound = Outbound(Clock())
    data = outbound.call("us", "q.s1.eu", 0)
    seed = outbound.call("us", "q.m1.g1.seed", 0, yields=True)
    assert seed.may_send(SEED_BYTES)
    outbound.call("us", "q.m0.eu", 0).sent(0, 100)
    assert seed.may_send(SEED_BYTES)
    data.sent(0, BUSY_BYTES)
    assert not seed.may_send(SEED_BYTES)
    outbound.call("asia", "q.s2.eu", 0).sent(0, BUSY_BYTES)
    data.stored(BUSY_BYTES)
    assert seed.may_send(SEED_BYTES), "data that is on its way to another site takes another link"


def test_what_yields_has_little_under_way_but_always_one_epoch() -> None:
    outbound = Outbound(Clock())
    seed = outbound.call("us", "q.m1.g1.seed", 0, yields=True)
    assert seed.may_send(10 * YIELDING_BYTES)
    seed.sent(0, SEED_BYTES)
    assert seed.may_send(YIELDING_BYTES - SEED_BYTES)
    assert not seed.may_send(YIELDING_BYTES)


@given(st.lists(st.integers(1, 500_000), min_size=1, max_size=60))
def test_beside_data_that_fills_the_link_what_yields_gets_a_fifth_and_never_less(sizes: list[int]) -> None:
    outbound = Outbound(Clock())
    data, seed = outbound.call("us", "q.s1.eu", 0), outbound.call("us", "q.m1.g1.seed", 0, yields=True)
    stored = sent = 0
    data.sent(0, BUSY_BYTES)
    for epoch, size_bytes in enumerate(sizes):
        data.sent(epoch + 1, size_bytes)
        data.stored(size_bytes)
        stored += size_bytes
        while seed.may_send(SEED_BYTES):
            seed.sent(sent, SEED_BYTES)
            seed.stored(SEED_BYTES)
            sent += 1
    assert DATA_SHARE * SEED_BYTES * sent <= stored
    assert stored < (sent + 1) * (DATA_SHARE * SEED_BYTES + max(sizes))


async def test_what_yields_goes_on_when_the_call_before_it_ends() -> None:
    outbound = Outbound(Clock())
    data, seed = outbound.call("us", "q.s1.eu", 0), outbound.call("us", "q.m1.g1.seed", 0, yields=True)
    data.sent(0, BUSY_BYTES)
    waiting = asyncio.create_task(seed.turn(SEED_BYTES))
    await asyncio.sleep(0)
    assert not waiting.done()
    outbound.end("us", "q.s1.eu", data)
    await waiting
