"""Converts a pushed Arrow IPC stream to rows in the stream's own schema, or refuses it naming the column.

Columns are found by name, without case. A value is taken when it is the same value in the column's type; see
`_castable` for the pairs of types, and docs/connectors.md for the same in words.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from contract.arrow_types import arrow_type
from site_agent.base.errors import ChannelError, ConnectorError, PushRequestError, SchemaMismatchError
from site_agent.channels.codec import EncodedRows, encode
from site_agent.engine import Field
from site_agent.ingest import MAX_BATCH_BYTES, MAX_BATCH_RAW_BYTES, MAX_BATCH_ROWS

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_ANY_INTEGER = pa.decimal128(20, 0)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


class RowFormat:
    """A stream's columns in Arrow; converts pushed rows to them."""

    def __init__(self, columns: Sequence[Field]) -> None:
        """Raises ConnectorError for a column of a type that cannot be pushed."""
        self.columns = tuple(columns)
        try:
            self.schema: pa.Schema = pa.schema([(c.name, arrow_type(c.type)) for c in columns])
        except ValueError as error:
            raise ConnectorError(str(error), hint="types are in docs/sql.md") from error

    def take(self, arrow_stream: bytes) -> EncodedRows | None:
        """The rows as the log stores them; None when there are none.

        Raises:
            PushRequestError: the bytes are no sound Arrow IPC stream, or too large.
            SchemaMismatchError: a column is missing, unknown, or does not fit.
        """
        pushed = _read(arrow_stream)
        table = self.fitted(pushed)
        if not table.num_rows:
            return None
        try:
            return encode(table)
        except ChannelError as error:
            raise PushRequestError(error.message, hint=error.hint) from error

    def fitted(self, pushed: pa.Table) -> pa.Table:
        """The same rows in the declared columns and types.

        Raises:
            SchemaMismatchError
        """
        places = self._places(pushed.schema)
        arrays = [
            _cast(pushed.column(place), declared, field)
            for place, declared, field in zip(places, self.columns, self.schema, strict=True)
        ]
        return pa.table(arrays, schema=self.schema)

    def _places(self, schema: pa.Schema) -> list[int]:
        """The index of each declared column in the pushed schema."""
        found: dict[str, int] = {}
        for index, name in enumerate(schema.names):
            if name.lower() in found:
                raise _mismatch(f"column {name} is there twice", "names are compared without case", name)
            found[name.lower()] = index
        for declared in self.columns:
            if declared.name.lower() not in found:
                raise _mismatch(
                    f"column {declared.name} {declared.type} is missing",
                    f"the batch has {_described(schema)}; a column without values is sent as nulls",
                    declared.name,
                )
        known = {c.name.lower() for c in self.columns}
        for field in schema:
            if field.name.lower() not in known:
                columns = ", ".join(f"{c.name} {c.type}" for c in self.columns)
                raise _mismatch(
                    f"the stream has no column {field.name} ({field.type})", f"its columns are {columns}", field.name
                )
        return [found[c.name.lower()] for c in self.columns]


def _read(arrow_stream: bytes) -> pa.Table:
    if len(arrow_stream) > MAX_BATCH_BYTES:
        raise PushRequestError(
            f"the batch is {len(arrow_stream)} bytes long", hint=f"{MAX_BATCH_BYTES} bytes at most; send it in parts"
        )
    batches: list[pa.RecordBatch] = []
    rows = raw_bytes = 0
    try:
        with pa.ipc.open_stream(pa.py_buffer(arrow_stream)) as reader:
            # Raises when a name is not UTF-8, which Arrow itself accepts.
            _ = reader.schema.names
            for batch in reader:
                # Offsets from the wire may point anywhere: nothing uses the data before this check.
                batch.validate(full=True)
                rows += batch.num_rows
                raw_bytes += batch.nbytes
                _check_size(rows, raw_bytes)
                batches.append(batch)
            return pa.Table.from_batches(batches, reader.schema)
    except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        raise PushRequestError(
            f"the batch is no Arrow IPC stream: {str(error)[:200]}", hint="send what pyarrow.ipc.new_stream writes"
        ) from error


