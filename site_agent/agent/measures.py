"""Measures what reports contain, in a thread of its own: no heartbeat waits for a busy disk, JVM or thread pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from site_agent.agent.disk_use import DiskUse
from site_agent.agent.memory import MemoryUse
from site_agent.ingest import StreamLog


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one measurement."""

    memory: MemoryUse = field(default_factory=MemoryUse)
    """Of this process and its child processes."""
    logs: Sequence[StreamLog] = ()
    """Of the streams that clients push to at the site."""
    disk: DiskUse = field(default_factory=DiskUse)
    """The site's figures."""


class Measures:
    """Repeats measurements, one at a time."""

    def __init__(
        self,
        memory: Callable[[], MemoryUse] = MemoryUse,
        logs: Callable[[], Sequence[StreamLog]] = tuple,
        disk: Callable[[], DiskUse] = DiskUse,
    ) -> None:
        """
        Args:
            memory: Measures the memory; may block.
            logs: Lists the streams' logs; may block.
            disk: Measures the disk use; may block.
        """
        self._memory = memory
        self._logs = logs
        self._disk = disk
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="measures")
        self._running: asyncio.Future[Measured] | None = None
        self._newest = Measured()

    @property
    def last(self) -> Measured:
        """The figures that `newest` returned last."""
        return self._newest

    async def newest(self, patience_s: float) -> Measured:
        """Wait up to `patience_s` for a measurement, and return the newest that is complete.

        Before the first one is complete, its figures are those of `Measured()`.
        """
        if self._running is None:
            self._running = asyncio.get_running_loop().run_in_executor(self._pool, self._measure)
        await asyncio.wait({self._running}, timeout=patience_s)
        if self._running.done():
            running, self._running = self._running, None
            self._newest = running.result()
        return self._newest

    def close(self) -> None:
        """Start no further measurement."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _measure(self) -> Measured:
        return Measured(self._memory(), self._logs(), self._disk())
