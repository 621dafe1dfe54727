"""The file operations of a channel, a method for each, which tests replace to crash between any two of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from machine.faults import reached
from site_agent.base import posix
from site_agent.base.faults import FaultPoint

_COPY_BYTES = 64 * 1024


class Files:
    """The real file system. Every method may raise OSError."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        """Write a whole file, or none; with `sync`, its contents survive a power loss once this returns."""
        try:
            with path.open("wb", buffering=0) as file:
                for part in _joined(parts):
                    _write_all(file, part)
                reached(FaultPoint.FILE_WRITTEN)
                if sync:
                    posix.sync(file)
        except OSError:
            with suppress(OSError):
                self.remove(path)
            raise

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def sync_directory(self, path: Path) -> None:
        """Make renames and new names in a directory survive a power loss."""
        posix.sync_directory(path)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        posix.remove_tree(path)


def _write_all(file: FileIO, data: bytes) -> None:
    """Writes everything: the system may write only part of it when the disk is nearly full, or beyond 2 GiB."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _joined(parts: Sequence[bytes]) -> list[bytes]:
    """Joins small parts and keeps large ones: a system call costs more than copying little, less than copying much."""
    small = [part for part in parts if len(part) < _COPY_BYTES]
    if len(small) == len(parts):
        return [b"".join(parts)]
    return list(parts)


def write_json(files: Files, path: Path, value: object, *, durable: bool) -> None:
    """Replace a small JSON file atomically. Unless `durable`, a power loss may restore the old file, or remove it."""
    temporary = path.with_name(path.name + ".tmp")
    files.write(temporary, [json.dumps(value, sort_keys=True).encode()], sync=durable)
    files.replace(temporary, path)
    if durable:
        files.sync_directory(path.parent)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None: there is no such file, or a power loss before the sync left no JSON object in
    it."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None
