"""State that only its owner can read: directories with mode 0700, files with 0600.

Secrets that root hands to a service are the exception: the service's group reads them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE_UMASK = 0o077
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NotPrivateError(Exception):
    """A directory cannot be made private. The message says why, `hint` what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def make_private_umask() -> int:
    """Set the umask of this process and its children so that only the owner can use what they create.

    Returns:
        The user's umask, which was set before, for files that others may read.
    """
    return os.umask(PRIVATE_UMASK)


def opener(path: str, flags: int) -> int:
    """An `opener` for `open` that creates files with mode 0600."""
    return os.open(path, flags, 0o600)


def way_to_close(path: Path, found: os.stat_result) -> str | None:
    """The command that closes a file with a secret, of which `found` is the state; None when it is closed.

    It is closed when its owner alone can read and write it. A file of root may be readable for a group as well, unless
    this process is root's: volumes of Kubernetes have such files. PostgreSQL takes its server's key by the same rule.
    """
    handed = found.st_uid == 0 and os.geteuid() != 0
    closed = _OTHERS & ~stat.S_IRGRP if handed else _OTHERS
    return f"chmod {640 if handed else 600} {path}" if found.st_mode & closed else None


def make_private(directory: Path) -> None:
    """Create the directory with mode 0700. An existing one that others may enter is closed to them with its content.

    Raises:
        NotPrivateError: it belongs to another user, or many users share it, as /tmp.
        OSError: it cannot be created.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise NotPrivateError(
            f"the directory {directory} belongs to user {found.st_uid}, not to {os.geteuid()}, who runs this",
            "name a directory of your own, or one that does not exist yet",
        )
    if found.st_mode & stat.S_ISVTX:
        raise NotPrivateError(
            f"the directory {directory} is shared by many users", f"name one below it, as {directory / 'selat'}"
        )
    if found.st_mode & _OTHERS:
        directory.chmod(0o700)
        _close(directory)


def _close(directory: Path) -> None:
    """Remove the rights of others from everything below, except from links and files of other users."""
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = os.path.join(parent, name)
            found = os.lstat(path)
            if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and found.st_mode & _OTHERS:
                os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)
