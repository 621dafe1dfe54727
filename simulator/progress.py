"""Progress of long runs."""

from __future__ import annotations

import sys
from time import monotonic

_STARTED_S = monotonic()


def say(text: str) -> None:
    """One line, with the seconds since the start."""
    sys.stderr.write(f"[{monotonic() - _STARTED_S:5.0f} s] {text}\n")
    sys.stderr.flush()
