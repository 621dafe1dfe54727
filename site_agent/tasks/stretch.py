"""The factor by which the tasks of a process stretch their epoch intervals, and what it follows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from machine.clock import Clock
from planner.epochs.stretch import Load, stretch_after, stretched

logger = logging.getLogger(__name__)

TICK_S = 0.25
TICKS = 8
"""So many ticks of the event loop are one measurement."""


class Stretch:
    """One for all tasks of a process, for its event loop."""

    def __init__(self) -> None:
        self._factor = 1.0
        self._epochs = 0

    def count_epoch(self) -> None:
        """An epoch ran Spark."""
        self._epochs += 1

    def interval(self, configured: timedelta) -> timedelta:
        """The epoch interval for now."""
        return stretched(configured, self._factor)

    async def follow(self, clock: Clock, cpu_used: Callable[[], float], cpus: float) -> None:
        """Follow the load until cancelled.

        Args:
            cpu_used: The share of the CPU that was used since it was called last, 0 to 1; does not block.
            cpus: How many this process may use.
        """
        cpu_used()
        while True:
            late_s, began_s, self._epochs = 0.0, clock.monotonic(), 0
            for _ in range(TICKS):
                due_s = clock.monotonic() + TICK_S
                await clock.sleep(TICK_S)
                late_s += clock.monotonic() - due_s
            epochs_per_s = self._epochs / (clock.monotonic() - began_s)
            self._take(Load(cpu_used(), late_s / TICKS, epochs_per_s, cpus))

    def _take(self, load: Load) -> None:
        before, self._factor = self._factor, stretch_after(self._factor, load)
        if (before == 1) != (self._factor == 1):
            logger.info(
                "epoch intervals %s cpu_used=%.2f late_s=%.2f epochs_per_s=%.0f",
                "as configured again" if self._factor == 1 else "stretched",
                load.cpu_used,
                load.late_s,
                load.epochs_per_s,
            )
