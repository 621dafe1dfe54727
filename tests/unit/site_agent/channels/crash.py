"""A file system that dies: between any two operations, or in the middle of a write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from site_agent.base.files import Files


class Crash(BaseException):
    """The process is gone. Not an Exception: nothing may catch it on the way."""


class CrashingFiles(Files):
    """Performs `crash_after` operations, then one in part, then raises. None: never."""

    def __init__(self) -> None:
        self.crash_after: int | None = None
        self.operations = 0
        self.unsynced: set[Path] = set()

    def arm(self, crash_after: int | None) -> None:
        self.crash_after, self.operations = crash_after, 0

    def make_directory(self, path: Path) -> None:
        self._step()
        super().make_directory(path)

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        try:
            self._step()
        except Crash:
            data = b"".join(parts)
            path.write_bytes(data[: len(data) // 2])
            raise
        super().write(path, parts, sync=sync)
        (self.unsynced.discard if sync else self.unsynced.add)(path)

    def replace(self, source: Path, target: Path) -> None:
        self._step()
        super().replace(source, target)
        self.unsynced.discard(target)
        if source in self.unsynced:
            self.unsynced.remove(source)
            self.unsynced.add(target)

    def sync_directory(self, path: Path) -> None:
        self._step()
        super().sync_directory(path)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def lose_power(self) -> None:
        """What was not synced is empty."""
        for path in self.unsynced:
            if path.exists():
                path.write_bytes(b"")
        self.unsynced.clear()

    def _step(self) -> None:
        if self.crash_after is not None and self.operations >= self.crash_after:
            raise Crash
        self.operations += 1
