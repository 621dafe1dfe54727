"""Rows as users have them (Arrow, pandas, dicts) as Arrow tables, and Arrow tables as batches to push."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from selat.errors import Detail, InvalidArgument

if TYPE_CHECKING:
    import pandas as pd

    Pushable: TypeAlias = pa.Table | pa.RecordBatch | pd.DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]]

BATCH_ROWS = 100_000
BATCH_BYTES = 4 * 1024 * 1024
"""Rows are cut into batches of at most so many rows, and about so many bytes in memory."""
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Largest encoded batch that an agent takes."""


def to_table(rows: Pushable, schema: pa.Schema) -> pa.Table:
    """The rows as a table; `schema` is the stream's, by which dicts are read.

    Raises InvalidArgument when they are of no known kind, or a dict does not fit.
    """
    if isinstance(rows, pa.Table):
        return rows.replace_schema_metadata(None)
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows]).replace_schema_metadata(None)
    if isinstance(rows, Mapping):
        return table_of_dicts([rows], schema)
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        return table_of_dicts(rows, schema)
    if hasattr(rows, "columns") and hasattr(rows, "dtypes"):
        return _of_pandas(rows)
    raise InvalidArgument(
        f"rows cannot be a {type(rows).__name__}",
        detail=Detail(hint="give a pyarrow Table or RecordBatch, a pandas DataFrame, a dict or a list of dicts"),
    )


def table_of_dicts(rows: Iterable[Mapping[str, Any]], schema: pa.Schema, *, first: int = 0) -> pa.Table:
    """Rows by column name, without case; a column that a row does not have is null. Rows are counted from `first`.

    Raises InvalidArgument naming row and column.
    """
    names = {name.lower(): i for i, name in enumerate(schema.names)}
    columns: list[list[Any]] = [[] for _ in names]
    for number, row in enumerate(rows, first):
        values: list[Any] = [None] * len(columns)
        for name, value in row.items():
            place = names.get(str(name).lower())
            if place is None:
                raise _wrong(number, f"the stream has no column {name}", f"its columns are {', '.join(schema.names)}")
            values[place] = _checked(value, schema.field(place), number)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    try:
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    except (pa.ArrowException, OverflowError) as error:
        raise _wrong(first, f"a value from here on does not fit: {error}", "look at the stream's columns") from None
    return pa.Table.from_arrays(arrays, schema=schema)


def encoded_batches(table: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Rows and Arrow IPC stream of each batch; the same table is always cut the same way.

    Raises InvalidArgument when a row is too large to be sent.
    """
    fitting = BATCH_ROWS if not table.nbytes else min(BATCH_ROWS, table.num_rows * BATCH_BYTES // table.nbytes)
    step = max(1, fitting)
    for start in range(0, table.num_rows, step):
        piece = table.slice(start, step)
        data = _encoded(piece)
        if len(data) > MAX_BATCH_BYTES:
            raise InvalidArgument(
                f"the rows from {start} on are {len(data)} bytes long",
                detail=Detail(hint=f"a batch has at most {MAX_BATCH_BYTES} bytes; send fewer rows at a time"),
            )
        yield piece.num_rows, data


def parsed_timestamps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts in ISO 8601 as instants; UTC where no zone is named. Raises ValueError naming a text that is none."""
    for kind in (pa.timestamp("us", tz="UTC"), pa.timestamp("us")):
        try:
            return column.cast(kind).cast(pa.timestamp("us", tz="UTC"))
        except pa.ArrowInvalid:
            continue
    instants = [None if text is None else _instant(text) for text in column.to_pylist()]
    return pa.chunked_array([pa.array(instants, pa.timestamp("us", tz="UTC"))])


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # One batch: the chunks of a table are accidents of where it comes from.
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _of_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except pa.ArrowException as error:
        raise InvalidArgument(f"the DataFrame cannot be sent: {error}") from None


def _checked(value: Any, field: pa.Field, row: int) -> Any:
    try:
        return _value(value, field.type)
    except (ValueError, TypeError, ArithmeticError) as error:
        text = repr(value)[:100]
        raise _wrong(row, f"column {field.name}: {text} is no {field.type} ({error})", "send a value of it") from None


def _value(value: Any, kind: pa.DataType) -> Any:
    """A Python or JSON value as Arrow takes it for a type."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_value(k, kind.key_type), _value(v, kind.item_type)) for k, v in pairs]
    if pa.types.is_struct(kind):
        known = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        if unknown := [name for name in value if name not in known]:
            raise ValueError(f"it has no field {unknown[0]}")
        return {name: _value(item, known[name]) for name, item in value.items()}
    convert = next((c for test, c in _SCALARS if test(kind)), None)
    return convert(value) if convert else value


def _instant(value: Any) -> datetime:
    instant = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    if not isinstance(instant, datetime):
        raise TypeError("a time is wanted, as in 2026-01-31T12:00:00Z")
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def _date(value: Any) -> date:
    return date.fromisoformat(value) if isinstance(value, str) else value


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _float(value: Any) -> float:
    if isinstance(value, bool | str):
        raise TypeError("a number is wanted")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool | str) or value != int(value):
        raise TypeError("a whole number is wanted")
    return int(value)


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is wanted")
    return value


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_timestamp, _instant),
    (pa.types.is_date, _date),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _float),
    (pa.types.is_integer, _whole),
    (pa.types.is_binary, _bytes),
    (pa.types.is_string, _text),
)


def _wrong(row: int, what: str, hint: str) -> InvalidArgument:
    return InvalidArgument(f"row {row}: {what}", detail=Detail(hint=hint))
