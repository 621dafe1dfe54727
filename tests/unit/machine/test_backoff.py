from __future__ import annotations

from machine.backoff import delay_after


def test_the_last_delay_stays() -> None:
    assert [delay_after(failures, (0.5, 1.0)) for failures in range(4)] == [0.5, 1.0, 1.0, 1.0]
