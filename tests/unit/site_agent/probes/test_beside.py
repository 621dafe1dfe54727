from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence

import pytest

from site_agent.probes.beside import Counts, Meter, _messages, _read, received_bytes


def meter(*looks: Counts | None) -> Meter:
    """One that sees these counters, a look each."""
    left: Iterator[Counts | None] = iter(looks)
    return Meter(lambda: next(left))


def noted(of: Meter, moments_s: Sequence[float]) -> Meter:
    for moment_s in moments_s:
        of.note(moment_s)
    return of


def test_a_rate_is_what_came_between_two_moments() -> None:
    counted = noted(meter({1: 1000}, {1: 1100}, {1: 1300}), [10.0, 11.0, 12.0])
    assert counted.bytes_per_s(10.0, 12.0) == pytest.approx(150.0)
    assert counted.bytes_per_s(10.5, 11.5) == pytest.approx(150.0)
    assert counted.bytes_per_s(11.0, 20.0) == pytest.approx(200.0 / 9)
    assert counted.bytes_per_s(12.0, 12.0) is None


def test_connections_come_and_go() -> None:
    counted = noted(meter({1: 1000}, {1: 1100, 2: 50}, {2: 80}, {2: 80, 3: 7}), [0.0, 1.0, 2.0, 3.0])
    assert counted.bytes_per_s(0.0, 1.0) == pytest.approx(150.0)
    assert counted.bytes_per_s(1.0, 2.0) == pytest.approx(30.0)
    assert counted.bytes_per_s(2.0, 3.0) == pytest.approx(7.0)


def test_no_connection_is_no_traffic_and_no_counters_is_no_answer() -> None:
    assert noted(meter({}, {}), [0.0, 1.0]).bytes_per_s(0.0, 1.0) == 0.0
    assert noted(meter(None), [0.0, 1.0]).bytes_per_s(0.0, 1.0) is None
    assert noted(meter({}), [0.0]).bytes_per_s(0.0, 1.0) is None


def test_looks_that_follow_too_soon_are_left_out() -> None:
    counted = noted(meter({1: 0}, {1: 10}), [0.0, 0.001, 0.009, 0.02, 0.021])
    assert counted.bytes_per_s(0.0, 0.02) == pytest.approx(500.0)


def test_the_second_half_of_the_time_in_which_bytes_came_is_steady() -> None:
    counted = noted(meter({}, {}, {5: 10}, {5: 20}, {5: 30}, {5: 30}), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert counted.steady() == (2.5, 4.0)
    assert noted(meter({}, {5: 10}), [0.0, 1.0]).steady() is None


def test_the_kernels_answer_is_read() -> None:
    """Two connections in one answer, as Linux 6.1 sends them but for what is not looked at."""
    info = bytes(128) + (4711).to_bytes(8, sys.byteorder) + bytes(8)
    attributes = struct.pack("=HH", 4 + 1, 8) + b"x\0\0\0" + struct.pack("=HH", 4 + len(info), 2) + info
    one = struct.pack("=BBBB2s2s16s16sIQ20x", 2, 1, 0, 0, b"\1\2", b"\3\4", bytes(16), b"\x0a\x4d" + bytes(14), 0, 99)
    body = one + attributes
    message = struct.pack("=IHHII", 16 + len(body), 20, 2, 0, 0) + body
    other = struct.pack("=IHHII", 16 + len(one), 20, 2, 0, 0) + one
    (first, second) = _messages(message + other)
    assert first == (20, body)
    assert _read(first[1]) == (99, b"\x0a\x4d" + bytes(14), 4711)
    assert _read(second[1]) == (99, b"\x0a\x4d" + bytes(14), None)
    assert _messages(b"\1\0\0\0" + bytes(12)) == []


def test_a_name_is_no_address() -> None:
    assert received_bytes(remote=("eu.example.com", 7411)) is None
