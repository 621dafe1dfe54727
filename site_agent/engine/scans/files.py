"""Files of users for Spark's readers: what they read in place of a scan's files and parts, and how."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from planner.values.literals import quoted_name
from site_agent.base.errors import EngineError
from site_agent.engine import FilesScan, MalformedRow
from site_agent.engine.scans.csv_copies import ReadableCsv, readable
from site_agent.engine.scans.csv_records import Dialect
from site_agent.engine.scans.parts import Origin, cut_out
from site_agent.engine.sql.types import schema_of

_PATTERN = re.compile(r"[][{}*?\\]")


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """Files that Spark reads in place of those of a scan."""

    paths: Mapping[str, tuple[str, ...]]
    """By the character that ends each record; empty: a line break, or the format, does."""
    origins: Mapping[str, Origin]
    """The user's file for each path."""
    broken: tuple[MalformedRow, ...]
    """Records of the user's files that these lack."""


@contextmanager
def readable_files(scan: FilesScan, scratch: Path) -> Iterator[ReadableFiles]:
    """The files to read; copies lie in `scratch` until the context ends.

    Raises:
        EngineError: a file is not what its format says, or has broken records that nothing takes.
        OSError: a file is gone, or a copy cannot be written.
    """
    with tempfile.TemporaryDirectory(dir=scratch, prefix="files-") as directory:
        origins = cut_out(scan, Path(directory)) if scan.parts else {path: Origin(path) for path in scan.paths}
        texts = _readable(scan, origins, Path(directory))
        broken = tuple(row for text in texts.values() for row in text.broken)
        if broken and not scan.malformed_column:
            raise EngineError(f"{broken[0].file} has a malformed row: {broken[0].reason}")
        ends = sorted({text.record_end for text in texts.values()} or {""})
        yield ReadableFiles(
            {end: tuple(text.path for text in texts.values() if text.record_end == end) for end in ends},
            {**origins, **{text.path: origins[path] for path, text in texts.items()}},
            broken,
        )


def files_reader(session: SparkSession, scan: FilesScan, record_end: str) -> DataFrameReader:
    """Spark's reader for files of the scan whose records end with this character; empty: with a line break."""
    reader = session.read.format(scan.format).schema(_schema(scan))
    reader = reader.options(**scan.options)
    if scan.format == "csv":
        reader = reader.option("escape", Dialect.of(scan.options).escape)
    return reader.option("lineSep", record_end) if record_end else reader


def literal(name: str) -> str:
    """The name of a file for Spark's reader, to which names are patterns.

    Spark can be told that they are none, but then reads all files once for each name that could be one.
    """
    return _PATTERN.sub(r"\\\g<0>", name)


def converted_columns(scan: FilesScan) -> tuple[str, ...]:
    """The columns that are read: Spark's reader refuses to give the column of malformed rows alone."""
    return scan.file_columns or ((scan.columns[0].name,) if scan.malformed_column else ())


def picked(rows: DataFrame, scan: FilesScan, partition: Sequence[str | None] = ()) -> DataFrame:
    """Of all columns of the reader's rows those that the scan reads, and the one that marks malformed rows.

    The values of `partition`, those of the columns that are not in the files, are the same in all rows.
    """
    marks = (scan.malformed_column,) if scan.malformed_column else ()
    known = {
        column.name: sf.lit(value).cast(column.type)
        for column, value in zip(scan.partitioned_by, partition, strict=True)
        if column.name in scan.read_columns
    }
    files = pick(rows, (*converted_columns(scan), *marks))
    return files.withColumns(known) if known else files


def pick(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """The columns of these names."""
    return rows.select(*(quoted_name(name) for name in names))


def total_bytes(paths: Sequence[str]) -> int:
    """The size of the files; those that are gone count nothing."""
    total = 0
    for path in paths:
        try:
            total += Path(path).stat().st_size
        except OSError:
            continue
    return total


def _schema(scan: FilesScan) -> StructType:
    marks = [StructField(scan.malformed_column, StringType())] if scan.malformed_column else []
    return StructType([*schema_of(scan.columns).fields, *marks])


def _readable(scan: FilesScan, origins: Mapping[str, Origin], directory: Path) -> Mapping[str, ReadableCsv]:
    """The file that Spark reads in place of each of the files."""
    if scan.format != "csv":
        return {path: ReadableCsv(path) for path in origins}
    dialect = Dialect.of(scan.options)
    return {
        path: readable(path, dialect, directory / f"{number:06d}.csv", origin)
        for number, (path, origin) in enumerate(origins.items())
    }
