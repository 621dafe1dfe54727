"""The payload of an epoch: its rows in one zstd frame, without their schema.

The rows are written by [planes](planes.py), or, for readers that do not know them and for types that have none, as one
Arrow record batch message.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from contract.planes import are_planes, can_be_planes, from_planes, to_planes


@dataclass(frozen=True, slots=True)
class Payload:
    """The zstd frame, and how long it is when it is decompressed."""

    frame: bytes
    raw_bytes: int


def compress(batch: pa.RecordBatch, *, level: int, planes: bool = True) -> Payload:
    """Return the payload of these rows.

    Args:
        batch: the rows.
        level: of zstd.
        planes: False: the reader knows Arrow messages only.
    """
    raw = batch.serialize()
    if planes and can_be_planes(batch.schema):
        raw = pa.py_buffer(to_planes(pa.ipc.read_record_batch(raw, batch.schema)))
    return Payload(pa.Codec("zstd", compression_level=level).compress(raw, asbytes=True), raw.size)


def decompress(
    frame: bytes | memoryview, raw_bytes: int, schema: pa.Schema, rows: range | None = None
) -> pa.RecordBatch:
    """Return the rows of a payload.

    Args:
        frame: the payload.
        raw_bytes: its length when it is decompressed.
        schema: of the rows.
        rows: only these are wanted; None: all.

    Raises:
        ValueError, OSError: the frame is damaged, or has other rows than its schema says; pa.ArrowInvalid is a
            ValueError.
    """
    raw = pa.decompress(frame, decompressed_size=raw_bytes, codec="zstd")
    if are_planes(raw):
        return from_planes(raw, schema, rows)
    batch = pa.ipc.read_record_batch(raw, schema)
    return batch if rows is None else batch.slice(rows.start, len(rows))
