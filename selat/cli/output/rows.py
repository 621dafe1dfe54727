"""Rows on standard output, as they come: a table, JSON lines, CSV or an Arrow stream."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Protocol, TextIO

import click
import pyarrow as pa
from rich.cells import cell_len

from machine.terminal import printable, printable_lines
from selat.cli.base import jsontext
from selat.cli.base.options import Format
from selat.cli.output import human
from selat.client import results

_CSV_MARKS = re.compile(r"[\",\r\n]")
_NUMBERS: tuple[Callable[[pa.DataType], bool], ...] = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


class RowWriter(Protocol):
    """Takes rows in batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes the rows of a batch and flushes them."""
        ...

    def close(self) -> None:
        """Writes what is due at the end; a header if there were no rows."""
        ...


def row_writer(kind: Format, schema: pa.Schema, *, colored: bool = False) -> RowWriter:
    """A writer to standard output."""
    match kind:
        case Format.TABLE:
            return TableWriter(sys.stdout, schema, colored=colored)
        case Format.JSON:
            return JsonWriter(sys.stdout)
        case Format.CSV:
            return CsvWriter(sys.stdout, schema, on_terminal=sys.stdout.isatty())
        case Format.ARROW:
            return ArrowWriter(sys.stdout.buffer, schema)


def text_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Rows of scalars as a batch; a column's type is that of its values."""
    arrays = [pa.array([row[i] for row in rows]) for i in range(len(columns))]
    arrays = [array.cast(pa.string()) if pa.types.is_null(array.type) else array for array in arrays]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


class JsonWriter:
    """One object per row and line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, batch: pa.RecordBatch) -> None:
        keys = [f"{jsontext.dumps(name)}: " for name in batch.schema.names]
        for row in zip(*_lists(batch), strict=True):
            pairs = (key + jsontext.dumps(value) for key, value in zip(keys, row, strict=True))
            self._out.write("{" + ", ".join(pairs) + "}\n")
        self._out.flush()

    def close(self) -> None:
        self._out.flush()


class CsvWriter:
    """RFC 4180 with a header. Null is empty, an empty text a pair of quotes, a nested value JSON.

    On a terminal control characters are spelled out.
    """

    def __init__(self, out: TextIO, schema: pa.Schema, *, on_terminal: bool = False) -> None:
        self._out = out
        self._on_terminal = on_terminal
        self._header: list[str] | None = schema.names

    def write(self, batch: pa.RecordBatch) -> None:
        self._write_header()
        for row in zip(*_lists(batch), strict=True):
            self._write_row([_csv_value(value) for value in row])
        self._out.flush()

    def close(self) -> None:
        self._write_header()
        self._out.flush()

    def _write_header(self) -> None:
        if self._header is not None:
            self._write_row([_csv_quoted(name) for name in self._header])
            self._header = None

    def _write_row(self, values: Sequence[str]) -> None:
        # Most readers skip an empty line.
        line = ",".join(values) or '""'
        self._out.write((printable_lines(line) if self._on_terminal else line) + "\n")


class ArrowWriter:
    """An Arrow IPC stream, readable while it grows."""

    def __init__(self, out: BinaryIO, schema: pa.Schema) -> None:
        self._out = out
        self._schema = results.common_schema(schema)
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._open().write_batch(results.aligned(batch, self._schema))
        self._out.flush()

    def close(self) -> None:
        self._open().close()
        self._out.flush()

    def _open(self) -> pa.ipc.RecordBatchStreamWriter:
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._out, self._schema)
        return self._writer


class TableWriter:
    """Columns as wide as their first rows need; a longer value later pushes its line out, nothing is cut."""

    def __init__(self, out: TextIO, schema: pa.Schema, *, colored: bool = False) -> None:
        self._out = out
        self._names = [printable(name) for name in schema.names]
        self._right = [any(is_number(field.type) for is_number in _NUMBERS) for field in schema]
        self._colored = colored
        self._widths: list[int] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        cells = [[human.cell(value) for value in column] for column in _lists(batch)]
        if batch.num_rows:
            self._begin(cells)
        for row in zip(*cells, strict=True):
            self._out.write(self._line(row) + "\n")
        self._rows += batch.num_rows
        self._out.flush()

    def close(self) -> None:
        self._begin([[] for _ in self._names])
        self._out.write(f"({self._rows:,} row{'' if self._rows == 1 else 's'})\n")
        self._out.flush()

    def _begin(self, cells: list[list[str]]) -> None:
        if self._widths:
            return
        columns = zip(self._names, cells, strict=True)
        self._widths = [max(1, *map(cell_len, (name, *values))) for name, values in columns]
        header = self._line(self._names)
        self._out.write((click.style(header, bold=True) if self._colored else header) + "\n")
        self._out.write("  ".join("-" * width for width in self._widths) + "\n")

    def _line(self, row: Sequence[str]) -> str:
        parts = []
        for text, width, right in zip(row, self._widths, self._right, strict=True):
            pad = " " * (width - cell_len(text))
            parts.append(pad + text if right else text + pad)
        return "  ".join(parts).rstrip()


def _lists(batch: pa.RecordBatch) -> list[list[Any]]:
    return [column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns]


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _csv_quoted(value)
    text = jsontext.dumps(value)
    return _csv_quoted(text if isinstance(value, (dict, list)) else text.strip('"'))


def _csv_quoted(text: str) -> str:
    # Python's own writer does not quote a carriage return, and readers take it for the end of the row.
    if text and not _CSV_MARKS.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'
