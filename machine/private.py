"""State for the eyes of its owner: directories 0700, files 0600."""

from __future__ import annotations

import os
import stat
from pathlib import Path

PRIVATE_UMASK = 0o077
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NotPrivateError(Exception):
    """A directory cannot be made private; the text says why, `hint` what would be right."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def make_private_umask() -> int:
    """From now on this process and its children make files and directories for their owner alone.

    Returns:
        The umask until then: the user's, for what is made for others to read.
    """
    return os.umask(PRIVATE_UMASK)


def opener(path: str, flags: int) -> int:
    """An `opener` of `open`: a file that it makes is its owner's alone."""
    return os.open(path, flags, 0o600)


def make_private(directory: Path) -> None:
    """Make the directory for its owner alone. One that others could enter is closed to them, with all that is in it.

    Raises:
        NotPrivateError: it belongs to another user, or is shared by many, as /tmp.
        OSError: it cannot be made.
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
    """Take the rights of others away from all below; links and what belongs to other users are left alone."""
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = os.path.join(parent, name)
            found = os.lstat(path)
            if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and found.st_mode & _OTHERS:
                os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)
