"""How long threads wait for a CPU, by the kernel's accounting."""

from __future__ import annotations

from pathlib import Path

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Nanoseconds on a CPU, nanoseconds ready to run and waiting for one, number of turns."""


def cpu_wait_s() -> float:
    """Seconds that this thread has waited for a CPU since it began; 0 where the kernel does not count them."""
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
