"""Small files that survive a crash: written beside, flushed, renamed over."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at once: a reader, also after a crash, sees the old content or the new, never a part."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames and removals in the directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
