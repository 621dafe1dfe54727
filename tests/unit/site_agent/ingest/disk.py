"""Disks for push logs that die between any two operations or in the middle of one, or are full."""

from __future__ import annotations

import errno
from pathlib import Path

from site_agent.ingest.files import LogFiles


class Crash(BaseException):
    """The process is gone. Not an Exception: nothing may catch it on the way."""


class CrashingDisk(LogFiles):
    """Performs `crash_after` operations, then one in part, then raises. None: never."""

    def __init__(self) -> None:
        self.crash_after: int | None = None
        self.torn_share = 0.5
        """How much of an append is there after a crash in it."""
        self.operations = 0
        self._notes: dict[Path, bytes | None] = {}

    def arm(self, crash_after: int | None, *, torn_share: float = 0.5) -> None:
        self.crash_after, self.torn_share, self.operations = crash_after, torn_share, 0

    def make_directory(self, path: Path) -> None:
        self._step()
        super().make_directory(path)

    def create(self, path: Path, content: bytes) -> None:
        try:
            self._step()
        except Crash:
            path.with_name(f".{path.name}.tmp").write_bytes(content[: len(content) // 2])
            raise
        super().create(path, content)

    def append(self, path: Path, position: int, data: bytes) -> None:
        try:
            self._step()
        except Crash:
            super().append(path, position, data[: int(len(data) * self.torn_share)])
            raise
        super().append(path, position, data)

    def truncate(self, path: Path, size_bytes: int) -> None:
        self._step()
        super().truncate(path, size_bytes)

    def note(self, path: Path, content: bytes) -> None:
        self._step()
        self._notes.setdefault(path, path.read_bytes() if path.exists() else None)
        super().note(path, content)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def lose_power(self) -> None:
        """Notes are those of some time before."""
        for path, content in self._notes.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        self._notes.clear()

    def _step(self) -> None:
        if self.crash_after is not None and self.operations >= self.crash_after:
            raise Crash
        self.operations += 1


class FullDisk(LogFiles):
    """Takes `free_bytes` more; the write that does not fit is done in part. Cutting off gives nothing back."""

    def __init__(self, free_bytes: int | None = None) -> None:
        self.free_bytes = free_bytes
        self.truncates = True
        self.creates = True
        """False: new files are made, but the directory cannot be synced."""

    def create(self, path: Path, content: bytes) -> None:
        self._take(len(content))
        super().create(path, content)
        if not self.creates:
            raise OSError(errno.EIO, "input/output error")

    def append(self, path: Path, position: int, data: bytes) -> None:
        try:
            self._take(len(data))
        except OSError:
            super().append(path, position, data[: self.free_bytes or 0])
            raise
        super().append(path, position, data)

    def truncate(self, path: Path, size_bytes: int) -> None:
        if not self.truncates:
            raise OSError(errno.EIO, "input/output error")
        super().truncate(path, size_bytes)

    def _take(self, size_bytes: int) -> None:
        if self.free_bytes is None:
            return
        if size_bytes > self.free_bytes:
            raise OSError(errno.ENOSPC, "no space left on device")
        self.free_bytes -= size_bytes
