"""Reads files as tables of a stream's columns, always cut in the same way, so that a second run skips stored rows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from selat.errors import Detail, InvalidArgument
from selat.rows.encoding import parsed_timestamps, table_of_dicts

FORMATS = ("csv", "json", "parquet", "arrow")
_SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}


def format_of(file: str, given: str | None) -> str:
    """The given format, or the one of the file's name. Raises InvalidArgument."""
    found = given or _SUFFIXES.get(Path(file).suffix.lower())
    if found is None:
        name = "standard input" if file == "-" else file
        raise InvalidArgument(
            f"the format of {name} is not known", detail=Detail(hint=f"say --format {'|'.join(FORMATS)}")
        )
    return found


def read_tables(source: BinaryIO, kind: str, schema: pa.Schema, *, rows: int) -> Iterator[pa.Table]:
    """Tables of this many rows each; the last one may be shorter.

    Raises InvalidArgument when the input is not of the format, or a value does not fit.
    """
    try:
        yield from _cut(_READERS[kind](source, schema), rows)
    except pa.ArrowException as error:
        raise InvalidArgument(f"the input cannot be read as {kind}: {error}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidArgument(f"the input cannot be read: {error}") from None


def _cut(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in pieces that do not depend on how the rows arrived."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count < rows:
            continue
        whole = pa.concat_tables(held)
        full = count - count % rows
        yield from (whole.slice(start, rows) for start in range(0, full, rows))
        held, count = [whole.slice(full)], count - full
    if count:
        yield pa.concat_tables(held)


def _csv(source: BinaryIO, schema: pa.Schema) -> Iterator[pa.Table]:
    timestamps = {f.name for f in schema if pa.types.is_timestamp(f.type)}
    types = {f.name: pa.string() if f.name in timestamps else f.type for f in schema if not pa.types.is_nested(f.type)}
    convert = pyarrow.csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False
    )
    # Without this option, a line break within quotes ends the row when one of the reader's blocks ends there.
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with pyarrow.csv.open_csv(source, parse_options=parse, convert_options=convert) as reader:
        for batch in reader:
            yield _with_instants(pa.Table.from_batches([batch]), timestamps)


def _with_instants(table: pa.Table, names: set[str]) -> pa.Table:
    for place, name in enumerate(table.column_names):
        if name in names:
            try:
                table = table.set_column(place, name, parsed_timestamps(table.column(place)))
            except ValueError as error:
                raise InvalidArgument(
                    f"column {name}: {error}", detail=Detail(hint="write times as in 2026-01-31T12:00:00Z")
                ) from None
    return table


def _json(source: BinaryIO, schema: pa.Schema) -> Iterator[pa.Table]:
    lines = enumerate(io.TextIOWrapper(source, encoding="utf-8"), 1)
    rows = ((number, _object(line, number)) for number, line in lines if line.strip())
    while chunk := list(islice(rows, 10_000)):
        yield table_of_dicts([row for _, row in chunk], schema, first=chunk[0][0])


def _object(line: str, number: int) -> Mapping[str, object]:
    try:
        value = json.loads(line, parse_float=Decimal)
    except ValueError as error:
        raise InvalidArgument(f"line {number} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(
            f"line {number} is no JSON object", detail=Detail(hint="one object a line, with a field for each column")
        )
    return value


def _parquet(source: BinaryIO, schema: pa.Schema) -> Iterator[pa.Table]:
    # Its index is at the end of the file: a pipe must be read to its end.
    seekable = source if source.seekable() else io.BytesIO(source.read())
    with pyarrow.parquet.ParquetFile(seekable) as file:
        for batch in file.iter_batches(batch_size=10_000):
            yield pa.Table.from_batches([batch])


def _arrow(source: BinaryIO, schema: pa.Schema) -> Iterator[pa.Table]:
    """An Arrow IPC stream, or a file."""
    buffered = io.BufferedReader(source) if isinstance(source, io.RawIOBase) else source
    head = buffered.peek(6)[:6] if isinstance(buffered, io.BufferedReader) else b""
    if head == b"ARROW1":
        with pa.ipc.open_file(io.BytesIO(buffered.read())) as file:
            for index in range(file.num_record_batches):
                yield pa.Table.from_batches([file.get_batch(index)])
        return
    with pa.ipc.open_stream(buffered) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


_READERS: Mapping[str, Callable[[BinaryIO, pa.Schema], Iterator[pa.Table]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "arrow": _arrow,
}
