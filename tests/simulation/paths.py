"""Paths and open files of simulated disks, with pathlib's words."""

from __future__ import annotations

import errno
import io
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar, Self, cast

from site_agent.base import posix
from tests.simulation.disk import DirectoryNode, Disk, FileNode, Node, refused

_BUFFER_BYTES = 8192


class Stat:
    """The fields of `os.stat_result` that are asked for."""

    def __init__(self, node: Node) -> None:
        is_file = isinstance(node, FileNode)
        self.st_size = len(node.content) if isinstance(node, FileNode) else 4096
        self.st_mode = stat.S_IFREG | 0o600 if is_file else stat.S_IFDIR | 0o700
        self.st_mtime = node.modified_s
        self.st_mtime_ns = int(node.modified_s * 1e9)


class OpenFile(io.RawIOBase):
    """A file that is open, without a buffer."""

    def __init__(self, disk: Disk, node: FileNode, mode: str, path: PurePosixPath) -> None:
        self.disk, self.node = disk, node
        self.mode = mode
        self._path = path
        self._at = len(node.content) if "a" in mode else 0
        self._reads = "r" in mode or "+" in mode
        self._writes = mode != "rb"

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return self._writes

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.disk.enter()
        view = memoryview(buffer).cast("B")
        data = self.node.content[self._at : self._at + len(view)]
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def write(self, data: Any) -> int:
        self.disk.enter()
        whole = memoryview(data).cast("B")
        content = whole[: self.disk.room_for(len(whole), self._path)]
        if "a" in self.mode:
            self._at = len(self.node.content)
        self.disk.write(self.node, self._at, content)
        self._at += len(content)
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self.node.content)}[whence]
        return self._at

    def truncate(self, size: int | None = None) -> int:
        self.disk.enter()
        size = self._at if size is None else size
        del self.node.content[size:]
        return size


class MappedFile:
    """See `posix.Mapped`: writes reach the kernel, and no sync."""

    def __init__(self, node: FileNode) -> None:
        self._node = node

    def __len__(self) -> int:
        return len(self._node.content)

    def __setitem__(self, index: int, value: int) -> None:
        self._node.content[index] = value

    def resize(self, size: int) -> None:
        self._node.content.extend(bytes(max(0, size - len(self._node.content))))

    def close(self) -> None:
        """Nothing is held."""


