from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

from planner.epochs.stretch import LONGEST
from site_agent.tasks.stretch import Stretch
from tests.unit.site_agent.fakes import VirtualClock

SECOND = timedelta(seconds=1)


class LateClock(VirtualClock):
    """Every sleep takes so much longer."""

    def __init__(self, late_s: float) -> None:
        super().__init__()
        self.late_s = late_s

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + self.late_s)


async def after(stretch: Stretch, clock: VirtualClock, used: list[float], epochs: int = 1000) -> timedelta:
    """The interval after measurements of these shares, with so many epochs before each."""
    shares: Iterator[float] = iter([0.0, *used])

    class Counting(VirtualClock):
        """Epochs run while it sleeps."""

        async def sleep(self, seconds: float) -> None:
            for _ in range(epochs):
                stretch.count_epoch()
            await clock.sleep(seconds)

        def monotonic(self) -> float:
            return clock.monotonic()

    with suppress(StopIteration, RuntimeError):
        await asyncio.wait_for(stretch.follow(Counting(), lambda: next(shares), 2.0), 5)
    return stretch.interval(SECOND)


async def test_intervals_are_stretched_while_the_cpu_is_full_and_come_back() -> None:
    stretch, clock = Stretch(), VirtualClock()
    assert stretch.interval(SECOND) == SECOND
    assert await after(stretch, clock, [1.0] * 3) > 3 * SECOND
    assert await after(stretch, clock, [1.0] * 20) == LONGEST
    assert await after(stretch, clock, [0.1] * 100) == SECOND


async def test_a_late_event_loop_stretches_them_too() -> None:
    assert await after(Stretch(), LateClock(0.5), [0.2]) > SECOND
    assert await after(Stretch(), LateClock(0.01), [0.2]) == SECOND


async def test_few_epochs_are_not_what_fills_the_cpu() -> None:
    assert await after(Stretch(), VirtualClock(), [1.0] * 20, epochs=1) == SECOND
