"""What segment files are made of: frames, each with checksums of its own.

prefix   magic, length of the header, length of the payload, CRC-32 of all that and the header
header   kind, record, first row, sequence, instant, rows, raw bytes, CRC-32 of the payload, producer
payload  of a record: one zstd frame of an Arrow record batch without schema; of a head: JSON
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

MAGIC = b"SLP1"
_PREFIX = struct.Struct("<4sIII")
_LENGTHS = struct.Struct("<4sII")
_HEADER = struct.Struct("<BQQQqIQI")


class FrameKind(IntEnum):
    HEAD = 0
    """First frame of a segment: schema, and producers before it."""
    ROWS = 1
    END = 2
    """The stream has ended; a record without rows."""


_KINDS = frozenset(FrameKind)


@dataclass(frozen=True, slots=True)
class FrameHeader:
    kind: FrameKind
    record: int
    first_row: int
    sequence: int = 0
    at_us: int = 0
    """When it was stored."""
    rows: int = 0
    raw_bytes: int = 0
    payload_crc32: int = 0
    producer: str = ""


@dataclass(frozen=True, slots=True)
class FramePlace:
    """The place of a frame in its file."""

    header: FrameHeader
    start: int
    payload_start: int
    end: int


class TornFrameError(Exception):
    """The bytes are no whole frame."""


def pack(header: FrameHeader, payload: bytes) -> bytes:
    """Serialize a frame, with the checksum of its payload."""
    packed = _HEADER.pack(
        header.kind,
        header.record,
        header.first_row,
        header.sequence,
        header.at_us,
        header.rows,
        header.raw_bytes,
        zlib.crc32(payload),
    )
    packed += header.producer.encode("ascii")
    lengths = _LENGTHS.pack(MAGIC, len(packed), len(payload))
    crc32 = zlib.crc32(packed, zlib.crc32(lengths))
    return b"".join((lengths, struct.pack("<I", crc32), packed, payload))


def locate(data: bytes | memoryview, start: int) -> FramePlace:
    """The frame that begins at `start`; its payload is complete, but its checksum is not verified.

    Raises:
        TornFrameError: there is none.
    """
    try:
        magic, header_bytes, payload_bytes, crc32 = _PREFIX.unpack_from(data, start)
    except struct.error:
        raise TornFrameError from None
    header_start = start + _PREFIX.size
    payload_start = header_start + header_bytes
    end = payload_start + payload_bytes
    if magic != MAGIC or header_bytes < _HEADER.size or end > len(data):
        raise TornFrameError
    # Copied: a slice in a traceback would outlive this call and keep a mapped file open.
    packed = bytes(data[header_start:payload_start])
    if zlib.crc32(packed, zlib.crc32(bytes(data[start : start + _LENGTHS.size]))) != crc32:
        raise TornFrameError
    kind, record, row, sequence, at_us, rows, raw_bytes, payload_crc32 = _HEADER.unpack_from(packed)
    producer = packed[_HEADER.size :].decode("ascii")
    if kind not in _KINDS:
        raise TornFrameError
    header = FrameHeader(FrameKind(kind), record, row, sequence, at_us, rows, raw_bytes, payload_crc32, producer)
    return FramePlace(header, start, payload_start, end)


def payload_of(data: bytes | memoryview, place: FramePlace) -> bytes:
    """The frame's payload.

    Raises:
        TornFrameError: it does not match its checksum.
    """
    payload = bytes(data[place.payload_start : place.end])
    if zlib.crc32(payload) != place.header.payload_crc32:
        raise TornFrameError
    return payload
