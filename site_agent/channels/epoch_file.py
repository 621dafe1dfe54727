"""One epoch on disk, one file: prefix, header (JSON), Arrow schema, payload.

Manifest and rows share a file because then one rename commits both, and an epoch costs two fsyncs (file, directory)
instead of three.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from site_agent.channels.codec import EncodedRows, verify
from site_agent.channels.manifest import EpochManifest, manifest_from_json, manifest_to_json
from site_agent.errors import CorruptEpochError

_PREFIX = struct.Struct("<4sII")
_MAGIC = b"SLT1"
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class EpochHeader:
    """What stands before the rows."""

    manifest: EpochManifest
    schema_bytes: int
    rows_before: int
    """Rows of all earlier epochs of this log: the lag of a reader is a difference of two headers."""


def pack(header: EpochHeader, encoded: EncodedRows | None) -> list[bytes]:
    """The file's contents, in order."""
    value = {
        "manifest": manifest_to_json(header.manifest),
        "schema_bytes": header.schema_bytes,
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
    header, _, _ = _read(path, whole=False)
    return header


def read_epoch(path: Path) -> tuple[EpochHeader, EncodedRows | None]:
    """Header and rows, checked; None when the epoch has no rows.

    Raises:
        CorruptEpochError: missing or damaged.
    """
    header, offset, data = _read(path, whole=True)
    manifest = header.manifest
    if not manifest.rows:
        return header, None
    middle = offset + header.schema_bytes
    encoded = EncodedRows(
        schema=data[offset:middle],
        payload=data[middle : middle + manifest.size_bytes],
        raw_bytes=manifest.raw_bytes,
        rows=manifest.rows,
        crc32=manifest.crc32,
    )
    try:
        verify(encoded)
    except CorruptEpochError as error:
        raise _corrupt(path, error.message) from error
    return header, encoded


def _read(path: Path, *, whole: bool) -> tuple[EpochHeader, int, bytes]:
    try:
        with path.open("rb", buffering=0) as file:
            data = file.readall() if whole else file.read(_HEAD_BYTES)
            magic, length, crc32 = _PREFIX.unpack_from(data)
            offset = _PREFIX.size + length
            # The length is not covered by a checksum of its own: never allocate by it.
            if magic != _MAGIC or offset > path.stat().st_size:
                raise _corrupt(path, "it does not begin like an epoch file")
            if offset > len(data):
                data += file.read(offset - len(data))
        text = data[_PREFIX.size : offset]
        if zlib.crc32(text) != crc32:
            raise _corrupt(path, "its header does not match its checksum")
        value = json.loads(text)
        manifest = manifest_from_json(value["manifest"])
        return EpochHeader(manifest, int(value["schema_bytes"]), int(value["rows_before"])), offset, data
    except (FileNotFoundError, struct.error, KeyError, TypeError, ValueError) as error:
        raise _corrupt(path, str(error)) from error


def _corrupt(path: Path, reason: str) -> CorruptEpochError:
    return CorruptEpochError(
        f"epoch file {path.name} of channel {path.parent.name} is damaged: {reason}",
        ids={"channel": path.parent.name, "file": path.name},
    )
