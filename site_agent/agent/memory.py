"""What an agent's process and its JVM take of the machine's memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil
from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class HeapUse:
    """A JVM's heap, in bytes."""

    used_bytes: int = 0
    """Objects and garbage."""
    committed_bytes: int = 0
    """Taken from the system."""
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of one process, its JVM and whatever else it started; all its sites share it."""

    agent_bytes: int = 0
    jvm_bytes: int = 0
    """Resident memory of the JVM and all other children."""
    heap: HeapUse = HeapUse()
    sites: int = 1

    @property
    def total_bytes(self) -> int:
        return self.agent_bytes + self.jvm_bytes


def memory_use(heap: Callable[[], HeapUse], sites: int) -> MemoryUse:
    """Measured now. Blocks for some milliseconds."""
    process = psutil.Process()
    children = 0
    for member in process.children(recursive=True):
        # A child may end between being listed and being asked.
        with suppress(psutil.NoSuchProcess):
            children += member.memory_info().rss
    return MemoryUse(process.memory_info().rss, children, heap(), sites)


def heap_use(session: SparkSession) -> HeapUse:
    """The heap of the session's JVM."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    usage = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
    return HeapUse(usage.getUsed(), usage.getCommitted(), usage.getMax())
