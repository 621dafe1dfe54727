"""While a world runs, nothing reaches the real machine: no file is written, no socket, thread or process begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_FORBIDDEN = (
    "_thread.start_new_thread",
    "os.fork",
    "os.listdir",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.scandir",
    "shutil.",
    "socket.",
    "sqlite3.connect",
    "subprocess.",
    "tempfile.",
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_active = False
_installed = False


class LeakError(AssertionError):
    """Code of a simulated process reached the real machine."""


@contextmanager
def closed() -> Iterator[None]:
    """Within the block, what would reach the machine raises LeakError."""
    global _active, _installed
    if not _installed:
        # A hook stays for the life of the process.
        sys.addaudithook(_hook)
        _installed = True
    _active = True
    try:
        yield
    finally:
        _active = False


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _active:
        return
    if event == "open":
        path, _, flags = arguments
        # Python reads modules when they are first imported.
        if isinstance(flags, int) and flags & _WRITES:
            raise LeakError(f"{path!r} is opened for writing")
    elif _is_forbidden(event) and not (event in ("os.listdir", "os.scandir") and _imports(arguments)):
        raise LeakError(f"{event} {arguments!r}")


@cache
def _is_forbidden(event: str) -> bool:
    return event.startswith(_FORBIDDEN)


def _imports(arguments: tuple[object, ...]) -> bool:
    return bool(arguments) and str(arguments[0]) in sys.path_importer_cache
