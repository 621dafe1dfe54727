from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.router.meter import (
    GAP_S,
    KEEP_S,
    LEAST_BYTES,
    LEAST_S,
    SETTLE_S,
    Arrival,
    LinkMeter,
    LinkTransfer,
    Stretch,
    TransferMeter,
    times_of,
)
from tests.unit.site_agent.router.hand import HandClock

RATE = 2.4e6
MIB = 1 << 20


def back_to_back(
    sizes: Iterable[int], *, rate: float = RATE, from_s: float = 100.0, idle_s: float = 0.0
) -> list[Arrival]:
    """Messages over a link of that rate whose sender pauses so long before each."""
    arrivals, now_s = [], from_s
    for size in sizes:
        at_s = now_s + idle_s + size / rate
        arrivals.append(Arrival(now_s, at_s, size, at_s - now_s, idle_s))
        now_s = at_s
    return arrivals


def fed(*transfers: Sequence[Arrival]) -> LinkMeter:
    meter = LinkMeter()
    for number, arrival in sorted(
        ((n, a) for n, arrivals in enumerate(transfers) for a in arrivals), key=lambda entry: entry[1].at_s
    ):
        meter.add(number, arrival, in_epoch=False)
    return meter


def taken(*transfers: Sequence[Arrival]) -> tuple[Stretch, ...]:
    end_s = max((a.at_s for arrivals in transfers for a in arrivals), default=100.0)
    return fed(*transfers).take(end_s + SETTLE_S)


def rate_of(stretch: Stretch | LinkTransfer) -> float:
    return stretch.size_bytes / stretch.duration_s


def test_back_to_back_messages_are_what_the_link_carries() -> None:
    (stretch,) = taken(back_to_back([100_000] * 48))
    assert rate_of(stretch) == pytest.approx(RATE, rel=0.01)
    assert stretch.link_bound
    assert stretch.duration_s == pytest.approx(1.0)
    assert stretch.ended_s == pytest.approx(102.0)


def test_a_sender_that_pauses_shows_what_the_link_carries_at_least() -> None:
    for pausing in (back_to_back([100_000] * 48, idle_s=0.02), back_to_back([5_000] * 2000, idle_s=0.004)):
        (stretch,) = taken(pausing)
        assert not stretch.link_bound
        assert rate_of(stretch) == pytest.approx(pausing[5].size_bytes / pausing[5].span_s, rel=0.02)


def test_a_sender_that_pauses_for_long_shows_nothing() -> None:
    assert taken(back_to_back([600_000] * 48, idle_s=0.26)) == ()


def test_a_pause_that_the_senders_socket_bridges_is_none() -> None:
    """The sender is far ahead, pauses, and is ahead again, while messages come all the same."""
    steady = back_to_back([100_000] * 48)
    bridged = [replace(a, idle_s=0.4 if n % 12 == 0 else 0.0) for n, a in enumerate(steady)]
    (stretch,) = taken(bridged)
    assert rate_of(stretch) == pytest.approx(RATE, rel=0.01)


def test_short_pauses_are_none() -> None:
    (stretch,) = taken(back_to_back([50_000] * 100, idle_s=0.003))
    assert rate_of(stretch) == pytest.approx(50_000 / (50_000 / RATE + 0.003), rel=0.02)
    assert stretch.link_bound


def test_a_sender_that_does_not_say_so_measures_nothing() -> None:
    assert (
        taken([Arrival(a.after_s, a.at_s, a.size_bytes, a.waited_s, None) for a in back_to_back([100_000] * 48)]) == ()
    )


def test_a_reader_that_is_busy_measures_nothing() -> None:
    slow = [Arrival(a.after_s, a.at_s, a.size_bytes, 0.1 * a.span_s, 0.0) for a in back_to_back([100_000] * 48)]
    assert taken(slow) == ()


def test_short_and_small_stretches_do_not_tell() -> None:
    assert taken(back_to_back([100_000] * 8)) == ()
    assert taken(back_to_back([1_000] * 200, rate=1e5)) == ()
    assert taken() == ()


def test_a_stretch_that_goes_on_is_told_piece_by_piece_and_each_byte_once() -> None:
    arrivals, meter = back_to_back([100_000] * 240), LinkMeter()
    stretches: list[Stretch] = []
    now_s = 100.0
    for arrival in arrivals:
        if arrival.at_s > now_s:
            stretches += meter.take(now_s)
            now_s += 1.0
        meter.add(0, arrival, in_epoch=True)
    stretches += meter.take(now_s + 1.0)
    assert len(stretches) > 5
    assert all(rate_of(s) == pytest.approx(RATE, rel=0.01) and s.link_bound for s in stretches)
    for before, after in pairwise(stretches):
        assert after.ended_s - after.duration_s == pytest.approx(before.ended_s)
    assert sum(s.size_bytes for s in stretches) <= sum(a.size_bytes for a in arrivals)


