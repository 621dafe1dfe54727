"""When CPU is short, all tasks of an agent have fewer and larger epochs.

An epoch costs something whatever it holds, so larger ones make room. An agent without room does not only queue epochs:
its event loop comes late, other sites wait for their rows and the master for heartbeats. So intervals are stretched
until some CPU is left, and no further, because results are late by the interval. Where it is rows that fill the CPU, or
another process, longer intervals would only make results late: they stay. The factor rises fast, since a backlog grows
meanwhile, and falls slowly, so as not to swing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

MOST = 16.0
LONGEST = timedelta(seconds=5)
"""No interval is stretched beyond this; one that is configured longer stays as it is."""
FULL = 0.92
"""From this share of the CPU on there is too little left."""
ROOM = 0.8
"""Below this share of the CPU there is room for smaller epochs."""
LATE_S = 0.2
"""From this lateness on, the event loop has too little of the CPU, or of the interpreter."""
EPOCH_CPU_S = 0.02
"""What an epoch costs whatever it holds; measured 0.013 to 0.028 s (`benchmarks.stages`)."""
WORTH = 0.25
"""From this share of the CPU on, what epochs cost whatever they hold is worth saving."""
GROWTH = 1.5
DECAY = 0.9


@dataclass(frozen=True, slots=True)
class Load:
    """What an agent measured over the last seconds."""

    cpu_used: float
    """Share of the CPU it may use that is used, by itself or by others; 0 to 1."""
    late_s: float
    """How late its event loop was on average."""
    epochs_per_s: float
    """Epochs that ran Spark, of all its tasks."""
    cpus: float
    """How many it may use."""

    @property
    def fixed(self) -> float:
        """The share of the CPU that its epochs cost whatever they hold."""
        return self.epochs_per_s * EPOCH_CPU_S / self.cpus


def stretch_after(stretch: float, load: Load) -> float:
    """The next factor of all intervals, 1 to MOST, after some seconds with this one."""
    if load.cpu_used >= FULL or load.late_s >= LATE_S:
        if load.fixed >= WORTH:
            return min(MOST, stretch * GROWTH)
        # Once it is much less, its epochs are not what fills the CPU.
        return max(1.0, stretch * DECAY) if load.fixed < WORTH / 4 else stretch
    if load.cpu_used < ROOM and load.late_s < LATE_S / 2:
        return max(1.0, stretch * DECAY)
    return stretch


def stretched(interval: timedelta, stretch: float) -> timedelta:
    """The interval with that factor."""
    return max(interval, min(interval * stretch, LONGEST))
