"""The rows of an epoch as its payload.

Disk and wire share it, so an epoch is compressed once, where it is made, and is then only copied.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from contract.payload import compress, decompress
from site_agent.base.errors import ChannelError, ChannelRequestError, CorruptEpochError
from site_agent.channels.manifest import BinRange

BIN_COLUMN = "_bin"
"""The column by which a producer has its rows grouped; it is not stored."""

USUAL_LEVEL = 3
FAST_LEVEL = 1
"""Compression level for many epochs of 16 MB: half of the CPU time, for a few percent more bytes."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows as they are stored on disk and sent over the WAN."""

    schema: bytes
    """Arrow IPC schema message."""
    payload: bytes
    raw_bytes: int
    rows: int
    crc32: int


def encode(table: pa.Table, *, level: int = USUAL_LEVEL, planes: bool = True) -> EncodedRows:
    """Encode a table that has rows. Dictionary columns are stored as their values.

    Args:
        table: the rows.
        level: of zstd.
        planes: False: for a reader that does not know rows by planes.

    Raises:
        ChannelError: it does not fit one record batch, or has nested dictionary columns.
    """
    plain = _without_dictionaries(table)
    batches = plain.combine_chunks().to_batches()
    if len(batches) != 1:
        raise ChannelError("an epoch's text exceeds 2 GiB in one column", hint="read less per epoch")
    payload = compress(batches[0], level=level, planes=planes)
    return EncodedRows(
        schema=plain.schema.serialize().to_pybytes(),
        payload=payload.frame,
        raw_bytes=payload.raw_bytes,
        rows=plain.num_rows,
        crc32=zlib.crc32(payload.frame),
    )


def decode(encoded: EncodedRows, rows: range | None = None) -> pa.Table:
    """Decode the rows, or only these.

    Raises:
        CorruptEpochError: the payload does not match its checksum, or is not what its schema says.
    """
    verify(encoded)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(encoded.schema))
        batch = decompress(encoded.payload, encoded.raw_bytes, schema, rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptEpochError(f"payload cannot be decoded: {error}") from error
    if rows is None and batch.num_rows != encoded.rows:
        raise CorruptEpochError(f"payload holds {batch.num_rows} rows instead of {encoded.rows}")
    return pa.Table.from_batches([batch])


def decode_part(
    encoded: EncodedRows, ranges: Sequence[BinRange], *, columns: Sequence[str] = (), bins: Sequence[int] = ()
) -> pa.Table:
    """Decode some columns and bins; empty means all. Rows of bins before and after them are not put together.

    Raises:
        ChannelRequestError: a column does not exist, or the rows are not grouped by bin.
        CorruptEpochError: as `decode`.
    """
    if bins:
        if not ranges:
            raise ChannelRequestError("rows are not grouped by bin", hint="ask for all bins")
        runs = _runs(ranges, frozenset(bins)) or [range(0)]
        first = runs[0].start
        table = decode(encoded, range(first, runs[-1].stop))
        if len(runs) > 1:
            # One chunk, for a slice would keep the rows between in memory.
            table = pa.concat_tables(table.slice(run.start - first, len(run)) for run in runs).combine_chunks()
    else:
        table = decode(encoded)
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise ChannelRequestError(f"no column {missing[0]}", hint=f"columns are {', '.join(table.column_names)}")
    return table.select(list(columns)) if columns else table


def verify(encoded: EncodedRows) -> None:
    """Raises CorruptEpochError when payload and checksum do not belong together."""
    found = zlib.crc32(encoded.payload)
    if found != encoded.crc32:
        raise CorruptEpochError(f"payload has checksum {found:08x} instead of {encoded.crc32:08x}")


def group_by_bin(table: pa.Table) -> tuple[pa.Table, tuple[BinRange, ...]]:
    """Sort stably by the bin column, if there is one, and drop that column.

    Raises:
        ChannelError: a row has no bin.
    """
    if BIN_COLUMN not in table.column_names:
        return table, ()
    bins = table.column(BIN_COLUMN).combine_chunks().cast(pa.int64())
    if bins.null_count:
        raise ChannelError(f"{bins.null_count} rows have no bin", hint=f"column {BIN_COLUMN} must not be NULL")
    order = pc.sort_indices(bins)
    runs = pc.run_end_encode(bins.take(order), run_end_type=pa.int64())
    ranges, first_row = [], 0
    for value, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        ranges.append(BinRange(value, first_row, end - first_row))
        first_row = end
    return table.drop_columns([BIN_COLUMN]).take(order), tuple(ranges)


def _runs(ranges: Sequence[BinRange], wanted: Collection[int]) -> list[range]:
    """The rows of these bins; bins that follow each other are one run."""
    runs: list[range] = []
    for item in ranges:
        if item.bin not in wanted:
            continue
        first = runs.pop().start if runs and runs[-1].stop == item.first_row else item.first_row
        runs.append(range(first, item.first_row + item.rows))
    return runs


def _without_dictionaries(table: pa.Table) -> pa.Table:
    for index, item in enumerate(table.schema):
        if pa.types.is_dictionary(item.type):
            plain = pa.field(item.name, item.type.value_type, item.nullable, item.metadata)
            table = table.set_column(index, plain, table.column(index).cast(plain.type))
        elif _has_dictionary(item.type):
            raise ChannelError(f"column {item.name} is nested and dictionary-encoded: {item.type}")
    return table


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


def with_last(epochs: Iterable[EncodedRows]) -> Iterator[tuple[EncodedRows, bool]]:
    """Each epoch, with True for the last one and False for the others."""
    before: EncodedRows | None = None
    for encoded in epochs:
        if before is not None:
            yield before, False
        before = encoded
    if before is not None:
        yield before, True
