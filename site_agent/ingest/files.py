"""The file operations of a push log, a method for each, which tests replace to crash or to fill the disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from site_agent.base import posix
from site_agent.base.durable import write_atomically
from site_agent.base.errors import DiskFullError, IngestError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class LogFiles:
    """The real file system. Every method may raise OSError."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        for made in (path.parent, path.parent.parent):
            posix.sync_directory(made)

    def create(self, path: Path, content: bytes) -> None:
        """Create a file, or replace an old one's content, atomically and durably."""
        write_atomically(path, content)

    def append(self, path: Path, position: int, data: bytes) -> None:
        """Write after the bytes that are known to be there; durable on return."""
        with path.open("r+b", buffering=0) as file:
            file.seek(position)
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            posix.sync_data(file)

    def truncate(self, path: Path, size_bytes: int) -> None:
        """Cut off the end durably; also makes the rest durable, whoever wrote it."""
        with path.open("r+b", buffering=0) as file:
            if file.seek(0, os.SEEK_END) > size_bytes:
                file.truncate(size_bytes)
            posix.sync(file)

    def note(self, path: Path, content: bytes) -> None:
        """Write a few bytes in place. They survive the process; a power loss may restore older ones."""
        posix.write_at_once(path, content)

    def remove(self, path: Path) -> None:
        """Remove a file durably, so that files vanish in the order of their removal."""
        path.unlink(missing_ok=True)
        posix.sync_directory(path.parent)

    def remove_tree(self, path: Path) -> None:
        posix.remove_tree(path)


@contextmanager
def disk_errors(directory: Path) -> Iterator[None]:
    """Turns an OSError within the block into DiskFullError when space is lacking, else into IngestError."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError(
                f"the disk of {directory} is full: nothing of this was stored",
                hint="free some space, or lower 'retention_bytes' of the streams; then push again",
            ) from error
        raise IngestError(f"cannot write {directory}: {error}", hint="look at the disk") from error
