from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from site_agent.router.backoff import Backoff


def test_delays_double_up_to_the_longest_and_begin_again() -> None:
    backoff = Backoff(lambda: 0.0)
    assert [backoff.next_delay_s() for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    backoff.reset()
    assert backoff.next_delay_s() == 0.1


def test_one_delay_can_be_limited() -> None:
    backoff = Backoff(lambda: 0.0)
    assert [backoff.next_delay_s(longest_s=0.3) for _ in range(3)] == [0.1, 0.2, 0.3]
    assert backoff.next_delay_s() == 0.8


@given(jitter=st.floats(0, 1, exclude_max=True), failures=st.integers(1, 2000))
def test_jitter_shortens_by_half_at_most(jitter: float, failures: int) -> None:
    backoff, plain = Backoff(lambda: jitter), Backoff(lambda: 0.0)
    delays = [(backoff.next_delay_s(), plain.next_delay_s()) for _ in range(failures)]
    assert all(full / 2 <= delay <= full <= 5.0 for delay, full in delays)
