"""The memory of an agent's process and of its JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil
from pyspark.sql import SparkSession

FRESH_S = 1.0
"""How long a measurement serves all sites of the process."""


@dataclass(frozen=True, slots=True)
class HeapUse:
    """The heap of a JVM, in bytes."""

    used_bytes: int = 0
    """Objects and garbage."""
    committed_bytes: int = 0
    """Reserved from the operating system."""
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of one process, its JVM and its other children; all sites of the process share it."""

    agent_bytes: int = 0
    jvm_bytes: int = 0
    """Resident memory of the JVM and all other children."""
    heap: HeapUse = HeapUse()
    sites: int = 1

    @property
    def total_bytes(self) -> int:
        return self.agent_bytes + self.jvm_bytes


class SharedMemory:
    """One measurement for all sites of a process, made anew when it is older than FRESH_S."""

    def __init__(self, measure: Callable[[], MemoryUse], clock: Callable[[], float] = time.monotonic) -> None:
        self._measure = measure
        self._clock = clock
        self._lock = threading.Lock()
        self._last = MemoryUse()
        self._stale_at: float | None = None

    def __call__(self) -> MemoryUse:
        """The newest measurement. May block; from any thread."""
        with self._lock:
            if self._stale_at is None or self._clock() >= self._stale_at:
                self._last = self._measure()
                self._stale_at = self._clock() + FRESH_S
            return self._last


def memory_use(heap: Callable[[], HeapUse], sites: int) -> MemoryUse:
    """The memory now. Blocks for some milliseconds."""
    process = psutil.Process()
    children = 0
    for member in process.children(recursive=True):
        # A child may end after it was listed.
        with suppress(psutil.NoSuchProcess):
            children += member.memory_info().rss
    return MemoryUse(process.memory_info().rss, children, heap(), sites)


def heap_use(session: SparkSession) -> HeapUse:
    """The heap of the session's JVM."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    usage = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
    return HeapUse(usage.getUsed(), usage.getCommitted(), usage.getMax())
