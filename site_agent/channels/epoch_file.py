"""One epoch on disk, one file: prefix, header (JSON), Arrow schema, payload.

Manifest and rows share a file because then one rename commits both, and an epoch costs two fsyncs (file, directory)
instead of three.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

from site_agent.base.errors import CorruptEpochError
from site_agent.channels.codec import EncodedRows, verify
from site_agent.channels.manifest import EpochManifest, manifest_from_json, manifest_to_json

_PREFIX = struct.Struct("<4sII")
_MAGIC = b"SLT1"
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class EpochHeader:
    """What a file holds before the rows."""

    manifest: EpochManifest
    schema_bytes: int
    rows_before: int
    """Rows of all earlier epochs of this log: a reader's lag is the difference between two headers."""


def pack(header: EpochHeader, encoded: EncodedRows | None) -> list[bytes]:
    """The file's contents, in order."""
    value = {
        "manifest": manifest_to_json(header.manifest),
        "schema_bytes": header.schema_bytes,
        "schema_crc32": zlib.crc32(encoded.schema) if encoded else 0,
        "rows_before": header.rows_before,
    }
    text = json.dumps(value, separators=(",", ":")).encode()
    prefix = _PREFIX.pack(_MAGIC, len(text), zlib.crc32(text))
    return [prefix, text, encoded.schema, encoded.payload] if encoded else [prefix, text]


def read_header(path: Path) -> EpochHeader:
    """Reads only the head of the file.

    Raises:
        CorruptEpochError: missing or damaged.
    """
    return _read(path, whole=False).header


def read_epoch(path: Path) -> tuple[EpochHeader, EncodedRows | None]:
    """Header and rows, checked; None when the epoch has no rows.

    Raises:
        CorruptEpochError: missing or damaged.
    """
    read = _read(path, whole=True)
    header, manifest = read.header, read.header.manifest
    if not manifest.rows:
        return header, None
    encoded = EncodedRows(
        schema=read.schema,
        payload=read.payload,
        raw_bytes=manifest.raw_bytes,
        rows=manifest.rows,
        crc32=manifest.crc32,
    )
    # The schema is checked like the payload: with a changed schema the payload may decode to other values.
    if zlib.crc32(encoded.schema) != read.schema_crc32:
        raise _corrupt(path, "its schema does not match its checksum")
    try:
        verify(encoded)
    except CorruptEpochError as error:
        raise _corrupt(path, error.message) from error
    return header, encoded


@dataclass(frozen=True, slots=True)
class _Read:
    header: EpochHeader
    schema_crc32: int
    schema: bytes
    payload: bytes


def _read(path: Path, *, whole: bool) -> _Read:
    try:
        with path.open("rb", buffering=0) as file:
            data = file.read(_HEAD_BYTES)
            magic, length, crc32 = _PREFIX.unpack_from(data)
            offset = _PREFIX.size + length
            # No checksum covers the length: memory is never allocated by it.
            if magic != _MAGIC or offset > path.stat().st_size:
                raise _corrupt(path, "it does not begin like an epoch file")
            if offset > len(data):
                data += file.read(offset - len(data))
            text = data[_PREFIX.size : offset]
            if zlib.crc32(text) != crc32:
                raise _corrupt(path, "its header does not match its checksum")
            value = json.loads(text)
            manifest = manifest_from_json(value["manifest"])
            header = EpochHeader(manifest, int(value["schema_bytes"]), int(value["rows_before"]))
            rows = _read_rows(file, data, offset, header) if whole and manifest.rows else (b"", b"")
        return _Read(header, int(value["schema_crc32"]), *rows)
    except (FileNotFoundError, struct.error, KeyError, TypeError, ValueError) as error:
        raise _corrupt(path, str(error)) from error


def _read_rows(file: FileIO, head: bytes, offset: int, header: EpochHeader) -> tuple[bytes, bytes]:
    """Schema and payload, which follow `offset`. A long payload is read separately, because slicing would copy it."""
    middle = offset + header.schema_bytes
    end = middle + header.manifest.size_bytes
    if end <= len(head):
        return head[offset:middle], head[middle:end]
    file.seek(offset)
    schema = file.read(header.schema_bytes)
    payload = file.readall()
    return schema, payload if len(payload) == header.manifest.size_bytes else payload[: header.manifest.size_bytes]


def _corrupt(path: Path, reason: str) -> CorruptEpochError:
    return CorruptEpochError(
        f"epoch file {path.name} of channel {path.parent.name} is damaged: {reason}",
        ids={"channel": path.parent.name, "epoch": path.stem.lstrip("0") or "0", "file": path.name},
    )


def counted(manifest: EpochManifest, encoded: EncodedRows | None) -> EpochManifest:
    """The manifest with the counts of these rows."""
    if encoded is None:
        return replace(manifest, rows=0, size_bytes=0, raw_bytes=0, crc32=0)
    return replace(
        manifest,
        rows=encoded.rows,
        size_bytes=len(encoded.payload),
        raw_bytes=encoded.raw_bytes,
        crc32=encoded.crc32,
    )
