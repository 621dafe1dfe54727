"""Places where a test has this process kill itself, as a crash would: with SIGKILL, and nothing cleaned up.

`SELAT_FAULT=epoch-written:3` kills at the third passage of that point. Several are separated by commas; a process
passes none but its own. With `SELAT_FAULT_MARKS=DIR` a fault leaves a file of its name there, and happens only once,
whoever passes first. Without the variable nothing happens. For tests; docs/operations.md lists the points.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import Protocol

FAULT_VARIABLE = "SELAT_FAULT"
MARKS_VARIABLE = "SELAT_FAULT_MARKS"


class Points(Protocol):
    """Told of each point that is passed."""

    def passed(self, point: Enum) -> bool:
        """True when the process is to die at it."""
        ...


class Faults:
    """The faults of one process. Safe to use from several threads."""

    def __init__(self, wanted: Mapping[str, int], marks: Path | None = None) -> None:
        """`wanted` maps a point's name to the number of the passage at which the process dies."""
        self._wanted = dict(wanted)
        self._marks = marks
        self._passages: Counter[str] = Counter()
        self._lock = Lock()

    def passed(self, point: Enum) -> bool:
        """Count a passage of the point; True when the process is to die at it."""
        name = point.value
        if name not in self._wanted:
            return False
        with self._lock:
            self._passages[name] += 1
            return self._passages[name] == self._wanted[name] and self._is_first(name)

    def _is_first(self, name: str) -> bool:
        if self._marks is None:
            return True
        try:
            os.close(os.open(self._marks / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def parse_faults(environment: Mapping[str, str]) -> Faults | None:
    """The faults that the environment asks for; None when it asks for none."""
    wanted: dict[str, int] = {}
    for item in environment.get(FAULT_VARIABLE, "").split(","):
        name, _, passage = item.strip().partition(":")
        if name:
            wanted[name] = int(passage or "1")
    marks = environment.get(MARKS_VARIABLE)
    return Faults(wanted, Path(marks) if marks else None) if wanted else None


_faults: Points | None = parse_faults(os.environ)


def arm(environment: Mapping[str, str]) -> None:
    """Take over the faults of another environment; for a process that was forked with our modules loaded."""
    global _faults
    _faults = parse_faults(environment)


@contextmanager
def watched(points: Points) -> Iterator[None]:
    """Within the block, `points` is told instead of what the environment asks for."""
    global _faults
    before, _faults = _faults, points
    try:
        yield
    finally:
        _faults = before


def reached(point: Enum) -> None:
    """Pass a point, whose value is its name. Does not return if the process is to die here."""
    if _faults is not None and _faults.passed(point):
        os.kill(os.getpid(), signal.SIGKILL)
