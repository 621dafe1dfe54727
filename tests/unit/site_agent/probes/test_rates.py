from __future__ import annotations

import pytest

from site_agent.probes.rates import steady_rate, train_rate
from site_agent.probes.train import FEWEST_PACKETS, MOST_PACKETS, PACKET_BYTES, packets_for


def test_a_trains_rate_is_that_of_the_gaps() -> None:
    """20 Mbit/s on the wire, behind a dozen packets that passed at once."""
    gap_s = (PACKET_BYTES + 42) * 8 / 20e6
    arrivals = [0.0] * 12 + [gap_s * n for n in range(1, 60)]
    rate = train_rate(arrivals, PACKET_BYTES)
    assert rate is not None
    assert rate * 8 == pytest.approx(20e6 * 0.9564, rel=0.001)


@pytest.mark.parametrize("arrivals", [[], [1.0], [0.1, 0.2, 0.3], [5.0] * 40])
def test_too_little_to_tell(arrivals: list[float]) -> None:
    assert train_rate(arrivals, PACKET_BYTES) is None


def test_slow_start_and_the_cut_interval_do_not_count() -> None:
    intervals = [(0.1, 10), (0.1, 20), (0.1, 100), (0.1, 110), (0.1, 90), (0.03, 5)]
    assert steady_rate(intervals) == pytest.approx(1000.0)
    assert steady_rate(intervals[:1]) is None
    assert steady_rate([]) is None


def test_trains_fill_the_link_for_their_time() -> None:
    assert packets_for(25e6, 0.06) == 1071
    assert packets_for(0.0, 0.06) == FEWEST_PACKETS
    assert packets_for(1e12, 0.06) == MOST_PACKETS