def _check_size(rows: int, raw_bytes: int) -> None:
    if rows > MAX_BATCH_ROWS:
        raise PushRequestError(f"the batch has {rows} rows", hint=f"{MAX_BATCH_ROWS} at most; send it in parts")
    if raw_bytes > MAX_BATCH_RAW_BYTES:
        raise PushRequestError(
            f"the batch is {raw_bytes} bytes large in memory", hint=f"{MAX_BATCH_RAW_BYTES} at most; send it in parts"
        )


def _cast(column: pa.ChunkedArray, declared: Field, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    if not _castable(column.type, field.type):
        raise _mismatch(
            f"column {declared.name} is {declared.type}, the batch has {column.type}",
            f"send {field.type}, or what fits without loss",
            declared.name,
        )
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    try:
        cast = pc.cast(_prepared(plain, field.type), field.type, safe=True)
    except (pa.ArrowException, ValueError) as error:
        raise _mismatch(
            f"column {declared.name} is {declared.type}, and a value does not fit: {str(error)[:200]}",
            f"send {field.type}, or what fits without loss",
            declared.name,
        ) from error
    _check_narrowed(plain, cast, declared)
    return cast


def _prepared(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Values that Arrow can cast: timestamps without a zone become UTC, integers become decimals of any size."""
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        return column.cast(pa.timestamp(column.type.unit, tz="UTC"))
    if pa.types.is_integer(column.type) and pa.types.is_decimal(target):
        return column.cast(_ANY_INTEGER)
    return column


def _check_narrowed(before: pa.ChunkedArray, after: pa.ChunkedArray, declared: Field) -> None:
    """Arrow's safe cast rounds floating-point numbers silently: a value that changes when cast back is refused."""
    floating = pa.types.is_floating(before.type) and pa.types.is_floating(after.type)
    if not floating or before.type.bit_width <= after.type.bit_width:
        return
    same = pc.or_(pc.equal(after.cast(before.type), before), pc.is_nan(before))
    if pc.all(same, skip_nulls=True).as_py() is False:
        raise _mismatch(
            f"column {declared.name} is {declared.type}, and a value does not fit: it has more digits",
            f"send {after.type}, or declare DOUBLE",
            declared.name,
        )


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type can be equal to values of the other."""
    if source == target or pa.types.is_null(source):
        return True
    if pa.types.is_dictionary(source):
        return _castable(source.value_type, target)
    if _one_of(target, _LISTS):
        return _one_of(source, _LISTS) and _nests(source.value_type, target.value_type)
    if pa.types.is_struct(target):
        return pa.types.is_struct(source) and _same_fields(source, target)
    if pa.types.is_map(target):
        return (
            pa.types.is_map(source)
            and _nests(source.key_type, target.key_type)
            and _nests(source.item_type, target.item_type)
        )
    return _scalar_castable(source, target)


def _scalar_castable(source: pa.DataType, target: pa.DataType) -> bool:
    types = pa.types
    if _one_of(target, _TEXT):
        return _one_of(source, _TEXT)
    if _one_of(target, _BYTES):
        return _one_of(source, _BYTES)
    if types.is_timestamp(target):
        return bool(types.is_timestamp(source))
    if types.is_date(target):
        return bool(types.is_date(source))
    if types.is_integer(target) or types.is_floating(target):
        return bool(types.is_integer(source) or types.is_floating(source))
    if types.is_decimal(target):
        return bool(types.is_integer(source) or types.is_decimal(source))
    return False


def _nests(source: pa.DataType, target: pa.DataType) -> bool:
    """The same for lists, maps and structs, in which numbers are not checked one by one."""
    narrowed = pa.types.is_float64(source) and pa.types.is_float32(target)
    dictionary = pa.types.is_dictionary(source)
    return not narrowed and not dictionary and _castable(source, target)


def _same_fields(source: pa.StructType, target: pa.StructType) -> bool:
    """Whether nested fields have the same names, in the same order."""
    return source.num_fields == target.num_fields and all(
        source.field(i).name == target.field(i).name and _nests(source.field(i).type, target.field(i).type)
        for i in range(target.num_fields)
    )


def _one_of(kind: pa.DataType, tests: Sequence[object]) -> bool:
    return any(callable(test) and test(kind) for test in tests)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} ({f.type})" for f in schema)[:500] or "no columns"


def _mismatch(message: str, hint: str, column: str) -> SchemaMismatchError:
    return SchemaMismatchError(message, hint=hint, ids={"column": column})
