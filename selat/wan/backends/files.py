"""What the backends' processes print."""

from __future__ import annotations

from pathlib import Path


def last_line(log: Path) -> str:
    """The last thing a process printed: the state directory goes when a start fails, so an error has to say it."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it printed nothing"
