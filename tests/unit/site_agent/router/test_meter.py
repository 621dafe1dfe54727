from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.router.meter import (
    GAP_S,
    KEEP_S,
    LEAST_BYTES,
    LEAST_COVERED,
    LEAST_S,
    SETTLE_S,
    Arrival,
    LinkMeter,
    LinkTransfer,
    Stretch,
    TransferMeter,
    full_between,
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


def test_a_sender_that_pauses_measures_nothing() -> None:
    assert taken(back_to_back([100_000] * 48, idle_s=0.02)) == ()
    assert taken(back_to_back([5_000] * 2000, idle_s=0.004)) == ()


def test_pauses_that_the_sockets_bridge_are_none() -> None:
    (stretch,) = taken(back_to_back([50_000] * 100, idle_s=0.003))
    assert rate_of(stretch) == pytest.approx(50_000 / (50_000 / RATE + 0.003), rel=0.02)


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
    full = back_to_back([MIB] * 6, rate=RATE * 0.75)
    beside = [Arrival(100.0 + k, 101.0 + k, round(RATE * 0.25), 1.0, 0.2) for k in range(4)]
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


def test_what_grows_is_no_more_than_a_lower_bound() -> None:
    """TCP's slow start: every round trip twice as many bytes."""
    arrivals, now_s = [], 100.0
    for step in range(8):
        rate = 10_000 * 2**step
        arrivals += back_to_back([rate // 10] * 2, rate=rate, from_s=now_s)
        now_s = arrivals[-1].at_s
    (stretch,) = taken(arrivals)
    assert not stretch.link_bound


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


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 2), st.booleans()), max_size=30))
def test_full_times_are_in_order_and_covered_by_messages(spans: list[tuple[float, float, bool]]) -> None:
    arrivals = [Arrival(b, b + n, 1, n, 0.0 if full else n) for b, n, full in spans]
    full = [a for a in arrivals if a.full]
    times = list(full_between(arrivals, 1.0, 6.0))
    for begin_s, end_s in times:
        assert 1.0 <= begin_s < end_s <= 6.0
        edges = {begin_s, end_s, *(a.after_s for a in full), *(a.at_s for a in full)}
        inside = sorted(edge for edge in edges if begin_s <= edge <= end_s)
        gaps = [b - a for a, b in pairwise(inside) if not any(f.after_s <= (a + b) / 2 <= f.at_s for f in full)]
        assert sum(gaps) <= (1 - LEAST_COVERED) * (end_s - begin_s) + 1e-9
        assert max(gaps, default=0.0) <= GAP_S + 1e-9
    assert all(first[1] < second[0] for first, second in pairwise(times))


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
