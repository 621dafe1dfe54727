"""A run: a file of rows of open windows in the order of windows and bins, written once and never changed.

    segment | segment | ... | index (JSON) | length of the index, its CRC-32, magic

A segment is a zstd frame of one Arrow record batch, as an epoch's payload is. The index has the schema, and of each
segment its windows, bins, place, sizes and CRC-32. So every byte is under a checksum, and rows of some bins are read
alone.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from site_agent.base import posix
from site_agent.base.errors import CorruptEpochError, SiteAgentError
from site_agent.channels.codec import FAST_LEVEL, EncodedRows, decode, encode
from site_agent.state.segments import Extent, extent_of, in_order, segments

_TRAILER = struct.Struct("<II4s")
_MAGIC = b"SLR1"


class DamagedStateError(SiteAgentError):
    """A file of a task's state is missing, or is not as it was written."""


@dataclass(frozen=True, slots=True)
class RunName:
    """What a checkpoint says of a run."""

    file: str
    size_bytes: int
    crc32: int
    """Of the index, which has those of the segments."""

    @property
    def checkpoint(self) -> int:
        """The number of the checkpoint that was the first to name it."""
        return int(self.file.split("-")[1])

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "size_bytes": self.size_bytes, "crc32": self.crc32}

    @classmethod
    def from_json(cls, value: Any) -> RunName:
        """Raises KeyError or TypeError when it is none."""
        return cls(str(value["file"]), int(value["size_bytes"]), int(value["crc32"]))


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that are read together."""

    extent: Extent
    offset: int
    size_bytes: int
    raw_bytes: int
    rows: int
    crc32: int


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run on disk, with its index in memory. May be read in any thread."""

    path: Path
    name: RunName
    schema: bytes
    segments: tuple[Segment, ...]

    @property
    def columns(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self.schema))

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def has_bins(self) -> bool:
        """Whether the bin of each row is known."""
        return all(segment.extent.has_bins for segment in self.segments)

    @property
    def raw_bytes(self) -> int:
        """What its rows take in memory, about."""
        return sum(segment.raw_bytes for segment in self.segments)

    def read(self, wanted: Callable[[Extent], bool]) -> Iterator[pa.Table]:
        """The rows of the segments that are wanted, segment by segment.

        Raises:
            DamagedStateError: the file is gone, or a segment is not as it was written.
        """
        chosen = [segment for segment in self.segments if wanted(segment.extent)]
        if not chosen:
            return
        try:
            with self.path.open("rb") as file:
                for segment in chosen:
                    yield self._rows(file, segment)
        except (OSError, CorruptEpochError) as error:
            raise DamagedStateError(f"the state {self.path} cannot be read: {error}") from error

    def _rows(self, file: BinaryIO, segment: Segment) -> pa.Table:
        file.seek(segment.offset)
        payload = file.read(segment.size_bytes)
        return decode(EncodedRows(self.schema, payload, segment.raw_bytes, segment.rows, segment.crc32))


class RunWriter:
    """Writes one run; see `writing`."""

    def __init__(self, path: Path, file: BinaryIO, column: str) -> None:
        self._path = path
        self._file = file
        self._column = column
        self._schema = b""
        self._segments: list[Segment] = []
        self._offset = 0
        self.given_up = False

    @property
    def rows(self) -> int:
        """How many were added."""
        return sum(segment.rows for segment in self._segments)

    def give_up(self) -> None:
        """There is to be no such run."""
        self.given_up = True

    def add(self, rows: pa.Table) -> None:
        """Append rows, in their order among themselves. Raises OSError; ChannelError: they cannot be encoded."""
        for part in segments(in_order(rows, self._column), self._column) if rows.num_rows else ():
            encoded = encode(part, level=FAST_LEVEL)
            if self._schema and encoded.schema != self._schema:
                raise SiteAgentError(f"rows of {self._path.name} differ in their columns")
            self._schema = encoded.schema
            extent = extent_of(part, self._column)
            size = len(encoded.payload)
            self._file.write(encoded.payload)
            self._segments.append(Segment(extent, self._offset, size, encoded.raw_bytes, encoded.rows, encoded.crc32))
            self._offset += size

    def finish(self) -> RunFile:
        """The run, durable but for its name in the directory. Raises OSError."""
        index = json.dumps(_index(self._schema, self._segments), separators=(",", ":")).encode()
        crc32 = zlib.crc32(index)
        self._file.write(index + _TRAILER.pack(len(index), crc32, _MAGIC))
        self._file.flush()
        posix.sync(self._file)
        name = RunName(self._path.name, self._offset + len(index) + _TRAILER.size, crc32)
        return RunFile(self._path, name, self._schema, tuple(self._segments))


@contextmanager
def writing(path: Path, column: str) -> Iterator[RunWriter]:
    """Write a run of rows whose windows begin at `column`; after an error, or when it is given up, nothing is left."""
    try:
        with path.open("wb") as file:
            yield (writer := RunWriter(path, file, column))
        if writer.given_up:
            path.unlink()
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def open_run(directory: Path, name: RunName) -> RunFile:
    """A run that a checkpoint names; of its rows nothing is read.

    Raises:
        DamagedStateError: it is missing, or its index is not as it was written.
    """
    path = directory / name.file
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size != name.size_bytes:
                raise ValueError(f"it has {size} bytes instead of {name.size_bytes}")
            file.seek(size - _TRAILER.size)
            length, crc32, magic = _TRAILER.unpack(file.read())
            if magic != _MAGIC or crc32 != name.crc32 or length > size - _TRAILER.size:
                raise ValueError("it does not end like a run")
            file.seek(size - _TRAILER.size - length)
            index = file.read(length)
        if zlib.crc32(index) != crc32:
            raise ValueError("its index does not match its checksum")
        value = json.loads(index)
        return RunFile(path, name, b64decode(value["schema"]), tuple(map(_segment, value["segments"])))
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise DamagedStateError(f"the state {path} cannot be read: {error}") from error


def _index(schema: bytes, found: Sequence[Segment]) -> dict[str, Any]:
    return {"schema": b64encode(schema).decode(), "segments": [_described(segment) for segment in found]}


def _described(segment: Segment) -> dict[str, Any]:
    extent, bins = segment.extent, segment.extent.bins
    return {
        "starts": [extent.first_us, extent.last_us],
        "bins": None if bins is None else [bins.start, bins.stop],
        "at": [segment.offset, segment.size_bytes, segment.raw_bytes, segment.rows],
        "crc32": segment.crc32,
    }


def _segment(value: Any) -> Segment:
    bins = None if value["bins"] is None else range(*value["bins"])
    first_us, last_us = map(int, value["starts"])
    offset, size_bytes, raw_bytes, rows = map(int, value["at"])
    return Segment(Extent(first_us, last_us, bins), offset, size_bytes, raw_bytes, rows, int(value["crc32"]))
