"""Small files that survive a crash, by write, sync and rename; and the lock on a directory."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from machine.faults import reached
from machine.private import NotPrivateError, make_private
from site_agent.base import posix
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader sees the old content or the new, also after a crash."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Like `write_atomically`, for content that is written piece by piece; an error leaves the file as it was."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            posix.sync(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    reached(FaultPoint.REPLACEMENT_WRITTEN)
    beside.replace(path)
    posix.sync_directory(path.parent)


def make_usable(directory: Path) -> None:
    """Create the directory if it is missing, close it to other users, and check that it is writable.

    Raises:
        SiteAgentError: it cannot be had.
    """
    try:
        make_private(directory)
        with TemporaryFile(dir=directory):
            pass
    except NotPrivateError as error:
        raise SiteAgentError(str(error), hint=error.hint) from error
    except OSError as error:
        raise SiteAgentError(
            f"the data directory {directory} cannot be used: {error.strerror}", hint="give --data one to write to"
        ) from error


@contextmanager
def sole_owner(directory: Path) -> Iterator[None]:
    """Lock the directory, created if it is missing, against other processes; the lock ends with the process.

    Raises:
        SiteAgentError: another process holds it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SiteAgentError(
                f"another agent works in {directory}", hint="stop it, or give this one another --data directory"
            ) from None
        yield
