"""Parts of files as files of their own: Spark's readers cannot be told to read only a part.

The lines of a part are copied as they are, by the kernel; row groups are written again, without compression. A part
that is a whole file is read where it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from planner.values.splits import FilePart
from site_agent.base.errors import EngineError
from site_agent.engine import FilesScan
from site_agent.engine.scans.csv_records import Dialect, first_record
from site_agent.engine.scans.row_groups import row_groups

READ_ONCE: Mapping[str, Any] = {
    "compression": "NONE",
    "use_dictionary": False,
    "write_statistics": False,
    # Spark reads such decimals a fifth faster than those of bytes.
    "store_decimal_as_integer": True,
}
"""Options of the writer for rows that are read once, and at once."""
_WHITE = bytes(range(0x21))
"""What Spark trims from a line before it calls it empty."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The user's file that another file stands for, whole or in part."""

    path: str
    shift_bytes: int = 0
    """Added to a position in the part, it gives the position in the file; 0 for Parquet."""


def cut_out(scan: FilesScan, directory: Path) -> Mapping[str, Origin]:
    """The files to read for the parts of a scan, and for each the file that it is, or is a part of.

    Args:
        directory: Takes the copies; the caller removes them.

    Raises:
        EngineError: a file is not the Parquet file that it should be.
        OSError: a file is gone, or the copy cannot be written.
    """
    origins: dict[str, Origin] = {}
    for number, part in enumerate(scan.parts):
        path, shift_bytes = _placed(scan, part, directory / f"{number:06d}-{Path(part.path).name}")
        origins[path] = Origin(part.path, shift_bytes)
    return origins


def _placed(scan: FilesScan, part: FilePart, copy: Path) -> tuple[str, int]:
    if part.offset == 0 and part.length >= Path(part.path).stat().st_size:
        return part.path, 0
    if scan.format == "parquet":
        _copy_row_groups(part, scan.read_columns, copy)
        return str(copy), 0
    header = Dialect.of(scan.options) if scan.options.get("header") == "true" else None
    return str(copy), _copy_lines(part, copy, header)


def _copy_lines(part: FilePart, copy: Path, header_dialect: Dialect | None) -> int:
    """Copy the header and the lines of a part.

    Returns:
        The position of a line in the file less its position in the copy.
    """
    with Path(part.path).open("rb") as source, copy.open("wb") as target:
        header = first_record(source, header_dialect, white=_WHITE) if header_dialect else b""
        target.write(header)
        target.flush()
        start = max(len(header), _line_from(source, part.offset))
        shift_bytes = start - len(header)
        end = _line_from(source, part.offset + part.length)
        while start < end:
            sent = os.sendfile(target.fileno(), source.fileno(), start, end - start)
            if not sent:
                break
            start += sent
    return shift_bytes


def _line_from(source: BinaryIO, offset: int) -> int:
    """The start of the first line at `offset` or later; the results of `record_starts` are such starts."""
    if offset <= 0:
        return 0
    source.seek(offset - 1)
    source.readline()
    return source.tell()


def _copy_row_groups(part: FilePart, columns: Sequence[str], copy: Path) -> None:
    wanted = range(part.offset, part.offset + part.length)
    try:
        with pq.ParquetFile(part.path) as file:
            names = _present(file.schema_arrow, columns)
            schema = file.schema_arrow
            picked = pa.schema([schema.field(name) for name in names], metadata=schema.metadata)
            with pq.ParquetWriter(copy, picked, **READ_ONCE) as writer:
                for number, group in enumerate(row_groups(file.metadata)):
                    if group.middle in wanted:
                        rows = file.read_row_group(number, columns=names, use_threads=False)
                        writer.write_table(rows.select(names))
    except pa.ArrowException as error:
        raise EngineError(f"{part.path} cannot be read as Parquet: {error}") from error


def _present(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """Those columns that the file has, whatever their case, as Spark finds them; one at least, to count rows by."""
    wanted = {name.lower() for name in columns}
    return [name for name in schema.names if name.lower() in wanted] or schema.names[:1]
