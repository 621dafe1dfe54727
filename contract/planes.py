"""Rows by byte planes: what is compressed in an epoch's payload, in place of an Arrow record batch message.

Numbers that differ little have most of their bytes in common, but in memory those bytes lie between others. Here the
first bytes of all values of a column come first, then their second bytes, and so on (as in Parquet's
BYTE_STREAM_SPLIT). Texts and lists have their lengths in the place of offsets, and nothing describes the buffers,
because the schema and the number of rows do. zstd takes half of the time for it and leaves half of the bytes.

    number of rows (4 bytes) | column | column | ...
    column: 1 if there are NULLs, else 0 | bits of rows that are not NULL, if there are NULLs | values
    values: of numbers, instants and the like, planes; of booleans, bits; of texts, planes of lengths, then all bytes;
            of a list or map, planes of lengths, then the column of its items; of a struct, the columns of its fields
    A column of Arrow's type null has no bytes at all.

All numbers are little-endian. An Arrow message begins with 0xFFFFFFFF, which is no number of rows here: what a payload
holds can be seen from its first bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_ROWS = struct.Struct("<I")
_MESSAGE = 0xFFFFFFFF
"""An encapsulated Arrow message begins with it."""
_LENGTH = np.dtype("<i4")
Lengths = npt.NDArray[np.int32]


def can_be_planes(schema: pa.Schema) -> bool:
    """Return whether rows of this schema can be written by planes. All types of `contract.arrow_types` can."""
    return all(_is_known(column.type) for column in schema)


def to_planes(batch: pa.RecordBatch) -> bytes:
    """Return the rows by planes.

    Args:
        batch: as it was read from an Arrow message, so that no array begins in the middle of its buffers; its
            schema is one that `can_be_planes` is true of.
    """
    pieces: list[bytes] = [_ROWS.pack(batch.num_rows)]
    for column in batch.columns:
        _put(column, pieces.append)
    return b"".join(pieces)


def are_planes(raw: pa.Buffer) -> bool:
    """Return whether these bytes are rows by planes, and no Arrow message."""
    return bool(raw.size >= _ROWS.size and _ROWS.unpack(raw[: _ROWS.size])[0] != _MESSAGE)


def from_planes(raw: pa.Buffer, schema: pa.Schema, rows: range | None = None) -> pa.RecordBatch:
    """Return the rows, or only some that follow each other: planes of others are not put together.

    Raises:
        ValueError: the bytes are not rows of this schema by planes, or do not have those rows. pa.ArrowInvalid is one.
    """
    reader = _Reader(raw)
    (count,) = _ROWS.unpack(reader.take(_ROWS.size))
    wanted = range(count) if rows is None else rows
    if wanted.stop > count:
        raise ValueError(f"row {wanted.stop - 1} was asked for, and there are {count}")
    columns = [_take(reader, column.type, count, wanted) for column in schema]
    reader.check_at_end()
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_known(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_is_known(kind.field(index).type) for index in range(kind.num_fields))
    if _is_list(kind):
        return _is_known(kind.field(0).type)
    return bool(pa.types.is_null(kind) or pa.types.is_boolean(kind) or _is_text(kind) or _is_fixed(kind))


def _is_fixed(kind: pa.DataType) -> bool:
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(fixed and not pa.types.is_boolean(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


def _bits(count: int) -> int:
    """Bytes of so many bits."""
    return (count + 7) // 8


def _put(array: pa.Array, add: Callable[[bytes], None]) -> None:
    count, kind, buffers = len(array), array.type, array.buffers()
    if pa.types.is_null(kind):
        return
    add(b"\1" if array.null_count else b"\0")
    if array.null_count:
        add(buffers[0].to_pybytes()[: _bits(count)])
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            _put(array.field(index), add)
    elif pa.types.is_boolean(kind):
        add(buffers[1].to_pybytes()[: _bits(count)] if count else b"")
    elif _is_fixed(kind):
        _put_planes(buffers[1], count, kind.bit_width // 8, add)
    else:
        end = _put_lengths(buffers[1], count, add) if count else 0
        if _is_list(kind):
            _put(array.values.slice(0, end), add)
        elif end:
            add(buffers[2].to_pybytes()[:end])


def _put_lengths(offsets: pa.Buffer, count: int, add: Callable[[bytes], None]) -> int:
    """Add the planes of the lengths, and return their sum."""
    ends = np.frombuffer(offsets, _LENGTH, count + 1)
    _put_planes(np.diff(ends), count, _LENGTH.itemsize, add)
    return int(ends[-1])


def _put_planes(values: pa.Buffer | Lengths, count: int, width: int, add: Callable[[bytes], None]) -> None:
    if count:
        add(np.frombuffer(values, np.uint8, count * width).reshape(count, width).T.tobytes())


class _Reader:
    """Takes pieces one after the other."""

    def __init__(self, raw: pa.Buffer) -> None:
        self._raw = memoryview(raw)
        self._at = 0

    def take(self, size_bytes: int) -> memoryview:
        """Return so many bytes. Raises ValueError when fewer are left."""
        end = self._at + size_bytes
        if end > len(self._raw):
            raise ValueError(f"{end} bytes were expected, and there are {len(self._raw)}")
        piece, self._at = self._raw[self._at : end], end
        return piece

    def bits(self, count: int, rows: range) -> pa.Buffer:
        """Return the bits of these of so many rows, which are next. Raises ValueError as `take` does."""
        found = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(self.take(_bits(count)))])
        # The result of a function begins with the first bit of its buffer, whereas a slice may begin with another.
        return found.buffers()[1] if len(rows) == count else pc.or_(*[found[rows.start : rows.stop]] * 2).buffers()[1]

    def planes(self, count: int, width: int, rows: range) -> pa.Buffer:
        """Return these of so many values of that width, whose planes are next. Raises ValueError as `take` does."""
        found = self.take(count * width)
        if width == 1:
            return pa.py_buffer(found[rows.start : rows.stop])
        planes = np.frombuffer(found, np.uint8).reshape(width, count)
        return pa.py_buffer(np.ascontiguousarray(planes[:, rows.start : rows.stop].T))

    def ends(self, count: int, rows: range) -> tuple[pa.Buffer, range, int]:
        """Return where the items of these of so many rows end, whose planes of lengths are next.

        Returns:
            The offsets, of which the first is 0; which of all items they are; how many items all rows have.

        Raises:
            ValueError: fewer bytes are left, or they are no lengths.
        """
        lengths = np.frombuffer(self.planes(count, _LENGTH.itemsize, range(count)), _LENGTH)
        ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        if count and (lengths.min() < 0 or ends[-1] > np.iinfo(_LENGTH).max):
            raise ValueError("a length is negative, or all of them together are too much")
        items = range(int(ends[rows.start]), int(ends[rows.stop]))
        offsets = (ends[rows.start : rows.stop + 1] - items.start).astype(_LENGTH)
        return pa.py_buffer(offsets), items, int(ends[-1])

    def check_at_end(self) -> None:
        """Raises ValueError when there is more."""
        if self._at != len(self._raw):
            raise ValueError(f"{len(self._raw) - self._at} bytes are left over")


def _take(reader: _Reader, kind: pa.DataType, count: int, rows: range) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(rows))
    valid = reader.bits(count, rows) if reader.take(1)[0] else None
    if pa.types.is_struct(kind):
        fields = [_take(reader, kind.field(index).type, count, rows) for index in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(rows), [valid], children=fields)
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, len(rows), [valid, reader.bits(count, rows)])
    if _is_fixed(kind):
        return pa.Array.from_buffers(kind, len(rows), [valid, reader.planes(count, kind.bit_width // 8, rows)])
    offsets, items, count_of_items = reader.ends(count, rows)
    if _is_list(kind):
        children = [_take(reader, kind.field(0).type, count_of_items, items)]
        return pa.Array.from_buffers(kind, len(rows), [valid, offsets], children=children)
    text = reader.take(count_of_items)[items.start : items.stop]
    return pa.Array.from_buffers(kind, len(rows), [valid, offsets, pa.py_buffer(text)])
