"""The output of backends' processes."""

from __future__ import annotations

from pathlib import Path


def last_line(log: Path) -> str:
    """The last line that a process printed: an error must quote it, because the state directory is removed after a
    failed start."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it printed nothing"
