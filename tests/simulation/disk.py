"""A machine's disk in memory, which keeps what POSIX promises and no more.

The end of a process changes nothing: the kernel has all that was written. A power loss undoes the latest changes of
directories that no sync has committed, any number of them, latest first, as journalled file systems do; a sync of
anything commits all that came before it. What was written to a file and not synced is lost, kept, or kept in part.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from random import Random

from tests.simulation.loop import PROCESS


class FileNode:
    """A file: its content, and what of it is safe."""

    __slots__ = ("content", "modified_s", "safe")

    def __init__(self) -> None:
        self.content = bytearray()
        self.safe = b""
        self.modified_s = 0.0


class DirectoryNode:
    """A directory: its entries by name."""

    __slots__ = ("entries", "modified_s")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.modified_s = 0.0


Node = FileNode | DirectoryNode

_MOST_ROOM_BYTES = 4096


def refused(number: int, path: object) -> OSError:
    """What the system raises for this number."""
    return OSError(number, os.strerror(number), str(path))


class Disk:
    """The disk of one machine; it survives the machine's processes.

    Args:
        random: Draws what a power loss leaves, and the order of directories.
        now_s: The clock of files' times.
    """

    def __init__(self, random: Random, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self.root = DirectoryNode()
        self.full_until_s = 0.0
        """Until then only `room_bytes` more can be written. Names have room."""
        self.room_bytes = 0
        self.failing_until_s = 0.0
        """Until then a share of writes and syncs fails."""
        self.failing_share = 0.0
        self._random = random
        self._now_s = now_s
        self._uncommitted: list[tuple[DirectoryNode, str, Node | None]] = []
        self._renamed: list[tuple[PurePosixPath, FileNode]] = []
        self.durable: Callable[[PurePosixPath, bytearray], None] = lambda path, content: None
        """Told of each file whose new name has become safe."""

    def find(self, parts: tuple[str, ...]) -> Node | None:
        """What is there; None: nothing is."""
        with suppress(OSError):
            return self.there(parts)
        return None

    def there(self, parts: tuple[str, ...]) -> Node:
        """As `find`. Raises OSError where nothing is, or a file is on the way."""
        node: Node = self.root
        for part in parts:
            if isinstance(node, FileNode):
                raise refused(errno.ENOTDIR, "/".join(parts))
            if part not in node.entries:
                raise refused(errno.ENOENT, "/".join(parts))
            node = node.entries[part]
        return node

    def names(self, directory: DirectoryNode) -> list[str]:
        """The names in a directory, in an order that means nothing."""
        names = sorted(directory.entries)
        self._random.shuffle(names)
        return names

    def enter(self) -> None:
        """A call to the system begins. Raises ProcessKilled where the process is dead."""
        process = PROCESS.get(None)
        if process is not None:
            process.check()

    def fill(self, seconds: float) -> None:
        """Be full for so long, but for some bytes: what is being written then may be cut off."""
        self.full_until_s = self._now_s() + seconds
        self.room_bytes = self._random.randrange(_MOST_ROOM_BYTES)

    def fail(self, seconds: float, share: float) -> None:
        """Refuse this share of writes and syncs for so long."""
        self.failing_until_s, self.failing_share = self._now_s() + seconds, share

    def work(self, path: object) -> None:
        """Something is written or synced. Raises OSError by chance while the disk fails."""
        if self._now_s() < self.failing_until_s and self._random.random() < self.failing_share:
            raise refused(errno.EIO, path)

    def damage(self, among: Callable[[str], bool]) -> str:
        """Change a byte of one of the files whose path is among those; returns its path, empty if there is none."""
        found = [(path, file) for path, file in _named(self.root, "") if file.content and among(path)]
        if not found:
            return ""
        path, file = self._random.choice(found)
        at, change = self._random.randrange(len(file.content)), self._random.randrange(1, 256)
        file.content[at] ^= change
        if at < len(file.safe):
            safe = bytearray(file.safe)
            safe[at] ^= change
            file.safe = bytes(safe)
        return path

    def room_for(self, size_bytes: int, path: object) -> int:
        """How many of these bytes can be written. Raises OSError when none can."""
        self.work(path)
        if self._now_s() >= self.full_until_s or not size_bytes:
            return size_bytes
        if not self.room_bytes:
            raise refused(errno.ENOSPC, path)
        taken = min(size_bytes, self.room_bytes)
        self.room_bytes -= taken
        return taken

    def link(self, directory: DirectoryNode, name: str, node: Node | None) -> None:
        """Give a name in a directory to a node; None: to nothing. Uncommitted until the next sync."""
        self._uncommitted.append((directory, name, directory.entries.get(name)))
        directory.modified_s = self._now_s()
        if node is None:
            del directory.entries[name]
        else:
            directory.entries[name] = node

    def renamed(self, path: PurePosixPath, node: Node) -> None:
        """A file has a new name, which is not safe yet."""
        if isinstance(node, FileNode):
            self._renamed.append((path, node))

    def write(self, file: FileNode, at: int, data: bytes | memoryview) -> None:
        """Write to a file, with zeros before it where the file is too short."""
        gap = at - len(file.content)
        if gap > 0:
            file.content += bytes(gap)
        file.content[at : at + len(data)] = data
        file.modified_s = self._now_s()

    def sync(self, node: Node) -> None:
        """Make a file's content, and all changes of directories up to now, safe. Raises OSError as `work`."""
        self.work("what is synced")
        if isinstance(node, FileNode):
            node.safe = bytes(node.content)
        self._uncommitted.clear()
        renamed, self._renamed = self._renamed, []
        for path, file in renamed:
            if self.find(path.parts[1:]) is file:
                self.durable(path, file.content)

    def lose_power(self) -> None:
        """Undo what is not safe, as far as chance has it."""
        self._renamed.clear()
        # All of them as often as any number: what one sync too few has brought about is lost then.
        kept = self._random.choice((0, self._random.randint(0, len(self._uncommitted))))
        for directory, name, before in reversed(self._uncommitted[kept:]):
            if before is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = before
        self._uncommitted.clear()
        for _, file in _named(self.root, ""):
            if file.content != file.safe:
                file.content = bytearray(self._remains(file))
                file.safe = bytes(file.content)

    def _remains(self, file: FileNode) -> bytes:
        """What is left of a file that was not synced: old, cut off, cut off with zeros behind it, or new."""
        written = bytes(file.content)
        cut = self._random.randint(0, len(written))
        choices = (file.safe, written[:cut], written[:cut] + bytes(len(written) - cut), written)
        return self._random.choice(choices)


def _named(directory: DirectoryNode, above: str) -> Iterator[tuple[str, FileNode]]:
    """All files, by their paths."""
    for name, node in sorted(directory.entries.items()):
        if isinstance(node, FileNode):
            yield f"{above}/{name}", node
        else:
            yield from _named(node, f"{above}/{name}")