def test_transfers_beside_each_other_count_together() -> None:
    """Two that share the link; only one has always more to send."""
    full = back_to_back([MIB] * 12, rate=RATE * 0.75)
    beside = [Arrival(100.0 + k, 101.0 + k, round(RATE * 0.25), 1.0, 0.2) for k in range(7)]
    (stretch,) = taken(full, beside)
    assert rate_of(stretch) == pytest.approx(RATE, rel=0.05)


def test_what_is_still_on_the_link_is_waited_for() -> None:
    """A piece of another transfer's epoch is under way: how much of it came by now is known only once it has come."""
    meter = fed(back_to_back([100_000] * 60, rate=RATE / 2))
    meter.add(7, Arrival(100.0, 100.1, 1000, 0.1, None), in_epoch=True)
    assert meter.take(110.0) == ()
    meter.add(7, Arrival(100.1, 105.1, round(5 * RATE / 2), 5.0, 0.0), in_epoch=False)
    (stretch,) = meter.take(110.0)
    assert rate_of(stretch) == pytest.approx(RATE, rel=0.03)


def test_a_transfer_that_ended_is_not_waited_for() -> None:
    meter = fed(back_to_back([100_000] * 48))
    meter.add(7, Arrival(99.0, 99.5, 1000, 0.5, None), in_epoch=True)
    meter.end(7)
    assert len(meter.take(103.0)) == 1


def test_what_grows_shows_nothing() -> None:
    """TCP's slow start: every round trip twice as many bytes."""
    arrivals, now_s = [], 100.0
    for step in range(8):
        rate = 10_000 * 2**step
        arrivals += back_to_back([rate // 40] * 8, rate=rate, from_s=now_s)
        now_s = arrivals[-1].at_s
    assert taken(arrivals) == ()


def test_a_recorded_series() -> None:
    """Epochs of 300 kB over an emulated link of 20 Mbit/s and 40 ms: slow start, a loss in the third second, and
    10 Mbit/s from the seventh second on. Epochs are always there to be sent, but for pauses that the socket bridged."""
    recorded = json.loads(Path(__file__).with_name("halved_link.json").read_text())
    seen: list[Stretch] = []
    meter, now_s = LinkMeter(), 0.0
    for after_s, at_s, size_bytes, waited_s, idle_s in recorded:
        while at_s > now_s:
            seen += meter.take(now_s)
            now_s += 1.0
        meter.add(0, Arrival(after_s, at_s, size_bytes, waited_s, idle_s), in_epoch=False)
    payload = 1448 / 1514 / 8 * 1e6
    fast = [s for s in seen if s.ended_s < 6.5]
    slow = [s for s in seen if s.ended_s - s.duration_s > 6.5]
    assert [len(fast), len(slow), len(seen)] == [3, 5, 9]
    assert all(rate_of(s) == pytest.approx(20 * payload, rel=0.04) for s in fast)
    assert all(rate_of(s) == pytest.approx(10 * payload, rel=0.02) for s in slow)
    assert [s.link_bound for s in slow][-4:] == [True] * 4


def test_a_link_that_is_halved_is_told_as_such_once_it_is_steady() -> None:
    first = back_to_back([100_000] * 72)
    second = back_to_back([100_000] * 72, rate=RATE / 2, from_s=first[-1].at_s)
    stretches: list[Stretch] = []
    meter, now_s = LinkMeter(), 100.0
    for arrival in first + second:
        while arrival.at_s > now_s:
            stretches += meter.take(now_s)
            now_s += 1.0
        meter.add(0, arrival, in_epoch=True)
    bound = [rate_of(s) for s in stretches if s.link_bound]
    assert bound[0] == pytest.approx(RATE, rel=0.01)
    assert bound[-1] == pytest.approx(RATE / 2, rel=0.01)
    assert all(rate > RATE * 0.85 or rate < RATE * 0.65 for rate in bound)


def test_what_nobody_takes_is_forgotten() -> None:
    meter = fed(back_to_back([100_000] * 48))
    assert meter.take(102.0 + KEEP_S + 1) == ()
    endless = LinkMeter()
    for arrival in back_to_back([10] * 50_000, rate=1e6):
        endless.add(0, arrival, in_epoch=True)
    assert len(endless._arrivals) <= 20_000


@given(
    st.lists(
        st.tuples(st.floats(0, 0.3), st.floats(0, 1), st.floats(0, 1), st.integers(0, MIB), st.integers(0, 2)),
        max_size=60,
    ),
    st.lists(st.floats(0, 40), max_size=8),
)
def test_never_more_than_came_and_no_moment_twice(
    messages: list[tuple[float, float, float, int, int]], takes: list[float]
) -> None:
    """Whatever comes of three transfers, and whenever it is asked for."""
    last, now_s = dict.fromkeys(range(3), 100.0), 100.0
    arrivals = []
    for span, waited, idle, size, transfer in messages:
        now_s += span / 3
        length = now_s - last[transfer]
        arrivals.append((transfer, Arrival(last[transfer], now_s, size, waited * length, idle**4 * length)))
        last[transfer] = now_s
    stretches: list[Stretch] = []
    meter, asked = LinkMeter(), sorted(100.0 + t for t in takes)
    for transfer, arrival in arrivals:
        while asked and asked[0] < arrival.at_s:
            stretches += meter.take(asked.pop(0))
        meter.add(transfer, arrival, in_epoch=arrival.size_bytes % 2 == 0)
    stretches += meter.take(now_s + 2 * SETTLE_S)
    assert sum(s.size_bytes for s in stretches) <= sum(a.size_bytes for _, a in arrivals) + len(stretches)
    for stretch in stretches:
        assert stretch.duration_s >= LEAST_S
        assert stretch.size_bytes >= LEAST_BYTES
        assert stretch.ended_s <= now_s + SETTLE_S
    for before, after in pairwise(stretches):
        assert after.ended_s - after.duration_s >= before.ended_s - 1e-6


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(10_000, 100_000)), min_size=120, max_size=300),
    st.floats(1e5, 1e8),
)
def test_a_link_that_transfers_share_and_fill_is_what_it_is(messages: list[tuple[int, int]], rate: float) -> None:
    """Messages of three transfers, one after the other as they take their turns."""
    last, now_s = dict.fromkeys(range(3), 100.0), 100.0
    stretches: list[Stretch] = []
    meter, asked_s = LinkMeter(), 100.0
    for transfer, size_bytes in messages:
        now_s += size_bytes / rate
        while now_s > asked_s:
            stretches += meter.take(asked_s)
            asked_s += 1.0
        meter.add(transfer, Arrival(last[transfer], now_s, size_bytes, now_s - last[transfer], 0.0), in_epoch=True)
        last[transfer] = now_s
    stretches += meter.take(now_s + SETTLE_S)
    assert all(s.link_bound and rate_of(s) == pytest.approx(rate, rel=0.25) for s in stretches)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 2), st.booleans()), max_size=30))
