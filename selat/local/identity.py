"""Identifies processes: the system reuses process ids."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_AFTER_NAME_STARTED = 19
"""Index of the start time (field 22 of /proc/PID/stat) among the fields after the name, which may hold spaces."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, and its start time in clock ticks since the machine's start; 0 where that is not known."""

    pid: int
    started_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """The process that has the id now."""
        return cls(pid, _started_ticks(pid) or 0)

    @property
    def alive(self) -> bool:
        """Whether exactly this process still exists."""
        if not _PROC.joinpath("self").exists():
            return _accepts_signals(self.pid)
        return _started_ticks(self.pid) == self.started_ticks

    def send(self, number: int) -> bool:
        """Send a signal if exactly this process still exists; returns whether it did."""
        if not self.alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _started_ticks(pid: int) -> int | None:
    """The start time; None when there is no such process, or it is a zombie."""
    try:
        fields = _PROC.joinpath(str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[_AFTER_NAME_STARTED])


def _accepts_signals(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
