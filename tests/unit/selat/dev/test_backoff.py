from __future__ import annotations

from selat.dev.backoff import Backoff


def test_the_pause_doubles_up_to_its_limit() -> None:
    backoff = Backoff(first_s=0.5, most_s=10.0)
    assert [backoff.pause_s(1.0) for _ in range(7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_long_life_is_forgiven() -> None:
    backoff = Backoff(first_s=0.5, most_s=10.0, forgiven_after_s=60.0)
    assert [backoff.pause_s(lived_s) for lived_s in (1.0, 1.0, 60.0, 1.0)] == [0.5, 1.0, 0.5, 1.0]
