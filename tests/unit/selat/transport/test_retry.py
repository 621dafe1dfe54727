from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from selat.errors import ConnectionLost, Unavailable
from selat.transport.retry import Reconnect


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


def reconnect(clock: Clock, patience_s: float) -> Reconnect:
    return Reconnect(timedelta(seconds=patience_s), "results of q", now=clock.now, sleep=clock.sleep)


def test_pauses_grow_and_stay_bounded() -> None:
    clock = Clock()
    retry = reconnect(clock, 1000)
    for _ in range(20):
        retry.failed(Unavailable("away"))
    assert 0.05 <= clock.pauses[0] <= 0.1
    assert 1.5 <= clock.pauses[-1] <= 3.0


def test_gives_up_when_the_patience_is_used_up() -> None:
    clock = Clock()
    retry = reconnect(clock, 10)
    while clock.now_s < 110.0:
        retry.failed(Unavailable("away"))
    with pytest.raises(ConnectionLost, match="away; gave up after 10 s"):
        retry.failed(Unavailable("away"))
    assert clock.now_s == pytest.approx(110.0)


def test_an_answer_starts_the_count_anew() -> None:
    clock = Clock()
    retry = reconnect(clock, 10)
    for _ in range(100):
        retry.failed(Unavailable("away"))
        retry.answered()
    assert max(clock.pauses) <= 0.1


def test_asks_until_it_is_answered() -> None:
    clock = Clock()
    answers: Iterator[Unavailable | int] = iter([Unavailable("away"), Unavailable("away"), 7])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    assert reconnect(clock, 10).until_answered(ask) == 7
    assert len(clock.pauses) == 2


def test_asks_no_longer_than_the_patience_lasts() -> None:
    def ask() -> int:
        raise Unavailable("away")

    with pytest.raises(ConnectionLost, match="gave up after 10 s"):
        reconnect(Clock(), 10).until_answered(ask)
