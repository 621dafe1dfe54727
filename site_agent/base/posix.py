"""The calls to the file system that pathlib has no words for, in one place that a simulated disk can take."""

from __future__ import annotations

import mmap
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import local
from typing import IO, Any, Protocol


class Mapped(Protocol):
    """A file's bytes in memory; see `mmap.mmap`."""

    def __len__(self) -> int: ...

    def __setitem__(self, index: int, value: int) -> None: ...

    def resize(self, size: int) -> None: ...

    def close(self) -> None: ...


_waits = local()


def sync_wait_s() -> float:
    """Seconds that this thread has waited until the disk had stored something, since it began."""
    return float(getattr(_waits, "seconds", 0.0))


@contextmanager
def _counted() -> Iterator[None]:
    begun_s = time.monotonic()
    try:
        yield
    finally:
        _waits.seconds = sync_wait_s() + time.monotonic() - begun_s


class Calls:
    """The machine's own file system. Every method may raise OSError."""

    def sync(self, file: IO[Any]) -> None:
        """Make what was written to an open file survive a power loss."""
        with _counted():
            os.fsync(file.fileno())

    def sync_directory(self, path: Path) -> None:
        """Make renames, removals and new names in a directory survive a power loss."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _counted():
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all that is in it, as far as possible; raises nothing."""
        shutil.rmtree(path, ignore_errors=True)

    def mapped(self, file: IO[Any]) -> Mapped:
        """The whole file in memory, for reading and writing."""
        return mmap.mmap(file.fileno(), 0)


_calls = Calls()


@contextmanager
def taken(calls: Calls) -> Iterator[None]:
    """Within the block, all of this process's calls go there."""
    global _calls
    before, _calls = _calls, calls
    try:
        yield
    finally:
        _calls = before


def sync(file: IO[Any]) -> None:
    """See `Calls`."""
    _calls.sync(file)


def sync_directory(path: Path) -> None:
    """See `Calls`."""
    _calls.sync_directory(path)


def remove_tree(path: Path) -> None:
    """See `Calls`."""
    _calls.remove_tree(path)


def mapped(file: IO[Any]) -> Mapped:
    """See `Calls`."""
    return _calls.mapped(file)
