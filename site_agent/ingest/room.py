"""Room in a push log: how much it may hold, and what some reader still needs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta

from contract.times import to_us
from machine.clock import Clock
from site_agent.base.waiters import Waiters
from site_agent.ingest import NoRoom
from site_agent.ingest.kept import KeptRecords
from site_agent.ingest.options import LogLimits
from site_agent.ingest.readers import Readers
from site_agent.ingest.tail import Tail

_MICROSECOND = timedelta(microseconds=1)


class Room:
    """Removes records that every reader has passed. Safe to use from several threads."""

    def __init__(
        self, kept: KeptRecords, tail: Tail, clock: Clock, *, limits: LogLimits, lock: threading.RLock
    ) -> None:
        self._kept = kept
        self._tail = tail
        self._clock = clock
        self._lock = lock
        self._readers = Readers()
        self.limits = limits
        self.changes = Waiters()
        """Woken when there is more room."""
        self.count = 0
        """Incremented whenever there may be more room than before."""

    def set_readers(self, names: Iterable[str]) -> None:
        """Set the readers: a new one retains all records until it advances, a removed one none."""
        with self._lock:
            changed = self._readers.set_names(names)
        if changed:
            self._wake()

    def advance(self, reader: str, record: int) -> None:
        """This reader does not need the records before `record`, also after a crash."""
        with self._lock:
            changed = self._readers.advance(reader, record)
        if changed:
            self._wake()

    def set_limits(self, limits: LogLimits) -> None:
        with self._lock:
            self.limits = limits
        self._wake()

    def trim(self) -> None:
        """Remove records beyond the retention that every reader has passed. Raises OSError."""
        oldest_us = to_us(self._clock.now()) - self.limits.retention // _MICROSECOND
        kept = self._kept
        while kept.segments and kept.segments[0].ends and kept.segments[0].newest_at_us < oldest_us:
            if not self._remove_oldest():
                break
        self.make(0)

    def make(self, size_bytes: int, *, alone: bool = True) -> bool:
        """Remove passed records until this much fits; returns whether it does. An empty log takes anything."""
        kept = self._kept
        while kept.size_bytes + size_bytes > self.limits.retention_bytes:
            if alone and not any(s.ends for s in kept.segments):
                return True
            if not self._remove_oldest():
                return False
        return True

    def none(self) -> NoRoom:
        """Why there is no room."""
        slowest = ", ".join(self._readers.slowest()[:3])
        return NoRoom(
            f"the log holds {self._kept.size_bytes} of {self.limits.retention_bytes} bytes (retention_bytes), "
            f"and {slowest} has not read the oldest"
        )

    def _remove_oldest(self) -> bool:
        """Remove the oldest segment if every reader has passed it; returns whether it was removed."""
        kept = self._kept
        oldest = kept.segments[0] if kept.segments else None
        if oldest is None or not oldest.ends or oldest.next_record > self._readers.passed(kept.next_record):
            return False
        self._tail.remove_oldest()
        return True

    def _wake(self) -> None:
        self.count += 1
        self.changes.wake()
