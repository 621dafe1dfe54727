from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.links import ShapedLink, TokenBucket


def test_bytes_beyond_the_burst_wait_for_their_turn() -> None:
    bucket = TokenBucket(1000, burst_s=0.1)
    assert bucket.wait_s(100, now_s=5.0) == 0
    assert bucket.wait_s(100, now_s=5.0) == pytest.approx(0.1)
    assert bucket.wait_s(100, now_s=5.1) == pytest.approx(0.1)
    assert bucket.wait_s(100, now_s=9.0) == 0


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(1, 10_000)), min_size=1, max_size=40))
def test_no_more_passes_than_rate_and_burst_allow(steps: list[tuple[float, int]]) -> None:
    bucket = TokenBucket(1000, burst_s=0.1)
    now_s = total_bytes = 0.0
    for pause_s, size_bytes in steps:
        now_s += pause_s
        now_s += bucket.wait_s(size_bytes, now_s=now_s)
        total_bytes += size_bytes
        assert total_bytes <= 1000 * (now_s + 0.1) + 1e-3


@pytest.mark.timeout(20)
def test_a_link_passes_both_ways_and_counts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(100) * 2)

        thread = threading.Thread(target=echo)
        thread.start()
        with ShapedLink(server.getsockname()[1], 1e8) as link:
            with socket.create_connection(("127.0.0.1", link.port)) as client:
                client.sendall(b"hello")
                received = b""
                while len(received) < 10:
                    received += client.recv(100)
            thread.join()
            assert received == b"hellohello"
            assert (link.received_bytes, link.sent_bytes) == (5, 10)
