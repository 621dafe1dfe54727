"""Which files of a directory are there to be read.

A file counts when it is complete. Writers show that by its name: they write to a name that starts with `.` or `_`, or
ends in `.tmp` or `.part`, and rename it when they are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from site_agent.base.errors import ConnectorError
from site_agent.connectors.paths import ANYWHERE, AllowedPaths

_HIDDEN_STARTS = (".", "_")
_UNFINISHED_ENDS = (".tmp", ".part")


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    size_bytes: int
    modified_ns: int


def complete_files(path: Path, pattern: str, allowed: AllowedPaths = ANYWHERE) -> list[FoundFile]:
    """Complete files below a directory that match, or the file that `path` itself is; oldest first, then by name.

    Raises:
        ConnectorError: there is no such path, or it cannot be read.
        PathRefusedError: it leads out of what is allowed, or a file that matches does.
    """
    allowed.check(path)
    try:
        found = list(_found(path, pattern))
    except OSError as error:
        raise ConnectorError(f"cannot read {path}: {error.strerror}") from error
    if not found and not path.exists():
        raise ConnectorError(f"{path} does not exist", hint="create the directory, or correct option 'path'")
    allowed.check_files(file.path for file in found)
    return sorted(found, key=lambda f: (f.modified_ns, f.path))


def is_complete(path: Path) -> bool:
    """Whether the name says that the file is finished."""
    return not path.name.startswith(_HIDDEN_STARTS) and not path.name.endswith(_UNFINISHED_ENDS)


def _found(root: Path, pattern: str) -> Iterator[FoundFile]:
    for path in (root,) if root.is_file() else root.glob(pattern):
        if path != root and not all(is_complete(Path(part)) for part in path.relative_to(root).parts):
            continue
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file():
            yield FoundFile(str(path), status.st_size, status.st_mtime_ns)