def test_times_are_in_order_and_are_those_of_awaited_messages(spans: list[tuple[float, float, bool]]) -> None:
    """Against a look at each moment by itself."""
    arrivals = [Arrival(b, b + n, 1, n, 0.0 if sending else None) for b, n, sending in spans]
    awaited = [a for a in arrivals if a.awaited]
    times = list(times_of(arrivals, 1.0, 6.0))
    for begin_s, end_s in times:
        assert 1.0 <= begin_s < end_s <= 6.0
    for edge_s in sorted({1.0, 6.0, *(a.after_s for a in arrivals), *(a.at_s for a in arrivals)}):
        for moment_s in (edge_s - 1e-7, edge_s + 1e-7):
            within = any(begin_s <= moment_s <= end_s for begin_s, end_s in times)
            if 1.0 < moment_s < 6.0 and any(a.after_s < moment_s < a.at_s for a in awaited):
                assert within
            if not any(a.after_s - GAP_S <= moment_s <= a.at_s + GAP_S for a in awaited):
                assert not within
    assert all(second[0] - first[1] > GAP_S for first, second in pairwise(times))


async def test_a_call_is_metered_as_it_is_read() -> None:
    clock = HandClock()
    meter = TransferMeter()
    meter.set_clocks({"ewr": clock})

    async def link() -> AsyncIterator[bytes]:
        for _ in range(40):
            clock.now_s += 0.05
            yield bytes(120_000)

    with meter.transfer("ewr") as transfer:
        async for message in transfer.timed(link()):
            transfer.count(len(message), idle_s=0.0, in_epoch=True)
            clock.now_s += 0.001
    clock.now_s += SETTLE_S + 0.5
    (found,) = meter.take()
    assert found.from_site == "ewr"
    assert rate_of(found) == pytest.approx(120_000 / 0.051, rel=0.01)
    assert found.age_s == pytest.approx(SETTLE_S + 0.501)
    assert found.link_bound
    assert meter.take() == ()