class SimulatedPath(PurePosixPath):
    """A path on a disk; `on(disk)` makes the first one, and others derive from it."""

    __slots__ = ()
    disk: ClassVar[Disk]

    @property
    def _node(self) -> Node | None:
        return self.disk.find(self.parts[1:])

    @property
    def _parent_node(self) -> DirectoryNode:
        """Raises OSError."""
        node = self.disk.there(self.parts[1:-1])
        if isinstance(node, FileNode):
            raise refused(errno.ENOTDIR, self)
        return node

    @property
    def _existing(self) -> Node:
        """Raises OSError."""
        self.disk.enter()
        return self.disk.there(self.parts[1:])

    def exists(self) -> bool:
        return self._node is not None

    def is_dir(self) -> bool:
        return isinstance(self._node, DirectoryNode)

    def is_file(self) -> bool:
        return isinstance(self._node, FileNode)

    def stat(self) -> Stat:
        return Stat(self._existing)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        self.disk.enter()
        if parents and not self.parent.exists():
            self.parent.mkdir(mode, parents=True, exist_ok=True)
        node = self._parent_node.entries.get(self.name)
        if node is None:
            self.disk.link(self._parent_node, self.name, DirectoryNode())
        elif not exist_ok or isinstance(node, FileNode):
            raise refused(errno.EEXIST, self)

    def open(self, mode: str = "r", buffering: int = -1, encoding: str | None = None) -> IO[Any]:
        raw = OpenFile(self.disk, self._opened(mode), mode.replace("t", ""), self)
        if buffering == 0:
            return cast("IO[Any]", raw)
        buffered: Any
        if "+" in mode:
            buffered = io.BufferedRandom(cast(Any, raw), _BUFFER_BYTES)
        elif "r" in mode:
            buffered = io.BufferedReader(raw, _BUFFER_BYTES)
        else:
            buffered = io.BufferedWriter(raw, _BUFFER_BYTES)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding or "utf-8")

    def read_bytes(self) -> bytes:
        node = self._existing
        if isinstance(node, DirectoryNode):
            raise refused(errno.EISDIR, self)
        return bytes(node.content)

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> int:
        with self.open("wb") as file:
            return file.write(data)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        return self.write_bytes(text.encode(encoding))

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            node = self._existing
        except FileNotFoundError:
            if missing_ok:
                return
            raise
        if isinstance(node, DirectoryNode):
            raise refused(errno.EISDIR, self)
        self.disk.link(self._parent_node, self.name, None)

    def rmdir(self) -> None:
        node = self._existing
        if isinstance(node, FileNode) or node.entries:
            raise refused(errno.ENOTDIR if isinstance(node, FileNode) else errno.ENOTEMPTY, self)
        self.disk.link(self._parent_node, self.name, None)

    def replace(self, target: Self) -> Self:
        self.disk.enter()
        source, aim = self._parent_node, target._parent_node
        node, there = self._existing, aim.entries.get(target.name)
        if target != self and target.is_relative_to(self):
            raise refused(errno.EINVAL if isinstance(node, DirectoryNode) else errno.ENOTDIR, target)
        if self != target and self.is_relative_to(target):
            raise refused(errno.ENOTEMPTY, target)
        if isinstance(there, DirectoryNode) and (isinstance(node, FileNode) or there.entries):
            raise refused(errno.EISDIR if isinstance(node, FileNode) else errno.ENOTEMPTY, target)
        if isinstance(node, DirectoryNode) and isinstance(there, FileNode):
            raise refused(errno.ENOTDIR, target)
        if node is not there:
            self.disk.link(aim, target.name, node)
            self.disk.link(source, self.name, None)
            self.disk.renamed(target, node)
        return target

    def iterdir(self) -> Iterator[Self]:
        node = self._existing
        if isinstance(node, FileNode):
            raise refused(errno.ENOTDIR, self)
        return iter([self / name for name in self.disk.names(node)])

    def glob(self, pattern: str) -> Iterator[Self]:
        return (path for path in (self.iterdir() if self.is_dir() else ()) if fnmatchcase(path.name, pattern))

    def _opened(self, mode: str) -> FileNode:
        """The file to open in that mode, made or emptied as the mode says."""
        self.disk.enter()
        node = self._parent_node.entries.get(self.name)
        if isinstance(node, DirectoryNode):
            raise refused(errno.EISDIR if "x" not in mode else errno.EEXIST, self)
        if node is None:
            if "r" in mode:
                raise refused(errno.ENOENT, self)
            node = FileNode()
            self.disk.link(self._parent_node, self.name, node)
        elif "x" in mode:
            raise refused(errno.EEXIST, self)
        elif "w" in mode:
            node.content.clear()
        return node


def on(disk: Disk, path: str = "/") -> Path:
    """A path on that disk."""
    kind = type("DiskPath", (SimulatedPath,), {"disk": disk, "__slots__": ()})
    return cast(Path, kind(path))


class SimulatedCalls(posix.Calls):
    """The calls for simulated disks."""

    def sync(self, file: IO[Any]) -> None:
        """See `posix.Calls`."""
        raw: Any = file
        while not isinstance(raw, OpenFile):
            raw = getattr(raw, "raw", None) or raw.buffer
        raw.disk.enter()
        raw.disk.sync(raw.node)

    def sync_data(self, file: IO[Any]) -> None:
        """See `posix.Calls`."""
        self.sync(file)

    def write_at_once(self, path: Path, data: bytes) -> None:
        """See `posix.Calls`."""
        simulated = cast(SimulatedPath, path)
        node = simulated._opened("a+b")
        simulated.disk.write(node, 0, data[: simulated.disk.room_for(len(data), path)])

    def sync_directory(self, path: Path) -> None:
        """See `posix.Calls`."""
        simulated = cast(SimulatedPath, path)
        simulated.disk.sync(simulated._existing)

    def remove_tree(self, path: Path) -> None:
        """See `posix.Calls`."""
        if not path.is_dir():
            return
        for child in path.iterdir():
            self.remove_tree(child)
            if child.is_file():
                child.unlink()
        path.rmdir()

    def mapped(self, file: IO[Any]) -> posix.Mapped:
        """See `posix.Calls`."""
        return MappedFile(cast(Any, file).raw.node)

    @contextmanager
    def viewed(self, file: IO[Any]) -> Iterator[memoryview]:
        """See `posix.Calls`."""
        yield memoryview(bytes(cast(Any, file).raw.node.content))
