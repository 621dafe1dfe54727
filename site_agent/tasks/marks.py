"""Which epochs are under way, so that the next process knows after this one was killed.

    names   one task a line, in the order of their first epochs
    marks   a byte for each of them, mapped into memory: 1 while an epoch of the task is under way

To set or clear a mark writes to memory alone, which the kernel keeps when the process dies. Files that come and go with
each epoch would wait for the file system's journal, and with them the event loop: half of its time under load.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from site_agent.base import posix

_NAMES = "names"
_MARKS = "marks"
_GROWTH = 64 * 1024
"""Marks that the file has room for, and gets more room for, in bytes."""


class Marks:
    """The marks of one process.

    Args:
        directory: Of the two files; it exists, and holds no others' marks.

    Raises:
        OSError: the disk refused.
    """

    def __init__(self, directory: Path) -> None:
        self._numbers: dict[str, int] = {}
        self._names = (directory / _NAMES).open("w", encoding="utf-8")
        self._file = (directory / _MARKS).open("w+b")
        self._allocate()
        self._map = posix.mapped(self._file)

    def set(self, task_id: str) -> None:
        """An epoch of the task is under way. On a disk without room nobody is marked."""
        number = self._numbers.get(task_id)
        if number is None:
            try:
                number = self._add(task_id)
            except OSError:
                return
        self._map[number] = 1

    def clear(self, task_id: str) -> None:
        """No epoch of the task is under way."""
        number = self._numbers.get(task_id)
        if number is not None:
            self._map[number] = 0

    def close(self) -> None:
        """Let go of the files; the marks stay as they are."""
        self._map.close()
        self._file.close()
        self._names.close()

    def _add(self, task_id: str) -> int:
        number = len(self._numbers)
        if number >= len(self._map):
            self._allocate()
            self._map.resize(number + _GROWTH)
        self._names.write(f"{task_id}\n")
        self._names.flush()
        self._numbers[task_id] = number
        return number

    def _allocate(self) -> None:
        """Real zeros, not a hole: a full disk refuses them here, and does not kill the process at a mark."""
        self._file.seek(0, 2)
        self._file.write(bytes(_GROWTH))
        self._file.flush()


def marked(directory: Path) -> set[str]:
    """The tasks that a process left marked there; none where it left no marks."""
    with suppress(FileNotFoundError):
        names = (directory / _NAMES).read_text(encoding="utf-8").split("\n")[:-1]
        marks = (directory / _MARKS).read_bytes()
        return {name for name, mark in zip(names, marks, strict=False) if mark}
    return set()
