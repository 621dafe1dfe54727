"""What combining tasks send over a narrow link, and when: beside the least, and the delay of sending each epoch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.site_agent.tasks.combining import Load, aligned, compared

MOST_BYTES, MOST_DELAY = 1.25, 1.2

MINUTE = Load(60, 100_000, 5000)
CASES = {
    "10 s, 100 keys": ([Load(10, 100, 500)], 1, 40),
    "10 s, 10,000 uniform keys": ([Load(10, 10_000, 5000)], 1, 50),
    "10 s, 100,000 keys, Zipf": ([Load(10, 100_000, 20_000, 1.1)], 1, 40),
    "1 min, 100,000 keys, Zipf": ([Load(60, 100_000, 5000, 1.1)], 1, 180),
    "1 min, 100,000 uniform keys": ([MINUTE], 1, 180),
    "1 min, 100,000 keys, 4 Mbit/s": ([MINUTE], 4, 180),
    "eight queries, 20,000 keys, Zipf": (aligned(Load(60, 20_000, 1000, 1.1), 8), 1, 120),
}


@pytest.mark.parametrize("name", CASES)
def test_bytes_and_delay(name: str) -> None:
    loads, mbit_per_s, seconds = CASES[name]
    found = compared(loads, mbit_per_s, seconds=seconds)
    assert found.over_least <= MOST_BYTES
    assert found.over_delay <= MOST_DELAY


def test_with_nothing_known_of_the_link_all_leaves_at_the_close() -> None:
    """As it does before anything was sent over it."""
    found = compared([MINUTE], 1, seconds=180, early=False)
    assert found.over_least == pytest.approx(1.0, abs=0.01)
    assert found.over_delay > 1.5


@pytest.mark.parametrize(
    ("loads", "seconds"),
    [([Load(10, 10_000, 5000)], 50), ([Load(60, 100_000, 5000, 1.1)], 180)],
    ids=["10 s, uniform", "1 min, Zipf"],
)
def test_a_link_that_loses_half_of_its_rate_at_the_end_of_a_window(loads: Sequence[Load], seconds: int) -> None:
    def halved(at_s: float) -> float:
        return 0.5 if -1 <= (at_s + 30) % 60 - 30 <= 8 and at_s > 70 else 1.0

    found = compared(loads, halved, seconds=seconds)
    assert found.over_least <= MOST_BYTES
    assert found.over_delay <= MOST_DELAY
