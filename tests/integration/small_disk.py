"""A disk that is soon full: a tmpfs of some hundred KiB, and a file that takes what is left of it."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.needs import Lack, Need, skip

SIZE_KIB = 1024
_PIECE = b"\0" * 4096


class SmallDisk:
    """A mounted file system that can be filled and freed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self) -> None:
        """Not a byte is left."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(_PIECE)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(root: Path, *, size_kib: int = SIZE_KIB) -> Iterator[SmallDisk]:
    """Mounted at `root`, which is made.

    Without the right to mount, the test is skipped, and says so. What a full disk does to a single write and to the
    master's store is then still tested, in tests/unit, by limits on files.
    """
    root.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k,mode=0700", "tmpfs", str(root)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        skip(Lack(Need.MACHINE if os.geteuid() == 0 else Need.ROOT, f"to mount a disk: {mounted.stderr.strip()}"))
    try:
        yield SmallDisk(root)
    finally:
        # Lazily: a process that was killed just now may still hold a file.
        subprocess.run(["umount", "-l", str(root)], check=True)


def half_files(root: Path) -> list[str]:
    """What a write that failed must not leave behind."""
    found = [path for path in root.rglob("*") if path.suffix == ".tmp"]
    return sorted(os.path.relpath(path, root) for path in found)
