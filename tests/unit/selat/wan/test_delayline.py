from __future__ import annotations

import random
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selat.wan.delayline import DelayLine, PairDelay

A, B, C = (socket.inet_aton(f"10.77.0.{n}") for n in (1, 2, 3))


def packet(target: bytes, number: int = 0) -> bytes:
    return bytes([0x45]) + bytes(15) + target + number.to_bytes(4, "big")


def line(**pairs: PairDelay) -> DelayLine:
    named = {"ab": (A, B), "ba": (B, A), "ac": (A, C)}
    return DelayLine({named[name]: delay for name, delay in pairs.items()}, random.Random(5))


def test_a_packet_waits_for_its_pairs_delay() -> None:
    delays = line(ab=PairDelay(0.040), ac=PairDelay(0.010))
    delays.put(A, packet(B), 1.0)
    delays.put(A, packet(C), 1.0)
    assert delays.next_due_s == pytest.approx(1.010)
    assert delays.take(1.005) == []
    assert delays.take(1.020) == [(C, packet(C))]
    assert delays.take(1.041) == [(B, packet(B))]
    assert delays.next_due_s is None


def test_what_has_no_way_is_dropped() -> None:
    delays = line(ab=PairDelay(0.0))
    delays.put(B, packet(A), 1.0)
    delays.put(A, bytes([0x60]) + bytes(40), 1.0)
    assert delays.take(9.0) == []


@given(st.lists(st.floats(0, 0.02), min_size=1, max_size=60), st.floats(0, 0.05))
def test_jitter_keeps_the_order(gaps: list[float], jitter_s: float) -> None:
    delays = line(ab=PairDelay(0.03, jitter_s))
    now_s = 0.0
    for number, gap_s in enumerate(gaps):
        now_s += gap_s
        delays.put(A, packet(B, number), now_s)
    assert [p for _, p in delays.take(now_s + 1)] == [packet(B, number) for number in range(len(gaps))]


def test_loss_takes_its_share() -> None:
    delays = line(ab=PairDelay(0.0, loss=0.25))
    for number in range(4000):
        delays.put(A, packet(B, number), 1.0)
    assert 900 < 4000 - len(delays.take(2.0)) < 1100


def test_a_shorter_delay_does_not_overtake() -> None:
    delays = line(ab=PairDelay(0.100))
    delays.put(A, packet(B, 1), 1.0)
    delays.change({"from": "10.77.0.1", "to": "10.77.0.2", "delay_us": 0, "jitter_us": 0, "loss": 0.0})
    delays.put(A, packet(B, 2), 1.01)
    assert [p for _, p in delays.take(1.2)] == [packet(B, 1), packet(B, 2)]
    delays.put(A, packet(B, 3), 2.0)
    assert delays.take(2.0) == [(B, packet(B, 3))]
